"""The storage promise of `foldlog.log.port`, held by every backend."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from foldlog.envelope import Draft, draft, pack, unpack
from foldlog.errors import AppendConflict, AppendFailed, Misuse, PayloadTooLarge
from foldlog.log.jetstream import scanner
from foldlog.log.packing import MAX_BATCH_MESSAGES
from foldlog.log.port import Append, Log, Record, Stored
from foldlog.subjects import Subject
from tests.log.conftest import OpenLog, not_archived

SIZE = 300_000  # more than one record, so that envelopes of this size never share one


def made(id: str, size: int = 10) -> Draft:
    return draft("test.made", msgspec.msgpack.encode(b"x" * size), id=id)


async def read(log: Log, subject: Subject, after: int = 0) -> list[Record]:
    return [record async for page in log.read(subject, after=after) for record in page]


async def ids(log: Log, subject: Subject, after: int = 0) -> list[str]:
    return [e.id for record in await read(log, subject, after) for e in record.envelopes]


@pytest.fixture
def subject(log: Log) -> Subject:
    return log.namespace.subject("updates", "se.ss*ion >")


async def test_what_is_appended_is_read_back_as_it_was(log: Log, subject: Subject) -> None:
    drafts = tuple(made(f"{n}") for n in range(3))
    (seq,) = await log.append([Append(subject, drafts)])
    (record,) = await read(log, subject)
    assert record.seq == seq
    assert [(e.seq, e.index) for e in record.envelopes] == [(seq, 0), (seq, 1), (seq, 2)]
    for written, found in zip(drafts, record.envelopes, strict=True):
        assert (found.id, found.type, found.v, found.ts) == (written.id, "test.made", 1, written.ts)
        assert found.payload == written.payload
        assert found.recorded_at > 0


async def test_nothing_is_read_where_nothing_was_appended(log: Log, subject: Subject) -> None:
    assert await read(log, subject) == []
    assert await log.last(subject) is None
    assert await log.subjects() == {}


async def test_of_several_subjects_is_said_only_that_all_are_absent(
    log: Log, subject: Subject
) -> None:
    other = log.namespace.subject("updates", "other")
    can_tell = await log.are_absent([subject, other])
    await log.append([Append(other, (made("0"),))])
    assert not await log.are_absent([subject, other])
    assert not await log.are_absent([other])
    assert await log.are_absent([subject]) is can_tell


@not_archived
async def test_a_barrier_leaves_nothing_behind(log: Log, subject: Subject) -> None:
    (seq,) = await log.append([Append(subject, (made("0"),))])
    await log.barrier(subject.shard)
    assert await ids(log, subject) == ["0"]
    assert (await log.append([Append(subject, (made("1"),))])) == [seq + 1]


async def test_sequences_grow_and_reading_goes_on_after_one(log: Log, subject: Subject) -> None:
    seqs = [(await log.append([Append(subject, (made(f"{n}"),))]))[0] for n in range(5)]
    assert seqs == sorted(set(seqs))
    assert await ids(log, subject, after=seqs[2]) == ["3", "4"]
    assert await ids(log, subject, after=seqs[4]) == []
    last = await log.last(subject)
    assert last is not None
    assert (last.seq, last.envelopes[0].id) == (seqs[4], "4")


async def test_concurrent_appends_keep_the_order_of_calls(log: Log, subject: Subject) -> None:
    others = [log.namespace.subject("updates", f"other{n}") for n in range(60)]
    await asyncio.gather(
        *(
            log.append([Append(target, (made(f"{n}"),))])
            for n in range(300)
            for target in (subject, others[n % 60])
        )
    )
    assert await ids(log, subject) == [f"{n}" for n in range(300)]
    for k, other in enumerate(others):
        assert await ids(log, other) == [f"{n}" for n in range(k, 300, 60)]


async def test_many_large_envelopes_are_all_read(log: Log, subject: Subject) -> None:
    await log.append([Append(subject, tuple(made(f"{n}", SIZE) for n in range(12)))])
    assert await ids(log, subject) == [f"{n}" for n in range(12)]
    assert len(await read(log, subject)) == 12


async def test_more_records_than_a_page(log: Log, subject: Subject) -> None:
    for start in range(0, 1300, 100):
        drafts = [made(f"{n}") for n in range(start, start + 100)]
        # One at a time, in one go: none shares a record with another.
        await asyncio.gather(*(log.append([Append(subject, (d,), None)]) for d in drafts))
    assert await ids(log, subject) == [f"{n}" for n in range(1300)]


async def test_an_expected_head_is_compared(log: Log, subject: Subject) -> None:
    (first,) = await log.append([Append(subject, (made("1"),), 0)], atomic=True)
    with pytest.raises(AppendConflict) as conflict:
        await log.append([Append(subject, (made("2"),), 0)], atomic=True)
    assert (conflict.value.expected, conflict.value.actual) == (0, first)
    assert conflict.value.subject == subject.name
    (second,) = await log.append([Append(subject, (made("3"),), first)], atomic=True)
    assert second > first
    assert await ids(log, subject) == ["1", "3"]


async def test_one_of_many_wins_a_compare_and_set(open_log: OpenLog) -> None:
    logs = [await open_log(), await open_log()]
    subject = logs[0].namespace.subject("pauses", "token")
    results = await asyncio.gather(
        *(
            logs[n % 2].append([Append(subject, (made(f"{n}"),), 0)], atomic=True)
            for n in range(40)
        ),
        return_exceptions=True,
    )
    assert sum(isinstance(r, list) for r in results) == 1
    assert all(isinstance(r, list | AppendConflict) for r in results)
    assert len(await ids(logs[0], subject)) == 1


async def test_a_mismatch_leaves_other_compare_and_sets_alone(log: Log) -> None:
    """Those on other subjects may share what carries them to the log."""
    subjects = [log.namespace.subject("tasks", f"{n}") for n in range(40)]
    beside = [log.namespace.subject("pauses", f"{n}") for n in range(40)]
    (taken,) = await log.append([Append(subjects[7], (made("before"),))])
    appends = [[Append(subject, (made("1"),), 0)] for subject in subjects]
    for n in range(1, 40, 2):
        appends[n].append(Append(beside[n], (made("1"),), 0))
    results = await asyncio.gather(
        *(log.append(each, atomic=True) for each in appends), return_exceptions=True
    )
    [conflict] = [found for found in results if isinstance(found, BaseException)]
    assert isinstance(conflict, AppendConflict)
    assert (conflict.subject, conflict.actual) == (subjects[7].name, taken)
    for n in range(40):
        assert await ids(log, subjects[n]) == ["before" if n == 7 else "1"]
        assert await ids(log, beside[n]) == (["1"] if n % 2 and n != 7 else [])


async def test_an_atomic_append_is_all(log: Log, subject: Subject) -> None:
    other = log.namespace.subject("tasks", "session")
    appends = [Append(subject, (made("1"), made("2"))), Append(other, (made("3"),))]
    seqs = await log.append(appends, atomic=True)
    assert len(seqs) == 2
    assert (await ids(log, subject), await ids(log, other)) == (["1", "2"], ["3"])


async def test_an_atomic_append_is_nothing(log: Log, subject: Subject) -> None:
    other = log.namespace.subject("tasks", "session")
    await log.append([Append(other, (made("0"),))])
    with pytest.raises(AppendConflict):
        await log.append(
            [Append(subject, (made("1"),)), Append(other, (made("2"),), 0)], atomic=True
        )
    assert (await ids(log, subject), await ids(log, other)) == ([], ["0"])


async def test_an_atomic_append_of_several_records_compares_the_first(
    log: Log, subject: Subject
) -> None:
    (head,) = await log.append([Append(subject, (made("0"),))])
    drafts = tuple(made(f"{n}", SIZE) for n in range(1, 4))
    await log.append([Append(subject, drafts, head)], atomic=True)
    assert await ids(log, subject) == ["0", "1", "2", "3"]


async def test_an_atomic_append_beyond_the_servers_limit_is_refused(log: Log) -> None:
    too_many = [
        Append(log.namespace.subject("tasks", f"{n}"), (made("1"),))
        for n in range(MAX_BATCH_MESSAGES + 1)
    ]
    with pytest.raises(AppendFailed, match="1001 messages"):
        await log.append(too_many, atomic=True)
    assert await log.subjects() == {}


async def test_a_bulk_append_beyond_one_batch_is_stored_whole(log: Log) -> None:
    bulk = [
        Append(log.namespace.subject("tasks", f"{n}"), (made("1"),))
        for n in range(2 * MAX_BATCH_MESSAGES + 1)
    ]
    seqs = await log.append(bulk)
    assert len(set(seqs)) == len(bulk)
    assert len(await log.subjects("tasks")) == len(bulk)


async def test_an_atomic_append_of_the_largest_size(log: Log) -> None:
    appends = [
        Append(log.namespace.subject("tasks", f"{n}"), (made("1"),))
        for n in range(MAX_BATCH_MESSAGES)
    ]
    assert len(await log.append(appends, atomic=True)) == MAX_BATCH_MESSAGES
    assert len(await log.subjects("tasks")) == MAX_BATCH_MESSAGES


async def test_an_envelope_too_large_for_a_message(log: Log, subject: Subject) -> None:
    with pytest.raises(PayloadTooLarge) as refused:
        await log.append([Append(subject, (made("1"), made("2", 9_000_000)))])
    assert refused.value.size > refused.value.limit
    assert await read(log, subject) == []


@not_archived
async def test_shards_hold_their_own_and_order_within_them(open_log: OpenLog) -> None:
    log = await open_log(shards=4)
    subjects = [log.namespace.subject("tasks", f"session{n}") for n in range(40)]
    assert {s.shard for s in subjects} == {0, 1, 2, 3}
    seqs = await log.append([Append(s, (made("1"), made("2"))) for s in subjects])
    assert len(seqs) == 40
    for subject, seq in zip(subjects, seqs, strict=True):
        assert [r.seq for r in await read(log, subject)] == [seq]
        assert await ids(log, subject) == ["1", "2"]
    assert sorted(await log.subjects()) == sorted(subjects)
    assert sum(info.messages for info in (await log.info()).streams) == 40
    with pytest.raises(Misuse, match="one shard"):
        await log.append([Append(s, (made("3"),)) for s in subjects], atomic=True)


@not_archived
async def test_followers_hear_each_record_with_the_one_before(log: Log, subject: Subject) -> None:
    heard: list[Record] = []
    enough = asyncio.Event()

    def on_record(record: Record) -> None:
        heard.append(record)
        if len(heard) == 4:
            enough.set()

    (before,) = await log.append([Append(subject, (made("0"),))])
    unfollow = await log.follow(subject, on_record)
    await log.append([Append(log.namespace.subject("updates", "other"), (made("x"),))])
    seqs = [(await log.append([Append(subject, (made(f"{n}"),))]))[0] for n in range(1, 3)]
    seqs += await log.append(
        [Append(subject, (made("3", SIZE),)), Append(subject, (made("4", SIZE),))], atomic=True
    )
    await asyncio.wait_for(enough.wait(), 10)
    await unfollow()
    await log.append([Append(subject, (made("5"),))])
    assert [record.seq for record in heard] == seqs
    assert [record.previous for record in heard] == [before, *seqs[:-1]]
    assert [e.id for record in heard for e in record.envelopes] == ["1", "2", "3", "4"]


@pytest.mark.parametrize("overwrite", [True, False])
async def test_purging_removes_one_subjects_past(
    log: Log, subject: Subject, overwrite: bool
) -> None:
    other = log.namespace.subject("updates", "other")
    seqs = [(await log.append([Append(subject, (made(f"{n}"),))]))[0] for n in range(4)]
    await log.append([Append(other, (made("x"),))])
    await log.purge(subject, before=seqs[2], overwrite=overwrite)
    assert await ids(log, subject) == ["2", "3"]
    assert await ids(log, other) == ["x"]
    (after,) = await log.append([Append(subject, (made("4"),), seqs[3])], atomic=True)
    assert after > seqs[3]


async def test_truncating_removes_the_past_of_one_shard(open_log: OpenLog) -> None:
    log = await open_log(shards=2)
    subjects = [log.namespace.subject("updates", f"{n}") for n in range(16)]
    assert {subject.shard for subject in subjects} == {0, 1}
    old = await log.append([Append(subject, (made("old"),)) for subject in subjects])
    head = max(seq for subject, seq in zip(subjects, old, strict=True) if subject.shard == 0)
    new = log.namespace.subject("tasks", subjects[0].keys[0])
    assert new.shard == subjects[0].shard
    await log.append([Append(subjects[0], (made("new"),)), Append(new, (made("new"),))])

    await log.purge(subjects[0].shard, before=0)
    await log.purge(subjects[0].shard, before=1)
    assert await ids(log, subjects[0]) == ["old", "new"]
    await log.purge(0, before=head + 1)
    kept = {subject: await ids(log, subject) for subject in subjects}
    assert kept == {
        subject: ["old"] * (subject.shard == 1) + ["new"] * (subject is subjects[0])
        for subject in subjects
    }
    assert await ids(log, new) == ["new"]


@pytest.mark.parametrize("key", ["x" * 5000, "é" * 200, "a.b", "*", ">", "a b\r\n\0", "=2E"])
async def test_hostile_keys_are_keys(log: Log, key: str) -> None:

    subject = log.namespace.subject("tasks", key)
    await log.append([Append(subject, (msgspec.structs.replace(made("1"), keys=subject.keys),))])
    assert list(await log.subjects("tasks")) == [subject]
    assert await ids(log, subject) == ["1"]


async def test_another_log_of_the_namespace_sees_it_all(open_log: OpenLog) -> None:
    one, other = await open_log(), await open_log()
    subject = one.namespace.subject("updates", "s")
    await one.append([Append(subject, (made("1"),))])
    assert await ids(other, subject) == ["1"]
    await other.append([Append(subject, (made("2"),))])
    assert await ids(one, subject) == ["1", "2"]


async def test_cancelled_appends_leave_the_others_alone(log: Log, subject: Subject) -> None:
    calls: list[asyncio.Task[Any]] = [
        asyncio.create_task(log.append([Append(subject, (made(f"{n}"),))])) for n in range(20)
    ]
    await asyncio.sleep(0)
    for call in calls[::2]:
        call.cancel()
    results = await asyncio.gather(*calls, return_exceptions=True)
    kept = [f"{n}" for n, result in enumerate(results) if isinstance(result, list)]
    assert kept
    stored = await ids(log, subject)
    assert [id for id in stored if id in kept] == kept
    assert len(set(stored)) == len(stored)


@not_archived
async def test_streams_tell_what_they_hold(log: Log, subject: Subject) -> None:
    await log.append([Append(subject, (made("1"),))])
    (info,) = (await log.info()).streams
    assert (info.messages, info.subjects, info.first_seq, info.last_seq) == (1, 1, 1, 1)
    assert info.bytes > 0
    assert info.replicas == 1


async def test_closing_twice_is_closing(log: Log) -> None:
    await log.close()
    await log.close()


# --- restoring ----------------------------------------------------------------------------------


@not_archived
@pytest.mark.parametrize("count", [1, 2, 700])
async def test_records_of_another_log_are_appended_as_they_are(log: Log, count: int) -> None:
    subjects = [log.namespace.subject("updates", f"s{n}") for n in range(3)]
    await log.append([Append(subjects[0], (made("first"),))])
    times = ["2021-03-04T05:06:07.123456789Z", ""]
    records = [(subjects[n % 2], f"no record {n}".encode(), times[n % 2]) for n in range(count)]
    await log.restore(0, records, after=1)
    for after in (0, 1, count + 2):
        with pytest.raises(AppendConflict) as refused:
            await log.restore(0, records, after=after)
        assert refused.value.expected == after
    found = (await scanned(log))[1:]
    assert [(each.subject, each.data) for each in found] == [(s.name, d) for s, d, _ in records]
    assert [each.seq for each in found] == [*range(2, count + 2)]
    # Each has the time that it had, by every way of reading.
    assert {each.time for each in found[::2]} == {times[0]}
    assert all(each.time > "2026" for each in found[1::2])
    stored = await log.stored(0, 2)
    assert stored is not None
    assert stored.time == times[0]
    [seq] = await log.append([Append(subjects[2], (made("next"),))])
    assert seq == count + 2


@not_archived
async def test_a_restored_record_has_its_time_in_every_read(log: Log) -> None:
    subject, time = log.namespace.subject("updates", "s"), "2021-03-04T05:06:07Z"
    pushed = list[Record]()
    unfollow = await log.follow(subject, pushed.append)
    data = [pack([made(f"{n}")]) for n in range(3)]
    await log.restore(0, [(subject, each, time) for each in data], after=0)
    last = await log.last(subject)
    assert last is not None
    pages = [page async for page in log.read(subject)]
    found = [e for page in [*pages, [last], pushed] for record in page for e in record.envelopes]
    assert len(found) >= 4
    assert {each.time for each in found} == {time}
    await unfollow()


# --- scanning -----------------------------------------------------------------------------------


async def scanned(log: Log, shard: int = 0, after: int = 0) -> list[Stored]:
    return [stored async for page in log.scan(shard, after=after) for stored in page]


async def test_a_scan_brings_all_subjects_in_the_order_of_the_log(log: Log) -> None:
    subjects = [log.namespace.subject("updates", f"s{n}") for n in range(7)]
    for start in range(0, 1500, 100):
        appends = [Append(subjects[n % 7], (made(f"{n}"),)) for n in range(start, start + 100)]
        await asyncio.gather(*(log.append([each]) for each in appends))
    await log.append([Append(subjects[0], tuple(made(f"large{n}", SIZE) for n in range(8)))])
    found = await scanned(log)
    assert [each.seq for each in found] == sorted({each.seq for each in found})
    everything = {
        record.seq: (subject.name, record.envelopes)
        for subject in subjects
        for record in await read(log, subject)
    }
    unpacked = {each.seq: (each.subject, unpack(each.data, each.seq, each.time)) for each in found}
    assert unpacked == everything
    middle = found[len(found) // 2].seq
    assert await scanned(log, after=middle) == [each for each in found if each.seq > middle]
    assert await scanned(log, after=found[-1].seq) == []


@pytest.mark.parametrize("long", [scanner._LONG, 0], ids=["short", "long"])
@pytest.mark.parametrize("others", [0, 100], ids=["few filters", "many"])
async def test_a_scan_of_some_brings_these_and_no_others(
    log: Log, others: int, long: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanner, "_LONG", long)
    name = log.namespace.subject
    subjects = [name(f, f"s{n}") for n in range(4) for f in ("updates", "updatesx", "tasks")]
    for n in range(120):
        await log.append([Append(subjects[n % 12], (made(f"{n}"),))])
    await log.purge(name("updates", "s1"), before=20)
    only = [log.namespace.wildcard(0, "updates"), name("tasks", "s2").name]
    only += [name("nothing", f"{n}").name for n in range(others)]
    found = [each async for page in log.scan(0, after=5, only=only) for each in page]
    wanted = {s.name for s in subjects if s.family == "updates" or s.name == only[1]}
    assert found == [each for each in await scanned(log, after=5) if each.subject in wanted]
    assert len({each.subject for each in found}) == 5
    most = [log.namespace.wildcard(0, each) for each in ("updates", "updatesx")]
    found = [each async for page in log.scan(0, only=most) for each in page]
    assert found == [e for e in await scanned(log) if e.subject.split(".")[3] != "tasks"]
    only = [name("nothing", "s").name]
    assert [page async for page in log.scan(0, only=only)] == []


async def test_a_scan_of_nothing_is_empty(log: Log) -> None:
    assert await scanned(log) == []
    assert await log.subjects(shard=0) == {}


async def test_a_scan_ends_where_the_log_does_while_it_is_written_to(
    log: Log, subject: Subject
) -> None:
    await log.append([Append(subject, (made("first"),))])
    for n in range(3):
        seen = 0
        async for page in log.scan(0):
            seen += len(page)
            await log.append([Append(subject, (made(f"{n}"),))])
        assert seen > n


async def test_a_scan_passes_over_what_was_purged(log: Log, subject: Subject) -> None:
    other = log.namespace.subject("tasks", "t")
    seqs = [(await log.append([Append(subject, (made(f"{n}"),))]))[0] for n in range(4)]
    [kept] = await log.append([Append(other, (made("kept"),))])
    await log.purge(subject, before=seqs[3])
    assert [each.seq for each in await scanned(log)] == [seqs[3], kept]
    await log.purge(subject, before=seqs[3] + 1)
    assert [each.seq for each in await scanned(log)] == [kept]


async def test_a_scan_can_be_left_early(log: Log, subject: Subject) -> None:
    for n in range(3):
        await log.append([Append(subject, (made(f"{n}"),))])
    pages = log.scan(0)
    assert await anext(pages)
    await pages.aclose()


async def test_shards_are_scanned_and_counted_apart(open_log: OpenLog) -> None:
    log = await open_log(shards=2)
    subjects = [log.namespace.subject("updates", f"s{n}") for n in range(12)]
    for subject in subjects:
        await log.append([Append(subject, (made("1", SIZE), made("2", SIZE)))])
    for shard in (0, 1):
        own = [subject for subject in subjects if subject.shard == shard]
        assert own
        assert await log.subjects(shard=shard) == dict.fromkeys(own, 2)
        assert {each.subject for each in await scanned(log, shard)} == {s.name for s in own}


@not_archived
async def test_the_heads_are_where_the_shards_end(open_log: OpenLog) -> None:
    log = await open_log(shards=3)
    assert await log.heads() == [0, 0, 0]
    for n in range(12):
        subject = log.namespace.subject("x", f"{n}")
        [seq] = await log.append([Append(subject, (draft("x.saved", b"\xc0", id="1"),))])
        assert (await log.heads())[subject.shard] == seq
    assert [each.last_seq for each in (await log.info()).streams] == await log.heads()
