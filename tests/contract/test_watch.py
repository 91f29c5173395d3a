"""Watchers: replay from a cursor, then follow, without a gap or a repeat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pytest

import foldlog
from tests.conftest import OpenStore
from tests.support.build import event, steering, update

PATIENCE = 60  # seconds until a test that hangs is called failed


async def take(watcher: AsyncIterator[Any], count: int) -> list[Any]:
    """The watcher's next `count` items."""
    async with asyncio.timeout(PATIENCE):
        return [await anext(watcher) for _ in range(count)]


@dataclass(frozen=True)
class Feed:
    """One kind of thing to watch. `build(n)` gives the n-th item."""

    watch: Callable[..., AsyncIterator[Any]]
    save: Callable[[foldlog.Store, Any], Awaitable[None]]
    build: Callable[[int], Any]
    read: Callable[[foldlog.Store], Awaitable[Any]]


FEEDS = {
    "updates": Feed(
        lambda store, **query: store.watch_updates("session", **query),
        lambda store, item: store.save_update(item),
        lambda n: update(f"id-{n}", task_id=f"task-{n % 2}"),
        lambda store: store.list_updates("session", limit=10_000, consistency="strong"),
    ),
    "steering": Feed(
        lambda store, **query: store.watch_steering("session", **query),
        lambda store, item: store.save_steering(item),
        lambda n: steering(f"id-{n}", task_id=f"task-{n % 2}"),
        lambda store: store.list_steering("session", limit=10_000),
    ),
    "events": Feed(
        lambda store: store.watch_events("trace"),
        lambda store, item: store.save_event(item),
        lambda n: event(ts=1.0, node_name=f"id-{n}"),
        lambda store: store.load_history("trace", consistency="strong"),
    ),
}


@pytest.fixture(params=FEEDS)
def feed(request: pytest.FixtureRequest) -> Feed:
    return FEEDS[request.param]


@pytest.fixture(params=["updates", "steering"])
def cursor_feed(request: pytest.FixtureRequest) -> Feed:
    return FEEDS[request.param]


async def save_all(feed: Feed, store: foldlog.Store, numbers: range) -> list[Any]:
    items = [feed.build(n) for n in numbers]
    for item in items:
        await feed.save(store, item)
    return items


async def test_a_watcher_replays_then_follows(feed: Feed, store: foldlog.Store) -> None:
    old = await save_all(feed, store, range(5))
    async with aclosing(feed.watch(store)) as watcher:
        assert await take(watcher, 5) == old
        new = await save_all(feed, store, range(5, 10))
        assert await take(watcher, 5) == new


async def test_a_watcher_follows_what_does_not_exist_yet(
    feed: Feed, store: foldlog.Store, reopen: OpenStore
) -> None:
    other = await reopen()
    async with aclosing(feed.watch(store)) as watcher:
        first = asyncio.ensure_future(take(watcher, 3))
        items = await save_all(feed, other, range(3))
        assert await first == items


async def test_a_watcher_sees_no_repeat_of_a_repeated_save(
    feed: Feed, store: foldlog.Store, reopen: OpenStore
) -> None:
    other = await reopen()
    [first] = await save_all(feed, store, range(1))
    async with aclosing(feed.watch(store)) as watcher:
        assert await take(watcher, 1) == [first]
        await feed.save(store, first)
        await feed.save(other, first)
        [second] = await save_all(feed, other, range(1, 2))
        assert await take(watcher, 1) == [second]


async def test_watchers_amid_concurrent_writers_miss_and_repeat_nothing(
    feed: Feed, store: foldlog.Store, reopen: OpenStore
) -> None:
    other = await reopen()
    count = 200
    writes = [
        asyncio.ensure_future(feed.save((store, other)[n % 2], feed.build(n))) for n in range(count)
    ]
    # The watchers join while the writes are under way.
    early, late, far = feed.watch(store), feed.watch(store), feed.watch(other)
    async with aclosing(early), aclosing(late), aclosing(far):
        first = await take(early, 10)
        seen, seen_late, seen_far = await asyncio.gather(
            take(early, count - 10), take(late, count), take(far, count)
        )
        await asyncio.gather(*writes)
        stored = list(await feed.read(store))
        assert len(stored) == count
        assert first + seen == stored
        assert seen_late == stored
        assert seen_far == stored

        last = await save_all(feed, other, range(count, count + 1))
        assert await take(early, 1) == last
        assert await take(far, 1) == last


async def test_a_cursor_says_where_to_begin(cursor_feed: Feed, store: foldlog.Store) -> None:
    items = await save_all(cursor_feed, store, range(6))
    async with aclosing(cursor_feed.watch(store, after="id-2")) as watcher:
        assert await take(watcher, 3) == items[3:]
        new = await save_all(cursor_feed, store, range(6, 7))
        assert await take(watcher, 1) == new


