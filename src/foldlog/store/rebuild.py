"""Rebuilding: every view folded again from the log beside what is served, then put in its place.

1. Read the log once, in order, and fold every subject from its first record.
2. Compare each fold with what is served of it: by memory, and by its snapshot.
3. Write the snapshots that are due of those that do not differ.
4. At the end accept the log as it is, drop what is in memory, and remove the snapshots of what
   differs.

Until then reads are answered as if there were no rebuild, and one that is cut short has changed
nothing that is wrong: what it has written, the next read finds right.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

from foldlog.store.core import Core
from foldlog.store.refolds import Compared, OnProgress, RebuildProgress, Refolds, targets
from foldlog.subjects import Subject
from foldlog.views.comparison import Difference
from foldlog.views.view import unaccounted
from foldlog_projections.fold import Projection

__all__ = ["Rebuild", "RebuildProgress", "RebuildReport"]


class RebuildReport(NamedTuple):
    """What a rebuild did. `projections`: views by projection.

    `differing`: views of which something else was served than the log gives.
    """

    views: int
    envelopes: int
    projections: dict[str, int]
    differing: tuple[Difference, ...]
    seconds: float


class Rebuild:
    """Folds views anew, and has reads answered from what that gives."""

    def __init__(self, core: Core, own: Sequence[Projection[Any]] = ()) -> None:
        self._core = core
        self._own = own

    async def rebuild(
        self, projection: str | None = None, *, on_progress: OnProgress | None = None
    ) -> RebuildReport:
        """Fold every view again from the log's first record, or those of one projection.

        Meanwhile reads are answered as before. Each new fold is compared with what is served; only
        when all are there, reads are answered from the log anew, whatever the comparison gave: the
        log is the truth. A rebuild that was interrupted, even by kill -9, may be called again.

        Raises:
            ConfigurationError: there is no such projection.
            LogUnavailable, LogCorrupt: the log could not be read whole. What is in memory stays.
        """
        began = time.perf_counter()
        chosen = targets(projection, self._own)
        log, views = self._core.forked_log, self._core.hot_views
        refolds = Refolds(log, views, chosen, on_progress=on_progress)
        wrong: list[Subject] = []
        async with aclosing(refolds.shards()) as subjects:
            async for _, whole, compared in subjects:
                if any(each.differing for each in compared):
                    wrong.append(whole.subject)
                else:
                    await self._write(compared)
        await log.accept()
        await views.drop({each.name for each in chosen})
        for subject in wrong:
            await views.forget(subject)
        return RebuildReport(
            refolds.views.total(),
            refolds.envelopes,
            dict(refolds.views),
            tuple(refolds.differing),
            time.perf_counter() - began,
        )

    async def _write(self, compared: Sequence[Compared]) -> None:
        """Write the snapshots that are due of folds."""
        snapshots = self._core.hot_views.snapshots
        if snapshots is None:
            return
        for fold, _, covered in compared:
            view = unaccounted(fold.projection, fold.subject)
            view.folded, view.applied, view.last = fold.folded, fold.applied, fold.last
            view.saved(covered)
            await snapshots.write(view)
