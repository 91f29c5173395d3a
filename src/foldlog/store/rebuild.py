"""Rebuilding and verifying: every view folded again from the log, beside what is served.

Both scan the log once, fold every subject from its first record, and compare each fold with what
memory and snapshots serve of it. `verify` reports. `rebuild` also writes the snapshots that are
due, and at the end accepts the log, drops what is in memory and removes the snapshots that differ.
Until then reads are answered as before, and a rebuild that is interrupted leaves them so. Views
that cannot be read whole stay as they are.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, NamedTuple

from foldlog.errors import LogCorrupt, LogRewound, NotFound
from foldlog.log.port import Log
from foldlog.store.core import Core
from foldlog.subjects import Subject
from foldlog.views.comparison import Served, ViewDifference
from foldlog.views.fold import Fold
from foldlog.views.refolding import Refolded, Refolding
from foldlog.views.view import View


class RebuildProgress(NamedTuple):
    """How far a rebuild or a verification is.

    Attributes:
        done: views that are done.
        total: views to do.
        envelopes: envelopes folded so far.
        projection: the kind of the view that was done last, "" before there is one.
        key: the key of that view.
        records: records read so far.
        of_records: records to read.
    """

    done: int
    total: int
    envelopes: int
    projection: str
    key: str
    records: int
    of_records: int


OnProgress = Callable[[RebuildProgress], None]


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """What a rebuild did.

    Attributes:
        views: how many views were folded.
        envelopes: how many envelopes they hold.
        projections: how many views, by kind.
        differing: views whose reads were answered with something else than the log gives.
        seconds: how long it took.
    """

    views: int
    envelopes: int
    projections: dict[str, int]
    differing: tuple[ViewDifference, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with the log, and where.

    Attributes:
        where: a stream, a subject, or a file of the archive.
        sequence: a sequence in it.
        reason: what is wrong.
    """

    where: str
    sequence: int
    reason: str


