"""Finding a moment in a log: by position, by the log's clock, or by a recorded event."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import NamedTuple

from foldlog.envelope import Recorded
from foldlog.errors import UnknownMoment
from foldlog.log.port import Log, Record, Stored
from foldlog.position import LogPosition, Reach, mark_of
from foldlog.subjects import Subject


class Moment(NamedTuple):
    """A position with its time in Unix seconds, by the log's clock: that of its last record."""

    position: LogPosition
    time: float

    async def known(self) -> Moment:
        """What resolves to this moment."""
        return self


class Event(NamedTuple):
    """An event by its envelope id; `subject` None means on any subject."""

    id: str
    subject: Subject | None = None


When = LogPosition | dt.datetime | Event
Resolve = Callable[[], Awaitable[Moment]]


class _Found(NamedTuple):
    """A recorded envelope, and whether it is the last of its record."""

    shard: int
    envelope: Recorded
    is_last: bool


async def head(log: Log) -> LogPosition:
    """Return where the log ends now: all that was acked to anybody before is at or before it."""
    heads = enumerate(await log.heads())
    return LogPosition(tuple([await reach(log, shard, head) for shard, head in heads]))


async def reach(log: Log, shard: int, seq: int) -> Reach:
    """Return what says that a shard was read up to a sequence."""
    stored = await log.stored(shard, seq)
    return Reach(seq, mark="" if stored is None else _mark(stored))


async def resolve(log: Log, when: When) -> Moment:
    """Return the moment that `when` names. A time means all that was stored until then.

    Where there are several shards, an event's position includes of the others what they had stored
    by the event's time, as their clocks tell it.

    Raises:
        UnknownMoment: the log has no such moment, or several.
    """
    if isinstance(when, LogPosition):
        return await _of_position(log, when)
    if isinstance(when, dt.datetime):
        if when.tzinfo is None:
            raise UnknownMoment(str(when), "it has no time zone")
        return Moment(await _by(log, when), when.timestamp())
    return await _of_event(log, when)


async def _of_position(log: Log, position: LogPosition) -> Moment:
    heads = await log.heads()
    if len(heads) != len(position.shards):
        reason = f"it is of {len(position.shards)} shard(s), the log has {len(heads)}"
        raise UnknownMoment(str(position), reason)
    times = []
    for shard, (end, reach) in enumerate(zip(heads, position.shards, strict=True)):
        stream = log.namespace.stream(shard)
        if reach.seq > end:
            raise UnknownMoment(str(position), f"{stream} ends at {end}")
        stored = await log.stored(shard, reach.seq)
        if stored is None:
            continue
        times.append(_time(stored.time).timestamp())
        if reach.mark and _mark(stored, reach.index) != reach.mark:
            reason = f"{stream} holds something else there: it was restored or replaced"
            raise UnknownMoment(str(position), reason)
    # Where all that stood there was purged, nobody knows its time any more.
    return Moment(position, max(times, default=dt.datetime.now(dt.UTC).timestamp()))


async def _by(log: Log, time: dt.datetime) -> LogPosition:
    shards = range(log.namespace.shards)
    seqs = await asyncio.gather(*(_sequence_at(log, shard, time) for shard in shards))
    return LogPosition(tuple(map(Reach, seqs)))


async def _sequence_at(log: Log, shard: int, time: dt.datetime) -> int:
    """As `Log.sequence_at`, by the time that each record had before it was restored."""
    found = await log.sequence_at(shard, time)
    behind = await log.stored(shard, found + 1)
    if behind is not None and _time(behind.time) > time:
        return found
    async with aclosing(log.scan(shard, after=found)) as pages:
        async for page in pages:
            for each in page:
                if _time(each.time) > time:
                    return found
                found = each.seq
    return found


async def _of_event(log: Log, event: Event) -> Moment:
    places = [place async for place in _places(log, event)]
    if len(places) != 1:
        reason = (
            f"it was recorded in {len(places)} places; name it by the object that was saved"
            if places
            else "no such event was recorded, or it was cleared since"
        )
        if event.id.startswith("@"):
            reason += f"; a position is given as LogPosition.parse({event.id!r:.40})"
        raise UnknownMoment(event.id, reason)
    [(shard, envelope, is_last)] = places
    time = _time(envelope.time)
    reaches = list((await _by(log, time)).shards) if log.namespace.shards > 1 else [Reach(0)]
    index = None if is_last else envelope.index
    reaches[shard] = Reach(envelope.seq, index, mark_of(envelope.id))
    return Moment(LogPosition(tuple(reaches)), time.timestamp())


async def _places(log: Log, event: Event) -> AsyncGenerator[_Found]:
    """Yield where an event was recorded first, on each subject that has it."""
    if event.subject is not None:
        async with aclosing(log.read(event.subject)) as pages:
            async for records in pages:
                for record in records:
                    if found := _find(event.subject.shard, record, event.id):
                        yield found
                        return
        return
    needle = event.id.encode(errors="replace")  # the bytes of an id stand in its record as they are
    for shard in range(log.namespace.shards):
        known: set[str] = set()
        async with aclosing(log.scan(shard)) as scanned:
            async for page in scanned:
                for stored in page:
                    if (
                        needle in stored.data
                        and stored.subject not in known
                        and (found := _find(shard, stored.record(), event.id))
                    ):
                        known.add(stored.subject)
                        yield found


def _find(shard: int, record: Record, id: str) -> _Found | None:
    for envelope in record.envelopes:
        if envelope.id == id:
            return _Found(shard, envelope, envelope is record.envelopes[-1])
    return None


def _mark(stored: Stored, index: int | None = None) -> str:
    envelopes = stored.record().envelopes
    last = len(envelopes) - 1 if index is None else index
    return mark_of(envelopes[last].id) if last < len(envelopes) else ""


def _time(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)
