"""What callers and operators see of a call that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from types import FunctionType
from typing import Any, Literal, cast

import pytest
from penguiflow.artifacts import ArtifactScope
from penguiflow.planner import PlannerEvent
from penguiflow.state import StateUpdate, SteeringEvent, SteeringEventType, StoredEvent, UpdateType
from pydantic import BaseModel, computed_field

import foldlog
from foldlog import errors
from foldlog.integrations.penguiflow import PenguiFlowStateStore
from tests.integrations.penguiflow.conftest import OpenStore
from tests.support.server import LocalServer
from tests.support.workers import PATIENCE

NOWHERE = "nats://127.0.0.1:9"  # the discard port: nobody listens
EVENT = StoredEvent("trace", 1.0, "k", None, None, {})

OnError = Literal["raise", "degrade"]
either = pytest.mark.parametrize("on_error", ["raise", "degrade"])


def nowhere(on_error: OnError = "degrade") -> PenguiFlowStateStore:
    return PenguiFlowStateStore(NOWHERE, timeout=0.2, on_error=on_error)


def structured(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The structured lines that were logged, but for that of a log that is away at first."""
    lines = [record.__dict__ for record in caplog.records if hasattr(record, "event")]
    return [line for line in lines if line["event"] != "statestore_connect_failed"]


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, str | None, str]]:
    """The fields of those lines."""
    fields = ("event", "method", "trace_id", "exception")
    return [tuple(line[field] for field in fields) for line in structured(caplog)]


def away(on_error: OnError = "degrade") -> dict[str, int]:
    """What a store counts for a log that is away when it is opened."""
    return {"connect": 1} if on_error == "degrade" else {}


SAVE_EVENTS = {"raise": "statestore_save_failed", "degrade": "statestore_save_spooled"}
"""What becomes of a save for which the log is away."""


def update(**fields: Any) -> StateUpdate:
    values = {"session_id": "s", "task_id": "t", "update_type": UpdateType.PROGRESS, "content": {}}
    return StateUpdate(**(values | fields))


def files(spool: Path) -> list[Path]:
    return list(spool.iterdir())


async def cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()


# --- degrading ----------------------------------------------------------------------------------


async def test_it_degrades_by_default(caplog: pytest.LogCaptureFixture) -> None:
    async with PenguiFlowStateStore(NOWHERE, timeout=0.2) as store:
        await store.save_event(EVENT)
        assert await store.load_history("trace") == []
        assert await store.load_memory_state("key") is None
        assert await store.artifact_store.get("art_1") is None
        assert await store.artifact_store.exists("art_1") is False
        with pytest.raises(foldlog.LogUnavailable):
            await store.artifact_store.put_bytes(b"kept nowhere")
        assert store.degraded == away() | {
            "save_event": 1,
            "load_history": 1,
            "load_memory_state": 1,
            "get": 1,
            "exists": 1,
        }
    assert [each[:3] for each in logged(caplog)] == [
        ("statestore_save_spooled", "save_event", "trace"),
        ("statestore_load_failed", "load_history", "trace"),
        ("statestore_load_failed", "load_memory_state", None),
        ("statestore_load_failed", "get", None),
        ("statestore_load_failed", "exists", None),
    ]
    for line in structured(caplog):
        assert line["message"] == line["event"]
        assert line["exception"].startswith("LogUnavailable(")


async def test_a_bad_id_degrades_too(open_store: OpenStore) -> None:
    store = open_store(on_error="degrade")
    assert await store.list_tasks("") == []
    await store.save_update(update(session_id=""))
    assert store.degraded == {"list_tasks": 1, "save_update": 1}


async def test_what_was_counted_is_there_after_closing(open_store: OpenStore) -> None:
    # By the store itself, by the adapter that does not reach it, and by the one that is closed.
    store, none = open_store(on_error="degrade"), nowhere()
    assert await store.list_tasks("") == []
    assert await none.list_tasks("s") == []
    for each, before in ((store, {}), (none, away())):
        await each.close()
        assert each.degraded == before | {"list_tasks": 1}
        await each.save_event(EVENT)
        assert each.degraded == before | {"list_tasks": 1, "save_event": 1}


