"""Manifests: which segments a shard has, as the last record of a subject of the log says it."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from foldlog.envelope import draft, upsert_id
from foldlog.errors import (
    AppendConflict,
    AppendUnknown,
    ConfigurationError,
    FoldlogError,
    LogCorrupt,
    LogRewound,
    LogUnavailable,
)
from foldlog.log.archive.manifest import Manifest
from foldlog.log.archive.places import IDENTITY
from foldlog.log.archive.segments import SegmentGone, Segments
from foldlog.log.port import Append, Log, StreamInfo
from foldlog.subjects import Subject
from foldlog_projections import archive
from foldlog_projections.archive import ArchiveChanged, Segment

T = TypeVar("T")

ATTEMPTS: Final = 8
"""How often a manifest may change during one read before that is an error."""

_log: Final = logging.getLogger("foldlog.archive")
_FILE: Final = "/[0-9]{16,}(?:-[0-9]{16,}){2}-[0-9a-f]{12}[.]parquet"
"""What follows a shard's folder in the name of a segment."""

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(ArchiveChanged).decode


@dataclass(frozen=True, slots=True)
class ArchiveHealth:
    """What the archive has of a shard.

    Attributes:
        shard: the shard.
        segments: how many files hold it.
        records: how many records they hold.
        bytes: the bytes of these files.
        until: the sequence up to which the archive reaches.
        behind: how many sequences the log has gone on since.
        latest: the log's time of the newest archived record, RFC 3339.
        holder: the archiver that is at work, "" for none.
        damaged: files that cannot be read, and why; where somebody has looked.
        lost: files that an operator has given up, with what they held.
    """

    shard: int
    segments: int
    records: int
    bytes: int
    until: int
    behind: int
    latest: str
    holder: str
    damaged: dict[str, str] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)


class Superseded(Exception):
    """Somebody else has changed the manifest since."""


