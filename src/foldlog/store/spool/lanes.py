"""Appends of the same subject one after the other, in the order of their calls.

Where the log is away an append must have ended, on the log or in the spool, before one behind it
begins: otherwise the later one could reach the log and the earlier one the spool, and a task that
was done would be running again. Those that gather behind one go together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from itertools import takewhile

import msgspec

from foldlog.errors import AppendUnknown, FoldlogError, LogUnavailable
from foldlog.log.port import Append
from foldlog.subjects import Subject

Send = Callable[[Sequence[Append], bool], Awaitable[list[int]]]
"""Appends, atomically or not, and returns what `Log.append` does."""


class _Turn(msgspec.Struct, eq=False):
    """An append with a place in the lane of each of its subjects."""

    appends: Sequence[Append]
    atomic: bool
    subjects: tuple[Subject, ...]
    done: asyncio.Future[list[int]]


class Lanes:
    """A lane for each subject to which something is being appended."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._lanes: dict[Subject, deque[_Turn]] = {}
        self._groups: set[asyncio.Task[None]] = set()
        self._empty = asyncio.Event()

    async def append(self, appends: Sequence[Append], *, atomic: bool) -> list[int]:
        """Send when what was before it on any of its subjects has ended. Returns as `Send`."""
        subjects = tuple(dict.fromkeys(append.subject for append in appends))
        turn = _Turn(appends, atomic, subjects, asyncio.get_running_loop().create_future())
        for subject in subjects:
            self._lanes.setdefault(subject, deque()).append(turn)
        if not self._is_first(turn):
            return await turn.done
        try:
            return await self._send(appends, atomic)
        finally:
            self._leave([turn])

    async def close(self) -> None:
        """Wait until all that was begun has ended. Nothing may be begun meanwhile."""
        while self._lanes:
            self._empty.clear()
            await self._empty.wait()

    def _is_first(self, turn: _Turn) -> bool:
        return all(self._lanes[subject][0] is turn for subject in turn.subjects)

    def _leave(self, group: Sequence[_Turn]) -> None:
        touched = dict.fromkeys(subject for turn in group for subject in turn.subjects)
        for turn in group:
            for subject in turn.subjects:
                self._lanes[subject].popleft()
        heads = dict[_Turn, None]()
        for subject in touched:
            if self._lanes[subject]:
                heads[self._lanes[subject][0]] = None
            else:
                del self._lanes[subject]
        for turn in heads:
            if self._is_first(turn):
                self._start(turn)
        if not self._lanes:
            self._empty.set()

    def _start(self, first: _Turn) -> None:
        group = [first]
        if len(first.subjects) == 1 and not first.atomic:
            lane = self._lanes[first.subjects[0]]
            group = list(takewhile(lambda t: len(t.subjects) == 1 and not t.atomic, lane))
        task = asyncio.create_task(self._run(group), name="foldlog-lane")
        self._groups.add(task)
        task.add_done_callback(self._groups.discard)

    async def _run(self, group: Sequence[_Turn]) -> None:
        try:
            await self._send_group([turn for turn in group if not turn.done.done()])
        finally:
            self._leave(group)

    async def _send_group(self, turns: Sequence[_Turn]) -> None:
        if not turns:
            return  # every caller was cancelled
        try:
            seqs = await self._send([a for t in turns for a in t.appends], turns[0].atomic)
        except (LogUnavailable, AppendUnknown) as away:
            _tell(turns, away)
        except FoldlogError as error:
            if len(turns) == 1:
                _tell(turns, error)
                return
            for turn in turns:  # one that cannot be appended is not the others' fault
                await self._send_group([turn])
        except Exception as error:  # noqa: BLE001 - handed to everyone who waits for this group
            _tell(turns, error)
        else:
            found = iter(seqs)
            for turn in turns:
                mine = [next(found) for _ in turn.appends]
                if not turn.done.done():
                    turn.done.set_result(mine)


def _tell(turns: Sequence[_Turn], error: Exception) -> None:
    for turn in turns:
        if not turn.done.done():  # else its caller was cancelled
            turn.done.set_exception(error)
