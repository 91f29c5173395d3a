"""What `list_updates` and `list_steering` share: dedupe, order, cursor, filter, limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

import foldlog
from tests.conftest import OpenStore
from tests.support.build import MOMENT, steering, update


@dataclass(frozen=True)
class Feed:
    """One of the two lists, by what differs between them."""

    build: Callable[..., Any]
    save_name: str
    list_name: str
    id_name: str

    def save(self, store: foldlog.Store, item: Any) -> Awaitable[None]:
        return getattr(store, self.save_name)(item)

    async def items(
        self, store: foldlog.Store, session: str = "session", **query: Any
    ) -> list[Any]:
        return list(await getattr(store, self.list_name)(session, **query))

    async def ids(self, store: foldlog.Store, session: str = "session", **query: Any) -> list[str]:
        return [getattr(item, self.id_name) for item in await self.items(store, session, **query)]


UPDATES = Feed(update, "save_update", "list_updates", "update_id")
STEERING = Feed(steering, "save_steering", "list_steering", "event_id")


@pytest.fixture(params=[UPDATES, STEERING], ids=["updates", "steering"])
def feed(request: pytest.FixtureRequest) -> Feed:
    return request.param


async def fill(feed: Feed, store: foldlog.Store, count: int, tasks: int = 1) -> list[str]:
    """Saves `count` items, dealt to `tasks` tasks in turn; returns their ids in order."""
    for i in range(count):
        await feed.save(store, feed.build(f"id-{i}", task_id=f"task-{i % tasks}"))
    return [f"id-{i}" for i in range(count)]


async def test_an_unknown_session_is_empty(feed: Feed, store: foldlog.Store) -> None:
    assert await feed.items(store, "nonexistent") == []
    assert await feed.items(store, "nonexistent", since_id="x", task_id="y", limit=3) == []


async def test_items_come_back_in_order_of_save(
    feed: Feed, store: foldlog.Store, reopen: OpenStore
) -> None:
    # The writers' own clocks run backwards here: order is the log's.
    items = [feed.build(f"id-{i}", created_at=MOMENT - timedelta(hours=i)) for i in range(10)]
    for item in items:
        await feed.save(store, item)
    assert await feed.items(store) == items
    assert await feed.items(await reopen()) == items


async def test_an_id_is_kept_once(feed: Feed, store: foldlog.Store, reopen: OpenStore) -> None:
    first, second = feed.build("a", task_id="first"), feed.build("b")
    await feed.save(store, first)
    await feed.save(store, second)
    await feed.save(store, first)
    await feed.save(store, feed.build("a", task_id="later"))
    other = await reopen()
    await feed.save(other, first)
    assert await feed.items(store) == [first, second]
    assert await feed.items(other) == [first, second]


async def test_concurrent_saves_of_one_id_keep_one(
    feed: Feed, store: foldlog.Store, reopen: OpenStore
) -> None:
    other = await reopen()
    saves = (feed.save(s, feed.build(f"id-{i % 4}")) for i in range(40) for s in (store, other))
    await asyncio.gather(*saves)
    listed = await feed.ids(store, consistency="strong")
    assert sorted(listed) == ["id-0", "id-1", "id-2", "id-3"]
    assert await feed.ids(other, consistency="strong") == listed
    assert await feed.ids(await reopen()) == listed


async def test_one_id_in_two_sessions_is_two_items(feed: Feed, store: foldlog.Store) -> None:
    one, two = feed.build("same", "one", task_id="1"), feed.build("same", "two", task_id="2")
    await feed.save(store, one)
    await feed.save(store, two)
    assert await feed.items(store, "one") == [one]
    assert await feed.items(store, "two") == [two]


async def test_without_a_cursor_the_latest_are_listed(feed: Feed, store: foldlog.Store) -> None:
    ids = await fill(feed, store, 10)
    assert await feed.ids(store, limit=3) == ids[-3:]
    assert await feed.ids(store, limit=100) == ids


async def test_an_unknown_cursor_is_no_cursor(feed: Feed, store: foldlog.Store) -> None:
    ids = await fill(feed, store, 10)
    await feed.save(store, feed.build("elsewhere", "other"))
    assert await feed.ids(store, since_id="unknown", limit=3) == ids[-3:]
    assert await feed.ids(store, since_id="elsewhere", limit=3) == ids[-3:]
    assert await feed.ids(store, since_id="unknown") == ids


async def test_a_cursor_is_exclusive_and_gives_the_first_after_it(
    feed: Feed, store: foldlog.Store
) -> None:
    ids = await fill(feed, store, 10)
    assert await feed.ids(store, since_id="id-2") == ids[3:]
    assert await feed.ids(store, since_id="id-2", limit=3) == ids[3:6]
    assert await feed.ids(store, since_id="id-8", limit=3) == ids[9:]
    assert await feed.ids(store, since_id="id-9") == []


async def test_the_default_limit_is_500(feed: Feed, store: foldlog.Store) -> None:
    ids = [f"id-{i}" for i in range(510)]
    await asyncio.gather(*(feed.save(store, feed.build(i)) for i in ids))
    listed = await feed.ids(store, limit=10_000)
    assert sorted(listed) == sorted(ids)
    assert await feed.ids(store) == listed[-500:]
    assert await feed.ids(store, since_id=listed[4]) == listed[5:505]


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_limit_below_one_lists_nothing(
    feed: Feed, store: foldlog.Store, limit: int
) -> None:
    await fill(feed, store, 3)
    assert await feed.items(store, limit=limit) == []
    assert await feed.items(store, since_id="id-0", limit=limit) == []


async def test_the_task_filter_comes_before_the_limit(feed: Feed, store: foldlog.Store) -> None:
    ids = await fill(feed, store, 12, tasks=3)
    assert await feed.ids(store, task_id="task-1") == ids[1::3]
    assert await feed.ids(store, task_id="task-1", limit=2) == ids[1::3][-2:]
    assert await feed.ids(store, task_id="task-1", since_id="id-1", limit=2) == ids[4::3][:2]
    assert await feed.items(store, task_id="unknown") == []


async def test_the_cursor_counts_in_session_order_under_a_task_filter(
    feed: Feed, store: foldlog.Store
) -> None:
    ids = await fill(feed, store, 12, tasks=3)
    # id-5 belongs to task-2; what follows it of task-0 is 6 and 9.
    assert await feed.ids(store, task_id="task-0", since_id="id-5") == [ids[6], ids[9]]
    assert await feed.ids(store, task_id="task-0", since_id="id-5", limit=1) == [ids[6]]
    assert await feed.ids(store, task_id="task-0", since_id="id-11") == []


async def test_paging_by_cursor_loses_nothing(
    feed: Feed, store: foldlog.Store, reopen: OpenStore
) -> None:
    ids = [f"id-{i}" for i in range(2_000)]
    saves = (
        feed.save(store, feed.build(id_, task_id=f"task-{i % 2}")) for i, id_ in enumerate(ids)
    )
    await asyncio.gather(*saves)
    in_order = await feed.ids(store, limit=10_000)
    assert sorted(in_order) == sorted(ids)

    other = await reopen()
    paged = in_order[:1]
    while page := await feed.ids(other, since_id=paged[-1], limit=150):
        assert len(page) <= 150
        paged += page
    assert paged == in_order

    of_task = [id_ for id_ in in_order if int(id_[3:]) % 2]
    # The first cursor belongs to whichever task comes first: that must not matter.
    paged, cursor = [id_ for id_ in in_order[:1] if id_ in of_task], in_order[0]
    while page := await feed.ids(other, task_id="task-1", since_id=cursor, limit=150):
        paged += page
        cursor = page[-1]
    assert paged == of_task


async def test_a_poller_behind_concurrent_writers_misses_nothing(
    feed: Feed, store: foldlog.Store, reopen: OpenStore
) -> None:
    other = await reopen()
    await feed.save(store, feed.build("first"))
    seen = ["first"]

    async def write(writer: int) -> None:
        for i in range(20):
            await feed.save((store, other)[writer % 2], feed.build(f"{writer}-{i}"))

    async def poll() -> None:
        while len(seen) < 201:
            seen.extend(await feed.ids(other, since_id=seen[-1], limit=7, consistency="strong"))

    async with asyncio.timeout(60):
        await asyncio.gather(poll(), *(write(n) for n in range(10)))
    assert seen == await feed.ids(store, limit=1_000, consistency="strong")
    for writer in range(10):
        mine = [id_ for id_ in seen if id_.startswith(f"{writer}-")]
        assert mine == [f"{writer}-{i}" for i in range(20)]


async def test_items_belong_to_the_caller(feed: Feed, store: foldlog.Store) -> None:
    content = {"text": "kept", "list": [1]}
    field = "content" if feed is UPDATES else "payload"
    item = feed.build("id", **{field: content})
    await feed.save(store, item)
    content["list"].append(2)
    getattr(item, field)["list"].append(3)
    for _ in range(2):
        [listed] = await feed.items(store)
        assert getattr(listed, field) == {"text": "kept", "list": [1]}
        getattr(listed, field)["list"].append(4)
        listed.task_id = "changed"
