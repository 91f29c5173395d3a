"""Rebuilding: every view folded again from the log, and compared with what was served."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from foldlog.errors import ConfigurationError
from foldlog.store.journal import Journal
from foldlog.subjects import Subject
from foldlog.views.refold import Refolded, refold
from foldlog_projections.fold import Folded, Projection
from foldlog_projections.registry import FAMILIES

_AT_ONCE: Final = 16
"""Subjects under way at once: their folds are in memory together."""


class RebuildProgress(NamedTuple):
    """How far a rebuild is: views `done` of `total`, and the view just folded."""

    done: int
    total: int
    envelopes: int
    projection: str
    key: str


class RebuildReport(NamedTuple):
    """What a rebuild did. `projections`: views by projection. `differing`: views, as
    `projection/key`, whose fold was not what this process had served.
    """

    views: int
    envelopes: int
    projections: dict[str, int]
    differing: tuple[str, ...]
    seconds: float


OnProgress = Callable[[RebuildProgress], None]


class Rebuild:
    """Drops views and folds them anew."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def rebuild(
        self, projection: str | None = None, *, on_progress: OnProgress | None = None
    ) -> RebuildReport:
        """Fold every view again from the log's first record, or those of one projection.

        Views that this process holds are brought up to date, compared with the new fold, and then
        dropped, and so are snapshots, so that later reads answer from the log.

        Raises:
            ConfigurationError: there is no such projection.
            LogUnavailable, LogCorrupt: the log could not be read whole.
        """
        if projection is not None and projection not in FAMILIES:
            known = ", ".join(FAMILIES)
            raise ConfigurationError(f"no projection {projection!r}; there are {known}")
        began = time.perf_counter()
        subjects = [
            subject
            for subject in await self._journal.log.subjects(projection)
            if subject.family in FAMILIES
        ]
        counts: Counter[str] = Counter()
        envelopes, differing = 0, list[str]()
        done = 0
        for start in range(0, len(subjects), _AT_ONCE):
            for subject, rebuilt in await self._all_rebuilt(subjects[start : start + _AT_ONCE]):
                fold = FAMILIES[subject.family]
                key = "/".join(subject.keys)
                done += 1
                envelopes += rebuilt.envelopes
                counts[fold.name] += 1
                if not await self._is_served(fold, subject, rebuilt.folded):
                    differing.append(f"{fold.name}/{key}")
                if on_progress is not None:
                    on_progress(RebuildProgress(done, len(subjects), envelopes, fold.name, key))
        await self._journal.views.drop()
        await self._journal.views.drop_snapshots(projection)
        seconds = time.perf_counter() - began
        return RebuildReport(len(subjects), envelopes, dict(counts), tuple(differing), seconds)

    async def _all_rebuilt(
        self, subjects: list[Subject]
    ) -> Iterator[tuple[Subject, Refolded[Any]]]:
        """Fold several subjects side by side: while one is on its way, another is folded."""
        folds = (self._rebuilt(FAMILIES[subject.family], subject) for subject in subjects)
        rebuilt = list[Refolded[Any]]()
        for result in await asyncio.gather(*folds, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
            rebuilt.append(result)
        return zip(subjects, rebuilt, strict=True)

    async def _rebuilt(self, fold: Projection[Any], subject: Subject) -> Refolded[Any]:
        # A view that needs the last envelope only must come out the same without those before.
        return await refold(self._journal.log, fold, subject, last_only=fold.latest_only)

    async def _is_served(
        self, fold: Projection[Any], subject: Subject, rebuilt: Folded[Any]
    ) -> bool:
        """Whether this process serves what was rebuilt; a view that it does not hold, it does."""
        if not self._journal.views.is_hot(subject):
            return True
        served = await self._journal.views.read(fold, subject, "strong")
        if bool(served.state == rebuilt.state):
            return True
        # Something may have been saved since the fold above: fold once more, up to now.
        rebuilt = (await self._rebuilt(fold, subject)).folded
        return bool(served.state == rebuilt.state)
