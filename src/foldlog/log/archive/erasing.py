"""Erasing from the archive: segments are written anew without what goes, and overwritten."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from foldlog.errors import FoldlogError, LogUnavailable
from foldlog.log.archive.manifests import ATTEMPTS, Manifest, Manifests, Superseded
from foldlog.log.archive.segments import SegmentGone, Segments
from foldlog.log.archive.selection import Selection
from foldlog_projections.archive import Segment


class Erasing:
    """Erases rows from the segments of a log; callers who wait meanwhile share one pass."""

    def __init__(self, manifests: Manifests, segments: Segments) -> None:
        self._manifests = manifests
        self._segments = segments
        self._due: list[tuple[int, Selection]] = []
        self._busy = asyncio.Lock()

    async def erase(self, shard: int, doomed: Selection) -> None:
        """Have no file of the archive hold these rows when this returns.

        The log has none of them any more: an archiver that read it earlier finds another manifest,
        and begins anew. What it puts into a bucket just then, its next pass removes.

        Raises:
            LogUnavailable, LogCorrupt: some may remain; erasing again is safe.
        """
        self._due.append((shard, doomed))
        async with self._busy:
            left, self._due = list(dict.fromkeys(self._due)), []
            error: FoldlogError | None = None
            try:
                for number in {number for number, _ in left}:
                    try:
                        await self._erase(number, [which for n, which in left if n == number])
                    except FoldlogError as failed:  # raised to those who ask for this shard
                        error = failed if number == shard else error
                    else:
                        left = [each for each in left if each[0] != number]
            finally:
                self._due += left
            if error is not None:
                raise error

    async def _erase(self, shard: int, doomed: Sequence[Selection]) -> None:
        for _ in range(ATTEMPTS):
            manifest = await self._manifests.current(shard, fresh=True)
            try:
                manifest = await self._without(shard, manifest, doomed)
            except (Superseded, SegmentGone):
                continue
            await self._segments.sweep(manifest.says.folder, manifest.seq, manifest.segments)
            return
        raise LogUnavailable(f"the archive of shard {shard} changes all the time: erase again")

    async def _without(
        self, shard: int, manifest: Manifest, doomed: Sequence[Selection]
    ) -> Manifest:
        """Write anew the segments that hold such rows, and change the manifest in any case."""
        holding = set[str]()
        for which in doomed:
            holding |= await self._segments.holding(manifest.segments, which)
        kept = list[Segment]()
        for segment in manifest.segments:
            if segment.name not in holding:
                kept.append(segment)
                continue
            previous = kept[-1].digest if kept else ""
            into = manifest.says.folder, manifest.seq
            kept += await self._segments.merge(*into, [segment], previous, without=doomed)
        says = msgspec.structs.replace(manifest.says, segments=tuple(kept))
        return await self._manifests.change(shard, manifest, says)
