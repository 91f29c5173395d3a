"""A flow writes its own history: every node's start and end, retries, cancellation."""

from __future__ import annotations

import asyncio
from typing import Any

from penguiflow import Headers, Message, Node, NodePolicy, create
from penguiflow.metrics import FlowEvent
from penguiflow.state import StoredEvent

from foldlog.integrations.penguiflow import PenguiFlowStateStore
from tests.integrations.penguiflow.conftest import OpenStore


def message(payload: Any, trace_id: str) -> Message:
    return Message(payload=payload, headers=Headers(tenant="acme"), trace_id=trace_id)


async def history(store: PenguiFlowStateStore, trace_id: str) -> list[tuple[str, str | None]]:
    return [(event.kind, event.node_name) for event in await store.load_history(trace_id)]


async def test_a_flow_leaves_its_history(open_store: OpenStore) -> None:
    async def shout(said: Message, _: Any) -> Message:
        return said.model_copy(update={"payload": said.payload.upper()})

    async def mark(said: Message, _: Any) -> Message:
        return said.model_copy(update={"payload": said.payload + "!"})

    store = open_store()
    first = Node(shout, name="shout", policy=NodePolicy(validate="none"))
    second = Node(mark, name="mark", policy=NodePolicy(validate="none"))
    flow = create(first.to(second), second.to(), state_store=store)
    flow.run()
    await flow.emit(message("hello", "t1"))
    assert (await flow.fetch()).payload == "HELLO!"
    await flow.stop()

    expected = [
        ("node_start", "shout"),
        ("node_success", "shout"),
        ("node_start", "mark"),
        ("node_success", "mark"),
    ]
    assert await history(store, "t1") == expected
    # Another store on the same data, as after a restart.
    events = await open_store().load_history("t1")
    assert [(event.kind, event.node_name) for event in events] == expected
    assert {type(event) for event in events} == {StoredEvent}
    assert all(event.payload["trace_id"] == "t1" for event in events)
    assert [event.ts for event in events] == sorted(event.ts for event in events)


async def test_retries_are_part_of_it(store: PenguiFlowStateStore) -> None:
    attempts = 0

    async def flaky(said: Message, _: Any) -> Message:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise RuntimeError("not yet")
        return said

    policy = NodePolicy(validate="none", max_retries=3, backoff_base=0.0)
    flow = create(Node(flaky, name="flaky", policy=policy).to(), state_store=store)
    flow.run()
    await flow.emit(message("go", "t1"))
    await flow.fetch()
    await flow.stop()
    kinds = [kind for kind, _ in await history(store, "t1")]
    assert kinds.count("node_start") == 3
    assert kinds.count("node_error") == 2
    assert kinds.count("node_retry") == 2
    assert kinds[-1] == "node_success"


async def test_cancellation_is_part_of_it(store: PenguiFlowStateStore) -> None:
    running, finished = asyncio.Event(), asyncio.Event()

    async def wait(said: Message, _: Any) -> Message:
        running.set()
        await asyncio.Event().wait()
        return said

    async def watch(event: FlowEvent) -> None:
        if event.event_type == "trace_cancel_finish":
            finished.set()

    flow = create(
        Node(wait, name="wait", policy=NodePolicy(validate="none")).to(), state_store=store
    )
    flow.add_middleware(watch)
    flow.run()
    await flow.emit(message("go", "t1"))
    await running.wait()
    assert await flow.cancel("t1") is True
    await finished.wait()
    await flow.stop()
    assert await history(store, "t1") == [
        ("node_start", "wait"),
        ("trace_cancel_start", "OpenSea"),
        ("node_trace_cancelled", "wait"),
        ("trace_cancel_finish", "Rookery"),
    ]
    # What a stopped flow was about to say belongs to no trace.
    assert ("node_cancelled", "wait") in await history(store, "__global__")


async def test_events_without_a_trace_are_read_as_global(store: PenguiFlowStateStore) -> None:
    event = StoredEvent(None, 1.0, "started", None, None, {"at": "noon"})
    await store.save_event(event)
    assert await store.load_history("__global__") == [event]
