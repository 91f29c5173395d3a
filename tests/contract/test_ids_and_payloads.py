"""Ids of any shape never collide; payloads come back exactly or are refused with their path."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

import foldlog
from foldlog.testing.values import EXACT_VALUES, HOSTILE_IDS, nested
from tests.conftest import OpenStore
from tests.support.build import binding, event, planner_event, steering, task, trajectory, update
from tests.support.exact import same
from tests.support.in_memory_first import in_memory_first
from tests.support.stores import appended

HOSTILE = list(HOSTILE_IDS)


async def test_hostile_sessions_never_collide(store: foldlog.Store, reopen: OpenStore) -> None:
    for n, id_ in enumerate(HOSTILE):
        await store.save_task(task("task", id_, priority=n))
        await store.save_update(update("u", id_, content=n))
        await store.save_steering(steering("e", id_, payload={"text": str(n)}))
    for reader in (store, await reopen()):
        for n, id_ in enumerate(HOSTILE):
            assert await reader.list_tasks(id_) == [task("task", id_, priority=n)]
            assert await reader.list_updates(id_) == [update("u", id_, content=n)]
            [event_] = await reader.list_steering(id_)
            assert event_ == steering("e", id_, payload={"text": str(n)})
        assert sorted(await reader.sessions()) == sorted(HOSTILE)


async def test_hostile_traces_never_collide(store: foldlog.Store, reopen: OpenStore) -> None:
    for n, id_ in enumerate(HOSTILE):
        await store.save_event(event(id_, float(n)))
        await store.save_planner_event(id_, planner_event(float(n)))
        await store.save_trajectory(id_, "session", trajectory(str(n)))
        await store.save_remote_binding(binding("task", trace_id=id_, agent_url=str(n)))
    for reader in (store, await reopen()):
        for n, id_ in enumerate(HOSTILE):
            assert await reader.load_history(id_) == [event(id_, float(n))]
            assert await reader.list_planner_events(id_) == [planner_event(float(n))]
            assert await reader.get_trajectory(id_, "session") == trajectory(str(n))
            [bound] = await reader.list_bindings(trace_id=id_)
            assert bound == binding("task", trace_id=id_, agent_url=str(n))
        assert await reader.list_traces("session", 1_000) == HOSTILE[::-1]


async def test_hostile_ids_inside_a_session_never_collide(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    for n, id_ in enumerate(HOSTILE):
        await store.save_task(task(id_, priority=n))
        await store.save_update(update(id_, task_id=id_))
        await store.save_steering(steering(id_, task_id=id_, payload={"text": "x"}))
        await store.save_remote_binding(binding(id_, context_id=id_, router_session_id=id_))
    for reader in (store, await reopen()):
        assert [t.task_id for t in await reader.list_tasks("session")] == HOSTILE
        assert [u.update_id for u in await reader.list_updates("session")] == HOSTILE
        assert [e.event_id for e in await reader.list_steering("session")] == HOSTILE
        for n, id_ in enumerate(HOSTILE):
            [mine] = await reader.list_updates("session", task_id=id_)
            assert mine.update_id == id_
            after = await reader.list_updates("session", since_id=id_)
            assert [u.update_id for u in after] == HOSTILE[n + 1 :]
            [routed] = await reader.list_bindings(router_session_id=id_)
            assert (routed.task_id, routed.context_id) == (id_, id_)


async def test_two_part_keys_are_not_glued_together(store: foldlog.Store) -> None:
    parts = [("a", "b.c"), ("a.b", "c"), ("a", "b"), ("a:b", "c"), ("a", "b:c"), ("b", "a")]
    for n, (session, trace) in enumerate(parts):
        await store.save_trajectory(trace, session, trajectory(str(n)))
        await store.save_update(update(trace, session, content=n))
    for n, (session, trace) in enumerate(parts):
        assert trace in await store.list_traces(session)
        contents = {u.update_id: u.content for u in await store.list_updates(session)}
        assert contents[trace] == n


async def test_clearing_a_hostile_session_clears_only_it(store: foldlog.Store) -> None:
    for id_ in HOSTILE:
        await store.save_update(update("u", id_))
    for n, id_ in enumerate(HOSTILE):
        await store.clear_session(id_)
        assert await store.list_updates(id_) == []
        if n % 16 == 0:
            assert sorted(await store.sessions()) == sorted(HOSTILE[n + 1 :])
    assert await store.sessions() == []


# --- refused ids --------------------------------------------------------------------------------

Call = Callable[[foldlog.Store, str], Awaitable[Any]]

WRITES: dict[str, Call] = {
    "event.trace_id": lambda s, x: s.save_event(event(x)),
    "events.trace_id": lambda s, x: s.save_events([event("good"), event(x)]),
    "binding.trace_id": lambda s, x: s.save_remote_binding(binding(trace_id=x)),
    "binding.task_id": lambda s, x: s.save_remote_binding(binding(x)),
    "token": lambda s, x: s.save_planner_state(x, {}),
    "key": lambda s, x: s.save_memory_state(x, {}),
    "task.session_id": lambda s, x: s.save_task(
        task("task", x, context_snapshot=task().context_snapshot)
    ),
    "task.task_id": lambda s, x: s.save_task(task(x, context_snapshot=task().context_snapshot)),
    "update.session_id": lambda s, x: s.save_update(
        update("u").model_copy(update={"session_id": x})
    ),
    "update.update_id": lambda s, x: s.save_update(update("u").model_copy(update={"update_id": x})),
    "update.task_id": lambda s, x: s.save_update(update("u").model_copy(update={"task_id": x})),
    "steering.session_id": lambda s, x: s.save_steering(
        steering("e").model_copy(update={"session_id": x})
    ),
    "steering.event_id": lambda s, x: s.save_steering(
        steering("e").model_copy(update={"event_id": x})
    ),
    "steering.task_id": lambda s, x: s.save_steering(
        steering("e").model_copy(update={"task_id": x})
    ),
    "trajectory.trace_id": lambda s, x: s.save_trajectory(x, "session", trajectory()),
    "trajectory.session_id": lambda s, x: s.save_trajectory("trace", x, trajectory()),
    "planner_event.trace_id": lambda s, x: s.save_planner_event(x, planner_event()),
    "clear_session": lambda s, x: s.clear_session(x),
    "terminal.trace_id": lambda s, x: s.mark_binding_terminal(
        trace_id=x, context_id=None, task_id="task"
    ),
}
READS: dict[str, Call] = {
    "load_history": lambda s, x: s.load_history(x),
    "list_trace_bindings": lambda s, x: s.list_bindings(trace_id=x),
    "list_bindings": lambda s, x: s.list_bindings(router_session_id=x),
    "load_planner_state": lambda s, x: s.load_planner_state(x),
    "load_memory_state": lambda s, x: s.load_memory_state(x),
    "list_tasks": lambda s, x: s.list_tasks(x),
    "list_updates": lambda s, x: s.list_updates(x),
    "list_steering": lambda s, x: s.list_steering(x),
    "get_trajectory": lambda s, x: s.get_trajectory(x, "session"),
    "get_trajectory.session": lambda s, x: s.get_trajectory("trace", x),
    "list_traces": lambda s, x: s.list_traces(x),
    "list_planner_events": lambda s, x: s.list_planner_events(x),
    "watch_updates": lambda s, x: anext(s.watch_updates(x)),
    "watch_steering": lambda s, x: anext(s.watch_steering(x)),
    "watch_events": lambda s, x: anext(s.watch_events(x)),
}


async def refusal(call: Awaitable[Any]) -> BaseException | None:
    [result] = await asyncio.gather(call, return_exceptions=True)
    return result if isinstance(result, BaseException) else None


@pytest.mark.parametrize(
    ("bad", "expected"),
    [("", foldlog.InvalidId), ("a\ud800b", foldlog.InvalidId | foldlog.PayloadError)],
    ids=["empty", "surrogate"],
)
async def test_a_bad_id_is_refused_and_nothing_is_appended(
    store: foldlog.Store, bad: str, expected: type[Exception]
) -> None:
    before = await appended(store)
    for name, write in WRITES.items():
        refused = await refusal(write(store, bad))
        assert isinstance(refused, expected), (name, refused)
        assert isinstance(refused, foldlog.FoldlogError), name
        assert await appended(store) == before, name
    assert await store.sessions() == []


@pytest.mark.parametrize("bad", ["", "a\ud800b"], ids=["empty", "surrogate"])
async def test_a_bad_id_is_refused_on_reading(store: foldlog.Store, bad: str) -> None:
    for name, read in READS.items():
        async with asyncio.timeout(10):
            refused = await refusal(read(store, bad))
        assert isinstance(refused, foldlog.InvalidId), (name, refused)


async def test_what_is_no_string_is_no_id(store: foldlog.Store) -> None:
    for wrong in (None, 42, b"trace", ["trace"]):
        with pytest.raises(foldlog.InvalidId):
            await store.load_history(wrong)
        with pytest.raises(foldlog.InvalidId):
            await store.save_memory_state(wrong, {})


# --- exact payloads -----------------------------------------------------------------------------


async def test_every_place_for_a_payload_is_exact(store: foldlog.Store, reopen: OpenStore) -> None:
    payload = {f"v{i}": nested(value) for i, value in enumerate(EXACT_VALUES)}
    snapshot = task().context_snapshot.model_copy(update={"tool_context": payload})
    await store.save_planner_state("token", payload)
    await store.save_memory_state("key", payload)
    await store.save_task(task(context_snapshot=snapshot, result=payload, progress=payload))
    await store.save_update(update("u", content=payload))
    await store.save_remote_binding(binding(metadata=payload))
    await store.save_planner_event("trace", planner_event(extra=payload))
    await store.save_trajectory("trace", "session", trajectory(metadata=payload))

    reader = await reopen()
    assert same(await reader.load_planner_state("token"), payload)
    assert same(await reader.load_memory_state("key"), payload)
    [loaded] = await reader.list_tasks("session")
    assert same(loaded.result, payload)
    assert same(loaded.progress, payload)
    assert same(loaded.context_snapshot.tool_context, payload)
    assert same((await reader.list_updates("session"))[0].content, payload)
    assert same((await reader.list_bindings(trace_id="trace"))[0].metadata, payload)
    assert same((await reader.list_planner_events("trace"))[0].extra, payload)
    found = await reader.get_trajectory("trace", "session")
    assert found is not None
    assert same(found.metadata, payload)


async def test_a_payload_of_megabytes_is_held(store: foldlog.Store, reopen: OpenStore) -> None:
    payload = {"text": "\U0001f427" * 500_000, "raw": bytes(2_000_000)}
    await store.save_event(event(payload=payload))
    [stored] = await (await reopen()).load_history("trace")
    assert stored.payload == payload


# --- refused payloads ---------------------------------------------------------------------------


def cyclic() -> dict[str, Any]:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    return loop


def bottomless() -> list[Any]:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    return deep


@pytest.fixture(
    params=["object", "socket", "function", "class", "surrogate", "surrogate key", "cycle", "depth"]
)
def bad_value(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A value that no log can hold."""
    with socket.socket() as opened:
        yield {
            "object": object(),
            "socket": opened,
            "function": len,
            "class": int,
            "surrogate": "a\udfffb",
            "surrogate key": {"a\udfffb": 1},
            "cycle": cyclic(),
            "depth": bottomless(),
        }[request.param]