@dataclass(frozen=True, slots=True)
class VerifyReport(RebuildReport):
    """What a verification found.

    Attributes:
        views: how many views were folded.
        envelopes: how many envelopes they hold.
        projections: how many views, by kind.
        differing: views whose reads are answered with something else than the log gives.
        seconds: how long it took.
        findings: what is wrong with the log itself.
        accepted: losses that an operator has accepted: files of the archive that were given up.
    """

    findings: tuple[Finding, ...]
    accepted: tuple[Finding, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether reads answer what the log says, and all of the log can be read."""
        return not self.differing and not self.findings


async def rebuild(core: Core, name: str | None, on_progress: OnProgress | None) -> RebuildReport:
    """See `Store.rebuild`."""
    began, views = time.perf_counter(), core.hot_views
    unreadable: dict[str, LogCorrupt] = {}

    def note(error: LogCorrupt) -> None:
        unreadable.setdefault(error.stream, error)

    refolds = _Refolds(core, name, on_progress, note)
    wrong, hot = list[Subject](), set[Subject]()
    async with aclosing(refolds.subjects()) as subjects:
        async for whole, folds in subjects:
            if whole.records < whole.expected or whole.subject.name in unreadable:
                continue  # what is served may hold more than can be read
            if refolds.served.is_hot(whole.subject):
                hot.add(whole.subject)
            if any(found for _, found, _ in folds):
                wrong.append(whole.subject)
            elif views.snapshots is not None and refolds.served.serves(whole.subject.shard):
                for fold, _, covered in folds:
                    await views.snapshots.write(fold, covered)
    if not unreadable:
        await core.forked_log.accept()
    is_meant = refolds.served.is_meant

    def is_rebuilt(view: View[Any]) -> bool:
        return is_meant(view.projection) and (not unreadable or view.subject in hot)

    await views.drop(is_rebuilt)
    for subject in wrong:
        await views.forget(subject)
    for error in unreadable.values():
        raise error
    return RebuildReport(*refolds.results(), time.perf_counter() - began)


async def verify(core: Core, name: str | None, on_progress: OnProgress | None) -> VerifyReport:
    """See `Store.verify`."""
    began, log = time.perf_counter(), core.forked_log
    unreadable: dict[tuple[str, int], LogCorrupt] = {}

    def note(error: LogCorrupt) -> None:
        # The fold of a subject and a read of it may meet the same record.
        unreadable.setdefault((error.stream, error.sequence), error)

    refolds = _Refolds(core, name, on_progress, note)
    lacking: list[Refolded] = []
    async with aclosing(refolds.subjects()) as subjects:
        async for whole, _ in subjects:
            if whole.records < whole.expected:
                lacking.append(whole)
    findings = [_finding(each) for each in unreadable.values()]
    named = {where for where, _ in unreadable}
    lacking = [each for each in lacking if each.subject.name not in named]
    if lacking:
        # A subject that was cleared meanwhile has rightly lost records.
        counts = await refolds.counts()
        findings += [_missing(e) for e in lacking if counts.get(e.subject, 0) >= e.expected]
    findings += [_finding(loss) for loss in await log.check()]
    damaged, accepted = refolds.damaged_files, refolds.lost_files
    named = {each.where for each in damaged}  # a scan may name several at once
    findings = [each for each in findings if not named.issuperset(each.where.split(", "))]
    seconds, found = time.perf_counter() - began, (*findings, *damaged)
    return VerifyReport(*refolds.results(), seconds, found, tuple(accepted))


_Compared = tuple[Fold[Any], ViewDifference | None, int]
"""A fold, how what is served differs, and how many envelopes the fold's snapshot covers."""


class _Refolds:
    """Every view, or those of one kind, folded anew beside what is served and compared with it.

    Args:
        name: the kind. None: all.
        pass_over: see `Refolding`.
    """

    def __init__(
        self,
        core: Core,
        name: str | None,
        on_progress: OnProgress | None,
        pass_over: Callable[[LogCorrupt], None],
    ) -> None:
        if name is not None and name not in core.kinds:
            known = ", ".join(core.kinds)
            raise NotFound("kind", name, f"there are {known}")
        self._log: Log = core.forked_log
        self._archiver = core.backend.archiver
        self.damaged_files: list[Finding] = []
        self.lost_files: list[Finding] = []
        self._on_progress = on_progress
        self._pass_over = pass_over
        chosen = core.kinds if name is None else [name]
        self.served = Served(self._log, core.hot_views, core.kinds, chosen)
        self._views = Counter[str]()
        self._total = self._of_records = self._records = self._envelopes = 0
        self._differing: list[ViewDifference] = []

    async def subjects(self) -> AsyncGenerator[tuple[Refolded, list[_Compared]]]:
        """Yield each subject when it is folded and compared."""
        served = self.served
        await self._look_at_files()
        await served.look()
        counts = await self.counts()
        self._of_records = sum(counts.values())
        self._total = sum(len(served.projections(each)) for each in counts)
        refolding = Refolding(self._log, served.projections, served.is_hot, self._pass_over)
        for shard in range(self._log.namespace.shards):
            own = {each: count for each, count in counts.items() if each.shard == shard}
            async with aclosing(refolding.shard(shard, own)) as pages:
                async for page in pages:
                    for whole in page:
                        yield whole, [await self._compared(each) for each in whole.folds]
                        self._records += whole.records
                        self._envelopes += whole.envelopes
                    self._tell(page[-1].folds[-1] if page else None)

    async def _look_at_files(self) -> None:
        """Look at the files of the archive: of some that are damaged no subject is known."""
        if self._archiver is None:
            return
        try:
            shards = await self._archiver.health((await self._log.info()).streams, files=True)
        except LogCorrupt as error:  # a manifest
            self._pass_over(error)
            return
        for each in shards:
            self.damaged_files += [Finding(f, each.until, why) for f, why in each.damaged.items()]
            self.lost_files += [Finding(f, each.until, why) for f, why in each.lost.items()]
        for found in self.damaged_files:
            self._pass_over(LogCorrupt(found.where, found.sequence, found.reason))

    async def counts(self) -> dict[Subject, int]:
        """Return how many records each subject holds that has views."""
        counts = await self._log.subjects()
        return {each: count for each, count in counts.items() if self.served.projections(each)}

    def results(self) -> tuple[int, int, dict[str, int], tuple[ViewDifference, ...]]:
        """Return what both reports begin with."""
        views = self._views
        return views.total(), self._envelopes, dict(views), tuple(self._differing)

    async def _compared(self, fold: Fold[Any]) -> _Compared:
        found, covered = None, 0
        try:
            found, covered = await self.served.compare(fold)
        except LogCorrupt as error:  # reads are answered up to that record
            self._pass_over(error)
        if found is not None:
            self._differing.append(found)
        self._views[fold.projection.name] += 1
        return fold, found, covered

    def _tell(self, last: Fold[Any] | None) -> None:
        if self._on_progress is not None:
            name, key = (last.projection.name, "/".join(last.subject.keys)) if last else ("", "")
            folded = self._views.total(), self._total, self._envelopes
            self._on_progress(RebuildProgress(*folded, name, key, self._records, self._of_records))


def _finding(error: LogCorrupt | LogRewound) -> Finding:
    return Finding(error.stream, error.sequence, error.reason)


def _missing(lacking: Refolded) -> Finding:
    lost = lacking.expected - lacking.records
    reason = f"{lost} of {lacking.expected} records cannot be read"
    return Finding(lacking.subject.name, lacking.folds[0].applied, reason)
