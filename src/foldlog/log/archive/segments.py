"""The segments of a namespace: files of sorted rows in a place, each under its digest."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import groupby
from typing import Any, Final

from foldlog.errors import ConfigurationError, LogCorrupt, LogUnavailable
from foldlog.log.archive.places import Place
from foldlog.log.archive.rows import Rows
from foldlog.log.port import Stored
from foldlog.subjects import Namespace
from foldlog_projections.archive import Segment

_FOOTERS: Final = 64
"""Footers in memory. One has a description of each half a megabyte."""

_COLUMNS: Final = ("subject", "seq", "time", "data")


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
        self._footer = lru_cache(_FOOTERS)(parquet.footer_of)

    def new_folder(self, shard: int) -> str:
        """Return where the files of a shard may stand. Another log of that name has another one."""
        return f"{self._namespace.stream(shard)}-{secrets.token_hex(4)}"

    # --- reading ----------------------------------------------------------------------------------

    async def read(self, segments: Sequence[Segment], rows: Rows) -> list[Stored]:
        """Return rows of some segments, in the order of their sequences.

        Raises:
            SegmentGone: a file is not there. LogCorrupt: one is no segment any more.
            LogUnavailable: the place did not answer.
        """

        def read() -> list[Stored]:
            tables = self._tables(segments, rows)
            found = [each for table in tables for each in self._parquet.stored(table)]
            return sorted(found, key=lambda each: each.seq)

        return await asyncio.to_thread(read)

    async def last(self, segments: Sequence[Segment], rows: Rows) -> Stored | None:
        """Return the last of these rows of one subject, or None. Errors as `read`."""

        def read() -> Stored | None:
            tables = self._tables(segments, rows, newest_first=True)
            ends = (table.slice(len(table) - 1) for table in tables)
            return next((each for table in ends for each in self._parquet.stored(table)), None)

        return await asyncio.to_thread(read)

    async def lasts(self, segments: Sequence[Segment], rows: Rows) -> list[Stored]:
        """Return the last row of each subject, by their sequences. Errors as `read`."""

        def read() -> list[Stored]:
            found = dict[str, Stored]()
            for table in self._tables(segments, rows):
                lasts = self._parquet.stored(self._parquet.lasts(table))
                found.update((each.subject, each) for each in lasts)
            return sorted(found.values(), key=lambda each: each.seq)

        return await asyncio.to_thread(read)

    async def counts(self, segments: Sequence[Segment], rows: Rows) -> dict[str, int]:
        """Return how many of these rows each subject has. Errors as `read`."""

        def read() -> dict[str, int]:
            found = Counter[str]()
            for table in self._tables(segments, rows, ["subject"]):
                found.update(self._parquet.counts(table))
            return dict(found)

        return await asyncio.to_thread(read)

    async def holding(self, segments: Sequence[Segment], rows: Rows) -> set[str]:
        """Return the names of the segments that have such rows. Errors as `read`."""

        def read() -> set[str]:
            return {each.name for each in segments if any(self._tables([each], rows, ["seq"]))}

        return await asyncio.to_thread(read)

    async def sequence_at(self, segments: Sequence[Segment], micros: int) -> int:
        """Return the last sequence of a row up to that time, in microseconds since 1970; or 0."""

        def read() -> int:
            tables = self._tables(segments, Rows(), ["seq", "time"])
            return max((self._parquet.last_until(table, micros) for table in tables), default=0)

        return await asyncio.to_thread(read)

    def _tables(
        self,
        segments: Sequence[Segment],
        rows: Rows,
        columns: Sequence[str] = _COLUMNS,
        *,
        newest_first: bool = False,
    ) -> Iterator[Any]:
        """Yield rows of one segment after the other, in tables that are not empty."""
        for segment in reversed(segments) if newest_first else segments:
            if not rows.may_be_in(segment):
                continue
            with self._reading(segment):
                path = self._place.local(segment.name)
                footer = self._footer(path)
                yield from self._parquet.read(
                    path, footer, rows, columns, newest_first=newest_first
                )

    @contextmanager
    def _reading(self, segment: Segment) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise SegmentGone(str(error)) from error
        except self._parquet.ERRORS as error:
            # Whoever removes it overwrites it first, under another name.
            if not (self._place.here.root / segment.name).exists():
                raise SegmentGone(segment.name) from error
            raise LogCorrupt(segment.name, segment.first, str(error)) from error

    # --- writing ----------------------------------------------------------------------------------

    def table(self, rows: Sequence[Stored]) -> Any:
        """Return rows as `keep` takes them, which needs less memory."""
        return self._parquet.table_of(rows)

    async def keep(
        self, folder: str, base: int, tables: Sequence[Any], first: int, last: int, previous: str
    ) -> list[Segment]:
        """Store rows as a run of segments, synced; none for no rows.

        Args:
            folder: that of the shard's manifest.
            base: the sequence of the manifest on which this is decided: see `sweep`.
            tables: the rows.
            first, last: the sequences that they are about.
            previous: the digest of the segment before them.

        Raises:
            SegmentGone: the manifest has changed since. LogUnavailable: the place did not answer.
        """
        rows = self._parquet.in_order(tables)
        return await self._kept(folder, base, rows, first, last, previous)

    async def merge(
        self,
        folder: str,
        base: int,
        segments: Sequence[Segment],
        previous: str,
        *,
        without: Sequence[Rows] = (),
    ) -> list[Segment]:
        """Store the rows of some neighbours, but for some rows, as one run. As `keep`.

        Raises:
            LogCorrupt: a segment is missing, or is none any more.
        """
        runs = (list(run) for _, run in groupby(segments, key=lambda each: each.last))
        sources = [self._parquet.without(self._tables(run, Rows()), without) for run in runs]
        rows = self._parquet.merge(sources)
        span = segments[0].first, segments[-1].last
        return await self._kept(folder, base, rows, *span, previous)

    async def _kept(
        self, folder: str, base: int, rows: Iterator[Any], first: int, last: int, previous: str
    ) -> list[Segment]:
        """Write in a thread, which has ended when this has."""
        is_cancelled = threading.Event()

        def going_on() -> Iterator[Any]:
            for table in rows:
                if is_cancelled.is_set():
                    raise LogUnavailable("the store was closed")
                yield table

        about = first, last, previous
        writing = asyncio.create_task(
            asyncio.to_thread(self._write, folder, base, going_on(), *about)
        )
        try:
            return await asyncio.shield(writing)
        except asyncio.CancelledError:
            is_cancelled.set()
            await asyncio.gather(writing, return_exceptions=True)
            raise

    def _write(
        self, folder: str, base: int, rows: Iterator[Any], first: int, last: int, previous: str
    ) -> list[Segment]:
        here, draft = self._place.here, f".{base:016d}-{secrets.token_hex(4)}"
        run = list[Segment]()
        try:
            files = self._parquet.write(here.draft(folder, draft), rows)
            for each in files:
                with each.path.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                name = f"{folder}/{base:016d}-{first:016d}-{last:016d}-{digest[:12]}.parquet"
                size = each.path.stat().st_size
                self._place.put(name, each.path)
                latest = max(each.newest for each in files)[1]
                counted = each.records, each.raw_bytes, size, latest
                run.append(
                    Segment(name, first, last, *counted, digest, previous, each.low, each.high)
                )
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
        """Do so with the copies on this machine, where the files are elsewhere."""
        self._footer.cache_clear()
        if self._place.here is not self._place:
            await asyncio.to_thread(self._sweep, self._place.here, folder, base, named)

    def _sweep(self, place: Place, folder: str, base: int, named: Sequence[Segment]) -> None:
        if not folder:  # nothing was archived yet
            return
        kept = {each.name for each in named}
        for name in place.names(folder):
            decided_on = name.rpartition("/")[2].lstrip(".").partition("-")[0]
            if name not in kept and decided_on.isdigit() and int(decided_on) < base:
                place.delete(name)
