"""What a program outside writes: mypy --strict and pyright check it, nothing runs it."""

from __future__ import annotations

from typing import assert_type

import msgspec

import foldlog
from foldlog import blocking, runs, scoped, sessions


class Cost(msgspec.Struct):
    """A record of the program's own kind."""

    euros: float


costs = foldlog.Kind("costs", keys=("trip",), records={"cost.added": Cost}, fold=foldlog.every)


async def search(city: str) -> list[str]:
    """A step."""
    return [city]


async def rest() -> None:
    """A step without a result."""


async def main() -> None:
    """Use each part of the public surface once."""
    async with foldlog.connect("nats://localhost:4222", kinds=[costs]) as store:
        assert_type(store, foldlog.Store)
        update = foldlog.StateUpdate(
            session_id="trip",
            task_id="book",
            update_id="1",
            update_type=foldlog.UpdateType.PROGRESS,
            content={"percent": 10},
        )
        await store.save_update(update)
        assert_type(await store.list_updates("trip"), list[foldlog.StateUpdate])
        async for each in store.watch_updates("trip"):
            assert_type(each, foldlog.StateUpdate)
        assert_type(await store.load_history("trace"), list[foldlog.StoredEvent])
        await store.append(costs("trip"), Cost(3.5))
        assert_type(await store.items(costs("trip")), list[foldlog.Item])
        assert_type(await store.health(), foldlog.Health)
        async with store.session("trip") as session:
            assert_type(session, sessions.Session)
        async with store.at("an-id") as past:
            assert_type(past, foldlog.Past)
        async with store.run("run") as run:
            assert_type(run, runs.Run)
            assert_type(await run.step("search", search, "Oslo"), list[str])
            assert_type(await run.step("count", len, "Oslo"), int)
            await run.step("rest", rest)
        revision = await store.scoped.entry(scoped.Scope.session("trip"), "key")
        assert_type(revision, scoped.Revision | None)


def block() -> None:
    """The same from a program that blocks."""
    with blocking.connect(path="data") as store:
        assert_type(store, blocking.BlockingStore)
        store.list_updates("trip")
