"""Thousands of calls with whatever comes to mind, on one connection: typed errors, and it works."""

from __future__ import annotations

import asyncio
import datetime as dt
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

import foldlog
from foldlog import ArtifactScope, FoldlogError
from foldlog.telemetry.stores import jetstream
from foldlog.testing.values import EXACT_VALUES, HOSTILE_IDS
from tests.support.build import binding, event, planner_event, steering, task, trajectory, update

SEED = 20_250_102
AT_ONCE = 100
PATIENCE = 300


class Angry:
    """An object whose every property raises."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no")

    def __repr__(self) -> str:
        raise RuntimeError("not even this")


class Fuzz:
    """Arguments from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self) -> str:
        r = self.random
        match r.randrange(5):
            case 0:
                return r.choice(HOSTILE_IDS)
            case 1:
                return "".join(chr(r.randrange(0x11_0000)) for _ in range(r.randrange(20)))
            case 2:
                return "".join(r.choice(".*> \r\n\0$=/\\é") for _ in range(r.randrange(30)))
            case 3:
                return r.choice("abc")
            case _:
                return "x" * r.choice((0, 1, 119, 120, 121, 5_000, 20_000))

    def value(self, depth: int = 3) -> Any:
        r = self.random
        match r.randrange(9 if depth else 6):
            case 0:
                return r.choice(EXACT_VALUES)
            case 1:
                return self.text()
            case 2:
                return r.choice(
                    (r.getrandbits(r.randrange(1, 300)), -r.getrandbits(70), r.random())
                )
            case 3:
                return r.choice((Angry(), object(), Angry, len, 1j, range(3), Decimal("sNaN")))
            case 4:
                return r.choice(
                    (None, True, b"\xff" * r.randrange(99), UUID(int=r.getrandbits(128)))
                )
            case 5:
                return r.choice((dt.datetime.max, dt.timedelta.max, dt.time.min, float("nan")))
            case 6:
                return [self.value(depth - 1) for _ in range(r.randrange(4))]
            case 7:
                return {self.key(): self.value(depth - 1) for _ in range(r.randrange(4))}
            case _:
                return tuple(self.value(depth - 1) for _ in range(r.randrange(3)))

    def key(self) -> Any:
        r = self.random
        return r.choice((self.text(), self.text(), r.randrange(9), None, 2.5, b"k", (1, "x")))

    def id(self) -> Any:
        return self.text() if self.random.random() < 0.8 else self.value(1)

    def replaced(self, given: Any, *fields: str) -> Any:
        """An object with some of its fields made something else, without asking its class."""
        for field in fields:
            if self.random.random() < 0.5:
                value = self.id() if field.endswith("_id") else self.value()
                object.__setattr__(given, field, value)
        return given


Call = Callable[[foldlog.Store, Fuzz], Awaitable[object]]

CALLS_OF: list[Call] = [
    lambda s, f: s.save_event(
        f.replaced(event(), "trace_id", "ts", "kind", "node_name", "payload")
    ),
    lambda s, f: s.save_events([f.replaced(event(), "trace_id", "payload") for _ in range(3)]),
    lambda s, f: s.save_events(f.value()),
    lambda s, f: s.save_planner_event(f.id(), f.value()),
    lambda s, f: s.load_history(f.id()),
    lambda s, f: s.save_planner_event(f.id(), f.replaced(planner_event(), "ts", "extra", "error")),
    lambda s, f: s.list_planner_events(f.id()),
    lambda s, f: s.save_remote_binding(
        f.replaced(binding(), "trace_id", "task_id", "context_id", "router_session_id", "metadata")
    ),
    lambda s, f: s.list_bindings(router_session_id=f.id()),
    lambda s, f: s.mark_binding_terminal(trace_id=f.id(), context_id=f.id(), task_id=f.id()),
    lambda s, f: s.save_planner_state(f.id(), f.value()),
    lambda s, f: s.load_planner_state(f.id()),
    lambda s, f: s.save_memory_state(f.id(), f.value()),
    lambda s, f: s.load_memory_state(f.id()),
    lambda s, f: s.save_task(
        f.replaced(task(), "session_id", "task_id", "status", "priority", "result", "updated_at")
    ),
    lambda s, f: s.save_task(f.value()),
    lambda s, f: s.list_tasks(f.id()),
    lambda s, f: s.save_update(
        f.replaced(update("u"), "session_id", "update_id", "task_id", "content", "created_at")
    ),
    lambda s, f: s.list_updates(f.id(), since_id=f.id(), limit=f.random.randrange(-3, 9)),
    lambda s, f: s.save_steering(
        f.replaced(steering("e"), "session_id", "event_id", "payload", "source")
    ),
    lambda s, f: s.list_steering(f.id()),
    lambda s, f: s.save_trajectory(f.id(), f.id(), f.replaced(trajectory(), "query", "steps")),
    lambda s, f: s.get_trajectory(f.id(), f.id()),
    lambda s, f: s.list_traces(f.id(), f.value(0)),
    lambda s, f: s.artifact_store.put_bytes(
        f.value(0), filename=f.id(), meta=f.value(), namespace=f.id()
    ),
    lambda s, f: s.artifact_store.put_text(
        f.text(), scope=f.replaced(ArtifactScope(), "session_id", "trace_id")
    ),
    lambda s, f: s.artifact_store.get(f.id()),
]


