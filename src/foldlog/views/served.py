"""What reads are answered from, compared with folds of the log."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, Final

from foldlog.envelope import CLEARED
from foldlog.errors import LogRewound
from foldlog.log.port import Log, Record
from foldlog.subjects import Subject
from foldlog.views.comparison import Difference, difference, first_difference
from foldlog.views.fold import Fold, continues
from foldlog.views.view import unaccounted
from foldlog.views.views import Views
from foldlog_projections.fold import Projection

_ATTEMPTS: Final = 50
"""How often a view that is written to all the time is looked at again before it is let be."""


class Served:
    """Compares folds with what is served: the view in memory, and the snapshot."""

    def __init__(self, log: Log, views: Views, projections: Sequence[Projection[Any]]) -> None:
        self._log = log
        self._views = views
        self._projections = projections
        self._snapshots: dict[str, set[str]] = {}

    async def look(self) -> None:
        """See which views have snapshots. Errors as `SnapshotStore.get`."""
        if self._views.snapshots is not None:
            for each in self._projections:
                self._snapshots[each.name] = await self._views.snapshots.names(each)

    def is_hot(self, subject: Subject) -> bool:
        """Whether a read of any of its views is answered from memory."""
        mine = (each for each in self._projections if each.family == subject.family)
        return any(self._views.peek(each, subject) for each in mine)

    async def compare(self, rebuilt: Fold[Any]) -> tuple[list[Difference], int]:
        """Return how what is served differs, and how many envelopes its snapshot covers.

        The fold goes on to where what is served has come.

        Raises:
            LogUnavailable, LogCorrupt: the log could not be read.
        """
        found: list[Difference] = []
        if (of_memory := await self._compare_hot(rebuilt)) is not None:
            found.append(of_memory)
        if rebuilt.subject.name not in self._snapshots.get(rebuilt.projection.name, ()):
            return found, 0
        of_snapshot, covered = await self._compare_snapshot(rebuilt)
        if of_snapshot is not None and not found:
            found.append(of_snapshot)
        return found, covered

    async def _compare_hot(self, rebuilt: Fold[Any]) -> Difference | None:
        projection, subject = rebuilt.projection, rebuilt.subject
        for attempt in range(_ATTEMPTS):
            if not self._views.peek(projection, subject):
                return None
            try:
                if attempt:  # most views are current as they are
                    await self._views.read_at(projection, subject)
            except LogRewound as error:
                return difference(None, rebuilt, str(error))
            records = await self._since(subject, rebuilt.applied)
            # Nothing is awaited from here on: both stand still.
            served = self._views.peek(projection, subject)
            if served is None:
                return None
            for record in records:
                if record.seq <= served.applied:
                    rebuilt.advance(record)
            if served.applied == rebuilt.applied:
                first = first_difference(served, rebuilt)
                return None if first is None else difference(served, rebuilt, first)
        return None

    async def _compare_snapshot(self, rebuilt: Fold[Any]) -> tuple[Difference | None, int]:
        snapshots = self._views.snapshots
        assert snapshots is not None, "else there would be no name of one"
        restored = await snapshots.load(rebuilt.projection, rebuilt.subject)
        if restored is None:
            return None, 0
        served = unaccounted(rebuilt.projection, rebuilt.subject)
        served.adopt(restored)
        covered = len(restored.folded.seen)
        records = await self._since(rebuilt.subject, restored.ground.seq - 1)
        if not records or not continues(restored.ground, records[0], within=True):
            first: str | None = (
                f"sequence {restored.ground.seq}: the snapshot stands on an envelope "
                "that the log does not hold"
            )
        elif records[0].envelopes[0].type == CLEARED:
            return None, 0  # it was cleared since: readers know
        else:
            for record in records:
                served.advance(record)
                rebuilt.advance(record)
            first = first_difference(served, rebuilt)
        return (None, covered) if first is None else (difference(served, rebuilt, first), 0)

    async def _since(self, subject: Subject, after: int) -> list[Record]:
        found: list[Record] = []
        async with aclosing(self._log.read(subject, after=after)) as pages:
            async for records in pages:
                found += records
        return found
