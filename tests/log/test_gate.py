"""The incarnation check of one shard, against a shard that loses records."""

from __future__ import annotations

import asyncio

import pytest

from foldlog.errors import LogCorrupt, LogRewound, LogUnavailable
from foldlog.log.incarnation import Mark
from foldlog.log.jetstream import gate as module
from foldlog.log.jetstream.gate import Gate
from tests.log.marks import FakeShard, marked, opened


async def read(gate: Gate) -> None:
    """What a read does first."""
    if not gate.passes_reads:
        await gate.check_before_read()


async def append(gate: Gate, shard: FakeShard, count: int = 1) -> None:
    """What an append does first, and when it was acked."""
    if not gate.passes_appends:
        await gate.check_before_append(5.0)
    shard.append(gate, count)


async def test_a_connection_that_lasts_is_asked_nothing() -> None:
    shard = await marked()
    gate = await opened(shard)
    asked = shard.asked
    for _ in range(3):
        await read(gate)
        await append(gate, shard)
    assert shard.asked == asked
    shard.reconnects += 1
    for _ in range(3):
        await read(gate)
        await append(gate, shard)
    assert shard.asked == asked + 1
    await gate.close()


# --- what is found ------------------------------------------------------------------------------


async def test_a_gap_is_raised_by_every_read_until_it_is_accepted() -> None:
    shard = await marked()
    shard.lose(2)
    gate = await opened(shard)
    for _ in range(2):
        with pytest.raises(LogCorrupt, match="1 records up to here are missing"):
            await read(gate)
    await append(gate, shard, 3)
    await gate.close()  # which does not hide it
    gate = await opened(shard)
    with pytest.raises(LogCorrupt):
        await read(gate)
    await gate.accept()
    await read(gate)
    await read(await opened(shard))


async def test_a_shard_that_ends_earlier_is_rewound() -> None:
    shard = await marked()
    shard.cut(3)
    with pytest.raises(LogRewound) as rewound:
        await read(await opened(shard))
    assert rewound.value.sequence == 5


async def test_a_stream_that_was_created_anew_is_rewound_although_it_is_longer() -> None:
    shard = await marked()
    gate = await opened(shard)
    shard.created, shard.reconnects = "2026-02-02T00:00:00Z", 1
    shard.append(None, 50)
    for each in (gate, await opened(shard)):
        with pytest.raises(LogRewound, match="created anew"):
            await read(each)
    await gate.accept()
    await read(gate)
    await read(await opened(shard))


async def test_a_loss_while_the_store_is_open_is_noticed() -> None:
    shard = await marked()
    gate = await opened(shard)
    await read(gate)
    shard.lose(1)
    with pytest.raises(LogCorrupt):
        await read(gate)


async def test_what_is_appended_to_a_rewound_shard_does_not_hide_it() -> None:
    shard = await marked()
    shard.cut(3)
    await opened(shard)
    shard.append(None, 9)  # of a process that has not noticed
    gate = await opened(shard)
    await shard.purge(gate, 7)
    with pytest.raises(LogRewound) as rewound:
        await read(gate)
    assert rewound.value.sequence == 5
    await gate.accept()
    await read(await opened(shard))


async def test_a_mark_that_cannot_be_written_fails_nothing() -> None:
    shard = await marked()
    shard.away = True
    gate = await opened(shard)
    await append(gate, shard, 2)
    await gate.close()
    assert shard.mark is not None
    assert shard.mark.seq == 5


async def test_a_backup_that_brought_its_mark_along_is_rewound() -> None:
    shard = await marked(3)
    gate = await opened(shard)
    await append(gate, shard, 2)
    shard.cut(3)
    for _ in range(2):
        with pytest.raises(LogRewound) as rewound:
            await append(gate, shard)
        assert rewound.value.sequence == 5
    with pytest.raises(LogRewound):
        await read(gate)
    with pytest.raises(LogRewound) as rewound:  # another process, which knows nothing
        await read(await opened(shard))
    assert rewound.value.sequence == 5
    await gate.accept()
    assert gate.known == 3
    await read(gate)
    await append(gate, shard)
    await read(await opened(shard))
    await gate.close()


@pytest.mark.parametrize("how", ["opened", "read"])
async def test_what_was_only_seen_is_known(how: str) -> None:
    shard = FakeShard(5 if how == "opened" else 4)
    gate = await opened(shard)
    if how == "read":
        shard.append(None)
        gate.seen(5)
    shard.cut(3)
    with pytest.raises(LogRewound) as rewound:
        await append(gate, shard)
    assert rewound.value.sequence == 5


async def test_what_was_lost_before_the_store_opened_stops_appends_until_it_is_accepted() -> None:
    shard = await marked()
    shard.cut(3)
    gate = await opened(shard)
    for _ in range(2):
        with pytest.raises(LogRewound) as rewound:
            await append(gate, shard)
        assert rewound.value.sequence == 5
    await gate.accept()
    await append(gate, shard, 2)
    await read(gate)
    await gate.close()


async def test_a_gap_stops_no_append() -> None:
    shard = await marked()
    gate = await opened(shard)
    shard.lose(2)
    await append(gate, shard)
    with pytest.raises(LogCorrupt):
        await read(gate)
    await gate.close()


async def test_a_deposed_leader_is_not_taken_for_a_shard_that_was_rewound() -> None:
    shard = await marked()
    gate = await opened(shard)
    shard.replicas, shard.reconnects, shard.behind = 3, 1, 2
    await append(gate, shard, 0)
    assert shard.confirmed == 1
    shard.cut(3)
    with pytest.raises(LogRewound):
        await append(gate, shard)
    assert shard.confirmed == 2


