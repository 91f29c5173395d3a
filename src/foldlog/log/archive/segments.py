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

from foldlog.errors import ConfigurationError, LogCorrupt
from foldlog.log.archive.places import Place
from foldlog.log.port import Stored
from foldlog.subjects import Namespace
from foldlog_projections.archive import Segment

_ROW_GROUP: Final = 2_048
_FORMAT: Final = (
    # Where every subject fits the dictionary, there is a Bloom filter on it.
    f"(format parquet, compression zstd, row_group_size {_ROW_GROUP}, "
    f"dictionary_size_limit {_ROW_GROUP})"
)
_MEMORY: Final = "256MB"


class SegmentGone(Exception):
    """A segment's file is not there: a newer manifest names others."""


class Rows(NamedTuple):
    """Which rows: of a subject or of all that begin so, with sequences in (after, upto]."""

    subject: str | None = None
    prefix: str | None = None
    after: int = 0
    upto: int = 2**63 - 1

    @property
    def sql(self) -> str:
        """The condition in SQL."""
        parts = [f"seq > {self.after}", f"seq <= {self.upto}"]
        if self.subject is not None:
            parts.append(f"subject = {_quoted(self.subject)}")
        if self.prefix is not None:  # as a range, which statistics know how to use
            end = self.prefix[:-1] + chr(ord(self.prefix[-1]) + 1)
            parts.append(f"subject >= {_quoted(self.prefix)} and subject < {_quoted(end)}")
        return " and ".join(parts)


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
        config: dict[str, Any] = {
            "memory_limit": _MEMORY,
            "threads": 1,
            "temp_directory": self._spill.name,
        }
        self._database = duckdb.connect(config=config)
        self._database.execute("set enable_object_cache = true")

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
        sql = (
            f"select subject, seq, time, data from {{}} where {rows.sql} order by seq desc limit 1"
        )
        for segment in reversed(segments):
            if found := await self._ask([segment], rows, sql):
                return Stored(*found[0])
        return None

    async def lasts(self, segments: Sequence[Segment], rows: Rows) -> list[Stored]:
        """Return the last row of each subject, by their sequences. Errors as `read`."""
        sql = (
            f"select subject, max(seq) as seq, arg_max(time, seq), arg_max(data, seq) from {{}} "
            f"where {rows.sql} group by subject order by seq"
        )
        return [Stored(*row) for row in await self._ask(segments, rows, sql)]

    async def counts(self, segments: Sequence[Segment], rows: Rows) -> dict[str, int]:
        """Return how many of these rows each subject has. Errors as `read`."""
        sql = f"select subject, count(*) from {{}} where {rows.sql} group by subject"
        return dict(await self._ask(segments, rows, sql))

    async def sequence_at(self, segments: Sequence[Segment], micros: int) -> int:
        """Return the last sequence of a row up to that time, in microseconds since 1970; or 0."""
        when = "epoch_us(time::timestamptz)"
        sql = f"select coalesce(max(seq), 0) from {{}} where {when} <= {micros}"
        [[found]] = await self._ask(segments, Rows(), sql) or [[0]]
        return int(found)

    async def _ask(self, segments: Sequence[Segment], rows: Rows, sql: str) -> list[Any]:
        wanted = [each for each in segments if each.last > rows.after and each.first <= rows.upto]
        if not wanted:
            return []
        return await asyncio.to_thread(self._query, wanted, sql)

    def _query(self, segments: Sequence[Segment], sql: str) -> list[Any]:
        paths = self._paths(segments)
        try:
            with self._database.cursor() as cursor:
                found: list[Any] = cursor.execute(sql.format(_files(paths))).fetchall()
                return found
        except self._failed as error:
            if not all(path.is_file() for path in paths):
                raise SegmentGone(str(error)) from error
            raise LogCorrupt(segments[0].name, segments[0].first, str(error)) from error

    def _paths(self, segments: Sequence[Segment]) -> list[Path]:
        try:
            return [self._place.local(each.name) for each in segments]
        except FileNotFoundError as error:
            raise SegmentGone(str(error)) from error

    # --- writing ----------------------------------------------------------------------------------

    @asynccontextmanager
    async def draft(self) -> AsyncIterator[Draft]:
        """Begin a segment; what is not kept when the block ends is gone."""
        with tempfile.TemporaryDirectory(prefix="foldlog-") as directory:
            draft = Draft(self._database, Path(directory))
            try:
                yield draft
            finally:
                await asyncio.to_thread(draft.close)

    async def keep(
        self, folder: str, base: int, draft: Draft, first: int, last: int, previous: str
    ) -> Segment | None:
        """Store a draft as a segment, synced; None if it has no rows.

        Args:
            folder: that of the shard's manifest.
            base: the sequence of the manifest on which this was decided: see `sweep`.
            first, last: the sequences that it is about.

        Raises:
            SegmentGone: the manifest has changed since. LogUnavailable: the place did not answer.
        """
        return await asyncio.to_thread(self._keep, folder, base, draft, first, last, previous)

    def _keep(
        self, folder: str, base: int, draft: Draft, first: int, last: int, previous: str
    ) -> Segment | None:
        records, raw_bytes, latest = draft.write()
        if not records:
            return None
        with draft.file.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        name = f"{folder}/{base:016d}-{first:016d}-{last:016d}-{digest[:12]}.parquet"
        try:
            self._place.put(name, draft.file)
        except FileNotFoundError as error:  # swept while it was written: the manifest is another
            raise SegmentGone(name) from error
        size = draft.file.stat().st_size
        return Segment(name, first, last, records, raw_bytes, size, latest, digest, previous)

    async def copy(self, segments: Sequence[Segment], into: Draft, without: Sequence[Rows]) -> None:
        """Have a draft hold the rows of segments, but for some. Errors as `read`."""
        paths = await asyncio.to_thread(self._paths, segments)
        conditions = ["true", *(f"not ({rows.sql})" for rows in without)]
        into.rows = (
            f"select subject, seq, time, data from {_files(paths)} where {' and '.join(conditions)}"
        )

    async def sweep(self, folder: str, base: int, named: Sequence[Segment]) -> None:
        """Remove files that no manifest names, nor will.

        A file's name says on which manifest its writer decided. One that is older than the newest,
        `base`, can no longer be named.
        """
        if folder:  # else nothing was archived yet
            await asyncio.to_thread(self._sweep, folder, base, {each.name for each in named})

    def _sweep(self, folder: str, base: int, named: set[str]) -> None:
        for name in self._place.names(folder):
            decided_on = name.rpartition("/")[2].lstrip(".").partition("-")[0]
            if name not in named and decided_on.isdigit() and int(decided_on) < base:
                self._place.delete(name)

    async def close(self) -> None:
        """Let go of the database. The files stay."""
        await asyncio.to_thread(self._database.close)
        self._spill.cleanup()