async def outcome(call: Call, store: foldlog.Store, fuzz: Fuzz) -> str:
    """How a call ended; anything but a result or an error of foldlog's is raised."""
    try:
        await call(store, fuzz)
    except FoldlogError as error:
        return type(error).__name__ if str(error) else "without a word"
    return "done"


async def storm(store: foldlog.Store, calls: int) -> Counter[str]:
    """Call at random, many at once; the store has to work afterwards."""
    fuzz = Fuzz(SEED)
    ended: Counter[str] = Counter()
    for _ in range(calls // AT_ONCE):
        # Each has a source of its own: in which order they run must not change what they are given.
        chosen = [
            outcome(fuzz.random.choice(CALLS_OF), store, Fuzz(fuzz.random.getrandbits(64)))
            for _ in range(AT_ONCE)
        ]
        ended.update(await asyncio.gather(*chosen))
    assert sum(ended.values()) == calls
    assert ended["without a word"] == 0
    await store.save_update(update("after", "a session of its own"))
    found = await store.list_updates("a session of its own", consistency="strong")
    assert [u.update_id for u in found] == ["after"]
    return ended


calls = pytest.mark.parametrize("calls", [1_000, pytest.param(10_000, marks=pytest.mark.long)])


@calls
@pytest.mark.parametrize("backend", ["memory"], indirect=True)
async def test_a_store_survives_odd_calls(store: foldlog.Store, calls: int) -> None:
    async with asyncio.timeout(PATIENCE):
        ended = await storm(store, calls)
    assert ended["done"] > calls / 10
    assert ended["InvalidId"] > calls / 100
    assert ended["PayloadError"] > calls / 100


@calls
@pytest.mark.parametrize("backend", ["embedded"], indirect=True)
async def test_a_connection_survives_odd_calls(store: foldlog.Store, calls: int) -> None:
    log = jetstream(store)
    assert log is not None
    async with asyncio.timeout(PATIENCE):
        ended = await storm(store, calls)
    assert ended["done"] > calls / 10
    assert not {"AppendUnknown", "LogUnavailable", "LogTimeout", "LogCorrupt"} & ended.keys()
    assert log.connection.reconnects == 0


@pytest.mark.parametrize("backend", ["embedded"], indirect=True)
async def test_a_connection_survives_odd_pushes_and_records(store: foldlog.Store) -> None:
    """What another program puts on a store's subjects is no record, and no end of the store."""
    log = jetstream(store)
    assert log is not None
    generator = random.Random(SEED)
    await store.save_update(update("u"))
    assert len(await store.list_updates("session")) == 1
    name = store._core.subject("updates", "session").name
    client = log.connection._client
    for _ in range(1_000):
        headers = {"Nats-Last-Sequence": str(generator.randrange(-5, 99))}
        if generator.random() < 0.5:
            headers |= {"Nats-Sequence": generator.choice(("1", "x", "-1", "9" * 30, ""))}
        await client.publish(f"live.{name}", generator.randbytes(99), headers=headers)
    await client.flush()
    assert len(await store.list_updates("session", consistency="strong")) == 1
    await store.save_update(update("v"))
    assert len(await store.list_updates("session")) == 2

    other = store._core.subject("updates", "other").name
    await log.connection.request(other, generator.randbytes(99), timeout=PATIENCE)  # until stored
    with pytest.raises(foldlog.LogCorrupt):
        await store.list_updates("other", consistency="strong")
    assert len(await store.list_updates("session", consistency="strong")) == 2
    assert log.connection.reconnects == 0
