"""Metrics and spans of a store: what is counted is what happened, and nothing that was saved."""

from __future__ import annotations

import asyncio
import gc
import inspect
import weakref
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from pydantic import BaseModel

import foldlog
from foldlog.agents import StoreAgents
from foldlog.log.port import LogInfo, StreamInfo
from foldlog.runs import Run, RunFailed
from foldlog.scoped import Scope, ScopedStore
from foldlog.sessions import IllegalTransition, Session
from foldlog.store.artifacts import Artifacts
from foldlog.store.blobs import LargeValues
from foldlog.telemetry import METRICS, instrument
from foldlog.telemetry.outcomes import OUTCOMES, outcome_of
from tests.conftest import OpenStore
from tests.support.build import event, task, update
from tests.support.flaky import FlakyLog, spooling
from tests.support.fresh import fresh_python
from tests.support.server import LocalServer

Points = dict[frozenset[tuple[str, str]], Any]


class Collected:
    """A meter and a tracer in memory."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self._exporter = InMemorySpanExporter()
        self.meter_provider = MeterProvider([self._reader])
        self.tracer_provider = TracerProvider()
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def instrument(self, store: foldlog.Store) -> None:
        instrument(store, meter_provider=self.meter_provider, tracer_provider=self.tracer_provider)

    @property
    def spans(self) -> list[Any]:
        return list(self._exporter.get_finished_spans())

    def metrics(self) -> dict[str, Points]:
        """The points of every metric by name, each by its attributes without the namespace."""
        data = self._reader.get_metrics_data()
        if data is None:
            return {}
        return {
            metric.name: {
                frozenset((k, str(v)) for k, v in p.attributes.items() if k != "namespace"): p
                for p in metric.data.data_points
            }
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def value(self, name: str, **labels: str) -> Any:
        """What a counter or gauge is at; None if it has no such point."""
        point = self.metrics().get(name, {}).get(frozenset(labels.items()))
        return None if point is None else point.value


@pytest.fixture
def collected() -> Collected:
    return Collected()


# --- calls --------------------------------------------------------------------------------------


class Cart(BaseModel):
    total: int = 0


async def test_calls_are_counted_by_method_and_outcome(
    store: foldlog.Store, collected: Collected
) -> None:
    collected.instrument(store)
    for n in range(3):
        await store.save_update(update(f"u{n}"))
    await store.list_updates("session")
    with pytest.raises(foldlog.InvalidId):
        await store.list_updates("")
    await store.save_event(event())
    await store.save_planner_event("trace", foldlog.PlannerEvent("k", 1.0, 0))
    await store.list_planner_events("trace")
    ref = await store.artifact_store.put_text("x")
    await store.artifact_store.get(ref.id)
    async with store.atomic():
        await store.save_task(task())

    calls = {
        (dict(labels)["method"], dict(labels)["outcome"]): point.value
        for labels, point in collected.metrics()["foldlog.calls"].items()
    }
    assert calls == {
        ("save_update", "ok"): 3,
        ("list_updates", "ok"): 1,
        ("list_updates", "refused"): 1,
        ("save_event", "ok"): 1,
        ("save_planner_event", "ok"): 1,
        ("list_planner_events", "ok"): 1,
        ("artifacts.put_text", "ok"): 1,
        ("artifacts.get", "ok"): 1,
        ("save_task", "ok"): 1,
        ("atomic", "ok"): 1,
    }
    durations = collected.metrics()["foldlog.call.duration"]
    assert sum(point.count for point in durations.values()) == sum(calls.values())


async def test_calls_of_facades_are_counted_once_each(
    store: foldlog.Store, collected: Collected
) -> None:
    collected.instrument(store)
    async with store.session("s") as session:
        await session.spawn_task(task_id="task")
        await session.cancel_task("task")  # which steers
        with pytest.raises(IllegalTransition):
            await session.start_task("task")
        await session.list_tasks()
    async with store.agents.turn("shop/1") as turn:
        turn.update("cart", Cart(total=1))
    await store.agents.get_agent_state("shop/1", "cart", Cart)
    await store.scoped.write(Scope.session("s"), "key", 1)
    await store.scoped.read(Scope.session("s"), "key")
    calls = {
        (dict(labels)["method"], dict(labels)["outcome"]): point.value
        for labels, point in collected.metrics()["foldlog.calls"].items()
    }
    assert calls == {
        ("sessions.hydrate", "ok"): 1,
        ("sessions.spawn_task", "ok"): 1,
        ("sessions.cancel_task", "ok"): 1,
        ("sessions.start_task", "refused"): 1,
        ("sessions.list_tasks", "ok"): 1,
        ("agents.complete", "ok"): 1,
        ("agents.get_agent_state", "ok"): 1,
        ("scoped.write", "ok"): 1,
        ("scoped.read", "ok"): 1,
    }


async def test_every_call_has_a_span_that_tells_no_secret(
    store: foldlog.Store, collected: Collected
) -> None:
    collected.instrument(store)
    await store.save_update(update("u", content="s3cret"))
    with pytest.raises(foldlog.PayloadError):
        await store.save_update(update("u", content={"s3cret": object()}))
    saved, failed = collected.spans
    assert [span.name for span in (saved, failed)] == ["foldlog.save_update"] * 2
    assert saved.status.status_code is StatusCode.UNSET
    assert saved.attributes["outcome"] == "ok"
    assert failed.status.status_code is StatusCode.ERROR
    assert dict(failed.attributes)["error.type"] == "PayloadError"
    assert "s3cret" not in failed.to_json() + saved.to_json()
    assert failed.events == ()


async def test_spans_nest_under_the_callers(store: foldlog.Store, collected: Collected) -> None:
    collected.instrument(store)
    tracer = collected.tracer_provider.get_tracer("caller")
    with tracer.start_as_current_span("turn"):
        await store.save_update(update("u"))
    child, parent = collected.spans
    assert (parent.name, child.parent.span_id) == ("turn", parent.context.span_id)


async def test_a_cancelled_call_is_counted_and_cancelled(collected: Collected) -> None:
    log = FlakyLog()
    log.gate, reached = asyncio.Event(), asyncio.Event()
    log.before_append = reached.set
    async with foldlog.memory_store(log=log) as store:
        collected.instrument(store)
        saving = asyncio.create_task(store.save_update(update("u")))
        await reached.wait()
        saving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await saving
        assert collected.value("foldlog.calls", method="save_update", outcome="cancelled") == 1


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (foldlog.AppendConflict("s", 1, 2), "conflict"),
        (foldlog.AppendFailed("full"), "not-committed"),
        (foldlog.AppendUnknown(["id"], "no ack"), "unknown"),
        (foldlog.LogTimeout("a read", 1.0), "timeout"),
        (foldlog.LogUnavailable("away"), "unavailable"),
        (foldlog.LogCorrupt("s", 1, "flipped"), "corrupt"),
        (foldlog.StoreClosed(), "closed"),
        (foldlog.PayloadError("p", "no"), "refused"),
        (asyncio.CancelledError(), "cancelled"),
        (ZeroDivisionError(), "error"),
    ],
    ids=repr,
)
def test_an_outcome_is_one_of_few_words(error: BaseException, outcome: str) -> None:
    assert outcome_of(error) == outcome
    assert outcome in OUTCOMES


# --- views and groups ---------------------------------------------------------------------------


async def test_reads_of_views_tell_what_answered(
    store: foldlog.Store, collected: Collected
) -> None:
    collected.instrument(store)

    def reads() -> dict[str, int]:
        return {
            source: collected.value("foldlog.view.reads", projection="updates", source=source) or 0
            for source in ("hydration", "hit", "catch-up")
        }

    await store.save_update(update("u"))
    await store.list_updates("session")
    assert reads() == {"hydration": 1, "hit": 0, "catch-up": 0}
    for _ in range(5):
        await store.list_updates("session")
    assert reads() == {"hydration": 1, "hit": 5, "catch-up": 0}
    await store.list_updates("session", consistency="strong")
    assert reads() == {"hydration": 1, "hit": 5, "catch-up": 1}
    assert collected.value("foldlog.views.hot") == 1
    assert collected.value("foldlog.view.lag") == 0


@pytest.mark.parametrize("backend", ["memory"], indirect=True)
async def test_a_view_that_lacks_what_it_has_heard_of_lags(
    store: foldlog.Store, collected: Collected
) -> None:
    collected.instrument(store)
    await store.list_updates("session")
    [view] = store._core.hot_views.of(store._core.subject("updates", "session"))
    assert view is not None
    view.acked(view.applied + 7)
    assert collected.value("foldlog.view.lag") == 7


@pytest.mark.parametrize("backend", ["embedded"], indirect=True)
async def test_groups_of_records_are_measured(store: foldlog.Store, collected: Collected) -> None:
    collected.instrument(store)
    await asyncio.gather(*(store.save_update(update("u", f"s{n}")) for n in range(40)))
    records = collected.metrics()["foldlog.batch.records"][frozenset()]
    size = collected.metrics()["foldlog.batch.size"][frozenset()]
    seconds = collected.metrics()["foldlog.batch.duration"][frozenset()]
    assert records.sum == 40
    assert 1 <= records.count < 40
    assert size.sum > 40 * 100
    assert (size.count, seconds.count) == (records.count, records.count)
    assert collected.value("foldlog.batch.failures") is None
    assert collected.value("foldlog.pending") == 0
    assert collected.value("foldlog.reconnects") == 0


async def test_a_store_in_stand_by_is_measured_when_its_log_has_come(
    tmp_path: Path, collected: Collected
) -> None:
    server = LocalServer(tmp_path / "data")
    connecting = foldlog.connect(
        server.url, on_error="degrade", timeout=0.2, spool=tmp_path / "spool"
    )
    async with connecting as store:
        collected.instrument(store)
        await store.save_update(update("waits"))
        assert collected.value("foldlog.spool.waiting") == 1
        async with server:
            async with (
                asyncio.timeout(60),
                aclosing(cast(Any, store.watch_updates("session"))) as seen,
            ):
                await anext(seen)
            await store.save_update(update("saved"))
            assert collected.metrics()["foldlog.batch.records"][frozenset()].sum >= 1
            assert collected.value("foldlog.degraded", method="connect") == 1
            await store.close()


async def test_a_server_that_comes_back_is_a_reconnect_and_what_it_missed_a_failure(
    tmp_path: Path, collected: Collected
) -> None:
    async with LocalServer(tmp_path / "data") as server:
        async with foldlog.connect(server.url, timeout=60.0) as store:
            collected.instrument(store)
            await store.save_update(update("before"))
            await server.kill()
            await server.start()
            await store.save_update(update("after"))
            assert collected.value("foldlog.reconnects") == 1
        async with foldlog.connect(server.url, timeout=0.2) as store:
            collected.instrument(store)
            await store.save_update(update("before"))
            await server.kill()
            with pytest.raises(foldlog.FoldlogError):
                await store.save_update(update("lost"))
            assert collected.value("foldlog.batch.failures") == 1


async def test_spool_and_degrade_are_seen(tmp_path: Path, collected: Collected) -> None:
    async with spooling(tmp_path) as process:
        collected.instrument(process.store)
        assert collected.value("foldlog.spool.waiting") == 0
        process.log.state = "away"
        for n in range(3):
            await process.store.save_update(update(f"u{n}"))
        assert collected.value("foldlog.spool.waiting") == 3
        assert collected.value("foldlog.spool.size") > 0
        assert collected.value("foldlog.degraded", method="save_update") == 3
        await process.drained()
        assert collected.value("foldlog.spool.waiting") == 0
        assert collected.value("foldlog.spool.dropped") == 0


@pytest.mark.parametrize("backend", ["memory"], indirect=True)
async def test_health_tells_how_far_replicas_are_behind(
    store: foldlog.Store, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def info() -> LogInfo:
        stream = StreamInfo("S", 0, 1, 1, 1, 1, 1, 3, "a", {"b": 0, "c": 12})
        return LogInfo("", "", 0, 0, 0.0, (stream,))

    monkeypatch.setattr(store._core.log, "info", info)
    collected.instrument(store)
    assert (await store.health()).streams[0].peers_lag["c"] == 12
    assert collected.value("foldlog.replica.lag", stream="S", peer="b") == 0
    assert collected.value("foldlog.replica.lag", stream="S", peer="c") == 12


class Seen(NamedTuple):
    id: str


async def test_a_projector_says_how_far_it_is_behind(
    store: foldlog.Store, collected: Collected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @foldlog.table("seen", kinds=["updates"])
    def seen(item: foldlog.LogItem) -> Seen:
        if item.id == "u2":
            raise ValueError
        return Seen(item.id)

    collected.instrument(store)
    running = foldlog.Projecting(store, [seen], to=f"sqlite:///{tmp_path}/seen.db")
    async with running:
        await store.save_update(update("u1"))
        await store.projected("seen", at=await store.position())
        assert collected.value("foldlog.projector.lag", projector="seen") == 0
        for id in ("u2", "u3"):
            await store.save_update(update(id))
        with pytest.raises(foldlog.ProjectorFailed):
            await running.caught_up(timeout=20)
        assert collected.value("foldlog.projector.lag", projector="seen") == 2


async def test_queues_are_seen_by_who_has_them_in_memory(
    store: foldlog.Store, collected: Collected
) -> None:
    @foldlog.durable(queue="mail", attempts=1)
    async def failing(run: Run) -> None:
        raise ValueError("no")

    collected.instrument(store)
    run = await store.start(failing, id="x")
    assert "foldlog.queue.waiting" not in collected.metrics()

    def mail() -> dict[str, Any]:
        names = ("waiting", "running", "failed", "workers")
        return {each: collected.value(f"foldlog.queue.{each}", queue="mail") for each in names}

    await store.queues.all()
    assert mail() == {"waiting": 1, "running": 0, "failed": 0, "workers": 0}
    assert collected.value("foldlog.queue.age", queue="mail") > 0
    async with foldlog.Worker(store, [failing]):
        with pytest.raises(RunFailed):
            await run.result(timeout=20)
        await store.queues.all()
        assert mail() == {"waiting": 0, "running": 0, "failed": 1, "workers": 1}
        assert collected.value("foldlog.queue.age", queue="mail") == 0
    await store.clear_session("x")
    assert await store.queues.all() == []
    assert mail() == {"waiting": 0, "running": 0, "failed": 0, "workers": 0}


# --- several stores, and none -------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["memory"], indirect=True)
async def test_stores_of_a_namespace_are_added_up_and_closed_ones_left_out(
    reopen: OpenStore, collected: Collected
) -> None:
    one, two = await reopen(), await reopen()
    for store in (one, two):
        collected.instrument(store)
        await store.save_update(update("u"))
        await store.list_updates("session")
    assert collected.value("foldlog.calls", method="save_update", outcome="ok") == 2
    assert collected.value("foldlog.views.hot") == 2
    await one.close()
    assert collected.value("foldlog.views.hot") == 1


@pytest.mark.parametrize("backend", ["memory"], indirect=True)
async def test_what_stores_of_a_namespace_see_alike_counts_once(
    reopen: OpenStore, collected: Collected
) -> None:
    one, two = await reopen(), await reopen()
    await one.start("report", id="x")
    for store in (one, two):
        collected.instrument(store)
        await store.queues.all()
    assert collected.value("foldlog.queue.waiting", queue="default") == 1


async def test_a_store_is_measured_once(collected: Collected) -> None:
    async with foldlog.memory_store() as store:
        collected.instrument(store)
        with pytest.raises(foldlog.Misuse, match="already"):
            collected.instrument(store)


async def test_measuring_keeps_no_store_alive(collected: Collected) -> None:
    async def use() -> Callable[[], object]:
        async with foldlog.memory_store() as store:
            collected.instrument(store)
            await store.save_update(update("u"))
            return weakref.ref(store)

    gone = await use()
    gc.collect()
    assert gone() is None


async def test_a_store_that_is_not_measured_has_nothing_in_front_of_its_methods() -> None:
    async with foldlog.memory_store() as store:
        for name, method in vars(store).items():
            assert not hasattr(method, "__wrapped__"), name
        assert "_read" not in vars(store._core.hot_views)


def test_opentelemetry_is_loaded_only_by_who_measures() -> None:
    code = """
