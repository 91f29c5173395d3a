"""The archiver: moves the oldest ranges of each shard from the log to segments."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import random
import secrets
import time
from collections.abc import Container, Sequence
from contextlib import aclosing
from itertools import accumulate, groupby
from typing import Any, Final, NamedTuple

import msgspec

from foldlog.errors import FoldlogError, LogCorrupt, Misuse, NotFound
from foldlog.log.archive.archived import ArchivedLog
from foldlog.log.archive.manifest import LEASE, Manifest
from foldlog.log.archive.manifests import ArchiveHealth, Superseded, lost_records
from foldlog.log.archive.segments import SegmentGone
from foldlog.log.port import StreamInfo
from foldlog_projections.archive import Segment

_log: Final = logging.getLogger("foldlog.archive")

_EVERY: Final = 30.0
"""Seconds between two passes, at most."""

FAN: Final = 4
"""So many neighbours of about one size become one run: a session lies in few files."""


class ArchiveLimits(NamedTuple):
    """How much of a shard may stay in the log before it is archived.

    Attributes:
        hot_bytes: bytes that stay in the log, which the server reads in blocks of 8 MB; writers
            wait for the blocks that one read loads.
        hot_seconds: the age in seconds of the oldest record; None: any age.
        segment_bytes: bytes that are archived at once, as one run of segments.
        largest: runs of this many bytes are not merged any further: merging copies all of them.
    """

    hot_bytes: int = 16 * 1024 * 1024
    hot_seconds: float | None = None
    segment_bytes: int = 32 * 1024 * 1024
    largest: int = 512 * 1024 * 1024


class Archived(NamedTuple):
    """What one pass of the archiver moved.

    Attributes:
        records: records, of all shards.
        raw_bytes: bytes of these records.
        merges: how many times segments were merged.
        held: shards that were left, because another archiver works on them or has just died.
        forgotten: the file that was given up; None if none was asked for.
        lost: what it held, in words.
    """

    records: int = 0
    raw_bytes: int = 0
    merges: int = 0
    held: int = 0
    forgotten: str | None = None
    lost: str = ""


class Archiver:
    """Archives one log. Of several, in whichever process, one works on a shard at a time."""

    def __init__(self, log: ArchivedLog, limits: ArchiveLimits) -> None:
        self._log = log
        self._limits = limits
        self._id = secrets.token_urlsafe(6)
        self._busy = asyncio.Lock()

    async def run(self, *, everything: bool = False) -> Archived:
        """Archive what is over the limits, or all that there is; return what was moved.

        Raises:
            LogUnavailable, LogCorrupt: the log or the place did not answer, or cannot be read, of
                one shard at least.
            LogRewound: see `foldlog.errors`. Running again is safe.
            ConfigurationError: the log has another archive.
        """
        moved, errors = Archived(), list[FoldlogError]()
        async with self._busy:
            # The place may be another one by now: a disk that is mounted no more, for instance.
            await self._log.segments.identity(fresh=True)
            for shard in range(self._log.namespace.shards):
                try:
                    moved = _sum(moved, await self._shard(shard, everything=everything))
                except FoldlogError as error:  # which keeps no other shard from its archive
                    if errors:
                        _log.warning("shard %d could not be archived, either: %s", shard, error)
                    else:
                        errors.append(error)
        if errors:
            raise errors.pop()  # it knows this frame, which would keep it and what it holds
        return moved

    async def health(
        self, streams: Sequence[StreamInfo], *, files: bool = False
    ) -> tuple[ArchiveHealth, ...]:
        """Return what the archive has of these shards: see `Manifests.health`."""
        return await self._log.manifests.health(streams, files=files)

    async def give_up(self, name: str) -> Archived:
        """Have the log go on without a segment that cannot be read; return what is lost.

        What is left of its file is overwritten and removed.

        Raises:
            NotFound: the archive has no such segment. Misuse: it is whole.
            LogUnavailable, LogCorrupt: the log or the archive did not answer, or cannot be read.
        """
        manifests, segments = self._log.manifests, self._log.segments
        for shard in range(self._log.namespace.shards):
            manifest = await manifests.current(shard, fresh=True)
            for segment in manifest.segments:
                if name not in (segment.name, segment.name.rpartition("/")[2]):
                    continue
                if not await segments.damaged([segment]):
                    raise Misuse(f"{segment.name} is whole: there is nothing to forget")
                left = tuple(each for each in manifest.segments if each is not segment)
                lost = (*manifest.says.lost, segment)
                says = msgspec.structs.replace(manifest.says, segments=left, lost=lost)
                await manifests.change(shard, manifest, says)
                await self._sweep(shard)
                return Archived(forgotten=segment.name, lost=lost_records(segment))
        raise NotFound("file", name, "`foldlog doctor` lists the damaged files of the archive")

    async def _shard(self, shard: int, *, everything: bool) -> Archived:
        manifest = await self._log.manifests.current(shard, fresh=True)
        if manifest.holder not in ("", self._id):
            return Archived(held=1)
        try:
            moved = await self._pass(shard, manifest, everything=everything)
        except (Superseded, SegmentGone):  # by another archiver, or an erasure: the next pass
            moved = Archived()
        except FoldlogError:
            try:
                await self._sweep(shard)
            except FoldlogError as error:
                _log.warning("shard %d: files that nobody names stay: %s", shard, error)
            raise
        await self._sweep(shard)
        return moved

    async def _sweep(self, shard: int) -> None:
        """Remove what was merged; and of an archiver that died, which may hold what was erased."""
        manifest = await self._log.manifests.current(shard, fresh=True)
        await self._log.segments.sweep(manifest)

    async def _pass(self, shard: int, manifest: Manifest, *, everything: bool) -> Archived:
        moved, log = Archived(), self._log
        upto = await self._upto(shard, manifest, everything)
        if manifest.until < upto:
            manifest = await log.manifests.claim(shard, manifest)
        while manifest.until < upto:
            before, manifest = manifest, await self._archive(shard, manifest, upto)
            moved = _sum(moved, Archived(*_totals(manifest.segments[len(before.segments) :])))
        await self._purge(shard, manifest.until)
        damaged = set[str]()
        while (run := due_merge(manifest.segments, self._limits.largest, damaged)) is not None:
            try:
                manifest = await self._merge(shard, manifest, run)
            except LogCorrupt:
                found = await self._damaged(manifest.segments[run.start : run.stop])
                if not found:
                    raise
                damaged |= found  # `verify` lists them; the others are merged
            else:
                moved = _sum(moved, Archived(merges=1))
        if manifest.says.holder == self._id:
            await self._let_go(shard, manifest)
        return moved

    async def _damaged(self, segments: Sequence[Segment]) -> set[str]:
        """The names of those whose files are damaged."""
        return {each.name for each in segments if await self._log.segments.damaged([each])}

    async def _purge(self, shard: int, until: int) -> None:
        """Remove from the log what the archive has, once nobody believes an older manifest."""
        if (await self._log.below.info()).streams[shard].first_seq <= until:
            await asyncio.sleep(2 * self._log.manifests.believed)
            await self._log.below.purge(shard, before=until + 1)
            _log.debug("shard %d: the log is purged up to sequence %d", shard, until)

    async def _upto(self, shard: int, manifest: Manifest, everything: bool) -> int:
        """The sequence up to which the log is to go to the archive."""
        info = (await self._log.below.info()).streams[shard]
        if everything:
            return info.last_seq
        upto = manifest.until
        first = max(info.first_seq, manifest.until + 1)
        # What the archive has already stays in the log until it is purged.
        size = info.bytes * (info.last_seq - first) / max(info.last_seq - info.first_seq, 1)
        if size > self._limits.hot_bytes and info.last_seq > first:
            share = 1 - self._limits.hot_bytes / 2 / size
            upto = first + int((info.last_seq - first) * share)
        if self._limits.hot_seconds is not None:
            old = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=self._limits.hot_seconds)
            upto = max(upto, await self._log.below.sequence_at(shard, old))
        return min(upto, info.last_seq)

    async def _archive(self, shard: int, manifest: Manifest, upto: int) -> Manifest:
        """Archive one segment's worth of what goes up to a sequence."""
        log, began = self._log, time.monotonic()
        last, size, packed = upto, 0, list[Any]()
        async with aclosing(log.below.scan(shard, after=manifest.until)) as pages:
            async for page in pages:
                kept = [each for each in page if each.seq <= upto]
                if rows := [each for each in kept if not log.is_manifest(each)]:
                    packed.append(log.segments.pack(rows))
                    size += sum(len(each.data) for each in rows)
                if len(kept) < len(page):
                    break
                if size >= self._limits.segment_bytes:
                    last = kept[-1].seq
                    break
        made = await log.segments.keep(manifest, packed, last)
        _tell("archived", shard, made, began)
        return await self._change(shard, manifest, (*manifest.segments, *made), last)

    async def _merge(self, shard: int, manifest: Manifest, run: range) -> Manifest:
        log, segments, began = self._log, manifest.segments, time.monotonic()
        old = segments[run.start : run.stop]
        made = await log.segments.merge(manifest, old)
        _tell(f"{len(old)} segments merged", shard, made, began)
        merged = (*segments[: run.start], *made, *segments[run.stop :])
        return await self._change(shard, manifest, merged, manifest.until)

    async def _change(
        self, shard: int, manifest: Manifest, segments: Sequence[Segment], until: int
    ) -> Manifest:
        says = msgspec.structs.replace(
            manifest.says,
            segments=tuple(segments),
            until=until,
            holder=self._id,
            held_until=time.time() + LEASE,
        )
        return await self._log.manifests.change(shard, manifest, says)

    async def _let_go(self, shard: int, manifest: Manifest) -> Manifest:
        says = msgspec.structs.replace(manifest.says, holder="", held_until=0.0)
        return await self._log.manifests.change(shard, manifest, says)