# --- who accepts --------------------------------------------------------------------------------


async def test_what_one_process_accepts_others_are_told_whatever_was_appended_since() -> None:
    shard = await marked()
    first, second = await opened(shard), await opened(shard)
    before = first.identity
    shard.cut(3)
    with pytest.raises(LogRewound):
        await read(first)
    await first.accept()
    shard.append(first, 10)
    assert first.identity != before
    for _ in range(2):
        with pytest.raises(LogRewound, match="another process"):
            await read(second)
        with pytest.raises(LogRewound, match="another process"):
            await append(second, shard)
    await second.accept()
    assert second.identity == first.identity
    shard.reconnects += 1
    await read(first)
    await read(second)
    await first.close()


async def test_accepting_what_lost_nothing_changes_nothing() -> None:
    shard = await marked()
    gate = await opened(shard)
    before = gate.identity, shard.mark
    await gate.accept()
    assert (gate.identity, shard.mark) == before


async def test_a_loss_that_cannot_be_noted_is_accepted_by_this_process() -> None:
    shard = FakeShard(5)
    shard.unreadable = True
    gate = await opened(shard)
    shard.cut(3)
    with pytest.raises(LogRewound):
        await read(gate)
    await gate.accept()
    await read(gate)


# --- the mark -----------------------------------------------------------------------------------


async def test_a_mark_is_renewed_behind_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MARK_SECONDS", 0)
    shard = FakeShard()
    put, going, most = shard.put, 0, 0
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(mark: Mark, revision: int) -> bool:
        nonlocal going, most
        going += 1
        most = max(most, going)
        begun.set()
        try:
            await go_on.wait()
        finally:
            going -= 1
        return await put(mark, revision)

    monkeypatch.setattr(shard, "put", slow)
    gate = await opened(shard)
    await append(gate, shard, 3)
    await begun.wait()
    await append(gate, shard, 2)
    for _ in range(20):  # turns of the loop, in which a second one would begin
        await asyncio.sleep(0)
    go_on.set()
    await gate.close()
    assert most == 1
    assert shard.mark is not None
    assert (shard.mark.seq, shard.mark.messages) == (5, 5)


async def test_a_process_that_only_reads_writes_no_mark() -> None:
    shard = FakeShard(5)
    gate = await opened(shard)
    await read(gate)
    gate.seen(5)
    await gate.close()
    assert shard.mark is None


# --- purges -------------------------------------------------------------------------------------


async def test_a_purge_is_no_loss() -> None:
    shard = await marked()
    gate = await opened(shard)
    await shard.purge(gate, 4)
    await gate.close()
    for now in (1e9, 1e12):  # at once, and when it has surely ended
        gate = await opened(shard, now)
        await read(gate)
        shard.append(gate)
        await gate.close()
    assert shard.mark is not None
    assert (shard.mark.seq, shard.mark.messages) == (7, 4)
    shard.lose(5)
    with pytest.raises(LogCorrupt):
        await read(await opened(shard))


async def test_many_purges_are_announced_once() -> None:
    shard = await marked()
    gate = await opened(shard)
    before = shard.revision
    await asyncio.gather(*(shard.purge(gate, n) for n in range(5)))
    assert shard.revision == before + 1


async def test_purges_of_many_processes_are_no_loss() -> None:
    shard = await marked(40)
    gates = [await opened(shard) for _ in range(8)]

    async def work(gate: Gate, before: int) -> None:
        await shard.purge(gate, before)
        shard.append(gate, 2)
        await gate.close()

    await asyncio.gather(*map(work, gates, range(5, 45, 5)))
    await read(await opened(shard))
    await read(await opened(shard, 1e12))


async def test_without_space_for_a_mark_a_purge_leaves_none() -> None:
    shard = await marked()
    shard.refusing = True
    gate = await opened(shard)
    await shard.purge(gate, 4)
    assert shard.mark is None
    await read(await opened(shard))


async def test_a_purge_that_cannot_be_announced_does_not_happen() -> None:
    shard = await marked()
    shard.away = True
    with pytest.raises(LogUnavailable):
        await shard.purge(await opened(shard), 4)
    assert len(shard.held) == 5


async def test_where_a_mark_cannot_be_read_a_purge_leaves_none() -> None:
    shard = await marked()
    shard.unreadable = True
    await shard.purge(await opened(shard), 4)
    assert shard.mark is None


async def test_a_purge_between_the_mark_and_the_shard_is_no_loss() -> None:
    shard = await marked()
    purging = await opened(shard)
    gate = await opened(shard)
    shard.reconnects += 1
    shard.before_describing = lambda: shard.purge(purging, 4)
    await read(gate)


# --- while nobody answers -----------------------------------------------------------------------


async def test_where_the_first_check_is_not_answered_the_first_append_asks_again() -> None:
    shard = await marked()

    async def silent() -> None:
        raise LogUnavailable("no leader")

    shard.before_describing = silent
    gate = await opened(shard)
    shard.before_describing = silent
    with pytest.raises(LogUnavailable):
        await append(gate, shard)
    await append(gate, shard)
    await read(gate)
    await gate.close()


async def test_an_append_waits_for_the_check_no_longer_than_it_has_time() -> None:
    shard = await marked()
    gate = await opened(shard)
    shard.reconnects += 1

    async def never() -> None:
        await asyncio.get_running_loop().create_future()

    shard.before_describing = never
    with pytest.raises(LogUnavailable):
        await gate.check_before_append(0)