import asyncio, sys, foldlog, foldlog.telemetry
async def main():
    async with foldlog.memory_store() as store:
        await store.save_memory_state("k", {})
        print(sorted(name for name in sys.modules if name.startswith("opentelemetry")))
        sys.modules["opentelemetry"] = None
        try:
            foldlog.telemetry.instrument(store)
        except foldlog.ConfigurationError as error:
            print(error)
asyncio.run(main())
"""
    assert fresh_python(code).splitlines() == [
        "[]",
        "telemetry needs OpenTelemetry: pip install 'foldlog[otel]'",
    ]


def test_metrics_have_names_of_their_own() -> None:
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    assert all(metric.description and metric.unit for metric in METRICS)


CLASSES = (foldlog.Store, Run, Session, ScopedStore, StoreAgents, Artifacts, LargeValues)
ENDS = {"close"}
"""What lets go of everything, the measuring included."""

INTERNAL = {"ScopedStore.forget"}


@pytest.mark.parametrize("of", CLASSES)
def test_every_public_call_passes_the_seam(of: type) -> None:
    calls = {
        name: call
        for name, call in inspect.getmembers(of)
        if not name.startswith("_") and inspect.iscoroutinefunction(inspect.unwrap(call))
    }
    bare = {name for name, call in calls.items() if not hasattr(call, "__wrapped__")}
    assert {f"{of.__name__}.{name}" for name in bare - ENDS} - INTERNAL == set()


async def test_primitives_and_runs_are_measured_and_what_they_call(
    store: foldlog.Store, collected: Collected
) -> None:
    collected.instrument(store)
    key = foldlog.kinds.updates("session")

    async def save() -> None:
        await store.save_memory_state("acme:ann:trip", {"n": 1})

    await store.view(key)
    await store.views([key])
    await store.items(key)
    await store.keys(key.kind)
    await store.decide(key, lambda found: None)
    await store.transact(save)
    async with store.run("trip", session_id="s") as run:
        await run.step("save", save)
        await run.steps()
    counted = {
        dict(labels)["method"]: point.value
        for labels, point in collected.metrics()["foldlog.calls"].items()
    }
    assert {"view", "views", "items", "keys", "decide", "transact"} <= counted.keys()
    assert (counted["run.step"], counted["run.steps"]) == (1, 1)
    assert counted["save_memory_state"] == 2