class Archiving:
    """Archives what is over the limits, again and again, until `close`."""

    def __init__(self, archiver: Archiver) -> None:
        self._archiver = archiver
        self._task = asyncio.create_task(self._run(), name="foldlog archive")

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_EVERY * random.uniform(0.5, 1.0))
            try:
                await self._archiver.run()
            except FoldlogError as error:  # the log keeps what it has; the next pass tries again
                _log.warning("archiving failed, and is tried again: %s", error)

    async def close(self) -> None:
        """Stop, wherever it is: what is half done comes to nothing."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def due_merge(
    segments: Sequence[Segment], largest: int, damaged: Container[str] = ()
) -> range | None:
    """Return which neighbours are to become one run; None if none are.

    The oldest FAN runs of one size class, or as many as come to `largest` before that. A run is of
    the class of the largest one from it on: else small ones between larger ones would all stay. A
    run with a file that is `damaged` stays, between those before and behind it.
    """
    runs = [list(run) for _, run in groupby(segments, key=lambda each: each.last)]
    begin = 0
    for is_damaged, part in groupby(runs, lambda run: any(s.name in damaged for s in run)):
        some = list(part)
        found = None if is_damaged else _due(some, largest)
        if found is not None:
            return range(begin + found.start, begin + found.stop)
        begin += sum(map(len, some))
    return None


def _due(runs: Sequence[Sequence[Segment]], largest: int) -> range | None:
    sizes = [sum(each.size_bytes for each in run) for run in runs]
    classes = [_size_class(size) for size in accumulate(reversed(sizes), max)][::-1]
    for start, size_class in enumerate(classes):
        alike = classes[start : start + FAN].count(size_class)  # they only become smaller
        fitting = sum(total <= largest for total in accumulate(sizes[start : start + alike]))
        if fitting == FAN or 1 < fitting < alike:
            before, after = (sum(map(len, runs[:end])) for end in (start, start + fitting))
            return range(before, after)
    return None


def _size_class(size: int) -> int:
    return max(size, 1).bit_length() // 2  # FAN is 2 ** 2


def _tell(what: str, shard: int, made: Sequence[Segment], began: float) -> None:
    records, raw_bytes = _totals(made)
    _log.debug(
        "shard %d: %s: %d records of %d bytes in %d segments, in %.3f s",
        *(shard, what, records, raw_bytes, len(made), time.monotonic() - began),
    )


def _totals(segments: Sequence[Segment]) -> tuple[int, int]:
    return sum(each.records for each in segments), sum(each.raw_bytes for each in segments)


def _sum(one: Archived, other: Archived) -> Archived:
    records, raw_bytes, merges, held = map(sum, zip(one[:4], other[:4], strict=True))
    return Archived(records, raw_bytes, merges, held)
