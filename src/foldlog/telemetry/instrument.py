"""Connecting a store's calls, reads and groups to the instruments."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import WeakSet

from foldlog.errors import ConfigurationError, Misuse
from foldlog.opening import Store
from foldlog.store import Health
from foldlog.store.core import core_of
from foldlog.telemetry import metrics
from foldlog.telemetry.outcomes import OK, outcome_of
from foldlog.telemetry.stores import jetstream

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Tracer, TracerProvider

    from foldlog.log.jetstream.appender import GroupCommit
    from foldlog.telemetry.instruments import Instruments

T = TypeVar("T")

_instrumented: Final[WeakSet[Store]] = WeakSet()


def instrument(
    store: Store,
    *,
    meter_provider: MeterProvider | None = None,
    tracer_provider: TracerProvider | None = None,
) -> None:
    """Measure a store from now until it is closed: `METRICS` lists what, and each call is a span.

    Neither metrics nor spans hold ids, payloads or messages of errors. Metrics name queues.

    Args:
        store: the store.
        meter_provider, tracer_provider: None: OpenTelemetry's global ones.

    Raises:
        ConfigurationError: OpenTelemetry is not installed. Misuse: the store is measured already.
    """
    if store in _instrumented:
        raise Misuse("this store is instrumented already")
    try:
        from opentelemetry import trace

        from foldlog.telemetry.instruments import instruments_of
    except ImportError as error:
        raise ConfigurationError(
            "telemetry needs OpenTelemetry: pip install 'foldlog[otel]'"
        ) from error
    _instrumented.add(store)
    instruments = instruments_of(meter_provider)
    tracer = trace.get_tracer("foldlog", tracer_provider=tracer_provider)
    calls = _Calls(instruments, tracer, core_of(store).namespace.name)
    core_of(store).calls.measure = calls.measure
    _measure_reads_and_groups(store, instruments, calls.about)
    instruments.watch(store)


class _Calls:
    """Measures calls. Lives as long as its store."""

    def __init__(self, instruments: Instruments, tracer: Tracer, namespace: str) -> None:
        self._instruments = instruments
        self._calls = instruments.counter(metrics.CALLS)
        self._seconds = instruments.histogram(metrics.DURATION)
        self._tracer = tracer
        self.about: Mapping[str, str] = {"namespace": namespace}

    async def measure(self, name: str, call: Awaitable[T]) -> T:
        """Await a call by its method's name, and note how it ended and when."""
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
                found = await call
                if isinstance(found, Health):
                    self._instruments.replicas(found)
                return found
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


def _measure_reads_and_groups(
    store: Store, instruments: Instruments, about: Mapping[str, str]
) -> None:
    reads = instruments.counter(metrics.READS)

    def on_read(projection: str, source: str) -> None:
        reads.add(1, {**about, "projection": projection, "source": source})

    core_of(store).hot_views.on_read = on_read
    records = instruments.histogram(metrics.GROUP_RECORDS)
    size = instruments.histogram(metrics.GROUP_SIZE)
    seconds = instruments.histogram(metrics.GROUP_DURATION)
    lost = instruments.counter(metrics.LOST)

    def on_group(group: GroupCommit) -> None:
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
    core_of(store).log.on_epoch(observe)  # a store in stand-by has no log yet
