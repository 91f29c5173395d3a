"""Erasing from the archive: segments are written anew without what goes, and overwritten."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from foldlog.errors import FoldlogError, LogCorrupt, LogUnavailable
from foldlog.log.archive.manifest import Manifest
from foldlog.log.archive.manifests import ATTEMPTS, Manifests, Superseded
from foldlog.log.archive.segments import Segments
from foldlog.log.archive.selection import Selection
from foldlog_projections.archive import Segment


@dataclass(slots=True, eq=False)
class _Request:
    """Rows that somebody waits to have erased, and why they could not be."""

    shard: int
    doomed: Selection
    error: FoldlogError | None = None


class Erasing:
    """Erases rows from the segments of a log; callers who wait meanwhile share one pass."""

    def __init__(self, manifests: Manifests, segments: Segments) -> None:
        self._manifests = manifests
        self._segments = segments
        self._due: list[_Request] = []
        self._busy = asyncio.Lock()

    async def erase(self, shard: int, doomed: Selection) -> None:
        """Have no file of the archive hold these rows when this returns.

        The log has none of them any more: an archiver that read it earlier finds another manifest,
        and begins anew. What it puts into a bucket just then, its next pass removes.

        Raises:
            LogCorrupt: a damaged file may hold some. LogUnavailable: some may remain. Erasing
                again is safe. Errors as `Manifests.current`.
        """
        request = _Request(shard, doomed)
        self._due.append(request)
        async with self._busy:
            if request in self._due:
                await self._pass(shard)
        if request.error is not None:
            try:
                raise request.error
            finally:
                request.error = None  # the error knows this frame

    async def _pass(self, shard: int) -> None:
        requests = [each for each in self._due if each.shard == shard]
        try:
            await self._erase(shard, requests)
        except FoldlogError as error:
            for each in requests:
                each.error = error
        self._due = [each for each in self._due if each not in requests]

    async def _erase(self, shard: int, requests: Sequence[_Request]) -> None:
        for _ in range(ATTEMPTS):
            manifest = await self._manifests.current(shard, fresh=True)
            if not manifest.seq:  # an archiver that begins now reads the log as it is now
                return
            try:
                without = partial(self._without, shard, requests)
                manifest = await self._manifests.ask(shard, without)
            except Superseded:
                continue
            await self._segments.sweep(manifest)
            return
        raise LogUnavailable(f"the archive of shard {shard} changes all the time: erase again")

    async def _without(
        self, shard: int, requests: Sequence[_Request], manifest: Manifest
    ) -> Manifest:
        """Write anew the segments that hold such rows, and change the manifest in any case.

        A damaged one stays as it is, which is an error of those who may have rows in it.
        """
        kept = list[Segment]()
        for segment in manifest.segments:
            doomed = await self._segments.holding(segment, [each.doomed for each in requests])
            if not doomed:
                kept.append(segment)
                continue
            try:
                kept += await self._segments.merge(manifest, [segment], without=doomed)
            except LogCorrupt as error:
                kept.append(segment)
                for each in requests:
                    each.error = error if each.doomed in doomed else each.error
        says = replace(manifest.says, segments=tuple(kept))
        return await self._manifests.change(shard, manifest, says)
