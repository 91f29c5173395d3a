"""Segments as files: Parquet, written and read with DuckDB, which finds subjects by statistics.

A row is one record of the log: `subject`, `seq`, `time` (the log's clock, RFC 3339) and `data`, its
bytes. Rows are sorted by subject and sequence, in small row groups, with a Bloom filter on the
subject.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from foldlog.errors import ConfigurationError, LogCorrupt, LogUnavailable
from foldlog.log.archive.drafts import Draft, open_database, quoted, rows_of
from foldlog.log.archive.places import Place
from foldlog.log.port import Stored
from foldlog.subjects import Namespace
from foldlog_projections.archive import Segment

_MOST: Final = 2**63 - 1


class SegmentGone(Exception):
    """A segment's file is not there: a newer manifest names others."""


class Rows(NamedTuple):
    """Which rows: of a subject or of all that begin so, with sequences in (after, upto]."""

    subject: str | None = None
    prefix: str | None = None
    after: int = 0
    upto: int = _MOST

    def may_be_in(self, segment: Segment) -> bool:
        """Whether a segment can have such rows, by its sequences and subjects."""
        low = self.prefix or "" if self.subject is None else self.subject
        high = _beyond(self.prefix) if self.subject is None else self.subject
        return (self.after < segment.last and segment.first <= self.upto) and (
            low <= segment.high and segment.low <= high
        )

    @property
    def sql(self) -> str:
        """The condition in SQL, without what is so of every row."""
        parts = [f"seq > {self.after}"] * (self.after > 0)
        parts += [f"seq <= {self.upto}"] * (self.upto < _MOST)
        if self.subject is not None:
            parts.append(f"subject = {quoted(self.subject)}")
        if self.prefix is not None:  # as a range, which statistics know how to use
            end = quoted(_beyond(self.prefix))
            parts.append(f"subject >= {quoted(self.prefix)} and subject < {end}")
        return " and ".join(parts) or "true"


