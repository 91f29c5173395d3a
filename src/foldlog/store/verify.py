"""Verifying: every view folded again and compared with what is served, and the log looked through.

Nothing is changed. Of the log is told what cannot be read, what it counts but does not give, and
what it is known to have lost.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

from foldlog.errors import LogCorrupt, LogRewound
from foldlog.store.core import Core
from foldlog.store.refolds import OnProgress, Refolds, targets
from foldlog.views.comparison import Difference
from foldlog.views.refolding import Refolded
from foldlog_projections.fold import Projection


class Finding(NamedTuple):
    """What is wrong with the log, and where: a stream or subject, and a sequence in it."""

    where: str
    sequence: int
    reason: str


class VerifyReport(NamedTuple):
    """What a verification found. `projections`: views by projection.

    `differing`: views of which something else is served than the log gives. `findings`: what is
    wrong with the log itself.
    """

    views: int
    envelopes: int
    projections: dict[str, int]
    differing: tuple[Difference, ...]
    findings: tuple[Finding, ...]
    seconds: float

    @property
    def is_good(self) -> bool:
        """Whether what is served is what the log says, and all of the log can be read."""
        return not self.differing and not self.findings


class Verify:
    """Compares what is served with the log, and looks through the log."""

    def __init__(self, core: Core, own: Sequence[Projection[Any]] = ()) -> None:
        self._core = core
        self._own = own

    async def verify(
        self, projection: str | None = None, *, on_progress: OnProgress | None = None
    ) -> VerifyReport:
        """Fold every view again, or those of one projection, and compare; change nothing.

        What reads are answered from is compared: memory, and snapshots. What of the log cannot be
        read is passed over and reported.

        Raises:
            ConfigurationError: there is no such projection.
            LogUnavailable: the log could not be reached.
        """
        began = time.perf_counter()
        log, views = self._core.forked_log, self._core.hot_views
        spared: dict[tuple[str, int], LogCorrupt] = {}

        def spare(error: LogCorrupt) -> None:
            # The fold of a subject and a read of it come upon the same record.
            spared.setdefault((error.stream, error.sequence), error)

        chosen = targets(projection, self._own)
        refolds = Refolds(log, views, chosen, on_progress=on_progress, spare=spare)
        lacking: dict[int, list[Refolded]] = {}
        async with aclosing(refolds.shards()) as subjects:
            async for shard, whole, _ in subjects:
                if whole.records < whole.expected:
                    lacking.setdefault(shard, []).append(whole)
        findings = [_finding(each) for each in spared.values()]
        unreadable = {each.where for each in findings}
        for shard, some in lacking.items():
            counts = await log.counts(shard)
            findings += [
                _missing(each)
                for each in some
                # One that was cleared meanwhile has lost its records rightly.
                if counts.get(each.subject.name, 0) >= each.expected
                and each.subject.name not in unreadable
            ]
        findings += [_finding(error) for error in await log.check()]
        return VerifyReport(
            refolds.views.total(),
            refolds.envelopes,
            dict(refolds.views),
            tuple(refolds.differing),
            tuple(findings),
            time.perf_counter() - began,
        )


def _finding(error: LogCorrupt | LogRewound) -> Finding:
    return Finding(error.stream, error.sequence, error.reason)


def _missing(lacking: Refolded) -> Finding:
    lost = lacking.expected - lacking.records
    reason = f"{lost} of {lacking.expected} records cannot be read"
    return Finding(lacking.subject.name, lacking.seq, reason)
