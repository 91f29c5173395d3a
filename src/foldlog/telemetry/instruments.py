"""The instruments of one meter provider: made once, shared by all stores that are measured."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final
from weakref import WeakKeyDictionary, WeakSet

from opentelemetry.metrics import (
    CallbackOptions,
    Counter,
    Histogram,
    Meter,
    MeterProvider,
    Observation,
    get_meter_provider,
)

import foldlog
from foldlog.opening import Store
from foldlog.projectors.projecting import behind
from foldlog.runs import Queue
from foldlog.runs.queues import in_memory
from foldlog.store import Health
from foldlog.store.core import core_of
from foldlog.telemetry import metrics
from foldlog.telemetry.metrics import Metric
from foldlog.telemetry.stores import jetstream

_Labels = tuple[tuple[str, str], ...]
_Seen = Iterator[tuple[_Labels, float]]
_Join = Callable[[float, float], float]

_of_provider: Final[WeakKeyDictionary[MeterProvider, Instruments]] = WeakKeyDictionary()


def instruments_of(provider: MeterProvider | None) -> Instruments:
    """Return the instruments of a provider; None: of the global one as it is now."""
    provider = provider or get_meter_provider()
    found = _of_provider.get(provider)
    if found is None:
        meter = provider.get_meter("foldlog", foldlog.__version__)
        found = _of_provider[provider] = Instruments(meter)
    return found


class Instruments:
    """Counters and histograms by metric; gauges that look at the stores when they are collected.

    Stores of one namespace are added up; of what they see alike, the greatest counts. A store that
    is closed is not looked at any more.
    """

    def __init__(self, meter: Meter) -> None:
        self._stores: WeakSet[Store] = WeakSet()
        self._replica_lag: dict[_Labels, int] = {}
        self._counters = {
            metric: meter.create_counter(metric.name, metric.unit, metric.description)
            for metric in metrics.METRICS
            if metric.kind == "counter"
        }
        self._histograms = {
            metric: meter.create_histogram(
                metric.name,
                metric.unit,
                metric.description,
                explicit_bucket_boundaries_advisory=metrics.BOUNDARIES[metric.unit],
            )
            for metric in metrics.METRICS
            if metric.kind == "histogram"
        }
        for metric, look in (_LOOKS | _SHARED).items():
            make = meter.create_observable_gauge
            if metric.kind == "observed counter":
                make = meter.create_observable_counter  # type: ignore[assignment]
            observing = self._observing(look, max if metric in _SHARED else operator.add)
            make(metric.name, [observing], metric.unit, metric.description)
        replica = metrics.REPLICA_LAG
        meter.create_observable_gauge(
            replica.name, [self._observe_replicas], replica.unit, replica.description
        )

    def counter(self, metric: Metric) -> Counter:
        """The instrument of a counter."""
        return self._counters[metric]

    def histogram(self, metric: Metric) -> Histogram:
        """The instrument of a histogram."""
        return self._histograms[metric]

    def watch(self, store: Store) -> None:
        """Look at a store whenever metrics are collected, until it is closed."""
        self._stores.add(store)

    def replicas(self, health: Health) -> None:
        """Note what `health()` has found of replicas."""
        for stream in health.streams:
            for peer, lag in stream.peers_lag.items():
                about = {"namespace": health.namespace, "stream": stream.name, "peer": peer}
                self._replica_lag[tuple(about.items())] = lag

    def _observing(
        self, look: Callable[[Store], _Seen], join: _Join
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            found: dict[_Labels, float] = {}
            for store in self._stores:
                if core_of(store).hot_views.closed:
                    continue
                about = ("namespace", core_of(store).namespace.name)
                for labels, value in look(store):
                    key = (about, *labels)
                    found[key] = join(found[key], value) if key in found else value
            return [Observation(value, dict(labels)) for labels, value in found.items()]

        return observe

    def _observe_replicas(self, _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(lag, dict(labels)) for labels, lag in self._replica_lag.items()]


def _hot(store: Store) -> _Seen:
    yield (), len(core_of(store).hot_views)


def _lag(store: Store) -> _Seen:
    yield (), core_of(store).hot_views.lag


def _pending(store: Store) -> _Seen:
    if (log := jetstream(store)) is not None:
        yield (), log.pending_bytes


def _reconnects(store: Store) -> _Seen:
    if (log := jetstream(store)) is not None:
        yield (), log.connection.reconnects


def _degraded(store: Store) -> _Seen:
    for method, count in core_of(store).calls.failures.items():
        yield (("method", method),), count


def _of_spool(count: str) -> Callable[[Store], _Seen]:
    def look(store: Store) -> _Seen:
        if (outbox := core_of(store).backend.outbox) is not None:
            yield (), getattr(outbox.health, count)

    return look


def _of_queue(measure: Callable[[Queue], float]) -> Callable[[Store], _Seen]:
    """Look at each queue, as long as this process has all of them in memory."""
    known: WeakKeyDictionary[Store, set[str]] = WeakKeyDictionary()

    def look(store: Store) -> _Seen:
        queues = in_memory(store)
        if queues is not None:
            values = {each.name: measure(each) for each in queues}
            names = known.setdefault(store, set())
            names.update(values)
            for name in names:  # what is empty by now is at 0: a scaler has to see that
                yield (("queue", name),), values.get(name, 0)

    return look


def _age(queue: Queue) -> float:
    if queue.oldest is None:
        return 0.0
    return max(time.time() - queue.oldest.timestamp(), 0.0)


def _projectors(store: Store) -> _Seen:
    for name, records in behind(store).items():
        yield (("projector", name),), records


_LOOKS: Final[dict[Metric, Callable[[Store], _Seen]]] = {
    metrics.HOT: _hot,
    metrics.VIEW_LAG: _lag,
    metrics.PENDING: _pending,
    metrics.SPOOL_WAITING: _of_spool("waiting"),
    metrics.SPOOL_SIZE: _of_spool("bytes"),
    metrics.SPOOL_DROPPED: _of_spool("dropped"),
    metrics.DEGRADED: _degraded,
    metrics.RECONNECTS: _reconnects,
    metrics.PROJECTOR_LAG: _projectors,
}

_SHARED: Final[dict[Metric, Callable[[Store], _Seen]]] = {
    metrics.QUEUE_WAITING: _of_queue(lambda queue: queue.waiting),
    metrics.QUEUE_AGE: _of_queue(_age),
    metrics.QUEUE_RUNNING: _of_queue(lambda queue: queue.held),
    metrics.QUEUE_FAILED: _of_queue(lambda queue: queue.failed),
    metrics.QUEUE_WORKERS: _of_queue(lambda queue: queue.workers),
}
"""What every store of a namespace sees alike."""