class Segments:
    """The segments of one namespace in a place. Its questions run in threads."""

    def __init__(self, place: Place, namespace: Namespace) -> None:
        try:
            import duckdb
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                "duckdb is not installed: pip install 'foldlog[archive]'"
            ) from error
        self._place = place
        self._namespace = namespace
        self._failed = duckdb.Error
        self._spill = tempfile.TemporaryDirectory(prefix="foldlog-")
        self._database = open_database(Path(self._spill.name))
        # Footers, in the memory that the limit allows. Files are cached by the system already.
        self._database.execute("set parquet_metadata_cache = true")
        self._database.execute("set enable_external_file_cache = false")

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
        sql = f"select subject, seq, time, data from {{}} where {rows.sql} order by seq"
        return [Stored(*row) for row in await self._ask(segments, rows, sql)]

    async def last(self, segments: Sequence[Segment], rows: Rows) -> Stored | None:
        """Return the last of these rows, or None. Errors as `read`."""
        [[seq]] = await self._ask(
            segments, rows, f"select max(seq) from {{}} where {rows.sql}"
        ) or [[None]]
        if seq is None:
            return None
        [found] = await self.read(segments, rows._replace(after=seq - 1, upto=seq))
        return found

    async def lasts(self, segments: Sequence[Segment], rows: Rows) -> list[Stored]:
        """Return the last row of each subject, by their sequences. Errors as `read`."""
        columns = "subject, max(seq) as seq, arg_max(time, seq), arg_max(data, seq)"
        sql = f"select {columns} from {{}} where {rows.sql} group by subject order by seq"
        return [Stored(*row) for row in await self._ask(segments, rows, sql)]

    async def counts(self, segments: Sequence[Segment], rows: Rows) -> dict[str, int]:
        """Return how many of these rows each subject has. Errors as `read`."""
        sql = f"select subject, count(*) from {{}} where {rows.sql} group by subject"
        return dict(await self._ask(segments, rows, sql))

    async def holding(self, segments: Sequence[Segment], rows: Rows) -> set[str]:
        """Return the names of the segments that have such rows. Errors as `read`."""
        sql = f"select distinct filename from {{}} where {rows.sql}"
        paths = {path for [path] in await self._ask(segments, rows, sql)}
        return {each.name for each in segments if str(self._place.here.root / each.name) in paths}

    async def sequence_at(self, segments: Sequence[Segment], micros: int) -> int:
        """Return the last sequence of a row up to that time, in microseconds since 1970; or 0."""
        when = "epoch_us(time::timestamptz)"
        sql = f"select coalesce(max(seq), 0) from {{}} where {when} <= {micros}"
        [[found]] = await self._ask(segments, Rows(), sql) or [[0]]
        return int(found)

    async def _ask(self, segments: Sequence[Segment], rows: Rows, sql: str) -> list[Any]:
        wanted = [each for each in segments if rows.may_be_in(each)]
        if not wanted:
            return []
        return await asyncio.to_thread(self._query, wanted, sql)

    def _query(self, segments: Sequence[Segment], sql: str) -> list[Any]:
        paths = self._paths(segments)
        try:
            with self._database.cursor() as cursor:
                found: list[Any] = cursor.execute(sql.format(rows_of(paths))).fetchall()
        except self._failed as error:
            self._check_there(paths)
            raise LogCorrupt(segments[0].name, segments[0].first, str(error)) from error
        # One that was overwritten meanwhile may have had nothing, without an error.
        self._check_there(paths)
        return found

    def _paths(self, segments: Sequence[Segment]) -> list[Path]:
        try:
            return self._place.local([each.name for each in segments])
        except FileNotFoundError as error:
            raise SegmentGone(str(error)) from error

    def _check_there(self, paths: Sequence[Path]) -> None:
        for path in paths:
            if not path.exists():
                raise SegmentGone(str(path))

    # --- writing ----------------------------------------------------------------------------------

    @asynccontextmanager
    async def draft(self, folder: str, base: int) -> AsyncIterator[Draft]:
        """Begin a segment; a draft that is not stored when the block ends is overwritten.

        Args:
            folder: that of the shard's manifest.
            base: the sequence of the manifest on which this is decided: see `sweep`.

        Raises:
            LogUnavailable: there is no place for it. SegmentGone: somebody has swept it.
        """
        name, here = f".{base:016d}-{secrets.token_hex(4)}", self._place.here
        draft = await asyncio.to_thread(lambda: Draft(here.draft(folder, name)))
        try:
            yield draft
        except self._failed as error:
            self._check_there([draft.directory, *draft.sources])
            raise LogUnavailable(f"a segment could not be written: {error}") from error
        finally:
            await asyncio.to_thread(draft.close)
            await asyncio.to_thread(here.delete, f"{folder}/{name}")

    async def keep(
        self, folder: str, base: int, draft: Draft, first: int, last: int, previous: str
    ) -> list[Segment]:
        """Store a draft as a run of segments, synced; none if it has no rows.

        Args:
            folder, base: as for `draft`.
            first, last: the sequences that it is about.
            previous: the digest of the segment before it.

        Raises:
            SegmentGone: the manifest has changed since. LogUnavailable: the place did not answer.
        """
        return await asyncio.to_thread(self._keep, folder, base, draft, first, last, previous)

    def _keep(
        self, folder: str, base: int, draft: Draft, first: int, last: int, previous: str
    ) -> list[Segment]:
        run = list[Segment]()
        try:
            for each in draft.write():
                with each.path.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                name = f"{folder}/{base:016d}-{first:016d}-{last:016d}-{digest[:12]}.parquet"
                size = each.path.stat().st_size
                self._place.put(name, each.path)
                counted = each.records, each.raw_bytes, size, each.latest
                run.append(
                    Segment(name, first, last, *counted, digest, previous, each.low, each.high)
                )
                previous = digest
            # One that was overwritten meanwhile may have had nothing, without an error.
            self._check_there(draft.sources)
        except FileNotFoundError as error:  # swept while it was written: the manifest is another
            raise SegmentGone(str(error)) from error
        return run

    async def copy(self, segments: Sequence[Segment], into: Draft, without: Sequence[Rows]) -> None:
        """Have a draft hold the rows of segments, but for some. Errors as `read`."""
        into.sources = await asyncio.to_thread(self._paths, segments)
        conditions = ["true", *(f"not ({rows.sql})" for rows in without)]
        into.rows = (
            f"select subject, seq, time, data from {rows_of(into.sources)} "
            f"where {' and '.join(conditions)}"
        )
        if len(segments) > 1:  # one is sorted
            into.rows += " order by subject, seq"

    async def sweep(self, folder: str, base: int, named: Sequence[Segment]) -> None:
        """Overwrite and remove files and drafts that no manifest names, nor will.

        A name says on which manifest its writer decided. One that is older than the newest, `base`,
        can no longer be named.
        """
        await asyncio.to_thread(self._sweep, self._place, folder, base, named)
        await self.forget(folder, base, named)

    async def forget(self, folder: str, base: int, named: Sequence[Segment]) -> None:
        """Do so with the copies on this machine, where the files are elsewhere."""
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

    async def close(self) -> None:
        """Let go of the database. The files stay."""
        await asyncio.to_thread(self._database.close)
        self._spill.cleanup()


def _beyond(prefix: str | None) -> str:
    """What is greater than all that begins so, and no greater than what does not but follows."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1) if prefix else chr(0x10FFFF)
