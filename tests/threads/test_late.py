"""A run that goes on from what was removed finds out, however long ago that was."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

import foldlog
from foldlog.integrations.access import access_to
from foldlog.integrations.langgraph import CheckpointGone, ThreadHeld
from foldlog.integrations.langgraph.fencing import Holding
from foldlog.integrations.langgraph.threads import Threads
from foldlog_projections.langgraph.checkpointrecords import Put, Write, Written
from foldlog_projections.langgraph.checkpoints import kind
from foldlog_projections.langgraph.thread import Thread
from tests.conftest import OpenStore
from tests.threads.support import ROOT, Place, checkpoint, outside, threads

Remove = Callable[[foldlog.Store, Threads], Awaitable[object]]

REMOVALS: dict[str, Remove] = {
    "delete": lambda store, one: one.delete("trip"),
    "clear": lambda store, one: store.clear_session("trip"),
    "erase": lambda store, one: store.erase_session("trip"),
    "runs": lambda store, one: one.delete_runs(["first"]),
}


async def ids(one: Threads) -> list[str]:
    return [row.checkpoint.id for _, row in await one.rows(None, None, None, None)]


async def check_gone(late: Threads, id: str) -> None:
    """Nothing goes on from that checkpoint."""
    with pytest.raises(CheckpointGone, match="of thread 'trip' was deleted"):
        await late.put(Place("trip", "", id), checkpoint("8", text="y"), {}, {"text": 1})
    with pytest.raises(CheckpointGone):
        await late.put_writes(Place("trip", "", id), [(0, "text", "z")], "task", "")
    child, about = Place("trip", "child:1", None), {"parents": {"": id}}
    with pytest.raises(CheckpointGone):
        await late.put(child, checkpoint("9"), about, {})


@pytest.mark.parametrize("how", REMOVALS)
async def test_a_thread_stays_removed_for_who_remembers_nothing(
    store: foldlog.Store, reopen: OpenStore, how: str
) -> None:
    one, about = threads(store), {"run_id": "first"}
    for _ in range(2):
        first = await one.put(ROOT, checkpoint("1", text="x"), about, {"text": 1})
        await one.put(first, checkpoint("2", text="y"), about, {"text": 1})
        await REMOVALS[how](store, one)
        late = await reopen()  # it has never seen the thread
        for id in ("1", "2"):
            await check_gone(threads(late), id)
        assert await ids(one) == []
        assert await store.sessions() == ([] if how != "runs" else ["trip"])
    for number in ("3", "4"):  # a new run begins the thread anew
        first = await one.put(ROOT, checkpoint(number), {}, {})
        await one.put_writes(first, [(0, "text", "z")], "task", "")
    assert await ids(threads(late)) == ["4", "3"]
    await check_gone(threads(late), "1")


async def test_what_was_pruned_is_not_gone_on_from() -> None:
    async with foldlog.memory_store() as store:
        one = threads(store)
        first = await one.put(ROOT, checkpoint("1", text="x"), {}, {"text": 1})
        second = await one.put(first, checkpoint("2", text="y"), {}, {"text": 1})
        await one.prune("trip")
        await check_gone(threads(store), "1")
        await one.put(second, checkpoint("3"), {}, {})
        assert await ids(one) == ["3", "2"]


async def test_the_same_checkpoints_may_be_saved_again() -> None:
    """Copied from elsewhere, or by a program that names its own."""
    async with foldlog.memory_store() as store:
        one = threads(store)
        for _ in range(2):
            first = await one.put(ROOT, checkpoint("1", text="x"), {}, {"text": 1})
            await one.put(first, checkpoint("2", text="y"), {}, {"text": 1})
            await one.copy("trip", "copy")
            assert len(await ids(one)) == 4
            await one.delete("trip")
            await one.delete("copy")


async def test_what_was_on_its_way_has_no_effect_and_neither_has_what_goes_on_from_it() -> None:
    """The fold alone decides: the late writer has heard of nothing when it appends."""
    async with foldlog.memory_store() as store:
        one, key = threads(store), kind("trip")
        await one.put(ROOT, checkpoint("1", text="x"), {}, {"text": 1})
        [first] = await store.view(key, lambda thread: thread.namespaces.records())
        assert isinstance(first, Put)
        await one.delete("trip")

        def put(id: str, parent: str) -> Put:
            return Put(id, id, first.rest, first.metadata, parent=parent, base=parent)

        def written(name: str, id: str) -> Written:
            return Written(name, id, "task", (Write(0, "text", "form", b"late"),))

        await store.append(key, written("early", "2"))  # which nobody can know of yet
        await store.append(key, put("2", "1"), written("late", "2"), put("3", "2"))
        thread: Thread = await store.view(key)
        assert thread.refused == dict.fromkeys(("2", "late", "3"), "gone")
        assert not thread
        assert not any(space.writes for space in thread.namespaces.values())


async def test_a_thread_that_is_held_is_deleted_by_its_holder_alone() -> None:
    async with foldlog.memory_store() as store:
        one = threads(store)

        async def other(error: type[Exception] | None = ThreadHeld) -> None:
            for call in (one.delete, one.prune):
                if error is None:
                    await call("trip")
                else:
                    with pytest.raises(error, match="is held by 'worker'; nothing was changed"):
                        await call("trip")

        async with Holding(access_to(store), "trip", "worker", 60.0, False):
            first = await one.put(ROOT, checkpoint("1"), {}, {})
            second = await one.put(first, checkpoint("2"), {}, {})
            await outside(other)
            await one.delete("trip")
            assert await ids(one) == []
            await one.put(ROOT, checkpoint("3"), {}, {})  # it still holds the thread
            with pytest.raises(CheckpointGone):
                await one.put(second, checkpoint("4"), {}, {})

            async def save() -> None:
                with pytest.raises(ThreadHeld):
                    await one.put(ROOT, checkpoint("5"), {}, {})

            await outside(save)
        await outside(lambda: other(None))
        assert await ids(one) == []


async def test_a_run_is_told_that_its_thread_was_erased_not_that_another_holds_it() -> None:
    async with foldlog.memory_store() as store:
        one = threads(store)
        async with Holding(access_to(store), "trip", "ann@example.org", 60.0, False):
            first = await one.put(ROOT, checkpoint("1"), {}, {})
            await outside(lambda: store.erase_session("trip"))
            with pytest.raises(CheckpointGone, match="was deleted while a run went on from it"):
                await one.put(first, checkpoint("2"), {}, {})
            with pytest.raises(CheckpointGone):
                await one.put_writes(first, [(0, "text", "z")], "task", "")
            hold = await store.view(kind("trip"), lambda thread: thread.hold)
            assert "ann" not in repr(hold)
