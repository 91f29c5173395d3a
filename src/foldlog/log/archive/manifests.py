"""Manifests: which segments a shard has, as the last record of a subject of the log says it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

import msgspec

from foldlog.envelope import draft, upsert_id
from foldlog.errors import (
    AppendConflict,
    AppendUnknown,
    ConfigurationError,
    LogCorrupt,
    LogRewound,
    LogUnavailable,
)
from foldlog.log.archive.segments import SegmentGone, Segments
from foldlog.log.port import Append, Log, StreamInfo
from foldlog.subjects import Subject
from foldlog_projections import archive
from foldlog_projections.archive import ArchiveChanged, Segment

T = TypeVar("T")

ATTEMPTS: Final = 8
"""How often a manifest may change during one read before that is an error."""

_MISSING: Final = 3
"""So often a file may be gone that the newest manifest names, before that is an error."""

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(ArchiveChanged).decode


class Manifest(NamedTuple):
    """What a shard's last manifest says, and the sequence at which it stands; 0 for none."""

    seq: int = 0
    says: ArchiveChanged = ArchiveChanged()

    @property
    def until(self) -> int:
        """The sequence up to which the archive holds the log."""
        return self.says.until

    @property
    def segments(self) -> tuple[Segment, ...]:
        """In the order of their sequences."""
        return self.says.segments


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
    """

    shard: int
    segments: int
    records: int
    bytes: int
    until: int
    behind: int
    latest: str
    holder: str


class Superseded(Exception):
    """Somebody else has changed the manifest since."""


class Manifests:
    """The manifests of a log's shards, and what is asked of the segments that they name."""

    believed: float = 5.0
    """Seconds for which a manifest that was read is believed. A purge waits for twice as long."""

    def __init__(self, log: Log, segments: Segments) -> None:
        self._log = log
        self._segments = segments
        self._known: dict[int, tuple[float, Manifest]] = {}
        shards = range(log.namespace.shards)
        self._subjects = [manifest_subject(log, shard) for shard in shards]

    async def current(self, shard: int, *, fresh: bool = False) -> Manifest:
        """Return a manifest that names every range that was purged.

        Copies on this machine of what a newer manifest no longer names are erased. `fresh`: as it
        is now. Errors as `Log.last`.
        """
        read_at, known = self._known.get(shard, (-self.believed, Manifest()))
        if not fresh and time.monotonic() < read_at + self.believed:
            return known
        asked_at = time.monotonic()
        found = await read_manifest(self._log, self._subjects[shard])
        if found.seq != known.seq:
            await self._segments.forget(found.says.folder, found.seq, found.segments)
        self._known[shard] = asked_at, found
        return found

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
            LogCorrupt: a segment is missing. LogUnavailable: the archive did not answer, or
                changes all the time. Errors as `Log.last`.
        """
        manifest, missing = await self.current(shard), 0
        for _ in range(ATTEMPTS):
            try:
                return await question(manifest)
            except SegmentGone as gone:
                newer = await self.current(shard, fresh=True)
                missing = missing + 1 if newer.seq == manifest.seq else 0
                if missing == _MISSING:
                    raise LogCorrupt(gone.args[0], newer.until, "a segment is missing") from gone
                manifest = newer
        raise LogUnavailable(f"the archive of shard {shard} changes all the time")

    async def health(self, streams: Sequence[StreamInfo]) -> tuple[ArchiveHealth, ...]:
        """Return what the archive has of these shards. Errors as `Log.last`."""
        found = list[ArchiveHealth]()
        for stream in streams:
            manifest = await self.current(stream.shard, fresh=True)
            segments, says = manifest.segments, manifest.says
            found.append(
                ArchiveHealth(
                    shard=stream.shard,
                    segments=len(segments),
                    records=sum(each.records for each in segments),
                    bytes=sum(each.size_bytes for each in segments),
                    until=manifest.until,
                    behind=max(stream.last_seq - manifest.until, 0),
                    latest=segments[-1].latest if segments else "",
                    holder=says.holder if says.held_until > time.time() else "",
                )
            )
        return tuple(found)


def manifest_subject(log: Log, shard: int) -> Subject:
    """Where the manifests of a shard stand."""
    number = log.namespace.key_on(shard, archive.kind.name)
    return log.namespace.subject(archive.kind.name, number)


async def read_manifest(log: Log, subject: Subject) -> Manifest:
    """Return the last manifest of a shard. Errors as `Log.last`."""
    record = await log.last(subject)
    if record is None:
        return Manifest()
    try:
        return Manifest(record.seq, _decode(record.envelopes[-1].payload))
    except msgspec.MsgspecError as error:
        raise LogCorrupt(record.subject, record.seq, str(error)) from error


async def check_whole(log: Log) -> None:
    """Raise ConfigurationError if a log lacks what its archive has.

    A log that has lost something says so when it is read, also by its rebuild.
    """
    shards = range(log.namespace.shards)
    asked = (read_manifest(log, manifest_subject(log, shard)) for shard in shards)
    for shard, found in enumerate(await asyncio.gather(*asked, return_exceptions=True)):
        if isinstance(found, BaseException) and not isinstance(found, LogCorrupt | LogRewound):
            raise found
        if isinstance(found, Manifest) and found.until:
            raise ConfigurationError(
                f"the log {log.namespace.stream(shard)} has an archive, and would be read short "
                "without it: foldlog.connect(archive=...) or $FOLDLOG_ARCHIVE names where it is"
            )