async def test_a_cursor_at_the_tip_replays_nothing(cursor_feed: Feed, store: foldlog.Store) -> None:
    await save_all(cursor_feed, store, range(3))
    async with aclosing(cursor_feed.watch(store, after="id-2")) as watcher:
        first = asyncio.ensure_future(take(watcher, 1))
        new = await save_all(cursor_feed, store, range(3, 4))
        assert await first == new


async def test_an_unknown_cursor_is_refused(cursor_feed: Feed, store: foldlog.Store) -> None:
    await save_all(cursor_feed, store, range(3))
    async with aclosing(cursor_feed.watch(store, after="unknown")) as watcher:
        with pytest.raises(foldlog.NotFound, match="unknown"):
            await take(watcher, 1)


async def test_a_replay_is_not_limited(cursor_feed: Feed, store: foldlog.Store) -> None:
    await asyncio.gather(*(cursor_feed.save(store, cursor_feed.build(n)) for n in range(700)))
    stored = list(await cursor_feed.read(store))
    async with aclosing(cursor_feed.watch(store)) as watcher:
        assert await take(watcher, 700) == stored


async def test_a_task_filter_holds_in_replay_and_after(
    cursor_feed: Feed, store: foldlog.Store
) -> None:
    old = await save_all(cursor_feed, store, range(6))
    async with aclosing(cursor_feed.watch(store, after="id-2", task_id="task-1")) as watcher:
        assert await take(watcher, 2) == [old[3], old[5]]
        new = await save_all(cursor_feed, store, range(6, 10))
        assert await take(watcher, 2) == [new[1], new[3]]


async def test_a_watcher_sees_only_its_own(store: foldlog.Store) -> None:
    async with (
        aclosing(store.watch_updates("session")) as updates,
        aclosing(store.watch_steering("session")) as events,
    ):
        await store.save_update(update("elsewhere", "other"))
        await store.save_update(update("u"))
        await store.save_steering(steering("e"))
        assert await take(updates, 1) == [update("u")]
        assert await take(events, 1) == [steering("e")]


async def test_bulk_and_atomic_saves_reach_watchers_in_order(store: foldlog.Store) -> None:
    events = [event(ts=1.0, node_name=f"n{i}") for i in range(50)]
    async with aclosing(store.watch_events("trace")) as watcher:
        await store.save_events(events[:25])
        async with store.atomic():
            for each in events[25:]:
                await store.save_event(each)
        assert await take(watcher, 50) == events


async def test_watchers_of_one_session_are_independent(store: foldlog.Store) -> None:
    async with aclosing(store.watch_updates("session")) as first:
        async with aclosing(store.watch_updates("session")) as second:
            await store.save_update(update("a"))
            assert await take(first, 1) == [update("a")]
            [seen] = await take(second, 1)
            seen.content["id"] = "changed by its owner"
        await store.save_update(update("b"))
        assert await take(first, 1) == [update("b")]
    assert await store.list_updates("session") == [update("a"), update("b")]


async def test_a_cancelled_wait_is_cancelled_and_leaves_nothing(
    feed: Feed, store: foldlog.Store
) -> None:
    before = asyncio.all_tasks()
    watcher = feed.watch(store)
    waiting = asyncio.ensure_future(take(watcher, 1))
    [item] = await save_all(feed, store, range(1))
    assert await waiting == [item]

    waiting = asyncio.ensure_future(take(watcher, 1))
    await feed.read(store)  # gives the waiter its turns
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await watcher.aclose()
    await feed.read(store)
    hot = asyncio.all_tasks() - before
    async with aclosing(feed.watch(store)) as again:
        assert await take(again, 1) == [item]
    await feed.read(store)
    assert len(asyncio.all_tasks() - before) <= len(hot)


async def test_a_watcher_that_was_never_started_can_be_closed(
    feed: Feed, store: foldlog.Store
) -> None:
    await feed.watch(store).aclose()


async def test_a_closed_watcher_ends(feed: Feed, store: foldlog.Store) -> None:
    await save_all(feed, store, range(1))
    watcher = feed.watch(store)
    await take(watcher, 1)
    await watcher.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(watcher)


async def test_closing_the_store_ends_its_watchers(feed: Feed, reopen: OpenStore) -> None:
    store = await reopen()
    [item] = await save_all(feed, store, range(1))
    watcher = feed.watch(store)
    assert await take(watcher, 1) == [item]
    waiting = asyncio.ensure_future(take(watcher, 1))
    await feed.read(store)
    await store.close()
    async with asyncio.timeout(PATIENCE):
        [ended] = await asyncio.gather(waiting, return_exceptions=True)
    assert isinstance(ended, StopAsyncIteration | RuntimeError | foldlog.StoreClosed)
    await watcher.aclose()
