"""Appends of one subject go one after the other, in the order of their calls.

An append must have ended, on the log or in the spool, before the next one of its subject begins:
otherwise the later one could reach the log and the earlier one the spool, and a sequence would be
appended in another order than it was saved. Those that wait behind the same append go as one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec

from foldlog.errors import AppendUnknown, FoldlogError, LogUnavailable
from foldlog.log.port import Append

Send = Callable[[Sequence[Append], bool], Awaitable[list[int]]]
"""Appends, atomically or not, and returns what `Log.append` does."""


class _Call(msgspec.Struct, eq=False):
    """One caller's append, and where its outcome goes."""

    appends: Sequence[Append]
    outcome: asyncio.Future[list[int]]


class _Turn(msgspec.Struct, eq=False):
    """Calls that are sent as one. `may_join`: whether more of the same subject may still come in.

    `ended` is done when they are, whatever became of them.
    """

    subjects: Sequence[str]
    ended: asyncio.Future[None]
    may_join: bool = False
    calls: list[_Call] = []


class Lanes:
    """The last turn of each subject to which something is being appended, by its name."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._last: dict[str, _Turn] = {}

    async def append(self, appends: Sequence[Append], *, atomic: bool) -> list[int]:
        """Send when all that came before on any of its subjects has ended. Returns as `Send`."""
        subjects = list({append.subject.name for append in appends})
        before = [self._last[subject] for subject in subjects if subject in self._last]
        loop = asyncio.get_running_loop()
        if not before:
            turn = self._begin(_Turn(subjects, loop.create_future()))
            try:
                return await self._send(appends, atomic)
            finally:
                self._end(turn)
                turn.ended.set_result(None)
        turn, may_join = before[0], len(subjects) == 1 and not atomic
        if not (may_join and turn.may_join):
            turn = _Turn(subjects, loop.create_future(), may_join)
            ended = [each.ended for each in before]
            turn.ended = loop.create_task(self._run(turn, ended, atomic), name="foldlog-lane")
            self._begin(turn)
        turn.calls.append(_Call(appends, loop.create_future()))
        return await turn.calls[-1].outcome

    async def close(self) -> None:
        """Wait until all that was begun has ended. Nothing may be begun meanwhile."""
        while self._last:
            await asyncio.wait([turn.ended for turn in self._last.values()])

    def _begin(self, turn: _Turn) -> _Turn:
        self._last.update(dict.fromkeys(turn.subjects, turn))
        return turn

    def _end(self, turn: _Turn) -> None:
        for subject in turn.subjects:
            if self._last[subject] is turn:
                del self._last[subject]

    async def _run(self, turn: _Turn, before: Iterable[asyncio.Future[None]], atomic: bool) -> None:
        await asyncio.wait(before)
        turn.may_join = False
        try:
            # Callers that were cancelled meanwhile want nothing appended any more.
            await self._send_calls([c for c in turn.calls if not c.outcome.done()], atomic)
        finally:
            self._end(turn)

    async def _send_calls(self, calls: Sequence[_Call], atomic: bool) -> None:
        if not calls:
            return
        try:
            seqs = iter(await self._send([a for call in calls for a in call.appends], atomic))
        except Exception as error:  # noqa: BLE001 - handed to the callers
            is_everyones = not isinstance(error, FoldlogError) or len(calls) == 1
            if is_everyones or isinstance(error, LogUnavailable | AppendUnknown):
                for call in calls:
                    if not call.outcome.done():
                        call.outcome.set_exception(error)
                return
            for call in calls:  # one that is refused is not the others' fault
                await self._send_calls([call], atomic)
        else:
            for call in calls:
                found = [next(seqs) for _ in call.appends]
                if not call.outcome.done():
                    call.outcome.set_result(found)
