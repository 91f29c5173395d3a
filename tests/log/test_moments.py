"""What the port tells of its past, on both backends: the last record up to a place, and by time."""

from __future__ import annotations

import datetime as dt

import pytest

from foldlog.envelope import draft
from foldlog.errors import PastErased, ReadOnlyStore
from foldlog.log.moments import Moment
from foldlog.log.past import PastLog
from foldlog.log.port import Append, Log
from foldlog.position import LogPosition, Reach
from foldlog.subjects import Subject
from tests.log.conftest import not_archived


async def appended(log: Log, subject: Subject, *ids: str) -> int:
    [seq] = await log.append([Append(subject, tuple(draft("x.saved", b"\xc0", id=i) for i in ids))])
    return seq


def past(log: Log, seq: int, index: int | None = None) -> PastLog:
    return PastLog(log, Moment(LogPosition((Reach(seq, index),)), 0.0).known)


async def last_ids(log: Log, subject: Subject, upto: int | None = None) -> list[str] | None:
    record = await log.last(subject, upto=upto)
    return None if record is None else [envelope.id for envelope in record.envelopes]


async def test_the_last_record_up_to_a_sequence(log: Log) -> None:
    one, other = log.namespace.subject("x", "one"), log.namespace.subject("x", "other")
    seqs = [await appended(log, one, "a"), await appended(log, other, "b")]
    seqs.append(await appended(log, one, "c"))
    found = [await last_ids(log, one, upto) for upto in (0, *seqs, seqs[-1] + 5)]
    assert found == [None, ["a"], ["a"], ["c"], ["c"]]
    assert [await last_ids(log, other, upto) for upto in seqs] == [None, ["b"], ["b"]]


async def test_the_message_at_a_sequence(log: Log) -> None:
    subject = log.namespace.subject("x", "one")
    seq = await appended(log, subject, "a")
    await appended(log, subject, "b")
    stored = await log.stored(0, seq)
    assert stored is not None
    assert (stored.subject, stored.seq) == (subject.name, seq)
    assert b"a" in stored.data
    assert await log.stored(0, 0) is None
    assert await log.stored(0, (await log.heads())[0] + 1) is None
    await log.purge(subject, before=seq + 1)
    assert await log.stored(0, seq) is None


@not_archived
async def test_the_sequence_at_a_time(log: Log) -> None:
    assert await log.sequence_at(0, dt.datetime.now(dt.UTC)) == 0
    subject = log.namespace.subject("x", "one")
    seqs = [await appended(log, subject, name) for name in "abc"]
    times = []
    for seq in seqs:
        stored = await log.stored(0, seq)
        assert stored is not None
        times.append(dt.datetime.fromisoformat(stored.time))
    for time in times:
        assert await log.sequence_at(0, time) == max(
            seq for seq, at in zip(seqs, times, strict=True) if at <= time
        )
    assert await log.sequence_at(0, times[0] - dt.timedelta(milliseconds=1)) == seqs[0] - 1
    assert await log.sequence_at(0, times[-1] + dt.timedelta(days=365_000)) == seqs[-1]


async def test_the_past_ends_inside_a_record(log: Log) -> None:
    subject = log.namespace.subject("x", "one")
    seq = await appended(log, subject, "a", "b", "c")
    await appended(log, subject, "d")
    then = past(log, seq, 1)
    read = [e.id async for page in then.read(subject) for r in page for e in r.envelopes]
    assert read == ["a", "b"]
    assert await last_ids(then, subject) == ["a", "b"]
    assert [stored async for page in then.scan(0) for stored in page] == []
    assert await past(log, seq).subjects() == {subject: 1}
    assert await then.subjects() == {subject: 0}
    assert await then.stored(0, seq) is None
    assert await past(log, seq).stored(0, seq) is not None


async def test_the_past_knows_the_subjects_of_then(log: Log) -> None:
    one, other = log.namespace.subject("x", "one"), log.namespace.subject("x", "other")
    seq = await appended(log, one, "a")
    await appended(log, other, "b")
    assert await past(log, seq).subjects() == {one: 1}
    assert await past(log, seq).subjects("y") == {}
    assert await past(log, 0).subjects() == {}


async def test_what_was_cleared_since_is_told_from_what_was_not_there(log: Log) -> None:
    one, other = log.namespace.subject("x", "one"), log.namespace.subject("x", "other")
    seq = await appended(log, one, "a")
    cleared = draft("subject.cleared", b"\x81\xa7refused\xc4\x00", id="tombstone")
    [tombstone] = await log.append([Append(one, (cleared,))])
    assert await last_ids(past(log, seq), one) == ["a"]  # it is not purged yet
    await log.purge(one, before=tombstone)
    await appended(log, other, "b")
    for reading in (past(log, seq).last(one), anext(past(log, seq).read(one))):
        with pytest.raises(PastErased, match=f"sequence {tombstone}"):
            await reading
    assert await past(log, seq).last(other) is None
    assert await last_ids(past(log, tombstone), one) == ["tombstone"]


async def test_the_past_takes_nothing(log: Log) -> None:
    subject = log.namespace.subject("x", "one")
    then = past(log, await appended(log, subject, "a"))
    with pytest.raises(ReadOnlyStore, match=r"x\.saved"):
        await appended(then, subject, "b")
    with pytest.raises(ReadOnlyStore):
        await then.purge(subject, before=9)
    with pytest.raises(ReadOnlyStore):
        await then.purge(0, before=9)
    assert await last_ids(log, subject) == ["a"]