async def test_what_is_saved_before_there_is_a_server_is_there_when_it_comes(
    tmp_path: Path, own_spool: Path
) -> None:
    async with LocalServer(tmp_path / "server") as server:
        await server.kill()
        async with PenguiFlowStateStore(server.url, timeout=1) as store:
            await asyncio.gather(
                *(store.save_update(update(update_id=f"{n}")) for n in range(5)),
            )
            assert await store.list_updates("s") == []
            assert len(files(own_spool)) == 1
            await server.start()
            await arrived(server, 5)  # by itself: nobody calls
            async with asyncio.timeout(PATIENCE):
                while files(own_spool):  # noqa: ASYNC110 - the store is on another thread
                    await asyncio.sleep(0.01)
            await store.save_update(update(update_id="5"))
            found = [u.update_id for u in await store.list_updates("s")]
            assert found == [f"{n}" for n in range(6)]
            assert files(own_spool) == []
            assert store.degraded == away() | {"save_update": 5, "list_updates": 1}


async def arrived(server: LocalServer, count: int) -> None:
    """Until so many updates are in the log."""
    async with (
        asyncio.timeout(PATIENCE),
        foldlog.connect(server.url) as other,
        aclosing(cast(Any, other.watch_updates("s"))) as watched,
    ):
        for _ in range(count):
            await anext(watched)


async def test_what_a_process_saved_without_a_server_is_there_for_the_next(
    tmp_path: Path, own_spool: Path
) -> None:
    async with LocalServer(tmp_path / "server") as server:
        await server.kill()
        async with PenguiFlowStateStore(server.url, timeout=1) as store:
            await store.save_event(EVENT)
        await server.start()
        async with PenguiFlowStateStore(server.url) as store:
            assert await store.load_history("trace") == [EVENT]
            assert files(own_spool) == []


async def test_it_raises_typed_errors_where_asked_to(caplog: pytest.LogCaptureFixture) -> None:
    async with nowhere("raise") as store:
        for _ in range(2):
            with pytest.raises(foldlog.LogUnavailable):
                await store.load_history("trace")
        with pytest.raises(foldlog.LogUnavailable):
            await store.save_event(EVENT)
        assert store.degraded == {}
    assert not caplog.records


Method = Callable[[PenguiFlowStateStore], Awaitable[Any]]
DEFAULTS: dict[str, tuple[Method, Any]] = {
    "save_event": (lambda store: store.save_event(EVENT), None),
    "load_history": (lambda store: store.load_history("trace"), []),
    "find_binding": (
        lambda store: store.find_binding(router_session_id="s", agent_url="u", remote_skill="k"),
        None,
    ),
    "list_bindings": (lambda store: store.list_bindings(router_session_id="s"), []),
    "mark_binding_terminal": (
        lambda store: store.mark_binding_terminal(trace_id="t", context_id="c", task_id="t"),
        None,
    ),
    "save_planner_state": (lambda store: store.save_planner_state("token", {}), None),
    "load_planner_state": (lambda store: store.load_planner_state("token"), None),
    "save_memory_state": (lambda store: store.save_memory_state("key", {}), None),
    "load_memory_state": (lambda store: store.load_memory_state("key"), None),
    "list_tasks": (lambda store: store.list_tasks("s"), []),
    "save_update": (lambda store: store.save_update(update()), None),
    "list_updates": (lambda store: store.list_updates("s"), []),
    "list_steering": (lambda store: store.list_steering("s"), []),
    "get_trajectory": (lambda store: store.get_trajectory("trace", "s"), None),
    "list_traces": (lambda store: store.list_traces("s"), []),
    "save_planner_event": (
        lambda store: store.save_planner_event("trace", PlannerEvent("x", 1.0, 0)),
        None,
    ),
    "list_planner_events": (lambda store: store.list_planner_events("trace"), []),
    "clear_session": (lambda store: store.clear_session("s"), None),
    "clear": (lambda store: store.clear(), None),
}
OF_ARTIFACTS: dict[str, tuple[Method, Any]] = {
    "get": (lambda store: store.artifact_store.get("a"), None),
    "get_with_session_check": (
        lambda store: store.artifact_store.get_with_session_check("a", "s"),
        None,
    ),
    "get_ref": (lambda store: store.artifact_store.get_ref("a"), None),
    "exists": (lambda store: store.artifact_store.exists("a"), False),
    "delete": (lambda store: store.artifact_store.delete("a"), False),
    "list": (lambda store: store.artifact_store.list(), []),
}
ERRORS = [
    each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, foldlog.FoldlogError)
]


