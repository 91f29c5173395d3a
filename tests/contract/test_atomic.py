"""`async with store.atomic()`: the saves inside are one append, or none."""

from __future__ import annotations

import asyncio

import pytest

import foldlog
from tests.conftest import OpenStore
from tests.support.build import event, planner_event, steering, task, trajectory, update
from tests.support.stores import appended


async def save_one_of_each(store: foldlog.Store) -> None:
    await store.save_event(event())
    await store.save_task(task())
    await store.save_update(update("u"))
    await store.save_steering(steering("e"))
    await store.save_memory_state("key", {"n": 1})
    await store.save_trajectory("trace", "session", trajectory())
    await store.save_planner_event("trace", planner_event())
    await store.save_planner_state("token", {"n": 1})


async def found(store: foldlog.Store) -> list[object]:
    """What is there of `save_one_of_each`. The pause is left alone: reading it would take it."""
    reads = [
        await store.load_history("trace", consistency="strong"),
        await store.list_tasks("session"),
        await store.list_updates("session", consistency="strong"),
        await store.list_steering("session"),
        await store.load_memory_state("key", consistency="strong"),
        await store.get_trajectory("trace", "session", consistency="strong"),
        await store.list_traces("session", consistency="strong"),
        await store.list_planner_events("trace", consistency="strong"),
    ]
    return [read for read in reads if read]


async def test_saves_inside_appear_together(store: foldlog.Store, reopen: OpenStore) -> None:
    other = await reopen()
    async with store.atomic():
        await save_one_of_each(store)
        assert await found(other) == []
    for reader in (store, other):
        assert len(await found(reader)) == 8
    assert await other.load_planner_state("token") == {"n": 1}


async def test_saves_inside_keep_their_order(store: foldlog.Store) -> None:
    updates = [update(f"u{i}") for i in range(100)]
    events = [event(ts=1.0, node_name=f"n{i}") for i in range(100)]
    async with store.atomic():
        for each_update, each_event in zip(updates, events, strict=True):
            await store.save_update(each_update)
            await store.save_event(each_event)
    assert await store.list_updates("session") == updates
    assert await store.load_history("trace") == events


async def test_an_exception_inside_leaves_nothing(store: foldlog.Store, reopen: OpenStore) -> None:
    async def save_and_fail() -> None:
        async with store.atomic():
            await save_one_of_each(store)
            raise RuntimeError("stop")

    before = await appended(store)
    with pytest.raises(RuntimeError, match="stop"):
        await save_and_fail()
    for reader in (store, await reopen()):
        assert await found(reader) == []
        assert await reader.load_planner_state("token") is None
    assert await appended(store) == before

    await save_one_of_each(store)
    assert len(await found(store)) == 8


async def test_a_refused_save_inside_leaves_nothing(store: foldlog.Store) -> None:
    async def save_good_and_bad() -> None:
        async with store.atomic():
            await store.save_update(update("good"))
            await store.save_event(event(payload={"bad": object()}))

    before = await appended(store)
    with pytest.raises(foldlog.PayloadError):
        await save_good_and_bad()
    assert await found(store) == []
    assert await appended(store) == before


async def test_cancellation_inside_leaves_nothing(store: foldlog.Store) -> None:
    inside, forever = asyncio.Event(), asyncio.Event()

    async def save_and_wait() -> None:
        async with store.atomic():
            await save_one_of_each(store)
            inside.set()
            await forever.wait()

    saving = asyncio.ensure_future(save_and_wait())
    await inside.wait()
    saving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await saving
    assert await found(store) == []


async def test_an_empty_block_appends_nothing(store: foldlog.Store) -> None:
    before = await appended(store)
    async with store.atomic():
        pass
    assert await appended(store) == before


async def test_what_others_save_meanwhile_is_not_part_of_it(store: foldlog.Store) -> None:
    begin, done = asyncio.Event(), asyncio.Event()

    async def outsider() -> None:
        await begin.wait()
        await store.save_update(update("outside"))
        done.set()

    async def insider() -> None:
        async with store.atomic():
            await store.save_update(update("inside"))
            begin.set()
            await done.wait()  # the other's save was acked while this block is open
            raise RuntimeError("stop")

    results = await asyncio.gather(outsider(), insider(), return_exceptions=True)
    assert [type(result) for result in results] == [type(None), RuntimeError]
    assert await store.list_updates("session") == [update("outside")]


async def test_blocks_side_by_side_do_not_mix(store: foldlog.Store) -> None:
    async def block(name: str, fail: bool) -> None:
        async with store.atomic():
            for i in range(5):
                await store.save_update(update(f"{name}-{i}"))
                await store.list_updates("session")  # gives the other blocks their turns
            if fail:
                raise RuntimeError(name)

    results = await asyncio.gather(
        *(block(f"b{n}", fail=n % 2 == 1) for n in range(6)), return_exceptions=True
    )
    assert [type(result) for result in results] == [type(None), RuntimeError] * 3
    listed = [u.update_id for u in await store.list_updates("session")]
    assert sorted(listed) == sorted(f"b{n}-{i}" for n in (0, 2, 4) for i in range(5))
    for n in (0, 2, 4):
        start = listed.index(f"b{n}-0")
        assert listed[start : start + 5] == [f"b{n}-{i}" for i in range(5)]


async def test_what_was_saved_before_is_not_doubled(store: foldlog.Store) -> None:
    await store.save_update(update("a"))
    async with store.atomic():
        await store.save_update(update("a"))
        await store.save_update(update("b"))
        await store.save_update(update("b"))
    assert await store.list_updates("session") == [update("a"), update("b")]


async def test_the_block_can_be_repeated(store: foldlog.Store) -> None:
    for _ in range(2):
        async with store.atomic():
            await store.save_update(update("a"))
            await store.save_event(event())
    assert await store.list_updates("session") == [update("a")]
    assert await store.load_history("trace") == [event()]


async def test_mutations_after_a_save_inside_do_not_count(store: foldlog.Store) -> None:
    item = update("u", content={"l": [1]})
    async with store.atomic():
        await store.save_update(item)
        item.content["l"].append(2)
    assert await store.list_updates("session") == [update("u", content={"l": [1]})]


async def test_saves_gathered_inside_are_part_of_it(store: foldlog.Store) -> None:
    async def save_and_fail(count: int, fail: bool) -> None:
        async with store.atomic():
            await asyncio.gather(*(store.save_update(update(f"{fail}-{i}")) for i in range(count)))
            if fail:
                raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        await save_and_fail(5, fail=True)
    await save_and_fail(5, fail=False)
    listed = [u.update_id for u in await store.list_updates("session")]
    assert listed == [f"False-{i}" for i in range(5)]


async def test_a_save_by_a_task_that_outlives_the_block_is_not_swallowed(
    store: foldlog.Store,
) -> None:
    left = asyncio.Event()

    async def save_afterwards() -> None:
        await left.wait()
        await store.save_update(update("afterwards"))

    async with store.atomic():
        straggler = asyncio.ensure_future(save_afterwards())
        await store.save_update(update("inside"))
    left.set()
    await straggler
    listed = [u.update_id for u in await store.list_updates("session", consistency="strong")]
    assert listed == ["inside", "afterwards"]
