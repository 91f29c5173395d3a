"""A log of which the archive holds the beginning."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
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
from foldlog.log.archive.segments import Rows, SegmentGone, Segments
from foldlog.log.port import Append, Log, Record, Stored
from foldlog.log.relay import Relay
from foldlog.subjects import Branch, Subject, matching
from foldlog_projections import archive
from foldlog_projections.archive import ArchiveChanged, Segment

T = TypeVar("T")

BELIEVED: Final = 5.0
"""Seconds for which a manifest that was read is believed. A purge waits for twice as long."""

_PAGE: Final = 1_000
_WINDOW: Final = 32 * 1024 * 1024
_ATTEMPTS: Final = 8
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
                "without it: foldlog.connect(archive=...) names where it is"
            )


class Superseded(Exception):
    """Somebody else has changed the manifest since."""


class ArchivedLog(Relay):
    """`below`, and before it what its archive holds: as one log.

    Every method asks the log first and its manifest afterwards: what the log had lost by then, the
    manifest named. `believed`: see BELIEVED; 0 has each question read the manifest.
    """

    def __init__(self, below: Log, segments: Segments, *, believed: float = BELIEVED) -> None:
        super().__init__(below)
        self.segments = segments
        self.believed = believed
        self._known: dict[int, tuple[float, Manifest]] = {}
        shards = range(self.namespace.shards)
        self._subjects = [manifest_subject(below, shard) for shard in shards]
        self._due: list[tuple[int, Rows]] = []
        self._erasing = asyncio.Lock()

    # --- the manifest -----------------------------------------------------------------------------

    async def manifest(self, shard: int, *, fresh: bool = False) -> Manifest:
        """Return a manifest of which no range was purged that it does not name.

        `fresh`: as it is now. Errors as `Log.last`.
        """
        if not fresh and shard in self._known:
            read_at, known = self._known[shard]
            if time.monotonic() < read_at + self.believed:
                return known
        asked_at = time.monotonic()
        found = await read_manifest(self.below, self._subjects[shard])
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
            [seq] = await self.below.append([Append(subject, (made,), known.seq)], atomic=True)
        except AppendConflict as error:
            raise Superseded from error
        except AppendUnknown:
            record = await self.below.last(subject)
            if record is None or record.envelopes[-1].id != made.id:
                raise
            seq = record.seq
        return Manifest(seq, says)

    async def _held(self, shard: int, ask: Callable[[Manifest], Awaitable[T]]) -> T:
        """Ask the archive; with a newer manifest where a file that one names is gone."""
        manifest = await self.manifest(shard)
        for _ in range(_ATTEMPTS):
            try:
                return await ask(manifest)
            except SegmentGone as gone:
                newer = await self.manifest(shard, fresh=True)
                if newer.seq == manifest.seq:
                    raise LogCorrupt(gone.args[0], newer.until, "a segment is missing") from gone
                manifest = newer
        raise LogUnavailable(f"the archive of shard {shard} changes all the time")

    # --- reading ----------------------------------------------------------------------------------

    async def read(
        self, subject: Subject | Branch, *, after: int = 0, strong: bool = True
    ) -> AsyncGenerator[list[Record]]:
        # All that the log has of it comes first, and waits: the log is short.
        async with aclosing(self.below.read(subject, after=after, strong=strong)) as pages:
            hot = [page async for page in pages]

        async def ask(manifest: Manifest) -> tuple[int, list[Stored]]:
            rows = _rows(subject)._replace(after=after, upto=manifest.until)
            if after >= manifest.until:
                return manifest.until, []
            return manifest.until, await self.segments.read(manifest.segments, rows)

        until, found = await self._held(subject.shard, ask)
        for start in range(0, len(found), _PAGE):
            yield [each.record() for each in found[start : start + _PAGE]]
        for page in hot:
            if kept := [each for each in page if each.seq > until]:
                yield kept

    async def last(
        self, subject: Subject, *, strong: bool = True, upto: int | None = None
    ) -> Record | None:
        record = await self.below.last(subject, strong=strong, upto=upto)
        if record is not None:
            return record

        async def ask(manifest: Manifest) -> Stored | None:
            end = manifest.until if upto is None else min(upto, manifest.until)
            return await self.segments.last(manifest.segments, Rows(subject.name, upto=end))

        found = await self._held(subject.shard, ask)
        return None if found is None else found.record()

    async def lasts(self, branch: Branch) -> AsyncGenerator[list[Stored]]:
        # As in `read`: what is archived while this goes on must not be missed by both questions.
        async with aclosing(self.below.lasts(branch)) as pages:
            hot = [page async for page in pages]

        async def ask(manifest: Manifest) -> list[Stored]:
            return await self.segments.lasts(manifest.segments, _rows(branch))

        found = await self._held(branch.shard, ask)
        for start in range(0, len(found), _PAGE):
            yield found[start : start + _PAGE]
        for page in hot:
            yield page

    async def scan(
        self, shard: int, *, after: int = 0, only: Sequence[str] = ()
    ) -> AsyncGenerator[list[Stored]]:
        is_meant = matching(only)
        end = (await self.below.heads())[shard]
        while after < end:

            async def ask(manifest: Manifest, since: int = after) -> tuple[int, list[Stored]]:
                rows = Rows(after=since, upto=min(_window(manifest, since), end))
                return rows.upto, await self.segments.read(manifest.segments, rows)

            if after < (await self.manifest(shard)).until:
                after, found = await self._held(shard, ask)
                found = [each for each in found if is_meant(each.subject)]
                for start in range(0, len(found), _PAGE):
                    yield found[start : start + _PAGE]
                continue
            async with aclosing(self.below.scan(shard, after=after, only=only)) as pages:
                async for page in pages:
                    if (await self.manifest(shard)).until > after:
                        break  # the archive has taken what comes next: it is read from there
                    if kept := [each for each in page if not self.is_manifest(each)]:
                        yield kept
                    after = page[-1].seq
                else:
                    if (await self.manifest(shard)).until <= after:
                        return

    async def subjects(
        self, family: str | None = None, shard: int | None = None
    ) -> dict[Subject, int]:
        counts = await self.below.subjects(family, shard)
        firsts = {each.shard: each.first_seq for each in (await self.below.info()).streams}
        for number in range(self.namespace.shards) if shard is None else (shard,):
            prefix = self.namespace.wildcard(number, family).removesuffix(">")
            # What the log has still of archived sequences was counted.
            rows = Rows(prefix=prefix, upto=(firsts.get(number) or 2**62) - 1)

            async def ask(manifest: Manifest, rows: Rows = rows) -> dict[str, int]:
                return await self.segments.counts(manifest.segments, rows)

            for name, count in (await self._held(number, ask)).items():
                subject = self.namespace.parse(name) or await self._hashed(number, name)
                counts[subject] = counts.get(subject, 0) + count
        return {each: n for each, n in counts.items() if each.family != archive.kind.name}

    async def _hashed(self, shard: int, name: str) -> Subject:
        """A subject whose keys its records have."""

        async def ask(manifest: Manifest) -> Stored | None:
            return await self.segments.last(manifest.segments, Rows(name))

        found = await self._held(shard, ask)
        keys = None if found is None else found.record().envelopes[-1].keys
        if keys is None:
            raise LogCorrupt(name, 0, "no record that has its keys can be read")
        return Subject(name, shard, tuple(keys))

    async def stored(self, shard: int, seq: int) -> Stored | None:
        found = await self.below.stored(shard, seq)
        if found is not None:
            return found

        async def ask(manifest: Manifest) -> list[Stored]:
            upto = min(seq, manifest.until)
            return await self.segments.read(manifest.segments, Rows(after=seq - 1, upto=upto))

        return next(iter(await self._held(shard, ask)), None)

    async def sequence_at(self, shard: int, time: dt.datetime) -> int:
        found = await self.below.sequence_at(shard, time)

        async def ask(manifest: Manifest) -> int:
            if found > manifest.until:
                return found
            micros = (time - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
            return await self.segments.sequence_at(manifest.segments, micros)

        return await self._held(shard, ask)

    def is_manifest(self, stored: Stored) -> bool:
        return stored.subject.split(".", 4)[3] == archive.kind.name

    # --- writing ----------------------------------------------------------------------------------

    def append(
        self, appends: Sequence[Append], *, atomic: bool = False
    ) -> Coroutine[object, object, list[int]]:
        if any(each.expect is not None for each in appends):
            return self._append_expecting(appends)
        return self.below.append(appends, atomic=atomic)

    async def _append_expecting(self, appends: Sequence[Append]) -> list[int]:
        """Append where subjects end; the log below says 0 of those that it has no more of."""
        is_fresh = False
        while True:
            manifest = await self.manifest(appends[0].subject.shard, fresh=is_fresh)
            asked = [await self._as_below(each, manifest) for each in appends]
            try:
                return await self.below.append(asked, atomic=True)
            except AppendConflict as conflict:
                if is_fresh:
                    raise await self._conflict(appends, conflict) from conflict
                is_fresh = True

    async def _as_below(self, append: Append, manifest: Manifest) -> Append:
        if append.expect is None or append.expect > manifest.until:
            return append
        if await self.below.last(append.subject) is not None:
            return append
        record = await self.last(append.subject)
        end = 0 if record is None else record.seq
        if end != append.expect:
            raise AppendConflict(append.subject.name, append.expect, end)
        return msgspec.structs.replace(append, expect=0)

    async def _conflict(self, appends: Sequence[Append], found: AppendConflict) -> AppendConflict:
        for each in appends:
            if each.expect is not None and each.subject.name == found.subject:
                record = await self.last(each.subject)
                return AppendConflict(
                    found.subject, each.expect, 0 if record is None else record.seq
                )
        return found

    # --- removing ---------------------------------------------------------------------------------

    async def purge(
        self, which: Subject | Branch | int, *, before: int, overwrite: bool = True
    ) -> None:
        """Segments that hold what is removed are written anew without it, and overwritten.

        The log is purged first: an archiver that read it earlier finds another manifest, and begins
        anew.
        """
        await self.below.purge(which, before=before, overwrite=overwrite)
        shard = which if isinstance(which, int) else which.shard
        rows = Rows() if isinstance(which, int) else _rows(which)
        self._due.append((shard, rows._replace(upto=before - 1)))
        async with self._erasing:  # those that waited meanwhile go together
            due, self._due = self._due, []
            try:
                for number in dict.fromkeys(shard for shard, _ in due):
                    await self._erase(number, [rows for shard, rows in due if shard == number])
            except BaseException:
                self._due += due
                raise

    async def _erase(self, shard: int, doomed: Sequence[Rows]) -> None:
        for _ in range(_ATTEMPTS):
            manifest = await self.manifest(shard, fresh=True)
            try:
                manifest = await self._erased(shard, manifest, doomed)
            except (Superseded, SegmentGone):
                continue
            await self.segments.sweep(manifest.says.folder, manifest.seq, manifest.segments)
            return
        raise LogUnavailable(f"the archive of shard {shard} changes all the time: erase again")

    async def _erased(self, shard: int, manifest: Manifest, doomed: Sequence[Rows]) -> Manifest:
        """Write anew the segments that hold such rows, and change the manifest in any case."""
        kept = list[Segment]()
        for segment in manifest.segments:
            holds = [rows for rows in doomed if await self.segments.counts([segment], rows)]
            if not holds:
                kept.append(segment)
                continue
            previous = kept[-1].digest if kept else ""
            span = segment.first, segment.last
            async with self.segments.draft() as anew:
                await self.segments.copy([segment], anew, holds)
                into = manifest.says.folder, manifest.seq
                made = await self.segments.keep(*into, anew, *span, previous)
            if made is not None:
                kept.append(made)
        says = msgspec.structs.replace(manifest.says, segments=tuple(kept))
        return await self.change(shard, manifest, says)

    async def close(self) -> None:
        try:
            await self.segments.close()
        finally:
            await self.below.close()


def _window(manifest: Manifest, after: int) -> int:
    """The end of a range of sequences after one that fits in memory, however its records lie."""
    for segment in manifest.segments:
        if segment.last > after:
            windows = segment.raw_bytes // _WINDOW + 1
            width = (segment.last - segment.first) // windows + 1
            return min(max(after, segment.first - 1) + width, segment.last)
    return manifest.until


def _rows(which: Subject | Branch) -> Rows:
    if isinstance(which, Branch):
        return Rows(prefix=which.name.removesuffix(">"))
    return Rows(which.name)
