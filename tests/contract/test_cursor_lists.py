"""`list_updates` and `list_steering` beyond `test_kit`: first saves stand, strong reads."""

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
    await feed.save(store, feed.build("a", task_id="first", created_at=MOMENT + timedelta(hours=1)))
    assert await feed.items(store) == [first, second]
    with pytest.raises(foldlog.IdTaken):
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
