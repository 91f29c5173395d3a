"""A log whose beginning is in the archive."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Final, TypeVar

import msgspec

from foldlog.errors import AppendConflict, LogCorrupt
from foldlog.log.archive.erasing import Erasing
from foldlog.log.archive.manifest import Manifest
from foldlog.log.archive.manifests import Manifests
from foldlog.log.archive.segments import Segments
from foldlog.log.archive.selection import Selection
from foldlog.log.port import Append, Log, Record, Stored
from foldlog.log.relay import Relay
from foldlog.subjects import Branch, Subject, matching
from foldlog_projections import archive

T = TypeVar("T", Record, Stored)

_PAGE: Final = 1_000


class ArchivedLog(Relay):
    """`below`, and before it what its archive holds: as one log.

    Every method asks the log first and its manifest afterwards: what the log had lost by then, the
    manifest named. So does a log that has no archive: it notices when somebody gives it one.
    """

    def __init__(self, below: Log, segments: Segments) -> None:
        super().__init__(below)
        self.segments = segments
        self.manifests: Manifests = Manifests(below, segments)
        self._ask = self.manifests.ask
        self._erasing = Erasing(self.manifests, segments)
        # Every save runs these. Type checkers take an attribute in a method's place for a mistake.
        self.known: Callable[[int], int] = below.known
        if segments.place is None:
            self.append = below.append  # type: ignore[method-assign]

    # --- reading ----------------------------------------------------------------------------------

    def read(
        self, subject: Subject | Branch, *, after: int = 0, strong: bool = True
    ) -> AsyncGenerator[list[Record]]:
        def below(since: int) -> AsyncGenerator[list[Record]]:
            return self.below.read(subject, after=since, strong=strong)

        which = _selection(subject)._replace(after=after)
        return self._through(subject.shard, which, below, Stored.record)

    async def last(
        self, subject: Subject, *, strong: bool = True, upto: int | None = None
    ) -> Record | None:
        record = await self.below.last(subject, strong=strong, upto=upto)
        if record is not None:
            return record

        async def ask(manifest: Manifest) -> Stored | None:
            end = manifest.until if upto is None else min(upto, manifest.until)
            return await self.segments.last(manifest, Selection(subject.name, upto=end))

        found = await self._ask(subject.shard, ask)
        return None if found is None else found.record()

    async def are_absent(self, subjects: Sequence[Subject]) -> bool:
        if self.segments.place is not None or not await self.below.are_absent(subjects):
            return False
        return not (await self.manifests.current(subjects[0].shard)).until

    def scan(
        self, shard: int, *, after: int = 0, only: Sequence[str] = ()
    ) -> AsyncGenerator[list[Stored]]:
        async def below(since: int) -> AsyncGenerator[list[Stored]]:
            async with aclosing(self.below.scan(shard, after=since, only=only)) as pages:
                async for page in pages:
                    if kept := [each for each in page if not self.is_manifest(each)]:
                        yield kept

        which = Selection(after=after, is_meant=matching(only))
        return self._through(shard, which, below, _as_it_is)

    async def _through(
        self,
        shard: int,
        which: Selection,
        below: Callable[[int], AsyncGenerator[list[T]]],
        convert: Callable[[Stored], T],
    ) -> AsyncGenerator[list[T]]:
        """Yield pages of the archive, then of the log; and of what was archived meanwhile.

        `below` reads the log after a sequence.
        """
        after, damaged, is_last = which.after, list[LogCorrupt](), False
        while True:
            # It is asked for once: a reader who appends would never come to its end.
            until = await self._until(shard, which, after)
            while after < until:
                asked = which._replace(after=after, upto=until)
                page = await self._ask(shard, partial(self.segments.page, which=asked))
                after, rows = page.upto, page.rows
                for start in range(0, len(rows), _PAGE):
                    yield [convert(each) for each in rows[start : start + _PAGE]]
                damaged += page.damaged
                # Other files have records of the same sequences, and these come first.
                due = {each.stream: each for each in damaged if each.sequence <= after}
                if due:
                    reason = "; ".join(each.reason for each in due.values())
                    raise LogCorrupt(", ".join(due), after, reason)
            if is_last:
                return
            async with aclosing(below(after)) as pages:
                async for found in pages:
                    if await self._until(shard, which, after) > after:
                        break  # the archive has taken what comes next: it is read from there
                    yield found
                    after = max(after, found[-1].seq)
                else:
                    is_last = True  # only what was archived meanwhile can be missing

    async def _until(self, shard: int, which: Selection, after: int) -> int:
        """The sequence up to which the archive is to be read.

        Where the manifest is damaged, a scan goes on with what the log itself has.
        """
        try:
            return (await self.manifests.current(shard)).until
        except LogCorrupt as error:
            if not which.is_everything:
                raise
            first = (await self.below.info()).streams[shard].first_seq
            if after < first - 1:
                raise LogCorrupt(error.stream, first - 1, error.reason) from error
            return 0

    async def subjects(
        self, family: str | None = None, shard: int | None = None
    ) -> dict[Subject, int]:
        counts, firsts = await self._counts_below(family, shard)
        for number in range(self.namespace.shards) if shard is None else (shard,):
            prefix = self.namespace.wildcard(number, family).removesuffix(">")
            # What the log has still of archived sequences was counted.
            ask = partial(
                self.segments.counts, which=Selection(prefix=prefix, upto=firsts[number] - 1)
            )
            with suppress(LogCorrupt):  # of the manifest: reads of its subjects raise it
                for name, count in (await self._ask(number, ask)).items():
                    if subject := self.namespace.parse(name) or await self._hashed(number, name):
                        counts[subject] = counts.get(subject, 0) + count
        return {each: n for each, n in counts.items() if each.family != archive.kind.name}

    async def _counts_below(
        self, family: str | None, shard: int | None
    ) -> tuple[dict[Subject, int], list[int]]:
        """What the log itself has of each subject, and the first sequence of each shard then."""
        if self.segments.place is None:
            return await self.below.subjects(family, shard), [0] * self.namespace.shards
        firsts = await self._firsts()
        counts = await self.below.subjects(family, shard)
        if await self._firsts() != firsts:  # something was purged in between
            return await self._counts_below(family, shard)
        return counts, firsts

    async def _firsts(self) -> list[int]:
        return [each.first_seq or 2**62 for each in (await self.below.info()).streams]

    async def _hashed(self, shard: int, name: str) -> Subject | None:
        """A subject whose keys its records have; None if these cannot be read."""
        with suppress(LogCorrupt):
            found = await self._ask(shard, partial(self.segments.last, which=Selection(name)))
            if found is not None and (keys := found.record().envelopes[-1].keys):
                return Subject(name, shard, tuple(keys))
        return None

    async def stored(self, shard: int, seq: int) -> Stored | None:
        found = await self.below.stored(shard, seq)
        if found is not None:
            return found

        which = Selection(after=seq - 1, upto=seq)
        page = await self._ask(shard, partial(self.segments.page, which=which))
        if not page.rows and page.damaged:
            raise page.damaged[0]
        return next(iter(page.rows), None)

    async def sequence_at(self, shard: int, time: dt.datetime) -> int:
        found = await self.below.sequence_at(shard, time)

        async def ask(manifest: Manifest) -> int:
            if found > manifest.until:
                return found
            return await self.segments.sequence_at(manifest, time)

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
        if (end := await self._end(append.subject)) != append.expect:
            raise AppendConflict(append.subject.name, append.expect, end)
        return msgspec.structs.replace(append, expect=0)

    async def _conflict(self, appends: Sequence[Append], found: AppendConflict) -> AppendConflict:
        for each in appends:
            if each.expect is not None and each.subject.name == found.subject:
                return AppendConflict(found.subject, each.expect, await self._end(each.subject))
        return found

    async def _end(self, subject: Subject) -> int:
        record = await self.last(subject)
        return 0 if record is None else record.seq

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


def _as_it_is(stored: Stored) -> Stored:
    return stored


def _selection(which: Subject | Branch) -> Selection:
    if isinstance(which, Branch):
        return Selection(prefix=which.name.removesuffix(">"))
    return Selection(which.name)
