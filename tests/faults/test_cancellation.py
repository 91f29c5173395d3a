"""A caller that is cancelled, at each await there is: nothing leaks, and nothing is forgotten."""

from __future__ import annotations

import asyncio
import functools
import itertools
import random
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest

import foldlog
from foldlog.log.embedded import EmbeddedServer
from foldlog.log.jetstream import JetStreamLog
from foldlog.store.core import Backend
from foldlog.store.options import Options
from tests.faults.simulation import clock
from tests.faults.simulation.faults import Faults
from tests.faults.simulation.stream import Stream
from tests.faults.simulation.wire import WiredLog
from tests.faults.stepping import cancelled_at
from tests.support.beside import MemoryBlobs
from tests.support.build import event, steering, task, update
from tests.support.stores import fresh_namespace

Call = Callable[[foldlog.Store], Coroutine[Any, Any, Any]]


async def save_block(store: foldlog.Store) -> None:
    async with store.atomic():
        await store.save_update(update("mine"))
        await store.save_steering(steering("mine"))


async def first_of_watch(store: foldlog.Store) -> None:
    async with aclosing(cast(Any, store.watch_updates("session"))) as watched:
        await anext(watched)


CALLS: dict[str, Call] = {
    "save": lambda store: store.save_update(update("mine")),
    "save_events": lambda store: store.save_events([event("mine"), event("other")]),
    "atomic": save_block,
    "cold read": lambda store: store.list_steering("session"),
    "strong read": lambda store: store.list_updates("session", consistency="strong"),
    "resume": lambda store: store.load_planner_state("token"),
    "save_task": lambda store: store.save_task(task("mine")),
    "bindings": lambda store: store.list_bindings(router_session_id="router"),
    "watch": first_of_watch,
    "clear_session": lambda store: store.clear_session("session"),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("lost_ack", [False, True])
def test_a_call_cancelled_at_any_await_leaves_nothing_behind(call: str, lost_ack: bool) -> None:
    for nth in itertools.count(1):
        life = functools.partial(_one_life, call=CALLS[call], nth=nth, lost_ack=lost_ack)
        if not clock.run(life):
            assert nth > 1
            return


async def _one_life(loop: clock.VirtualLoop, call: Call, nth: int, *, lost_ack: bool) -> bool:
    """Cancel the call at its nth await; return whether it has that many."""
    rng = random.Random(nth)
    log = WiredLog(Stream(rng, lag=0.1), rng, Faults())
    store = foldlog.Store(Backend(log, MemoryBlobs()), Options())
    await store.save_planner_state("token", {"n": 1})
    await store.save_update(update("before"))
    await store.list_updates("session")  # hot from now on
    log.faults = Faults(lost_ack=1.0 if lost_ack else 0.0, dropped=1.0)
    loop.call_later(60, log.heal)  # a watcher waits that long
    try:
        came = await cancelled_at(call(store), nth)
    except foldlog.AppendUnknown:
        came = False  # all acks are lost, and it was not cancelled before it knew
    except foldlog.LogUnavailable:
        came = False
    # It is over for its caller: what the store sends for it is settled within its time.
    log.heal()
    await asyncio.sleep(11)
    told = [item.update_id for item in await store.list_updates("session")]
    stored = [item.update_id for item in await store.list_updates("session", consistency="strong")]
    assert told == stored, "what was committed is not known"
    await store.save_update(update("after"))
    assert log.wire.asked == 0
    assert log.pending_bytes == 0
    await store.close()
    assert log.following == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert loop.problems == []
    return came


@pytest.mark.parametrize("call", ["save", "resume", "cold read", "atomic"])
async def test_the_same_on_a_server(call: str, embedded_path: Path) -> None:
    server = await EmbeddedServer.join(embedded_path)
    options = {"user": server.user, "password": server.password}
    try:
        for nth in itertools.count(1):
            log = await JetStreamLog.open(server.url, fresh_namespace(), options=options)
            store = foldlog.Store(Backend(log, MemoryBlobs()), Options())
            await store.save_planner_state("token", {"n": 1})
            tasks = asyncio.all_tasks()
            came = await cancelled_at(CALLS[call](store), nth)
            await store.save_update(update("after"))  # in its turn, behind whatever was cancelled
            new = asyncio.all_tasks() - tasks
            assert {task.get_name() for task in new} <= {"foldlog-appender"}
            assert log.connection._waiting == {}
            assert log.pending_bytes == 0
            await store.close()
            if not came:
                assert nth > 1
                return
    finally:
        await server.leave()