PLACES: dict[str, Callable[[foldlog.Store, Any], Awaitable[None]]] = {
    "event": lambda s, bad: s.save_event(event(payload=bad)),
    "events": lambda s, bad: s.save_events([event(payload=bad)]),
    "binding": lambda s, bad: s.save_remote_binding(binding(metadata=bad)),
    "pause": lambda s, bad: s.save_planner_state("token", bad),
    "memory": lambda s, bad: s.save_memory_state("key", bad),
    "task": lambda s, bad: s.save_task(task(result=bad)),
    "update": lambda s, bad: s.save_update(update("u", content=bad)),
    "trajectory": lambda s, bad: s.save_trajectory("t", "session", trajectory(metadata=bad)),
    "planner event": lambda s, bad: s.save_planner_event("t", planner_event(extra=bad)),
}


@in_memory_first
async def test_what_cannot_be_held_is_refused_with_its_path(
    store: foldlog.Store, bad_value: Any
) -> None:
    before = await appended(store)
    payload = {"fine": 1, "outer": [0, {"inner": bad_value}]}
    for place, save in PLACES.items():
        refused = await refusal(save(store, payload))
        assert isinstance(refused, foldlog.PayloadError), (place, type(refused))
        assert "outer[1].inner" in refused.path, place
        assert await appended(store) == before, place
    assert await store.sessions() == []


