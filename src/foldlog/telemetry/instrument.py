"""Putting the instruments in front of a store's methods."""

from __future__ import annotations

import copy
import functools
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar
from weakref import WeakSet

from foldlog.errors import ConfigurationError
from foldlog.store import Health, Store
from foldlog.telemetry import metrics
from foldlog.telemetry.outcomes import OK, outcome_of
from foldlog.telemetry.stores import jetstream

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Tracer, TracerProvider

    from foldlog.log.jetstream.publisher import Group
    from foldlog.telemetry.instruments import Instruments

P = ParamSpec("P")
T = TypeVar("T")

_instrumented: Final[WeakSet[Store]] = WeakSet()


def instrument(
    store: Store,
    *,
    meter_provider: MeterProvider | None = None,
    tracer_provider: TracerProvider | None = None,
) -> None:
    """Measure a store from now until it is closed: see `METRICS`, and a span for each call.

    Neither metrics nor spans hold ids, payloads or messages of errors.

    Args:
        meter_provider, tracer_provider: None: OpenTelemetry's global ones.

    Raises:
        ConfigurationError: OpenTelemetry is not installed, or the store is measured already.
    """
    if store in _instrumented:
        raise ConfigurationError("this store is instrumented already")
    try:
        from opentelemetry import trace

        from foldlog.telemetry.instruments import instruments_of
    except ImportError as error:
        raise ConfigurationError("telemetry needs OpenTelemetry: install foldlog[otel]") from error
    _instrumented.add(store)
    instruments = instruments_of(meter_provider)
    tracer = trace.get_tracer("foldlog", tracer_provider=tracer_provider)
    calls = _Calls(instruments, tracer, store.log.namespace.name)
    _measure_calls(store, calls)
    _measure_reads_and_groups(store, instruments, calls.about)
    instruments.watch(store)


class _Calls:
    """Measures calls. Lives as long as the store whose methods it stands in front of."""

    def __init__(self, instruments: Instruments, tracer: Tracer, namespace: str) -> None:
        self._calls = instruments.counter(metrics.CALLS)
        self._seconds = instruments.histogram(metrics.DURATION)
        self._tracer = tracer
        self.about: Mapping[str, str] = {"namespace": namespace}

    def measured(self, method: Callable[P, Awaitable[T]], name: str) -> Callable[P, Awaitable[T]]:
        """Return `method` as one whose calls are counted, timed and have a span."""

        @functools.wraps(method)
        async def measuring(*args: P.args, **kwargs: P.kwargs) -> T:
            return await self.measure(name, method(*args, **kwargs))

        return measuring

    async def measure(self, name: str, call: Awaitable[T]) -> T:
        """Wait for a call, and note how it ended and when."""
        from opentelemetry.trace import SpanKind, StatusCode

        outcome, began = OK, time.perf_counter()
        # What an error says may quote what was saved: its type has to do.
        with self._tracer.start_as_current_span(
            f"foldlog.{name}",
            kind=SpanKind.CLIENT,
            attributes=self.about,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                return await call
            except BaseException as error:
                outcome = outcome_of(error)
                span.set_attribute("error.type", type(error).__qualname__)
                span.set_status(StatusCode.ERROR)
                raise
            finally:
                span.set_attribute("outcome", outcome)
                about = {**self.about, "method": name, "outcome": outcome}
                self._calls.add(1, about)
                self._seconds.record(time.perf_counter() - began, about)


class _Block:
    """An `atomic()` block whose end, the append, is measured."""

    def __init__(self, block: AbstractAsyncContextManager[None], calls: _Calls) -> None:
        self._block = block
        self._calls = calls

    async def __aenter__(self) -> None:
        await self._block.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        ending = self._block.__aexit__(kind, error, traceback)
        return await (ending if error is not None else self._calls.measure("atomic", ending))


def _measure_calls(store: Store, calls: _Calls) -> None:
    given = vars(store)
    measured: dict[Any, Any] = {}  # a method may have several names
    for attribute, method in list(given.items()):
        if not inspect.iscoroutinefunction(method):
            continue
        if method not in measured:
            measured[method] = calls.measured(method, method.__name__)
        given[attribute] = measured[method]

    artifacts = copy.copy(store.artifact_store)
    for attribute, method in inspect.getmembers(store.artifact_store, inspect.iscoroutinefunction):
        if not attribute.startswith("_"):
            vars(artifacts)[attribute] = calls.measured(method, f"artifacts.{attribute}")
    given["artifact_store"] = artifacts

    atomic = store.atomic
    given["atomic"] = lambda: _Block(atomic(), calls)


def _measure_reads_and_groups(
    store: Store, instruments: Instruments, about: Mapping[str, str]
) -> None:
    reads = instruments.counter(metrics.READS)

    def on_read(projection: str, source: str) -> None:
        reads.add(1, {**about, "projection": projection, "source": source})

    store._views.on_read = on_read
    health = store.health

    async def observed_health() -> Health:
        found = await health()
        instruments.replicas(found)
        return found

    vars(store)["health"] = functools.wraps(health)(observed_health)
    records = instruments.histogram(metrics.GROUP_RECORDS)
    size = instruments.histogram(metrics.GROUP_SIZE)
    seconds = instruments.histogram(metrics.GROUP_DURATION)
    lost = instruments.counter(metrics.LOST)

    def on_group(group: Group) -> None:
        records.record(group.records, about)
        size.record(group.bytes, about)
        seconds.record(group.seconds, about)
        if group.stored < group.records:
            lost.add(group.records - group.stored, about)

    observed = False

    def observe() -> None:
        nonlocal observed
        log = jetstream(store)
        if log is not None and not observed:
            observed = True
            log.observe(on_group)

    observe()
    store.log.on_epoch(observe)  # a store in stand-by has no log yet
