"""A store belongs to the event loop in which it was connected; on another it says so at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog.scoped import Scope
from tests.support.build import event, task, update
from tests.support.workers import PATIENCE

SCOPE = Scope.session("session")


async def first_watched(store: foldlog.Store) -> Any:
    watched: AsyncIterator[Any] = store.watch_updates("session")
    return await anext(watched)


async def in_a_block(store: foldlog.Store) -> None:
    async with store.atomic():
        await store.save_update(update("2"))


CALLS: dict[str, Callable[[foldlog.Store], Awaitable[Any]]] = {
    "save": lambda store: store.save_update(update("2")),
    "save again": lambda store: store.save_update(update("1")),
    "save an event": lambda store: store.save_event(event()),
    "save a task": lambda store: store.save_task(task()),
    "bulk": lambda store: store.save_events([event()]),
    "atomic": in_a_block,
    "read what is hot": lambda store: store.list_updates("session"),
    "read what is cold": lambda store: store.load_history("trace"),
    "resume": lambda store: store.load_planner_state("token"),
    "watch": first_watched,
    "write a scoped key": lambda store: store.scoped.write(SCOPE, "k", 1),
    "read a scoped key": lambda store: store.scoped.read(SCOPE, "k"),
    "search": lambda store: store.scoped.search(SCOPE, "k", 1),
    "artifact": lambda store: store.artifact_store.put_bytes(b"x"),
    "health": lambda store: store.health(),
    "sessions": lambda store: store.sessions(),
    "rebuild": lambda store: store.rebuild(),
    "clear": lambda store: store.clear(store.log.namespace.name),
    "clear a session": lambda store: store.clear_session("session"),
    "close": lambda store: store.close(),
}


async def opened(path: Path) -> foldlog.Store:
    return await foldlog.connect(path=path)


async def called(call: Callable[[foldlog.Store], Awaitable[Any]], store: foldlog.Store) -> Any:
    async with asyncio.timeout(PATIENCE):  # on a loop that nobody turns, it would wait for ever
        return await call(store)


def test_every_call_from_another_event_loop_is_refused(tmp_path: Path) -> None:
    with asyncio.Runner() as own, asyncio.Runner() as other:
        store = own.run(opened(tmp_path / "data"))
        try:
            own.run(store.save_update(update("1")))
            own.run(store.list_updates("session"))
            for call in CALLS.values():
                with pytest.raises(foldlog.Misuse, match="one store per event loop"):
                    other.run(called(call, store))
            # Nothing of it has harmed the store.
            assert own.run(store.list_updates("session", consistency="strong")) == [update("1")]
        finally:
            own.run(store.close())


def test_a_memory_store_serves_any_event_loop() -> None:
    store = foldlog.memory_store()
    asyncio.run(store.save_update(update("1")))
    assert asyncio.run(store.list_updates("session")) == [update("1")]
    asyncio.run(store.close())
