"""The adapter itself: PenguiFlow's classes in and out, its life cycle, and its errors."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import threading
from pathlib import Path
from typing import Any

import pytest
from penguiflow.planner import PlannerEvent, Trajectory
from penguiflow.state import (
    InMemoryStateStore,
    RemoteBinding,
    StateStore,
    StateUpdate,
    SteeringEvent,
    SteeringEventType,
    StoredEvent,
    TaskContextSnapshot,
    TaskState,
    TaskStatus,
    TaskType,
    UpdateType,
    protocol as protocols,
)
from penguiflow.state.adapters import (
    list_planner_events_compat,
    list_updates_compat,
    save_planner_event_compat,
    save_update_compat,
)
from pydantic import BaseModel

import foldlog
from foldlog.integrations.penguiflow import PenguiFlowStateStore, create_store
from tests.integrations.penguiflow.conftest import OpenStore
from tests.integrations.penguiflow.kit import needs_conversations
from tests.support.workers import PATIENCE

NOWHERE = "nats://127.0.0.1:9"  # the discard port: nobody listens
CAPABILITIES = [name for name in protocols.__all__ if name.startswith("Supports")]


class Answer(BaseModel):
    text: str
    mood: UpdateType = UpdateType.RESULT


def task(task_id: str = "t", session_id: str = "s", **fields: Any) -> TaskState:
    snapshot = TaskContextSnapshot(
        session_id=session_id,
        task_id=task_id,
        query="why?",
        context_version=3,
        context_hash="abc",
        llm_context={"a": [1]},
        artifacts=[{"id": "x"}],
    )
    return TaskState(
        task_id=task_id,
        session_id=session_id,
        status=TaskStatus.RUNNING,
        task_type=TaskType.BACKGROUND,
        priority=5,
        context_snapshot=snapshot,
        **fields,
    )


def update(update_id: str = "u", **fields: Any) -> StateUpdate:
    return StateUpdate(
        **{
            "session_id": "s",
            "task_id": "t",
            "update_id": update_id,
            "update_type": UpdateType.PROGRESS,
            "content": {"n": 1},
        }
        | fields
    )


# --- PenguiFlow's classes -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["StateStore", *CAPABILITIES])
def test_it_has_every_capability(store: PenguiFlowStateStore, name: str) -> None:
    assert isinstance(store, getattr(protocols, name))


def test_session_stores_are_not_looked_for_behind_it(store: PenguiFlowStateStore) -> None:
    # PenguiFlow's tool jobs take a `_store` attribute for the store that an adapter of its own
    # wraps.
    assert not hasattr(store, "_store")


async def saved_and_read(store: Any) -> dict[str, Any]:
    """One of each kind, through any StateStore."""
    binding = RemoteBinding("trace", "context", "task", "http://agent")
    steering = SteeringEvent(
        session_id="s",
        task_id="t",
        event_id="e",
        event_type=SteeringEventType.REDIRECT,
        payload={"goal": "home"},
        created_at=MOMENT.created_at,
    )
    trajectory = Trajectory(
        query="q", llm_context={"x": 1}, tool_context={"y": 2}, hint_state={"z": (1, 2)}
    )
    await store.save_event(StoredEvent("trace", 2.0, "second", "n", "id", {"a": 1}))
    await store.save_event(StoredEvent("trace", 1.0, "first", None, None, {"b": {1, 2}}))
    await store.save_remote_binding(binding)
    await store.save_planner_state("token", {"trajectory": {"steps": []}, "tool_context": None})
    await store.save_memory_state("key", {"turns": [], "at": (1, 2)})
    await store.save_task(MOMENT_TASK)
    await store.save_update(MOMENT)
    await store.save_steering(steering)
    await store.save_trajectory("trace", "s", trajectory)
    await store.save_planner_event("trace", PlannerEvent("finish", 1.5, 2, extra={"k": [1]}))
    return {
        "history": await store.load_history("trace"),
        "planner_state": await store.load_planner_state("token"),
        "planner_state_again": await store.load_planner_state("token"),
        "memory": await store.load_memory_state("key"),
        "tasks": await store.list_tasks("s"),
        "updates": await store.list_updates("s"),
        "steering": await store.list_steering("s"),
        "trajectory": await store.get_trajectory("trace", "s"),
        "of_another_session": await store.get_trajectory("trace", "other"),
        "traces": await store.list_traces("s"),
        "planner_events": await store.list_planner_events("trace"),
        "nothing": [
            *await store.load_history("none"),
            *await store.list_tasks("none"),
            *await store.list_updates("none"),
            *await store.list_steering("none"),
            *await store.list_traces("none"),
            *await store.list_planner_events("none"),
        ],
    }


MOMENT = update()
MOMENT_TASK = task(result={"ok": True}, progress={"done": 0.5}, description="d", trace_id="trace")


async def test_it_gives_back_what_penguiflows_own_store_does(store: PenguiFlowStateStore) -> None:
    assert await saved_and_read(store) == await saved_and_read(InMemoryStateStore())
    [kept] = await store.list_tasks("s")
    assert type(kept) is TaskState
    assert type(kept.status) is TaskStatus
    assert type(kept.context_snapshot) is TaskContextSnapshot
    assert type((await store.list_updates("s"))[0].update_type) is UpdateType


async def test_models_in_payloads_come_back_as_data(store: PenguiFlowStateStore) -> None:
    await store.save_task(task(result=Answer(text="42"), progress={"of": Answer(text="1")}))
    await store.save_update(update(content=[Answer(text="43"), {"type": UpdateType.ERROR}]))
    await store.save_planner_event(
        "trace", PlannerEvent("x", 1.0, 0, extra={"answer": Answer(text="44")})
    )
    [kept] = await store.list_tasks("s")
    assert kept.result == {"text": "42", "mood": "RESULT"}
    assert kept.progress == {"of": {"text": "1", "mood": "RESULT"}}
    [told] = await store.list_updates("s")
    assert told.content == [{"text": "43", "mood": "RESULT"}, {"type": "ERROR"}]
    [event] = await store.list_planner_events("trace")
    assert event.extra == {"answer": {"text": "44", "mood": "RESULT"}}


async def test_nothing_is_shared_with_the_caller(store: PenguiFlowStateStore) -> None:
    state = task(result={"list": [1]})
    saving = asyncio.create_task(store.save_task(state))
    await asyncio.gather(store.load_memory_state("any"))  # begun after the save
    state.status = TaskStatus.FAILED
    state.result["list"].append(2)
    await saving
    for _ in range(2):
        [kept] = await store.list_tasks("s")
        assert (kept.status, kept.result) == (TaskStatus.RUNNING, {"list": [1]})
        kept.result["list"].append(3)
        kept.context_snapshot.llm_context["a"].append(4)


async def test_the_older_names_work(store: PenguiFlowStateStore) -> None:
    event = PlannerEvent("step_start", 1.0, 0)
    await save_planner_event_compat(store, "trace", event)
    await store.save_event("older", event)
    assert await list_planner_events_compat(store, "trace") == [event]
    assert await store.get_events("older") == [event]
    await save_update_compat(store, update("u1"))
    await store.save_task_update(update("u2"))
    assert [u.update_id for u in await list_updates_compat(store, "s")] == ["u1", "u2"]
    assert [u.update_id for u in await store.list_task_updates("s", since_id="u1")] == ["u2"]


async def test_saving_again_changes_nothing(open_store: OpenStore) -> None:
    for store in (open_store(), open_store()):
        await store.save_event(StoredEvent("trace", 1.0, "k", None, None, {"a": 1}))
        await store.save_update(update())
    assert len(await store.load_history("trace")) == 1
    assert len(await store.list_updates("s")) == 1


@needs_conversations
async def test_conversation_bindings_lead_back_to_their_task(open_store: OpenStore) -> None:
    binding = RemoteBinding(
        "trace",
        "context",
        "task",
        "http://agent",
        router_session_id="router",
        remote_skill="echo",
        tenant_id="acme",
        metadata={"source": "test"},
    )
    store = open_store()
    await store.save_remote_binding(binding)
    route = {"router_session_id": "router", "agent_url": "http://agent", "remote_skill": "echo"}
    assert await open_store().find_binding(**route, tenant_id="acme") == binding
    assert await store.find_binding(**route) is None
    await store.mark_binding_terminal(trace_id="trace", context_id="context", task_id="task")
    assert await store.find_binding(**route, tenant_id="acme") is None
    ended = dataclasses.replace(binding, is_terminal=True)
    assert await open_store().list_bindings(router_session_id="router") == [ended]


# --- connecting ---------------------------------------------------------------------------------


async def test_nothing_connects_before_the_first_call(tmp_path: Path) -> None:
    async with PenguiFlowStateStore(path=tmp_path / "data"):
        pass
    assert not (tmp_path / "data").exists()


async def test_concurrent_first_calls_share_one_connection(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = 0
    connecting = foldlog.Connecting.open_or_spool

    def counted(self: Any) -> Any:
        nonlocal opened
        opened += 1
        return connecting(self)

    monkeypatch.setattr(foldlog.Connecting, "open_or_spool", counted)
    store = open_store()
    ids = [f"u{n:02}" for n in range(50)]
    await asyncio.gather(*(store.save_update(update(id_)) for id_ in ids))
    assert opened == 1
    assert [u.update_id for u in await store.list_updates("s")] == ids  # in the order of the calls


async def test_a_first_caller_who_gives_up_does_not_take_the_others_along(
    store: PenguiFlowStateStore,
) -> None:
    first = asyncio.create_task(store.list_tasks("s"))
    second = asyncio.create_task(store.list_tasks("s"))
    await asyncio.gather(asyncio.create_task(cancelled(first)))
    assert await second == []
    with pytest.raises(asyncio.CancelledError):
        await first


async def cancelled(task_: asyncio.Task[Any]) -> None:
    task_.cancel()


async def test_a_connection_for_which_only_reads_wait_is_given_up_by_closing() -> None:
    store = PenguiFlowStateStore(NOWHERE, timeout=10 * PATIENCE, on_error="raise")
    listing = asyncio.create_task(store.list_tasks("s"))
    async with asyncio.timeout(PATIENCE):
        await store.close()
    with pytest.raises(foldlog.StoreClosed):
        await listing


def test_every_event_loop_and_thread_may_call(store: PenguiFlowStateStore) -> None:
    asyncio.run(store.save_update(update("u1")))
    thread = threading.Thread(target=lambda: asyncio.run(store.save_update(update("u2"))))
    thread.start()
    thread.join()
    assert [u.update_id for u in asyncio.run(store.list_updates("s"))] == ["u1", "u2"]


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "foldlog-penguiflow"}


def test_its_thread_ends_with_it(store: PenguiFlowStateStore) -> None:
    before = threads()
    asyncio.run(store.list_tasks("s"))
    [thread] = threads() - before
    asyncio.run(store.close())
    assert not thread.is_alive()


async def test_one_that_nobody_closes_ends_when_nobody_has_it(
    embedded_path: Path, namespace: str
) -> None:
    before = threads()
    artifacts = PenguiFlowStateStore(path=embedded_path, namespace=namespace).artifact_store
    gc.collect()
    ref = await artifacts.put_text("kept")
    [thread] = threads() - before
    gc.collect()
    assert await artifacts.get(ref.id) == b"kept"
    del artifacts
    gc.collect()
    await asyncio.to_thread(thread.join, PATIENCE)
    assert not thread.is_alive()


async def test_a_closed_store_says_so(store: PenguiFlowStateStore) -> None:
    await store.save_update(update())
    await store.close()
    await store.close()
    with pytest.raises(foldlog.StoreClosed):
        await store.list_updates("s")


async def test_closing_lets_what_was_begun_end(open_store: OpenStore) -> None:
    store = open_store()
    saves = [asyncio.create_task(store.save_update(update(f"u{n}"))) for n in range(9)]
    await store.close()
    assert len(await open_store().list_updates("s")) == 9
    await asyncio.gather(*saves)


async def test_closing_tells_what_goes_wrong(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing = foldlog.Store.close

    async def failing(self: foldlog.Store) -> None:
        await closing(self)
        raise foldlog.LogTimeout("stopping", 1.0)

    store = open_store()
    await store.list_tasks("s")
    monkeypatch.setattr(foldlog.Store, "close", failing)
    with pytest.raises(foldlog.LogTimeout):
        await store.close()
    await store.close()


async def test_a_cancelled_save_is_saved(store: PenguiFlowStateStore) -> None:
    await store.list_updates("s")
    saving = asyncio.create_task(store.save_update(update()))
    cancelling = asyncio.create_task(cancelled(saving))
    listing = asyncio.create_task(store.list_updates("s"))
    await cancelling
    assert [u.update_id for u in await listing] == ["u"]
    with pytest.raises(asyncio.CancelledError):
        await saving


async def test_a_read_sees_the_saves_that_nobody_awaits(store: PenguiFlowStateStore) -> None:
    saves = [asyncio.create_task(store.save_update(update(f"u{n}"))) for n in range(9)]
    [listed] = await asyncio.gather(store.list_updates("s"))
    assert [u.update_id for u in listed] == [f"u{n}" for n in range(9)]
    await asyncio.gather(*saves)


async def test_an_open_store_can_be_given(embedded_path: Path, namespace: str) -> None:
    async with foldlog.connect(path=embedded_path, namespace=namespace) as given:
        async with PenguiFlowStateStore(given, on_error="raise") as store:
            await store.save_update(update())
            assert [u.update_id for u in await store.list_updates("s")] == ["u"]
            await store.clear()
        assert await given.list_updates("s") == []  # still open
        with pytest.raises(foldlog.StoreClosed):
            await store.list_updates("s")


# --- clearing -----------------------------------------------------------------------------------


async def test_clearing_needs_no_await(store: PenguiFlowStateStore) -> None:
    await store.save_task(task())
    await store.save_task(task(session_id="other"))
    await store.save_trajectory("trace", "s", Trajectory(query="q"))
    store.clear_session("s")
    assert await store.list_tasks("s") == []
    assert await store.get_trajectory("trace", "s") is None
    assert len(await store.list_tasks("other")) == 1
    store.clear()
    assert await store.list_tasks("other") == []


async def test_clearing_can_be_awaited(store: PenguiFlowStateStore) -> None:
    await store.save_task(task())
    await store.clear_session("s")
    assert await store.list_tasks("s") == []
    await store.save_task(task(description="anew"))
    await store.clear()
    assert await store.list_tasks("s") == []


# --- options ------------------------------------------------------------------------------------


def test_connecting_tells_even_where_it_degrades() -> None:
    with pytest.raises(foldlog.LogUnavailable):
        create_store(source=NOWHERE, timeout=0.2)


async def test_a_factory_takes_its_log_from_the_environment(
    embedded_path: Path, namespace: str, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await open_store().save_update(update())
    monkeypatch.delenv("FOLDLOG_URL", raising=False)
    monkeypatch.setenv("FOLDLOG_PATH", str(embedded_path))
    async with create_store(namespace=namespace) as store:
        assert isinstance(store, StateStore)
        assert len(await store.list_updates("s")) == 1


@pytest.mark.parametrize(
    "options", [{"on_error": "ignore"}, {"shards": 0}, {"path": "x", "source": "nats://y"}]
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(foldlog.ConfigurationError):
        create_store(**options)


async def test_an_open_store_takes_no_options() -> None:
    async with foldlog.memory_store() as given:
        with pytest.raises(foldlog.ConfigurationError):
            PenguiFlowStateStore(given, namespace="other")
