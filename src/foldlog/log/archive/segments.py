"""The segments of a namespace: files of sorted rows in a place, each under its digest."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from itertools import groupby
from typing import Any, Final, TypeVar

from foldlog.errors import ConfigurationError, LogCorrupt, LogUnavailable
from foldlog.log.archive.places import Place
from foldlog.log.archive.selection import REST, Selection
from foldlog.log.port import Stored
from foldlog.subjects import Namespace
from foldlog_projections.archive import Segment

_FOOTERS: Final = 64
"""Footers in memory, of 1 MiB at most."""


T = TypeVar("T")


class SegmentGone(Exception):
    """A segment's file is not there: a newer manifest names others."""


class Segments:
    """The segments of one namespace in a place. Its questions run in threads."""

    def __init__(self, place: Place, namespace: Namespace) -> None:
        try:
            from foldlog.log.archive import parquet
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                "pyarrow is not installed: pip install 'foldlog[archive]'"
            ) from error
        self._parquet = parquet
        self._place = place
        self._namespace = namespace
        self._footer = lru_cache(_FOOTERS)(self._read_footer)

    def new_folder(self, shard: int) -> str:
        """Return where the files of a shard may stand. Another log of that name has another one."""
        return f"{self._namespace.stream(shard)}-{secrets.token_hex(4)}"

    # --- reading ----------------------------------------------------------------------------------

    async def read(self, segments: Sequence[Segment], which: Selection) -> list[Stored]:
        """Return rows of some segments, in the order of their sequences.

        Raises:
            SegmentGone: a file is not there. LogCorrupt: one is no segment any more.
            LogUnavailable: the place did not answer.
        """

        def read() -> list[Stored]:
            tables = self._tables(segments, which)
            found = [each for table in tables for each in self._parquet.unpack(table)]
            return sorted(found, key=lambda each: each.seq)

        return await asyncio.to_thread(read)

    async def last(self, segments: Sequence[Segment], which: Selection) -> Stored | None:
        """Return the last of these rows of one subject, or None. Errors as `read`."""

        def read() -> Stored | None:
            tables = self._tables(segments, which, newest_first=True)
            ends = (table.slice(len(table) - 1) for table in tables)
            return next((each for table in ends for each in self._parquet.unpack(table)), None)

        return await asyncio.to_thread(read)

    async def lasts(self, segments: Sequence[Segment], which: Selection) -> list[Stored]:
        """Return the last row of each subject, by their sequences. Errors as `read`."""

        def read() -> list[Stored]:
            found = dict[str, Stored]()
            for table in self._tables(segments, which):
                lasts = self._parquet.unpack(self._parquet.keep_lasts(table))
                found.update((each.subject, each) for each in lasts)
            return sorted(found.values(), key=lambda each: each.seq)

        return await asyncio.to_thread(read)

    async def counts(self, segments: Sequence[Segment], which: Selection) -> dict[str, int]:
        """Return how many of these rows each subject has. Errors as `read`."""

        def read() -> dict[str, int]:
            found = Counter[str]()
            for table in self._tables(segments, which, ()):
                found.update(self._parquet.count(table))
            return dict(found)

        return await asyncio.to_thread(read)

    async def holding(self, segments: Sequence[Segment], which: Selection) -> set[str]:
        """Return the names of the segments that have such rows. Errors as `read`."""

        def read() -> set[str]:
            return {each.name for each in segments if any(self._tables([each], which, ()))}

        return await asyncio.to_thread(read)

    async def sequence_at(self, segments: Sequence[Segment], micros: int) -> int:
        """Return the last sequence of a row up to that time, in microseconds since 1970; or 0."""

        def read() -> int:
            tables = self._tables(segments, Selection(), ("time",))
            return max((self._parquet.find_last(table, micros) for table in tables), default=0)

        return await asyncio.to_thread(read)

    def _tables(
        self,
        segments: Sequence[Segment],
        which: Selection,
        more: Sequence[str] = REST,
        *,
        newest_first: bool = False,
    ) -> Iterator[Any]:
        """Yield rows of one segment after the other, as `parquet.read` does."""
        for segment in reversed(segments) if newest_first else segments:
            if which.may_be_in(segment):
                with self._reading(segment), self._place.open(segment.name) as file:
                    yield from self._parquet.read(
                        file, self._footer(segment), which, more, newest_first=newest_first
                    )

    def _read_footer(self, segment: Segment) -> Any:
        with self._place.open(segment.name) as file:
            return self._parquet.read_footer(file, segment.crc)

    @contextmanager
    def _reading(self, segment: Segment) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise SegmentGone(segment.name) from error
        except self._parquet.ERRORS as error:
            if isinstance(error, MemoryError) or getattr(error, "errno", None):
                raise LogUnavailable(f"{segment.name} cannot be read now: {error}") from error
            # A file that is removed is overwritten first, under another name.
            if not (self._place.here.root / segment.name).exists():
                raise SegmentGone(segment.name) from error
            raise LogCorrupt(segment.name, segment.first, str(error)) from error

    # --- writing ----------------------------------------------------------------------------------

    def pack(self, rows: Sequence[Stored]) -> Any:
        """Return rows in the form that `keep` takes."""
        return self._parquet.pack(rows)

    async def keep(
        self, folder: str, base: int, packed: Sequence[Any], first: int, last: int, previous: str
    ) -> list[Segment]:
        """Store rows as a run of segments, synced; none for no rows.

        Args:
            folder: that of the shard's manifest.
            base: the sequence of the manifest on which this is decided: see `sweep`.
            packed: the rows.
            first, last: the sequences that they are about.
            previous: the digest of the segment before them.

        Raises:
            SegmentGone: the manifest has changed since. LogUnavailable: the place did not answer.
        """
        rows = self._parquet.sort(packed)
        return await self._store(folder, base, rows, first, last, previous)

    async def merge(
        self,
        folder: str,
        base: int,
        segments: Sequence[Segment],
        previous: str,
        *,
        without: Sequence[Selection] = (),
    ) -> list[Segment]:
        """Store the rows of some neighbours, but for some rows, as one run. As `keep`.

        Raises:
            LogCorrupt: a segment is damaged.
        """
        runs = (list(run) for _, run in groupby(segments, key=lambda each: each.last))
        sources = [self._parquet.leave_out(self._tables(run, Selection()), without) for run in runs]
        rows = self._parquet.merge(sources)
        span = segments[0].first, segments[-1].last
        return await self._store(folder, base, rows, *span, previous)

    async def _store(
        self, folder: str, base: int, rows: Iterator[Any], first: int, last: int, previous: str
    ) -> list[Segment]:
        """Write in a thread, which has ended when this has."""
        ended = threading.Event()
        work = partial(self._write, folder, base, rows, first, last, previous, ended)
        writing = asyncio.create_task(asyncio.to_thread(work))
        try:
            return await asyncio.shield(writing)
        finally:
            ended.set()
            while not writing.done():
                with suppress(asyncio.CancelledError):  # the first is raised in the end
                    await asyncio.wait([writing])
            if not writing.cancelled():
                writing.exception()  # which is either raised, or of a writer that was cancelled

    def _write(
        self,
        folder: str,
        base: int,
        rows: Iterator[Any],
        first: int,
        last: int,
        previous: str,
        ended: threading.Event,
    ) -> list[Segment]:
        here, draft = self._place.here, f".{base:016d}-{secrets.token_hex(4)}"
        run = list[Segment]()
        try:
            groups = stop_when(ended, self._parquet.group(rows))
            files = self._parquet.write(here.draft(folder, draft), groups)
            latest = max((each.newest for each in files), default=(0, ""))[1]
            for each in stop_when(ended, files):
                with each.path.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                name = f"{folder}/{base:016d}-{first:016d}-{last:016d}-{digest[:12]}.parquet"
                segment = Segment(
                    name=name,
                    first=first,
                    last=last,
                    records=each.records,
                    raw_bytes=each.raw_bytes,
                    size_bytes=each.path.stat().st_size,
                    latest=latest,
                    digest=digest,
                    previous=previous,
                    low=each.low,
                    high=each.high,
                    crc=each.crc,
                )
                self._place.put(name, each.path)
                run.append(segment)
                previous = digest
        except FileNotFoundError as error:  # swept while it was written: the manifest is another
            raise SegmentGone(str(error)) from error
        except self._parquet.ERRORS as error:
            raise LogUnavailable(f"a segment could not be written: {error}") from error
        finally:
            here.delete(f"{folder}/{draft}")
        return run

    async def sweep(self, folder: str, base: int, named: Sequence[Segment]) -> None:
        """Overwrite and remove files and drafts that no manifest names, nor will.

        A name says on which manifest its writer decided. One that is older than the newest, `base`,
        can no longer be named.
        """
        await asyncio.to_thread(self._sweep, self._place, folder, base, named)
        await self.forget(folder, base, named)

    async def forget(self, folder: str, base: int, named: Sequence[Segment]) -> None:
        """Do so with copies on this machine of files that are elsewhere."""
        self._footer.cache_clear()
        if self._place.here is not self._place:
            await asyncio.to_thread(self._sweep, self._place.here, folder, base, named)

    def _sweep(self, place: Place, folder: str, base: int, named: Sequence[Segment]) -> None:
        if not folder:  # nothing was archived yet
            return
        kept = {each.name for each in named}
        for _ in range(2):  # what became a file out of a draft meanwhile is listed again
            for name in sorted(place.names(folder), key=lambda name: "/." not in name):
                decided_on = name.rpartition("/")[2].lstrip(".").partition("-")[0]
                copied = name.replace("/.", "/").rpartition(".")[0]  # if it is a copy under way
                is_old = decided_on.isdigit() and int(decided_on) < base
                if is_old and not {name, copied} & kept:
                    place.delete(name)


def stop_when(ended: threading.Event, items: Iterable[T]) -> Iterator[T]:
    """Yield items; raise LogUnavailable once that is set."""
    for item in items:
        if ended.is_set():
            raise LogUnavailable("the store was closed")
        yield item
