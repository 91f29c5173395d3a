"""What is measured: the name, kind, unit and attributes of every metric. No OpenTelemetry here."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Kind = Literal["counter", "histogram", "gauge", "observed counter"]


class Metric(NamedTuple):
    """A metric. Every metric has the attribute `namespace` besides its `attributes`.

    Attributes:
        name: its name.
        kind: which instrument it is.
        unit: as OpenTelemetry writes it: seconds, bytes, or what is counted in braces.
        description: what it measures.
        attributes: the names of its attributes.
    """

    name: str
    kind: Kind
    unit: str
    description: str
    attributes: tuple[str, ...] = ()


CALLS: Final = Metric(
    "foldlog.calls", "counter", "{call}", "Calls of a store's methods", ("method", "outcome")
)
DURATION: Final = Metric(
    "foldlog.call.duration", "histogram", "s", "How long calls take", ("method", "outcome")
)
GROUP_RECORDS: Final = Metric(
    "foldlog.batch.records", "histogram", "{record}", "Records that are published together"
)
GROUP_SIZE: Final = Metric(
    "foldlog.batch.size", "histogram", "By", "Bytes that are published together"
)
GROUP_DURATION: Final = Metric(
    "foldlog.batch.duration", "histogram", "s", "From publishing records to knowing their outcome"
)
LOST: Final = Metric(
    "foldlog.batch.failures", "counter", "{record}", "Records not stored, or not known to be"
)
READS: Final = Metric(
    "foldlog.view.reads",
    "counter",
    "{read}",
    "Reads of views: a hit is answered from memory, a catch-up asks the log for what is new, a "
    "hydration loads a cold view",
    ("projection", "source"),
)
HOT: Final = Metric("foldlog.views.hot", "gauge", "{view}", "Views in memory")
VIEW_LAG: Final = Metric(
    "foldlog.view.lag", "gauge", "{sequence}", "What the view that is most behind has yet to apply"
)
REPLICA_LAG: Final = Metric(
    "foldlog.replica.lag",
    "gauge",
    "{operation}",
    "What a replica lacked when health() looked last",
    ("stream", "peer"),
)
PENDING: Final = Metric("foldlog.pending", "gauge", "By", "Bytes queued and in flight to the log")
SPOOL_WAITING: Final = Metric(
    "foldlog.spool.waiting", "gauge", "{envelope}", "Envelopes that wait in the spool"
)
SPOOL_SIZE: Final = Metric("foldlog.spool.size", "gauge", "By", "What the spool takes on the disk")
SPOOL_DROPPED: Final = Metric(
    "foldlog.spool.dropped", "observed counter", "{envelope}", "Envelopes that the spool lost"
)
DEGRADED: Final = Metric(
    "foldlog.degraded",
    "observed counter",
    "{call}",
    "Calls that a degrading store answered without doing their work",
    ("method",),
)
RECONNECTS: Final = Metric(
    "foldlog.reconnects", "observed counter", "{reconnect}", "Connections that were made again"
)
QUEUE_WAITING: Final = Metric(
    "foldlog.queue.waiting", "gauge", "{run}", "Runs that wait for a worker", ("queue",)
)
QUEUE_AGE: Final = Metric(
    "foldlog.queue.age", "gauge", "s", "How long the oldest of these has waited", ("queue",)
)
QUEUE_RUNNING: Final = Metric(
    "foldlog.queue.running", "gauge", "{run}", "Runs that workers have", ("queue",)
)
QUEUE_FAILED: Final = Metric(
    "foldlog.queue.failed", "gauge", "{run}", "Runs that failed and were not sent again", ("queue",)
)
QUEUE_WORKERS: Final = Metric(
    "foldlog.queue.workers", "gauge", "{worker}", "Workers that take from a queue", ("queue",)
)
PROJECTOR_LAG: Final = Metric(
    "foldlog.projector.lag", "gauge", "{record}", "Records of the log behind it", ("projector",)
)

METRICS: Final[tuple[Metric, ...]] = tuple(
    each for each in list(globals().values()) if isinstance(each, Metric)
)

SECONDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1, 5, 10)
RECORDS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
BYTES: Final = (256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304)

BOUNDARIES: Final[dict[str, tuple[float, ...]]] = {"s": SECONDS, "{record}": RECORDS, "By": BYTES}
"""Where histograms of a unit have their buckets."""
