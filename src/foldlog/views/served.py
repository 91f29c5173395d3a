"""What is served of views, held against folds of the log that nobody reads yet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any, Final

import msgspec

from foldlog.envelope import CLEARED
from foldlog.errors import LogRewound
from foldlog.log.port import Log, Record
from foldlog.subjects import Subject
from foldlog.views.comparison import Difference, first_difference, plain, prefix, side
from foldlog.views.folding import Folding
from foldlog.views.snapshot import Restored
from foldlog.views.view import View, continues
from foldlog.views.views import Views
from foldlog_projections.fold import Folded, Projection
from foldlog_projections.items import Items
from foldlog_projections.kept import Kept
from foldlog_projections.own import family_of

_ATTEMPTS: Final = 50
"""How often a view that is written to all the time is looked at again before it is let be."""


class Served:
    """Compares views under construction with what reads are answered from: memory and snapshots.

    `differing` are the views of which something else is served than the log gives, `changed` those
    whose snapshot by another version of the projection says something else.
    """

    def __init__(self, log: Log, views: Views, projections: Sequence[Projection[Any]]) -> None:
        self._log = log
        self._views = views
        self._projections = projections
        self._snapshots: dict[str, list[Projection[Any]]] = defaultdict(list)
        self.differing: list[Difference] = []
        self.changed: list[Difference] = []

    async def look(self) -> None:
        """See which views have snapshots. Errors as `SnapshotStore.get`."""
        snapshots = self._views.snapshots
        if snapshots is None:
            return
        for projection in self._projections:
            editions = [await snapshots.editions.current(projection)]
            editions += await snapshots.editions.of_other_versions(projection)
            names = set[str]()
            for edition in dict.fromkeys(editions):
                names |= await snapshots.store.names(family_of(projection), edition)
            for name in names:
                self._snapshots[name].append(projection)

    def is_hot(self, subject: Subject) -> bool:
        """Whether a read of any of its views is answered from memory."""
        return any(self._views.peek(each, subject) for each in self._of(subject))

    async def prepare(self, folding: Folding, names: set[str]) -> None:
        """Have the snapshots of subjects compared when their folds come to where those stand.

        Errors as `SnapshotStore.get`.
        """
        snapshots = self._views.snapshots
        if snapshots is None:
            return
        for name in names & self._snapshots.keys():
            for projection in self._snapshots.pop(name):
                subject = folding.namespace.parse(name) or Subject(name, folding.shard, ())
                restored = await snapshots.load(projection, subject)
                version = projection.version
                if restored is None:
                    other = await snapshots.load_other(projection, subject)
                    if other is None:
                        continue
                    version, restored = other
                ground = restored.ground.seq
                compare = self._comparing(projection, version, restored)
                folding.grounds.setdefault(name, []).append((ground, compare))
        for waiting in folding.grounds.values():
            waiting.sort(key=_sequence)

    async def compare_hot(self, rebuilt: View[Any]) -> None:
        """Compare a view that is hot with its fold, which goes on to where the hot one is.

        Raises:
            LogUnavailable, LogCorrupt: the log could not be read.
        """
        projection, subject = rebuilt.projection, rebuilt.subject
        for _ in range(_ATTEMPTS):
            if not self._views.peek(projection, subject):
                return
            try:
                await self._views.read_at(projection, subject)
            except LogRewound as error:
                self._differs(rebuilt, None, rebuilt.folded, projection.version, str(error))
                return
            records = await self._since(subject, rebuilt.applied)
            # Nothing is awaited from here on: both stand still.
            served = self._views.peek(projection, subject)
            if served is None:
                return
            for record in records:
                if record.seq <= served.applied:
                    rebuilt.advance(record)
            if served.applied == rebuilt.applied:
                old, new = served.folded, rebuilt.folded
                if projection.latest_only:  # one has the end of the subject, the other all of it
                    old, new = (
                        Folded(each.state, dict.fromkeys(["*"] if each.state else (), 0))
                        for each in (old, new)
                    )
                first = first_difference(old, new)
                self._differs(rebuilt, old, new, projection.version, first)
                return

    async def _since(self, subject: Subject, after: int) -> list[Record]:
        found: list[Record] = []
        async with aclosing(self._log.read(subject, after=after)) as pages:
            async for records in pages:
                found += records
        return found

    def _comparing(
        self, projection: Projection[Any], version: int, restored: Restored[Any]
    ) -> Callable[[View[Any], Record], None]:
        def compare(rebuilt: View[Any], record: Record) -> None:
            if rebuilt.projection is not projection:
                return
            if not continues(restored.ground, record, within=True):
                first: str | None = (
                    f"sequence {restored.ground.seq}: the snapshot stands on an envelope "
                    "that the log does not hold"
                )
                self._differs(rebuilt, restored.folded, rebuilt.folded, version, first)
            elif record.seq != restored.ground.seq or record.envelopes[0].type == CLEARED:
                return  # it was cleared since: readers know
            else:
                folded = _as_of(projection, version, restored, rebuilt)
                first = first_difference(restored.folded, folded)
                self._differs(rebuilt, restored.folded, folded, version, first)

        return compare

    def _differs(
        self,
        rebuilt: View[Any],
        served: Folded[Any] | None,
        folded: Folded[Any],
        version: int,
        first: str | None,
    ) -> None:
        if first is None:
            return
        projection = rebuilt.projection
        name = f"{projection.name}/{'/'.join(rebuilt.subject.keys)}"
        found = Difference(
            name,
            side(served if served is not None else Folded(None), version),
            side(folded, projection.version),
            first,
        )
        (self.differing if version == projection.version else self.changed).append(found)

    def _of(self, subject: Subject) -> list[Projection[Any]]:
        return [each for each in self._projections if family_of(each) == subject.family]


def _as_of(
    projection: Projection[Any], version: int, restored: Restored[Any], rebuilt: View[Any]
) -> Folded[Any]:
    """The fold of the log as it was where a snapshot was taken, in the snapshot's terms."""
    folded: Folded[Any] = rebuilt.folded
    if isinstance(folded.state, Items) and isinstance(restored.folded.state, Items):
        return prefix(folded, len(restored.folded.seen))
    if version == projection.version:
        return folded
    state = plain(folded.state)
    if isinstance(projection, Kept):
        state = msgspec.msgpack.decode(projection.keep(folded.state))
    return Folded(state, folded.seen, folded.refused, folded.cleared_at)


def _sequence(waiting: tuple[int, Any]) -> int:
    return waiting[0]
