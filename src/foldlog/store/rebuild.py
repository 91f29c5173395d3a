"""Rebuilding: every view folded again from the log beside what is served, then put in its place.

1. Read the log once, in order, and fold every subject from its first record.
2. Compare each fold with what is served of it: by memory, and by its snapshot.
3. Write a new snapshot of each long one, in an edition that nobody reads yet.
4. When all is done, switch to the new edition, accept the log as it is, and drop what is in memory.

What is done is put on record from time to time, so that a rebuild which is cut short goes on where
it was. Until the switch, reads are answered as if there were no rebuild.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, NamedTuple

from foldlog.store.build import Build
from foldlog.store.core import Core
from foldlog.store.refolds import OnProgress, RebuildProgress, Refolds, targets
from foldlog.views.comparison import Difference
from foldlog.views.folding import Whole
from foldlog.views.snapshots import Snapshots
from foldlog_projections.fold import Projection

_RECORDED_EVERY: Final = 250_000
"""Envelopes after which it is put on record how far a rebuild is: a second's work or two."""

_AT_ONCE: Final = 8
"""Snapshots being written at once."""

__all__ = ["Rebuild", "RebuildProgress", "RebuildReport"]


class RebuildReport(NamedTuple):
    """What a rebuild did. `projections`: views by projection.

    `differing`: views of which something else was served than the log gives. `changed`: views whose
    snapshot by another version of the projection says something else. `is_resumed`: an earlier
    rebuild had been cut short, and its work is counted in.
    """

    views: int
    envelopes: int
    projections: dict[str, int]
    differing: tuple[Difference, ...]
    changed: tuple[Difference, ...]
    is_resumed: bool
    seconds: float


class Rebuild:
    """Folds views anew, and has reads answered from what that gives."""

    def __init__(
        self,
        core: Core,
        own: Sequence[Projection[Any]] = (),
        *,
        recorded_every: int = _RECORDED_EVERY,
    ) -> None:
        self._core = core
        self._own = own
        self._recorded_every = recorded_every

    async def rebuild(
        self, projection: str | None = None, *, on_progress: OnProgress | None = None
    ) -> RebuildReport:
        """Fold every view again from the log's first record, or those of one projection.

        Meanwhile reads are answered as before. Each new fold is compared with what is served; only
        when all are there, reads are switched to them, whatever the comparison gave: the log is the
        truth. A rebuild that was interrupted, even by kill -9, goes on where it was when the same
        one is called again, by whatever process.

        Raises:
            ConfigurationError: there is no such projection, or another process has taken the
                rebuild over. Nothing was switched.
            LogUnavailable, LogCorrupt: the log could not be read whole. Nothing was switched.
        """
        began = time.perf_counter()
        chosen = targets(projection, self._own)
        log, views = self._core.forked_log, self._core.hot_views
        build = None
        if views.snapshots is not None:
            build = await Build.begin(views.snapshots, log.namespace, chosen)
        refolds = Refolds(log, views, chosen, on_progress=on_progress)
        if build is not None:
            refolds.resume(build.made, build.is_finished)
        await refolds.look()
        recorded = refolds.made.envelopes
        for shard in range(refolds.made.shard, log.namespace.shards):
            async for wholes in refolds.shard(shard):
                if build is None:
                    continue
                await _keep(build, views.snapshots, wholes)
                if refolds.made.envelopes - recorded >= self._recorded_every:
                    recorded = refolds.made.envelopes
                    build.made = refolds.made
                    await build.save()
        await self._switch(build, chosen)
        made = refolds.made
        return RebuildReport(
            sum(made.views.values()),
            made.envelopes,
            dict(made.views),
            tuple(made.differing),
            tuple(made.changed),
            build is not None and build.is_resumed,
            time.perf_counter() - began,
        )

    async def _switch(self, build: Build | None, chosen: Sequence[Projection[Any]]) -> None:
        log, views = self._core.forked_log, self._core.hot_views
        async with AsyncExitStack() as stack:
            if build is not None and views.snapshots is not None:
                # What is in memory may be wrong: none of it comes into the new edition.
                await stack.enter_async_context(views.snapshots.resting())
                await build.switch()
            await log.accept()
            await views.drop({each.name for each in chosen})


async def _keep(build: Build, snapshots: Snapshots | None, wholes: Sequence[Whole]) -> None:
    """Write the snapshots of views that are whole, and note them as finished."""
    assert snapshots is not None, "there is no build without them"
    due = [view for whole in wholes for view in whole.views]
    for start in range(0, len(due), _AT_ONCE):
        some = due[start : start + _AT_ONCE]
        await asyncio.gather(
            *(snapshots.keep(each, build.edition(each.projection)) for each in some)
        )
    build.finish(whole.subject.name for whole in wholes)