@pytest.mark.parametrize("of", ERRORS, ids=lambda each: each.__name__)
async def test_whatever_a_call_raises_is_one_default_one_line_and_one_count(
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    of: type[foldlog.FoldlogError],
) -> None:
    error = of.__new__(of, "why")

    async def failing(*_: object, **__: object) -> None:
        raise error

    async with foldlog.memory_store() as given:
        for name in DEFAULTS:
            monkeypatch.setattr(foldlog.Store, name, failing)
        for name in (*OF_ARTIFACTS, "put_text"):
            monkeypatch.setattr(type(given.artifact_store), name, failing)
        store = PenguiFlowStateStore(given)
        calls = DEFAULTS | OF_ARTIFACTS
        for call, default in calls.values():
            assert await call(store) == default
        with pytest.raises(of):  # there is no reference to return
            await store.artifact_store.put_text("text")
        assert store.degraded == dict.fromkeys(calls, 1)
        assert [each[1] for each in logged(caplog)] == [*calls]
        assert {each[3] for each in logged(caplog)} == {repr(error)}
        for event, method, *_ in logged(caplog):
            reads = method.startswith(("load", "list", "find", "get", "exists"))
            assert event == f"statestore_{'load' if reads else 'save'}_failed"


# --- clearing -----------------------------------------------------------------------------------

Clear = Callable[[PenguiFlowStateStore], Awaitable[None]]
CLEARS: dict[str, tuple[str, Clear]] = {
    "session": ("clear_session", lambda store: store.clear_session("s")),
    "everything": ("clear", lambda store: store.clear()),
    "a session's artifacts": (
        "clear_session",
        lambda store: store.artifact_store.clear_session("s"),
    ),
    "all artifacts": ("clear", lambda store: store.artifact_store.clear()),
}
every_clear = pytest.mark.parametrize(("method", "clear"), CLEARS.values(), ids=CLEARS)


@every_clear
async def test_clearing_degrades_awaited_or_not(
    caplog: pytest.LogCaptureFixture, method: str, clear: Clear
) -> None:
    async with nowhere() as store:
        clear(store)
        await clear(store)
    clear(store)  # closed
    assert store.degraded == away() | {method: 3}
    assert [each[:3] for each in logged(caplog)] == [("statestore_save_failed", method, None)] * 3


@every_clear
async def test_clearing_an_open_store_that_was_given_degrades(
    caplog: pytest.LogCaptureFixture, method: str, clear: Clear
) -> None:
    async with foldlog.memory_store() as given:
        store = PenguiFlowStateStore(given)
        await store.close()
        await clear(store)
    assert store.degraded == {method: 1}
    [fields] = logged(caplog)
    assert fields == ("statestore_save_failed", method, None, repr(foldlog.StoreClosed()))


@every_clear
async def test_clearing_raises_where_asked_to(method: str, clear: Clear) -> None:
    async with nowhere("raise") as store:
        with pytest.raises(foldlog.LogUnavailable):
            clear(store)
        assert store.degraded == {}


# --- failures that nobody waits for -------------------------------------------------------------


@either
async def test_a_cancelled_save_that_fails_is_counted_and_logged(
    caplog: pytest.LogCaptureFixture, on_error: OnError
) -> None:
    store = nowhere(on_error)
    saving = asyncio.create_task(store.save_event(EVENT))
    putting = asyncio.create_task(store.artifact_store.put_bytes(b"data"))
    for save in (saving, putting):  # which begin first
        await asyncio.create_task(cancelled(save))
    for save in (saving, putting):
        with pytest.raises(asyncio.CancelledError):
            await save
    await store.close()
    assert store.degraded == away(on_error) | {"save_event": 1, "put_bytes": 1}
    assert sorted(each[:3] for each in logged(caplog)) == [
        ("statestore_save_failed", "put_bytes", None),
        (SAVE_EVENTS[on_error], "save_event", "trace"),
    ]
    assert all(each[3].startswith("LogUnavailable(") for each in logged(caplog))


