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

Send = Callable[[Sequence[Append], bool], Awaitable[list[int]]]
"""Appends, atomically or not, and returns what `Log.append` does."""


class _Turn(msgspec.Struct, eq=False):
    """An append with a place in the lane of each of its subjects."""

    appends: Sequence[Append]
    atomic: bool
    subjects: tuple[str, ...]
    done: asyncio.Future[list[int]]


class Lanes:
    """A lane for each subject to which something is being appended, by its name.

    Who stands first in all lanes of an append has its turn.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        # None where one has its turn alone, as nearly always; in a lane None stands for that one.
        self._lanes: dict[str, deque[_Turn | None] | None] = {}
        self._groups: set[asyncio.Task[None]] = set()
        self._empty = asyncio.Event()

    async def append(self, appends: Sequence[Append], *, atomic: bool) -> list[int]:
        """Send when what was before it on any of its subjects has ended. Returns as `Send`."""
        if len(appends) > 1:
            return await self._append_many(appends, atomic)
        subject, lanes = appends[0].subject.name, self._lanes
        if subject in lanes:
            done: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
            self._lane(subject).append(_Turn(appends, atomic, (subject,), done))
            return await done
        lanes[subject] = None
        try:
            return await self._send(appends, atomic)
        finally:
            if lanes[subject] is None:
                del lanes[subject]
                if not lanes:
                    self._empty.set()
            else:
                self._leave((subject,))

    async def _append_many(self, appends: Sequence[Append], atomic: bool) -> list[int]:
        subjects = tuple(dict.fromkeys(append.subject.name for append in appends))
        turn = _Turn(appends, atomic, subjects, asyncio.get_running_loop().create_future())
        for subject in subjects:
            self._lane(subject).append(turn)
        if not self._is_first(turn):
            return await turn.done
        try:
            return await self._send(appends, atomic)
        finally:
            self._leave(subjects)

    async def close(self) -> None:
        """Wait until all that was begun has ended. Nothing may be begun meanwhile."""
        while self._lanes:
            self._empty.clear()
            await self._empty.wait()

    def _lane(self, subject: str) -> deque[_Turn | None]:
        if subject not in self._lanes:
            self._lanes[subject] = deque()
        lane = self._lanes[subject]
        if lane is None:
            lane = self._lanes[subject] = deque((None,))
        return lane

    def _is_first(self, turn: _Turn) -> bool:
        return all(self._lane(subject)[0] is turn for subject in turn.subjects)

    def _leave(self, subjects: Sequence[str], turns: int = 1) -> None:
        """So many turns at the beginning of each lane have ended: who has a turn now?"""
        heads = dict[_Turn, None]()
        for subject in subjects:
            lane = self._lane(subject)
            for _ in range(turns):
                lane.popleft()
            if not lane:
                del self._lanes[subject]
            elif (head := lane[0]) is not None:
                heads[head] = None
        for turn in heads:
            if self._is_first(turn):
                self._start(turn)
        if not self._lanes:
            self._empty.set()

    def _start(self, first: _Turn) -> None:
        group = [first]
        if _may_share(first):
            lane = self._lane(first.subjects[0])
            group = [turn for turn in takewhile(_may_share, lane) if turn is not None]
        task = asyncio.create_task(self._run(group), name="foldlog-lane")
        self._groups.add(task)
        task.add_done_callback(self._groups.discard)

    async def _run(self, group: Sequence[_Turn]) -> None:
        try:
            await self._send_group([turn for turn in group if not turn.done.done()])
        finally:
            self._leave(group[0].subjects, len(group))

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


def _may_share(turn: _Turn | None) -> bool:
    return turn is not None and len(turn.subjects) == 1 and not turn.atomic


def _tell(turns: Sequence[_Turn], error: Exception) -> None:
    for turn in turns:
        if not turn.done.done():  # else its caller was cancelled
            turn.done.set_exception(error)
