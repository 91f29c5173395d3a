"""What reads are answered from, compared with folds of the log."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, Final

from foldlog.envelope import CLEARED
from foldlog.log.port import Log, Record
from foldlog.subjects import Subject
from foldlog.views.comparison import Difference, compare, difference
from foldlog.views.fold import Fold, holds
from foldlog.views.refolding import FoldsOf
from foldlog.views.views import Views
from foldlog_projections.fold import Projection

_ATTEMPTS: Final = 50
"""How often a view that is written to all the time is tried again."""


class Served:
    """Compares folds with what is served: the view in memory, and the snapshot."""

    def __init__(self, log: Log, views: Views, folds_of: FoldsOf) -> None:
        self._log = log
        self._views = views
        self._folds_of = folds_of
        self._snapshots: dict[str, set[str]] = {}
        self._lost: set[str] = set()

    async def look(self, projections: Sequence[Projection[Any]]) -> None:
        """See which views have snapshots, and which shards serve nothing since they lost records.

        Errors as `SnapshotStore.get`.
        """
        self._lost = {loss.stream for loss in await self._log.check()}
        if self._views.snapshots is not None:
            for each in projections:
                self._snapshots[each.name] = await self._views.snapshots.names(each)

    def is_hot(self, subject: Subject) -> bool:
        """Whether a read of any of its views is answered from memory."""
        return any(self._views.peek(each, subject) for each in self._folds_of(subject.family))

    def serves(self, shard: int) -> bool:
        """Whether reads of a shard are answered at all."""
        return self._log.namespace.stream(shard) not in self._lost

    async def compare(self, rebuilt: Fold[Any]) -> tuple[Difference | None, int]:
        """Return how what is served differs, and how many envelopes its snapshot covers.

        The fold goes on to where what is served has come.

        Raises:
            LogUnavailable, LogCorrupt: the log could not be read.
        """
        if not self.serves(rebuilt.subject.shard):
            return None, 0
        found, covered = None, 0
        if self._views.peek(rebuilt.projection, rebuilt.subject):
            found = await self._compare_memory(rebuilt)
        if rebuilt.subject.name in self._snapshots.get(rebuilt.projection.name, ()):
            of_snapshot, covered = await self._compare_snapshot(rebuilt)
            found = found or of_snapshot
        return found, covered

    async def _compare_memory(self, rebuilt: Fold[Any]) -> Difference | None:
        projection, subject = rebuilt.projection, rebuilt.subject
        for _ in range(_ATTEMPTS):
            served = self._views.peek(projection, subject)
            if served is not None and served.applied < rebuilt.applied:
                await self._views.refresh(served, "strong")
            records = await self._read(subject, rebuilt.applied)
            # Nothing is awaited from here on: both stand still.
            served = self._views.peek(projection, subject)
            if served is None:
                return None
            for record in records:
                if record.seq <= served.applied:
                    rebuilt.advance(record.envelopes)
            if served.applied == rebuilt.applied:
                return compare(served, rebuilt)
        return None

    async def _compare_snapshot(self, rebuilt: Fold[Any]) -> tuple[Difference | None, int]:
        snapshots = self._views.snapshots
        assert snapshots is not None, "else there would be no name of one"
        restored = await snapshots.load(rebuilt.projection, rebuilt.subject)
        if restored is None:
            return None, 0
        served = Fold(rebuilt.projection, rebuilt.subject)
        served.folded, ground, _, _ = restored
        covered = len(served.folded.seen)
        records = await self._read(rebuilt.subject, ground.seq - 1)
        if not records or not holds(ground, records[0]):
            first = f"sequence {ground.seq}: the snapshot ends there, and the log does not hold it"
            return difference(served, rebuilt, first), 0
        if records[0].envelopes[0].type == CLEARED:
            return None, 0  # it was cleared since, and readers see that
        for record in records:
            served.advance(record.envelopes)
            if record.seq > rebuilt.applied:
                rebuilt.advance(record.envelopes)
        found = compare(served, rebuilt)
        return found, 0 if found else covered

    async def _read(self, subject: Subject, after: int) -> list[Record]:
        found: list[Record] = []
        async with aclosing(self._log.read(subject, after=after)) as pages:
            async for records in pages:
                found += records
        return found