class Manifests:
    """The manifests of a log's shards, and what is asked of the segments that they name."""

    believed: float = 5.0
    """Seconds for which a manifest that was read is believed. A purge waits for twice as long.

    So long, too, an append that expects a subject's end may take from its look to the log.
    """

    def __init__(self, log: Log, segments: Segments) -> None:
        self._log = log
        self._segments = segments
        self._known: dict[int, tuple[float, Manifest]] = {}
        shards = range(log.namespace.shards)
        self._subjects = [manifest_subject(log, shard) for shard in shards]

    async def current(self, shard: int, *, fresh: bool = False) -> Manifest:
        """Return a manifest that names every range that was purged.

        Copies on this machine of what a newer manifest no longer names are erased. `fresh`: as it
        is now.

        Raises:
            ConfigurationError: the log has another archive than this one.
            LogUnavailable: the archive did not answer. Errors as `Log.last`.
        """
        read_at, known = self._known.get(shard, (-self.believed, Manifest()))
        if not fresh and time.monotonic() < read_at + self.believed:
            return known
        asked_at = time.monotonic()
        found = await read_manifest(self._log, self._subjects[shard])
        await self._check(found.says)
        if found.seq != known.seq:
            await self._segments.forget(found)
        self._known[shard] = asked_at, found
        return found

    async def check(self) -> None:
        """Raise ConfigurationError if the log has another archive than this one, or than none.

        What cannot be read yet says so when it is read, also by a rebuild.
        """
        shards = range(self._log.namespace.shards)
        asked = (self.current(shard, fresh=True) for shard in shards)
        passed: tuple[type[FoldlogError], ...] = (LogCorrupt, LogRewound)
        if self._segments.place is not None:
            passed += (LogUnavailable,)
        for found in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(found, passed):
                _log.warning("the archive is not checked before it is read: %s", found)
            elif isinstance(found, BaseException):
                raise found

    async def _check(self, says: ArchiveChanged) -> None:
        log, place = self._log.namespace.stream(0), self._segments.place
        if place is None and says.archive:
            raise ConfigurationError(
                f"the log {log} has the archive {says.archive} at {says.place}, and would be read "
                "short without it: give it as foldlog.connect(archive=...) or $FOLDLOG_ARCHIVE"
            )
        if place is None or not says.archive:
            return
        found = await self._segments.identity()
        if found != says.archive:
            raise ConfigurationError(
                f"the log {log} has the archive {says.archive}, first at {says.place}; at {place} "
                f"is {f'the archive {found}' if found else 'none'}: give the log its own, or a "
                f"copy of it with its file {IDENTITY}"
            )

    async def claim(self, shard: int, known: Manifest) -> Manifest:
        """Have the log and its archive know each other; return the shard's manifest, with a folder.

        The first shard's manifest decides which archive it is.

        Raises:
            Superseded: it is another one by now.
            LogUnavailable: the archive did not answer. Errors as `change`.
        """
        if known.says.archive and known.says.folder:
            return known
        first = await self.current(0, fresh=True)
        if not first.says.archive:
            id = await self._segments.identity(secrets.token_hex(16))
            says = replace(first.says, archive=id, place=str(self._segments.place))
            first = await self.change(0, first, says)
        known = first if shard == 0 else known
        says = replace(
            known.says,
            archive=first.says.archive,
            place=first.says.place,
            # Another log of that name has another one.
            folder=f"{self._log.namespace.stream(shard)}-{secrets.token_hex(4)}",
        )
        return await self.change(shard, known, says)

    async def change(self, shard: int, known: Manifest, says: ArchiveChanged) -> Manifest:
        """Replace the manifest that was read; return the new one.

        Raises:
            Superseded: it is another one by now. Errors as `Log.append`.
        """
        body, subject = _encode(says), self._subjects[shard]
        made = draft(archive.CHANGED, body, id=upsert_id(body))
        self._known.pop(shard, None)
        try:
            [seq] = await self._log.append([Append(subject, (made,), known.seq)], atomic=True)
        except AppendConflict as error:
            raise Superseded from error
        except AppendUnknown:
            record = await self._log.last(subject)
            if record is None or record.envelopes[-1].id != made.id:
                raise
            seq = record.seq
        return Manifest(seq, says)

    async def ask(self, shard: int, question: Callable[[Manifest], Awaitable[T]]) -> T:
        """Ask the archive; with a newer manifest where a file that one names is gone.

        Raises:
            LogCorrupt: a segment is missing, or is damaged. LogUnavailable: the archive did not
                answer, or changes all the time. Errors as `current`.
        """
        manifest, changes = await self.current(shard), 0
        while changes < ATTEMPTS:
            try:
                return await question(manifest)
            except SegmentGone as gone:
                newer = await self.current(shard, fresh=True)
                if newer.seq == manifest.seq:
                    self._segments.misses[gone.args[0]] += 1
                else:
                    changes += 1
                manifest = newer
        raise LogUnavailable(f"the archive of shard {shard} changes all the time")

    async def health(
        self, streams: Sequence[StreamInfo], *, files: bool
    ) -> tuple[ArchiveHealth, ...]:
        """Return what the archive has of these shards; `files`: look at each file, too.

        Errors as `current`.
        """
        found = list[ArchiveHealth]()
        for stream in streams:
            manifest = await self.current(stream.shard, fresh=True)
            segments, says = manifest.segments, manifest.says
            damaged = await self._segments.damaged(segments) if files else []
            found.append(
                ArchiveHealth(
                    shard=stream.shard,
                    segments=len(segments),
                    records=sum(each.records for each in segments),
                    bytes=sum(each.size_bytes for each in segments),
                    until=manifest.until,
                    behind=max(stream.last_seq - manifest.until, 0),
                    latest=segments[-1].latest if segments else "",
                    holder=manifest.holder,
                    damaged={each.stream: each.reason for each in damaged},
                    lost={each.name: lost_records(each) for each in says.lost},
                )
            )
        return tuple(found)


def lost_records(segment: Segment) -> str:
    """Return in words what a segment held that was given up."""
    return f"{segment.records} records of sequences {segment.first} to {segment.last} are given up"


def manifest_subject(log: Log, shard: int) -> Subject:
    """Where the manifests of a shard stand."""
    number = log.namespace.key_on(shard, archive.kind.name)
    return log.namespace.subject(archive.kind.name, number)


async def read_manifest(log: Log, subject: Subject) -> Manifest:
    """Return the last manifest of a shard.

    Raises:
        LogCorrupt: it is damaged, or names files that no archiver would. Errors as `Log.last`.
    """
    try:
        record = await log.last(subject)
    except (LogRewound, LogCorrupt):  # a rebuild reads a log that lost records, and accepts it
        record = None
        async for page in log.scan(subject.shard, only=[subject.name]):
            record = page[-1].record()
    if record is None:
        return Manifest()
    try:
        says = _decode(record.envelopes[-1].payload)
    except msgspec.MsgspecError as error:
        raise LogCorrupt(record.subject, record.seq, str(error)) from error
    # Files are read, overwritten and removed by these names.
    folder, stream = says.folder, re.escape(log.namespace.stream(subject.shard))
    names = [each.name for each in (*says.segments, *says.lost)]
    is_folder = re.fullmatch(f"(?:{stream}-[0-9a-f]{{8}})?", folder)
    is_file = re.compile(re.escape(folder) + _FILE).fullmatch
    if not is_folder or not all(map(is_file, names)):
        reason = f"the manifest names files that are not the shard's: {[folder, *names]!r:.200}"
        raise LogCorrupt(record.subject, record.seq, reason)
    return Manifest(record.seq, says)