class Draft:
    """Rows that become a segment. Its methods block."""

    def __init__(self, database: Any, directory: Path) -> None:
        self.file = directory / "segment.parquet"
        self.rows = "select * from draft"
        self._cursor = database.cursor()
        self._cursor.execute(
            "create or replace temp table draft(subject varchar, seq ubigint, time varchar, "
            "data blob)"
        )

    def add(self, page: Sequence[Stored]) -> None:
        """Take rows."""
        columns = zip(*((e.subject, e.seq, e.time, e.data) for e in page), strict=True)
        self._cursor.execute(
            "insert into draft select unnest($1::varchar[]), unnest($2::ubigint[]), "
            "unnest($3::varchar[]), unnest($4::blob[])",
            [list(column) for column in columns],
        )

    def write(self) -> tuple[int, int, str]:
        """Write the file; return how many rows it has, their bytes, and the latest time."""
        ordered, target = f"{self.rows} order by subject, seq", _quoted(str(self.file))
        self._cursor.execute(f"copy ({ordered}) to {target} {_FORMAT}")
        about = "count(*), coalesce(sum(octet_length(data)), 0), coalesce(arg_max(time, seq), '')"
        found = self._cursor.execute(f"select {about} from {_files([self.file])}").fetchone()
        records, raw_bytes, latest = found
        return int(records), int(raw_bytes), str(latest)

    def close(self) -> None:
        """Let go of the rows."""
        self._cursor.close()


def _files(paths: Sequence[Path]) -> str:
    listed = ", ".join(_quoted(str(path)) for path in paths)
    return f"read_parquet([{listed}], hive_partitioning = false)"  # a path may have a `seq=7`


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