@either
async def test_a_cancelled_save_to_a_given_store_is_no_less_so(
    caplog: pytest.LogCaptureFixture, on_error: OnError, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failing(self: foldlog.Store, event: object) -> None:
        raise foldlog.LogUnavailable("gone")

    monkeypatch.setattr(foldlog.Store, "save_event", failing)
    async with foldlog.memory_store() as given:
        store = PenguiFlowStateStore(given, on_error=on_error)
        saving = asyncio.create_task(store.save_event(EVENT))
        await asyncio.create_task(cancelled(saving))
        with pytest.raises(asyncio.CancelledError):
            await saving
        await store.close()
    assert store.degraded == {"save_event": 1}
    error = "LogUnavailable('gone')"
    assert logged(caplog) == [("statestore_save_failed", "save_event", "trace", error)]


CALLS: list[tuple[str | None, Callable[[PenguiFlowStateStore], Awaitable[Any]]]] = [
    ("trace", lambda store: store.save_event(EVENT)),
    ("trace", lambda store: store.save_event("trace", PlannerEvent("x", 1.0, 0))),
    ("trace", lambda store: store.save_planner_event("trace", PlannerEvent("x", 1.0, 0))),
    ("trace", lambda store: store.load_history("trace")),
    ("trace", lambda store: store.get_trajectory("trace", "s")),
    ("trace", lambda store: store.get_trajectory(session_id="s", trace_id="trace")),
    (
        "trace",
        lambda store: store.mark_binding_terminal(trace_id="trace", context_id="c", task_id="t"),
    ),
    ("trace", lambda store: store.save_update(update(trace_id="trace"))),
    (None, lambda store: store.save_update(update())),
    (None, lambda store: store.list_updates("s")),
    (None, lambda store: store.load_planner_state("token")),
    ("trace", lambda store: store.artifact_store.list(scope=ArtifactScope(trace_id="trace"))),
    (None, lambda store: store.artifact_store.list()),
    (None, lambda store: store.clear()),
]


@pytest.mark.parametrize(("trace_id", "call"), CALLS)
async def test_a_failure_names_its_trace(
    caplog: pytest.LogCaptureFixture, trace_id: str | None, call: Callable[..., Awaitable[Any]]
) -> None:
    store = nowhere()
    await store.close()
    await call(store)
    assert [each[2] for each in logged(caplog)] == [trace_id]


async def _flush(store: Any, events: list[PlannerEvent]) -> None:
    for event in events:
        await store.save_planner_event("trace", event)


@either
async def test_a_planners_own_saves_that_fail_are_counted_and_logged(
    caplog: pytest.LogCaptureFixture, on_error: OnError
) -> None:
    store = nowhere(on_error)

    # The planner's own coroutine: what begins it, and what its task is called, do not matter.
    events = [PlannerEvent("x", 1.0, step) for step in range(3)]
    own = FunctionType(_flush.__code__, {"__name__": "penguiflow.planner.react_runtime"})
    await asyncio.create_task(own(store, events))
    await store.close()
    assert store.degraded == away(on_error) | {"save_planner_event": 3}
    fields = (SAVE_EVENTS[on_error], "save_planner_event", "trace")
    assert [each[:3] for each in logged(caplog)] == [fields] * 3


# --- what the caller's own objects raise --------------------------------------------------------


class Own(Exception):
    """What no library knows, and cannot even be shown."""

    def __str__(self) -> str:
        raise ZeroDivisionError


class Bad:
    """A value of the caller's that cannot be written in any way."""

    def __init__(self, error: type[Exception]) -> None:
        self._error = error

    def __repr__(self) -> str:
        raise self._error

    __str__ = __repr__


class Dumped(BaseModel):
    def model_dump(self, **options: Any) -> dict[str, Any]:
        raise TypeError("not like this")


class Computed(BaseModel):
    @computed_field
    def total(self) -> int:
        raise AttributeError("parts")


class Event:
    @property
    def trace_id(self) -> str:
        raise Own


def steering(payload: dict[str, Any]) -> SteeringEvent:
    return SteeringEvent(
        session_id="s",
        task_id="t",
        event_type=SteeringEventType.INJECT_CONTEXT,
        payload={"text": "x"},
    ).model_copy(update={"payload": payload})


Save = Callable[[PenguiFlowStateStore], Awaitable[Any]]
BAD_SAVES: dict[str, tuple[str, Save]] = {
    "value": ("save_memory_state", lambda s: s.save_memory_state("k", {"a": [Bad(ValueError)]})),
    "own error": ("save_memory_state", lambda s: s.save_memory_state("k", {"a": Bad(Own)})),
    "key": ("save_memory_state", lambda s: s.save_memory_state("k", {Bad(LookupError): 1})),
    "keys": ("save_memory_state", lambda s: s.save_memory_state("k", {(1, Bad(Own)): 1})),
    "model": ("save_planner_state", lambda s: s.save_planner_state("t", {"a": Dumped()})),
    "computed": ("save_planner_state", lambda s: s.save_planner_state("t", {"a": Computed()})),
    "content": ("save_update", lambda s: s.save_update(update(content={"a": Bad(OSError)}))),
    "steering": ("save_steering", lambda s: s.save_steering(steering({"text": Bad(KeyError)}))),
    "no event": ("save_event", lambda s: s.save_event("trace")),
    "no runtime event": ("save_event", lambda s: s.save_event(None)),
    "property": ("save_event", lambda s: s.save_event(Event())),
    "no planner event": ("save_planner_event", lambda s: s.save_planner_event("trace", None)),
    "no task": ("save_task", lambda s: s.save_task(object())),
    "no binding": ("save_remote_binding", lambda s: s.save_remote_binding(object())),
    "no trajectory": ("save_trajectory", lambda s: s.save_trajectory("trace", "s", object())),
}
every_bad_save = pytest.mark.parametrize(("method", "save"), BAD_SAVES.values(), ids=BAD_SAVES)


@every_bad_save
async def test_what_cannot_be_written_is_a_typed_error(method: str, save: Save) -> None:
    async with foldlog.memory_store() as given:
        store = PenguiFlowStateStore(given, on_error="raise")
        with pytest.raises(foldlog.PayloadError):
            await save(store)
        assert store.degraded == {}


@every_bad_save
async def test_what_cannot_be_written_degrades(
    caplog: pytest.LogCaptureFixture, method: str, save: Save
) -> None:
    async with foldlog.memory_store() as given:
        store = PenguiFlowStateStore(given)
        await save(store)
    assert store.degraded == {method: 1}
    [(event, logged_method, _, exception)] = logged(caplog)
    assert (event, logged_method) == ("statestore_save_failed", method)
    assert exception.startswith("PayloadError(")


@either
async def test_a_call_that_no_method_takes_is_the_programs_own_fault(on_error: OnError) -> None:
    async with foldlog.memory_store() as given:
        store: Any = PenguiFlowStateStore(given, on_error=on_error)
        with pytest.raises(TypeError):
            await store.save_task()
        with pytest.raises(TypeError):
            await store.list_tasks()
        assert store.degraded == {}


@pytest.mark.parametrize(
    "put",
    [
        lambda artifacts: artifacts.put_bytes("text"),
        lambda artifacts: artifacts.put_bytes(5),  # not five zeros
        lambda artifacts: artifacts.put_bytes(b"", scope=object()),
        lambda artifacts: artifacts.put_text("text", meta={"a": Bad(Own)}),
        lambda artifacts: artifacts.put_text(5),
    ],
)
@either
async def test_artifacts_that_cannot_be_kept_are_a_typed_error(put: Any, on_error: OnError) -> None:
    async with foldlog.memory_store() as given:
        artifacts = PenguiFlowStateStore(given, on_error=on_error).artifact_store
        with pytest.raises(foldlog.PayloadError):
            await put(artifacts)
        assert await artifacts.list() == []


async def test_artifacts_of_no_scope_are_a_typed_error() -> None:
    async with foldlog.memory_store() as given:
        with pytest.raises(foldlog.PayloadError):
            await PenguiFlowStateStore(given, on_error="raise").artifact_store.list(scope=object())
        degrading = PenguiFlowStateStore(given)
        assert await degrading.artifact_store.list(scope=object()) == []
        assert degrading.degraded == {"list": 1}
