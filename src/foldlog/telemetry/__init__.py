"""OpenTelemetry for stores: metrics and spans. Needs the extra `foldlog[otel]`.

    import foldlog
    from foldlog.telemetry import instrument

    async with foldlog.connect() as store:
        instrument(store)

A store that is not instrumented pays nothing for it: what is measured is put in front of its
methods when `instrument` is called, and OpenTelemetry is imported then.
"""

from foldlog.telemetry.instrument import instrument
from foldlog.telemetry.metrics import METRICS, Metric

__all__ = ["METRICS", "Metric", "instrument"]
