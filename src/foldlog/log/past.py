"""Ports over another log that take nothing: one of them ends at a moment, the log as it was."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from msgspec.structs import replace

from foldlog.envelope import CLEARED
from foldlog.errors import PastErased, ReadOnlyStore
from foldlog.log.moments import Moment, Resolve
from foldlog.log.port import Append, Log, OnRecord, Record, Stored, Unfollow
from foldlog.log.relay import Relay
from foldlog.position import Reach
from foldlog.subjects import Branch, Subject


class ReadOnlyLog(Relay):
    """`below`, which it closes: it reads on, and whatever writes raises ReadOnlyStore."""

    async def append(self, appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        raise ReadOnlyStore(appends[0].drafts[0].type)

    async def restore(
        self, shard: int, records: Sequence[tuple[Subject, bytes, str]], *, after: int
    ) -> None:
        raise ReadOnlyStore("restore")

    async def purge(
        self, which: Subject | Branch | int, *, before: int, overwrite: bool = True
    ) -> None:
        raise ReadOnlyStore("purge")

    async def accept(self) -> None:
        raise ReadOnlyStore("accept")

    async def close(self) -> None:
        await self.below.close()


class PastLog(ReadOnlyLog):
    """`below` as of the moment that `resolve` finds when something is first read.

    What was cleared since is gone: a subject whose records of that time were purged raises
    PastErased, and is not listed. Everything that writes raises ReadOnlyStore.
    """

    def __init__(self, below: Log, resolve: Resolve) -> None:
        super().__init__(below)
        self._counts_epochs = self
        self._looks = 0
        self._resolve = resolve
        self._moment: Moment | None = None
        self._resolving = asyncio.Lock()

    @property
    def time(self) -> float:
        """The moment in Unix seconds by the log's clock, once something was read."""
        assert self._moment is not None, "nobody asks for the time before reading"
        return self._moment.time

    @property
    def epoch(self) -> int:
        """Another one at each look: what was read before may have been erased since."""
        self._looks += 1
        return self._looks

    async def moment(self) -> Moment:
        """Return the moment at which this log ends. Raises what `resolve` raises."""
        if self._moment is None:
            async with self._resolving:
                if self._moment is None:
                    self._moment = await self._resolve()
        return self._moment

    async def read(
        self, subject: Subject | Branch, *, after: int = 0, strong: bool = True
    ) -> AsyncGenerator[list[Record]]:
        """Complete to the moment, whatever `strong` says."""
        reach = await self._reach(subject.shard)
        async with aclosing(until(self.below.read(subject, after=after), subject, reach)) as kept:
            async for records in kept:
                yield records

    async def last(
        self, subject: Subject, *, strong: bool = True, upto: int | None = None
    ) -> Record | None:
        reach = await self._reach(subject.shard)
        if upto is not None and upto < reach.seq:
            reach = Reach(upto)
        record = await self.below.last(subject, upto=reach.seq)
        if record is not None:
            return cut(record, reach)
        # It may have been purged since, or be unreadable: reading the subject tells.
        async with aclosing(until(self.below.read(subject), subject, reach)) as kept:
            async for records in kept:
                record = records[-1]
        return record

    async def are_absent(self, subjects: Sequence[Subject]) -> bool:
        return False

    def scan(
        self, shard: int, *, after: int = 0, only: Sequence[str] = ()
    ) -> AsyncGenerator[list[Stored]]:
        """Leave out a record that the moment includes only in part."""
        return self._scan(shard, after, only, in_part=False)

    async def subjects(
        self, family: str | None = None, shard: int | None = None
    ) -> dict[Subject, int]:
        """Scans the log up to the moment.

        A subject holds 0 records if the moment includes only a part of its first one.
        """
        subjects = {each.name: each for each in await self.below.subjects(family, shard)}
        counts: dict[Subject, int] = {}
        for number in range(self.namespace.shards) if shard is None else (shard,):
            reach = await self._reach(number)
            async with aclosing(self._scan(number, 0, (), in_part=True)) as pages:
                async for page in pages:
                    for stored in page:
                        if subject := subjects.get(stored.subject):
                            is_whole = stored.seq <= reach.whole
                            counts[subject] = counts.get(subject, 0) + is_whole
        return counts

    async def stored(self, shard: int, seq: int) -> Stored | None:
        is_included = seq <= (await self._reach(shard)).whole
        return await self.below.stored(shard, seq) if is_included else None

    async def sequence_at(self, shard: int, time: dt.datetime) -> int:
        return min(await self.below.sequence_at(shard, time), (await self._reach(shard)).seq)

    # --- what the past does not do --------------------------------------------------------------

    def on_epoch(self, notify: Callable[[], None]) -> None:
        """It never grows."""

    async def barrier(self, shard: int) -> None:
        """What is past needs no confirmation."""

    async def follow(self, subject: Subject | Branch, on_record: OnRecord) -> Unfollow:
        """Nothing ever comes."""
        return _unfollow

    async def close(self) -> None:
        """The log below belongs to its maker."""

    async def _reach(self, shard: int) -> Reach:
        return (await self.moment()).position.shards[shard]

    async def _scan(
        self, shard: int, after: int, only: Sequence[str], *, in_part: bool
    ) -> AsyncGenerator[list[Stored]]:
        reach = await self._reach(shard)
        end = reach.seq if in_part else reach.whole
        async with aclosing(self.below.scan(shard, after=after, only=only)) as pages:
            async for page in pages:
                kept = [stored for stored in page if stored.seq <= end]
                if kept:
                    yield kept
                if len(kept) < len(page):
                    return


async def until(
    pages: AsyncGenerator[list[Record]], subject: Subject | Branch, reach: Reach
) -> AsyncGenerator[list[Record]]:
    """Yield the part of a subject's pages that `reach` includes, and close them.

    Raises:
        PastErased: the subject was cleared after `reach`, and its older records were purged.
    """
    is_first = True
    async with aclosing(pages):
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
    """Return the part of a record that `reach` includes."""
    if reach.index is None or record.seq != reach.seq:
        return record
    return replace(record, envelopes=record.envelopes[: reach.index + 1])


async def _unfollow() -> None:
    return None
