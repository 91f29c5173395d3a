"""What becomes segments: rows that DuckDB sorts and writes as Parquet, and how it opens a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from foldlog.log.port import Stored

CUT: Final = 32 * 1024 * 1024
"""Bytes of one file. A read opens one of a run, and looks at the statistics of its groups."""

_ROW_GROUP: Final = 2_048
"""Rows that are decompressed for one of them."""

# Where every subject fits the dictionary, there is a Bloom filter on it. Data needs neither.
_FORMAT: Final = (
    f"format parquet, compression zstd, row_group_size {_ROW_GROUP}, "
    f"dictionary_size_limit {_ROW_GROUP}, string_dictionary_page_size_limit {_ROW_GROUP * 128}, "
    "overwrite_or_ignore true, return_files true"
)
_READING: Final = "256MB"
_SORTING: Final = "1GB"


class Written(NamedTuple):
    """A file of a draft, as `Segment` says it."""

    path: Path
    records: int
    raw_bytes: int
    latest: str
    low: str
    high: str


class Draft:
    """Rows that become a run of segments. Its methods block."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.rows = "select * from draft order by subject, seq"
        self.sources: list[Path] = []
        # A database of its own: readers need not share its memory, and what it spills stands here.
        self._database = open_database(directory, _SORTING)
        self._database.execute(
            "create temp table draft(subject varchar, seq ubigint, time varchar, data blob)"
        )

    def add(self, page: Sequence[Stored]) -> None:
        """Take rows."""
        columns = zip(*((e.subject, e.seq, e.time, e.data) for e in page), strict=True)
        self._database.execute(
            "insert into draft select unnest($1::varchar[]), unnest($2::ubigint[]), "
            "unnest($3::varchar[]), unnest($4::blob[])",
            [list(column) for column in columns],
        )

    def write(self) -> list[Written]:
        """Write the files, in the order of their subjects; none for no rows."""
        into = f"{quoted(str(self.directory))} ({_FORMAT}, file_size_bytes {CUT})"
        [[_, files]] = self._database.execute(f"copy ({self.rows}) to {into}").fetchall()
        latest = "arg_max(arg_max(time, seq), max(seq)) over ()"
        about = f"count(*), sum(octet_length(data))::ubigint, {latest}, min(subject), max(subject)"
        found = self._database.execute(
            f"select filename, {about} from {rows_of(files)} "
            "group by filename order by min(subject), min(seq)"
        ).fetchall()
        return [Written(Path(path), *about) for path, *about in found]

    def close(self) -> None:
        """Let go of the rows."""
        self._database.close()


def open_database(spill: Path, memory: str = _READING) -> Any:
    """Open an empty database that spills to a directory what its memory does not hold."""
    import duckdb

    return duckdb.connect(
        config={"memory_limit": memory, "threads": 1, "temp_directory": str(spill)}
    )


def rows_of(paths: Iterable[Path | str]) -> str:
    """Return files as what SQL selects from."""
    listed = ", ".join(quoted(str(path)) for path in paths)
    # A path may have a `seq=7` in it.
    return f"read_parquet([{listed}], hive_partitioning = false, filename = true)"


def quoted(text: str) -> str:
    """Return a text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"
