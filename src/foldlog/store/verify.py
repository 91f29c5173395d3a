"""Verifying: every view folded again and compared with what is served, and the log looked through.

Nothing is changed. What is wrong with the log is for the checks in `CHECKS` to say: each is given
what one shard was like, and returns what it finds. A new one is a function and its place in there.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from foldlog.errors import LogCorrupt
from foldlog.log.port import Log
from foldlog.store.core import Core
from foldlog.store.refolds import OnProgress, Refolds, targets
from foldlog.views.comparison import Difference
from foldlog.views.folding import Whole
from foldlog_projections.fold import Projection


class Finding(NamedTuple):
    """What is wrong with the log, and where: a stream or subject, and a sequence in it."""

    where: str
    sequence: int
    reason: str


@dataclass(slots=True)
class Seen:
    """What a shard was like when all of it was read.

    `spared` are the records that could not be read, `lacking` the subjects of which fewer records
    came than the log had counted.
    """

    log: Log
    shard: int
    spared: list[LogCorrupt] = field(default_factory=list)
    lacking: list[Whole] = field(default_factory=list)


Check = Callable[[Seen], Awaitable[list[Finding]]]


class VerifyReport(NamedTuple):
    """What a verification found. `projections`: views by projection.

    `differing`: views of which something else is served than the log gives. `changed`: views whose
    snapshot by another version of the projection says something else. `findings`: what is wrong
    with the log itself.
    """

    views: int
    envelopes: int
    projections: dict[str, int]
    differing: tuple[Difference, ...]
    changed: tuple[Difference, ...]
    findings: tuple[Finding, ...]
    seconds: float

    @property
    def is_good(self) -> bool:
        """Whether what is served is what the log says, and all of the log can be read."""
        return not self.differing and not self.findings


async def unreadable(seen: Seen) -> list[Finding]:
    """Records that are none, or that a projection cannot fold."""
    return [Finding(each.stream, each.sequence, each.reason) for each in seen.spared]


async def missing(seen: Seen) -> list[Finding]:
    """Subjects of which the log counts more records than it gives.

    A subject that was cleared meanwhile has lost them rightly: then the log counts fewer, too.
    """
    if not seen.lacking:
        return []
    told = {each.stream for each in seen.spared}
    counts = await seen.log.counts(seen.shard)
    return [
        Finding(
            whole.subject.name,
            whole.seq,
            f"{whole.expected - whole.records} of {whole.expected} records cannot be read",
        )
        for whole in seen.lacking
        if counts.get(whole.subject.name, 0) >= whole.expected and whole.subject.name not in told
    ]


async def lost(seen: Seen) -> list[Finding]:
    """What the log held once and holds no more, by the marks next to it."""
    if seen.shard:
        return []  # the first time covers all
    return [Finding(each.stream, each.sequence, each.reason) for each in await seen.log.check()]


CHECKS: Final[tuple[Check, ...]] = (unreadable, missing, lost)


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
        log, findings = self._core.forked_log, list[Finding]()
        seen = Seen(log, 0)

        def spare(error: LogCorrupt) -> None:
            # The fold of a subject and a read of it come upon the same record.
            if all(each.sequence != error.sequence for each in seen.spared):
                seen.spared.append(error)

        refolds = Refolds(
            log,
            self._core.hot_views,
            targets(projection, self._own),
            on_progress=on_progress,
            spare=spare,
        )
        await refolds.look()
        for shard in range(log.namespace.shards):
            seen = Seen(log, shard)
            async for wholes in refolds.shard(shard):
                seen.lacking += [whole for whole in wholes if whole.records < whole.expected]
            for check in CHECKS:
                findings += await check(seen)
        made = refolds.made
        return VerifyReport(
            sum(made.views.values()),
            made.envelopes,
            dict(made.views),
            tuple(made.differing),
            tuple(made.changed),
            tuple(findings),
            time.perf_counter() - began,
        )