async def test_a_key_that_cannot_be_held_is_refused_with_its_path(store: foldlog.Store) -> None:
    with pytest.raises(foldlog.PayloadError) as refused:
        await store.save_memory_state("key", {"outer": {frozenset({1}): "value"}})
    assert "outer" in refused.value.path
    assert await store.load_memory_state("key") is None


async def test_a_surrogate_in_a_text_field_is_refused_by_name(store: foldlog.Store) -> None:
    bad = "a\ud800b"
    before = await appended(store)
    for field in ("kind", "node_name", "node_id"):
        with pytest.raises(foldlog.FoldlogError, match=field):
            await store.save_event(event(**{field: bad}))
    with pytest.raises(foldlog.FoldlogError, match="agent_url"):
        await store.save_remote_binding(binding(agent_url=bad))
    with pytest.raises(foldlog.FoldlogError, match="description"):
        await store.save_task(task(description=bad))
    with pytest.raises(foldlog.FoldlogError, match="query"):
        await store.save_trajectory("trace", "session", trajectory(bad))
    with pytest.raises(foldlog.FoldlogError, match="thought"):
        await store.save_planner_event("trace", planner_event(thought=bad))
    assert await appended(store) == before


async def test_a_payload_over_the_limit_is_refused(store: foldlog.Store) -> None:
    limit = (await store.health()).max_payload
    before = await appended(store)
    with pytest.raises(foldlog.PayloadTooLarge) as refused:
        await store.save_event(event(payload={"raw": bytes(limit + 1)}))
    assert refused.value.size > limit
    assert refused.value.limit <= limit
    assert await appended(store) == before
    await store.save_event(event())
    assert await store.load_history("trace") == [event()]


async def test_one_payload_over_the_limit_does_not_harm_its_neighbours(
    store: foldlog.Store,
) -> None:
    limit = (await store.health()).max_payload
    results = await asyncio.gather(
        *(store.save_update(update(f"u{i}")) for i in range(10)),
        store.save_update(update("big", content=bytes(limit + 1))),
        *(store.save_update(update(f"v{i}")) for i in range(10)),
        return_exceptions=True,
    )
    refused = [result for result in results if result is not None]
    assert len(refused) == 1
    assert isinstance(refused[0], foldlog.PayloadTooLarge)
    assert len(await store.list_updates("session")) == 20
