"""A log whose beginning is in the archive."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from typing import Final

import msgspec

from foldlog.errors import AppendConflict, LogCorrupt, LogUnavailable
from foldlog.log.archive.erasing import Erasing
from foldlog.log.archive.manifests import Manifest, Manifests
from foldlog.log.archive.segments import Segments
from foldlog.log.archive.selection import Selection
from foldlog.log.port import Append, Log, Record, Stored
from foldlog.log.relay import Relay
from foldlog.subjects import Branch, Subject, matching
from foldlog_projections import archive

_PAGE: Final = 1_000
_WINDOW: Final = 64 * 1024 * 1024
_ATTEMPTS: Final = 8


class ArchivedLog(Relay):
    """`below`, and before it what its archive holds: as one log.

    Every method asks the log first and its manifest afterwards: what the log had lost by then, the
    manifest named. `read` asks the archive meanwhile, and again if the manifest is another one.
    """

    def __init__(self, below: Log, segments: Segments) -> None:
        super().__init__(below)
        self.segments = segments
        self.manifests: Manifests = Manifests(below, segments)
        self._ask = self.manifests.ask
        self._erasing = Erasing(self.manifests, segments)

    # --- reading ----------------------------------------------------------------------------------

    async def read(
        self, subject: Subject | Branch, *, after: int = 0, strong: bool = True
    ) -> AsyncGenerator[list[Record]]:
        async def ask(manifest: Manifest) -> tuple[Manifest, list[Stored]]:
            which = _selection(subject)._replace(after=after)
            return manifest, await self.segments.read(manifest.segments, which)

        # Both are asked at once. All that the log has of it waits: the log is short.
        asking = asyncio.create_task(self._ask(subject.shard, ask))
        try:
            async with aclosing(self.below.read(subject, after=after, strong=strong)) as pages:
                hot = [page async for page in pages]
            manifest, found = await asking
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        if (await self.manifests.current(subject.shard)).seq != manifest.seq:
            manifest, found = await self._ask(subject.shard, ask)
        for start in range(0, len(found), _PAGE):
            yield [each.record() for each in found[start : start + _PAGE]]
        for page in hot:
            if kept := [each for each in page if each.seq > manifest.until]:
                yield kept

    async def last(
        self, subject: Subject, *, strong: bool = True, upto: int | None = None
    ) -> Record | None:
        record = await self.below.last(subject, strong=strong, upto=upto)
        if record is not None:
            return record

        async def ask(manifest: Manifest) -> Stored | None:
            end = manifest.until if upto is None else min(upto, manifest.until)
            return await self.segments.last(manifest.segments, Selection(subject.name, upto=end))

        found = await self._ask(subject.shard, ask)
        return None if found is None else found.record()

    async def lasts(self, branch: Branch) -> AsyncGenerator[list[Stored]]:
        # As in `read`: what is archived while this goes on must not be missed by both questions.
        async with aclosing(self.below.lasts(branch)) as pages:
            hot = [page async for page in pages]

        async def ask(manifest: Manifest) -> list[Stored]:
            return await self.segments.lasts(manifest.segments, _selection(branch))

        found = await self._ask(branch.shard, ask)
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
                which = Selection(after=since, upto=min(_window(manifest, since), end))
                return which.upto, await self.segments.read(manifest.segments, which)

            if after < (await self.manifests.current(shard)).until:
                after, found = await self._ask(shard, ask)
                found = [each for each in found if is_meant(each.subject)]
                for start in range(0, len(found), _PAGE):
                    yield found[start : start + _PAGE]
                continue
            async with aclosing(self.below.scan(shard, after=after, only=only)) as pages:
                async for page in pages:
                    if (await self.manifests.current(shard)).until > after:
                        break  # the archive has taken what comes next: it is read from there
                    if kept := [each for each in page if not self.is_manifest(each)]:
                        yield kept
                    after = page[-1].seq
                else:
                    if (await self.manifests.current(shard)).until <= after:
                        return

    async def subjects(
        self, family: str | None = None, shard: int | None = None
    ) -> dict[Subject, int]:
        counts, firsts = await self._counts_below(family, shard)
        for number in range(self.namespace.shards) if shard is None else (shard,):
            prefix = self.namespace.wildcard(number, family).removesuffix(">")
            # What the log has still of archived sequences was counted.
            which = Selection(prefix=prefix, upto=firsts[number] - 1)

            async def ask(manifest: Manifest, which: Selection = which) -> dict[str, int]:
                return await self.segments.counts(manifest.segments, which)

            for name, count in (await self._ask(number, ask)).items():
                subject = self.namespace.parse(name) or await self._hashed(number, name)
                counts[subject] = counts.get(subject, 0) + count
        return {each: n for each, n in counts.items() if each.family != archive.kind.name}

    async def _counts_below(
        self, family: str | None, shard: int | None
    ) -> tuple[dict[Subject, int], list[int]]:
        """What the log itself has of each subject, and the first sequence of each shard then."""
        for _ in range(_ATTEMPTS):
            before = (await self.below.info()).streams
            counts = await self.below.subjects(family, shard)
            after = (await self.below.info()).streams
            firsts = [each.first_seq or 2**62 for each in after]
            if [each.first_seq or 2**62 for each in before] == firsts:
                return counts, firsts  # nothing was purged between
        raise LogUnavailable("the log is purged all the time: ask again")

    async def _hashed(self, shard: int, name: str) -> Subject:
        """A subject whose keys its records have."""

        async def ask(manifest: Manifest) -> Stored | None:
            return await self.segments.last(manifest.segments, Selection(name))

        found = await self._ask(shard, ask)
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
            return await self.segments.read(manifest.segments, Selection(after=seq - 1, upto=upto))

        return next(iter(await self._ask(shard, ask)), None)

    async def sequence_at(self, shard: int, time: dt.datetime) -> int:
        found = await self.below.sequence_at(shard, time)

        async def ask(manifest: Manifest) -> int:
            if found > manifest.until:
                return found
            micros = (time - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
            return await self.segments.sequence_at(manifest.segments, micros)

        return await self._ask(shard, ask)

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
            manifest = await self.manifests.current(appends[0].subject.shard, fresh=is_fresh)
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
        await self.below.purge(which, before=before, overwrite=overwrite)
        shard = which if isinstance(which, int) else which.shard
        doomed = Selection() if isinstance(which, int) else _selection(which)
        await self._erasing.erase(shard, doomed._replace(upto=before - 1))

    async def close(self) -> None:
        await self.below.close()


def _window(manifest: Manifest, after: int) -> int:
    """The end of a range of sequences after one that fits in memory, however its records lie."""
    for segment in manifest.segments:
        if segment.last > after:
            run = (each.raw_bytes for each in manifest.segments if each.last == segment.last)
            windows = sum(run) // _WINDOW + 1
            width = (segment.last - segment.first) // windows + 1
            return min(max(after, segment.first - 1) + width, segment.last)
    return manifest.until


def _selection(which: Subject | Branch) -> Selection:
    if isinstance(which, Branch):
        return Selection(prefix=which.name.removesuffix(">"))
    return Selection(which.name)
