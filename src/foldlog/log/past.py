"""The log as it was: a port over another log that ends at a moment and takes nothing.

Whatever reads through the port reads the past without knowing of it: views, folds, whole stores.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Final

from foldlog.envelope import CLEARED
from foldlog.errors import PastErased, ReadOnlyStore
from foldlog.log.moments import Moment, Resolve
from foldlog.log.port import Append, Log, OnRecord, Record, Stored, Unfollow
from foldlog.log.relay import Relay
from foldlog.position import Reach
from foldlog.subjects import Branch, Subject

_AT_ONCE: Final = 64
"""Subjects looked at side by side."""


class PastLog(Relay):
    """`below` as of the moment that `resolve` finds when somebody first reads.

    What was cleared since is gone: a subject whose records of that time were purged raises
    PastErased, and is not listed.
    """

    def __init__(self, below: Log, resolve: Resolve) -> None:
        super().__init__(below)
        self._resolve = resolve
        self._moment: Moment | None = None
        self._resolving = asyncio.Lock()

    @property
    def epoch(self) -> int:
        """Always 0: nothing is ever missed."""
        return 0

    @property
    def time(self) -> float:
        """The moment in Unix seconds by the log's clock, once something was read."""
        assert self._moment is not None, "nobody asks for the time before reading"
        return self._moment.time

    async def moment(self) -> Moment:
        """The moment at which this log ends. Raises what `resolve` raises."""
        if self._moment is None:
            async with self._resolving:
                if self._moment is None:
                    self._moment = await self._resolve()
        return self._moment

    async def append(self, appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        """Refuse.

        Raises:
            ReadOnlyStore: always.
        """
        raise ReadOnlyStore(appends[0].drafts[0].type)

    async def read(
        self, subject: Subject, *, after: int = 0, upto: int | None = None, strong: bool = True
    ) -> AsyncGenerator[list[Record]]:
        """Complete to the moment, whatever `strong` says."""
        reach = await self._reach(subject.shard)
        async with (
            aclosing(self.below.read(subject, after=after)) as pages,
            aclosing(until(pages, subject, reach)) as kept,
        ):
            async for records in kept:
                if upto is None or records[-1].seq <= upto:
                    yield records
                    continue
                if records[0].seq <= upto:
                    yield [record for record in records if record.seq <= upto]
                return

    async def scan(self, shard: int, *, after: int = 0) -> AsyncGenerator[list[Stored]]:
        """A record of which the moment has only a part is not there."""
        reach = await self._reach(shard)
        whole = reach.seq if reach.index is None else reach.seq - 1
        async with aclosing(self.below.scan(shard, after=after)) as pages:
            async for found in pages:
                kept = [stored for stored in found if stored.seq <= whole]
                if kept:
                    yield kept
                if len(kept) < len(found):
                    return

    async def counts(self, shard: int) -> dict[str, int]:
        found: Counter[str] = Counter()
        async with aclosing(self.scan(shard)) as pages:
            async for page in pages:
                found.update(stored.subject for stored in page)
        return dict(found)

    async def lasts(self, branch: Branch) -> AsyncGenerator[list[Stored]]:
        """Yield nothing: what there is now says nothing of the moment."""
        nothing: tuple[list[Stored], ...] = ()
        for page in nothing:
            yield page

    async def last(
        self, subject: Subject, *, strong: bool = True, upto: int | None = None
    ) -> Record | None:
        reach = await self._reach(subject.shard)
        if upto is not None and upto < reach.seq:
            reach = Reach(upto)
        record = await self.below.last(subject, upto=reach.seq)
        if record is not None:
            return cut(record, reach)
        # It may have been purged since, or be unreadable: that is for `read` to tell.
        async with (
            aclosing(self.below.read(subject)) as pages,
            aclosing(until(pages, subject, reach)) as kept,
        ):
            async for records in kept:
                record = records[-1]
        return record

    async def barrier(self, shard: int) -> None:
        """What is past needs no confirmation."""

    async def stored(self, shard: int, seq: int) -> Stored | None:
        reach = await self._reach(shard)
        return await self.below.stored(shard, seq) if Reach(seq).place <= reach.place else None

    async def sequence_at(self, shard: int, time: dt.datetime) -> int:
        return min(await self.below.sequence_at(shard, time), (await self._reach(shard)).seq)

    async def follow(self, subject: Subject, on_record: OnRecord) -> Unfollow:
        """Nothing ever comes."""
        return _unfollow

    async def purge(self, which: Subject | Branch | int, *, before: int) -> None:
        """Refuse. Errors as `append`."""
        raise ReadOnlyStore("purge")

    async def accept(self) -> None:
        """Refuse. Errors as `append`."""
        raise ReadOnlyStore("accept")

    async def subjects(self, family: str | None = None) -> list[Subject]:
        """Asks of each subject that there is now whether it was there."""
        found: list[Subject] = []
        listed = await self.below.subjects(family)
        for start in range(0, len(listed), _AT_ONCE):
            some = listed[start : start + _AT_ONCE]
            held = await asyncio.gather(*map(self._held, some))
            found += [subject for subject, was_there in zip(some, held, strict=True) if was_there]
        return found

    def on_epoch(self, notify: Callable[[], None]) -> None:
        """It never grows."""

    async def _held(self, subject: Subject) -> bool:
        reach = await self._reach(subject.shard)
        return await self.below.last(subject, upto=reach.seq) is not None

    async def _reach(self, shard: int) -> Reach:
        return (await self.moment()).position.shards[shard]


async def until(
    pages: AsyncGenerator[list[Record]], subject: Subject, reach: Reach
) -> AsyncGenerator[list[Record]]:
    """Yield of a subject's pages, read from any sequence up to `reach`, what `reach` includes.

    Raises:
        PastErased: the subject was cleared after it, and so what it held before was purged.
    """
    is_first = True
    async for records in pages:
        kept = [cut(record, reach) for record in records if record.seq <= reach.seq]
        if kept:
            yield kept
        elif is_first and records[0].envelopes[0].type == CLEARED:
            raise PastErased(subject.name, f"it was cleared at sequence {records[0].seq}")
        if len(kept) < len(records):
            return
        is_first = False


def cut(record: Record, reach: Reach) -> Record:
    """Return a record with what `reach` includes of it."""
    if reach.index is None or record.seq != reach.seq:
        return record
    return record._replace(envelopes=record.envelopes[: reach.index + 1])


async def _unfollow() -> None:
    return None
