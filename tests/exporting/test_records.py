"""`store.records()`: the log as it is stored, on every kind of log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog import LogRecord
from tests.conftest import OpenStore
from tests.exporting.history import LONG, write
from tests.support.build import task, update

SHARDS = pytest.mark.parametrize("shards", [1, 2])


async def read(store: foldlog.Store, **options: Any) -> list[LogRecord]:
    return [each async for each in store.records(**options)]


async def scanned(store: foldlog.Store) -> set[tuple[int, int, str, bytes]]:
    shards = range(store._core.log.namespace.shards)
    return {
        (shard, each.seq, each.time, each.data)
        for shard in shards
        async for page in store._core.log.scan(shard)
        for each in page
    }


@SHARDS
async def test_every_record_comes_once_and_in_order(reopen: OpenStore, shards: int) -> None:
    store = await reopen(shards=shards)
    await write(store)
    found = await read(store)
    assert {(e.shard, e.seq, e.time, e.data) for e in found} == await scanned(store)
    assert [(e.shard, e.seq) for e in found] == sorted({(e.shard, e.seq) for e in found})
    subject = store._core.log.namespace.subject
    for each in found:
        assert subject(each.kind, *each.keys).shard == each.shard
        assert each.envelopes[-1].seq == each.seq
    assert (LONG,) in {each.keys for each in found if each.kind == "updates"}
    assert {"subject.cleared", "subject.forked"} <= {e.type for r in found for e in r.envelopes}


@SHARDS
async def test_kinds_and_positions_choose(reopen: OpenStore, shards: int) -> None:
    store = await reopen(shards=shards)
    start = await store.position()
    await write(store)
    middle = await store.position()
    for n in range(4):
        await store.save_update(update(f"late{n}", f"s{n}"))
        await store.save_task(task("late", f"s{n}"))
    found = await read(store)
    assert await read(store, after=start) == found
    early, late = await read(store, until=middle), await read(store, after=middle)
    assert sorted([*early, *late], key=lambda e: (e.shard, e.seq)) == found
    assert early
    assert late
    for names in (["updates"], ["tasks", "updates"], ["artifacts", "tasks", "updates"]):
        assert await read(store, kinds=names) == [each for each in found if each.kind in names]
    some = await read(store, kinds=["updates"], after=middle)
    assert some == [each for each in late if each.kind == "updates"]


async def test_it_ends_where_the_log_ended_when_it_began(store: foldlog.Store) -> None:
    for n in range(3):
        await store.save_update(update(f"{n}"))
    seen = []
    async for each in store.records():
        seen += [envelope.id for envelope in each.envelopes]
        await store.save_update(update(f"more{each.seq}"))
    assert seen == ["0", "1", "2"]
    assert len(await read(store.at(update("1")))) == 2


async def test_a_sessions_records_are_those_that_erasing_it_takes(reopen: OpenStore) -> None:
    store = await reopen(shards=2)
    fork = await write(store)
    everything = await read(store)
    found = await read(store, session_id="a")
    assert [(e.shard, e.seq) for e in found] == sorted({(e.shard, e.seq) for e in found})
    kinds = {each.kind for each in found}
    assert kinds >= {"updates", "tasks", "steering", "events", "artifacts", "artifact", "scoped"}
    assert kinds >= {"runs", "belongings", "lineage"}
    own = [each for each in everything if "a" in each.keys or "session:a" in each.keys]
    assert {each.seq for each in own if each.kind != "traces"} <= {each.seq for each in found}
    assert not {"b", LONG, fork} & {key for each in found for key in each.keys}
    of_fork = await read(store, session_id=fork)
    assert {each.kind for each in of_fork} >= {"updates", "lineage"}
    assert await read(store, session_id="a", kinds=["updates"]) == [
        each for each in everything if (each.kind, each.keys) == ("updates", ("a",))
    ]
    gone = await read(store, session_id="gone")
    assert {e.type for each in gone for e in each.envelopes} <= {
        "subject.cleared",
        "session.cleared",
    }
    assert await read(store, session_id="nobody") == []


async def test_what_cannot_be_meant_is_refused(reopen: OpenStore) -> None:
    store = await reopen()
    with pytest.raises(foldlog.NotFound, match="no kind 'nope'"):
        await read(store, kinds=["nope"])
    with pytest.raises(
        foldlog.PayloadError, match=r"until: @7,7 is of 2 shard\(s\), the log has 1"
    ):
        await read(store, until=foldlog.LogPosition.parse("@7,7"))
    with pytest.raises(foldlog.PayloadError, match="after: 7 is no position"):
        await read(store, after=7)
    with pytest.raises(foldlog.InvalidId):
        await read(store, session_id="")


@pytest.mark.usefixtures("purging_at_once")
async def test_records_that_were_archived_come_too(embedded_path: Path, tmp_path: Path) -> None:
    options: Any = {"path": embedded_path, "namespace": "records-archived"}
    async with foldlog.connect(archive=tmp_path, **options) as store:
        await write(store)
        before = [await read(store), await read(store, session_id="a")]
        await store.archive(everything=True)
        await store.save_update(update("hot", "a"))
        after = [await read(store), await read(store, session_id="a")]
        assert [each[:-1] for each in after] == before
        assert [each[-1].kind for each in after] == ["updates", "updates"]
