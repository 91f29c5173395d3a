"""Rows in Parquet files: written, merged and read one small group at a time.

A row is one record of the log: `subject`, `seq`, `time` (the log's clock, RFC 3339) and `data`, its
bytes. A file is sorted by subject and sequence, so that the rows of a subject stand in one group or
in a few neighbours, which the statistics of the groups name.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from foldlog.log.archive.rows import Rows
from foldlog.log.port import Stored

CUT: Final = 32 * 1024 * 1024
"""Bytes of one file, about. A read opens one of a run."""

GROUP: Final = 512 * 1024
"""Bytes of rows that are compressed together: what is read for one of them."""

_AT_ONCE: Final = 16
"""Groups of which what is not `data` is read together, for each call costs as much as a group."""

ERRORS: Final = (OSError, pa.ArrowException)
"""What a file that cannot be read or written raises."""

Table: TypeAlias = Any
"""A `pyarrow.Table` with the columns of SCHEMA; pyarrow has no types."""

Footer: TypeAlias = Any
"""A `pyarrow.parquet.FileMetaData`: it has the least and the greatest subject of each group."""

SCHEMA: Final = pa.schema(
    [
        pa.field("subject", pa.string(), nullable=False),
        pa.field("seq", pa.uint64(), nullable=False),
        pa.field("time", pa.string(), nullable=False),
        pa.field("data", pa.binary(), nullable=False),
    ]
)

_ORDER: Final = [("subject", "ascending"), ("seq", "ascending")]
_FORMAT: Final[dict[str, Any]] = {
    "compression": "zstd",
    "use_dictionary": ["subject"],
    "write_statistics": ["subject", "seq"],
    "bloom_filter_options": {"subject": {"ndv": 1_000, "fpp": 0.01}},
    "write_page_checksum": True,
}


class Written(NamedTuple):
    """A file as it was written. `newest`: the sequence and the time of its newest row."""

    path: Path
    records: int
    raw_bytes: int
    low: str
    high: str
    newest: tuple[int, str]


# --- writing --------------------------------------------------------------------------------------


def table_of(rows: Sequence[Stored]) -> Table:
    """Return rows as a table."""
    columns = zip(*((e.subject, e.seq, e.time, e.data) for e in rows), strict=True)
    return pa.table([list(column) for column in columns], schema=SCHEMA)


def in_order(tables: Sequence[Table]) -> Iterator[Table]:
    """Yield the rows of some tables, in the order of a file."""
    if tables:
        yield pa.concat_tables(tables).sort_by(_ORDER)


def merge(sources: Sequence[Iterator[Table]]) -> Iterator[Table]:
    """Yield the rows of sources that are in order each; of a subject, those of the first first.

    No table may be empty. One of each source is held at a time.
    """
    held = [next(source, None) for source in sources]
    while open_ := [table for table in held if table is not None]:
        # Up to here every source is known, but for what may come of this very subject.
        bound = min(_subject(table, -1) for table in open_)
        parts, is_whole = list[Table](), True
        for n, source in enumerate(sources):
            if (table := held[n]) is None:
                continue
            is_before = pc.less_equal if is_whole else pc.less
            count = pc.sum(is_before(table["subject"], bound)).as_py()
            parts.append(table.slice(0, count))
            held[n] = table.slice(count) if count < len(table) else next(source, None)
            is_whole = is_whole and (held[n] is None or _subject(held[n], 0) > bound)
        yield pa.concat_tables(parts).sort_by(_ORDER)


def write(directory: Path, tables: Iterable[Table]) -> list[Written]:
    """Write rows that are in order as files of about CUT bytes; none for no rows."""
    groups, found = _grouped(tables), list[Written]()
    for group in groups:
        found.append(_write(directory / f"{len(found)}.parquet", chain([group], groups)))
    return found


def _write(path: Path, groups: Iterator[Table]) -> Written:
    """Write groups until the file is long enough."""
    records, raw_bytes, newest, subjects = 0, 0, (0, ""), list[str]()
    with path.open("wb") as file, pq.ParquetWriter(file, SCHEMA, **_FORMAT) as writer:
        for group in groups:
            writer.write_table(group, row_group_size=len(group))
            records += len(group)
            raw_bytes += pc.sum(pc.binary_length(group["data"])).as_py()
            latest = pc.index(group["seq"], pc.max(group["seq"])).as_py()
            newest = max(newest, (group["seq"][latest].as_py(), group["time"][latest].as_py()))
            subjects = [*subjects[:1], _subject(group, 0), _subject(group, -1)]
            if file.tell() >= CUT:
                break
    return Written(path, records, raw_bytes, subjects[0], subjects[-1], newest)


def _grouped(tables: Iterable[Table]) -> Iterator[Table]:
    """Yield the same rows in tables of about GROUP bytes, or of one row."""
    held = SCHEMA.empty_table()
    for table in tables:
        held = pa.concat_tables([held, table]).combine_chunks()
        rows = max(len(held) * GROUP // max(held.nbytes, 1), 1)
        while len(held) >= rows:
            yield held.slice(0, rows)
            held = held.slice(rows)
    if len(held):
        yield held


# --- reading --------------------------------------------------------------------------------------


def footer_of(path: Path) -> Footer:
    """Read what a file says of its groups."""
    return pq.read_metadata(path)


def read(
    path: Path, footer: Footer, rows: Rows, columns: Sequence[str], *, newest_first: bool = False
) -> Iterator[Table]:
    """Yield columns of those rows that a file has; of a group without any, nothing.

    Raises:
        FileNotFoundError: it is gone. OSError, pyarrow.ArrowException: it cannot be read.
    """

    def subjects(group: int) -> Any:
        return footer.row_group(group).column(0).statistics

    every = range(footer.num_row_groups)
    first = bisect_left(every, rows.low, key=lambda group: subjects(group).max)
    end = bisect_right(every, rows.high, key=lambda group: subjects(group).min)
    some = [range(at, min(at + _AT_ONCE, end)) for at in range(first, end, _AT_ONCE)]
    if not some:
        return
    with pq.ParquetFile(path, metadata=footer, page_checksum_verification=True) as file:
        for groups in reversed(some) if newest_first else some:
            tables = _narrowed(file, groups, rows, columns)
            yield from reversed(list(tables)) if newest_first else tables


def _narrowed(file: Any, groups: range, rows: Rows, columns: Sequence[str]) -> Iterator[Table]:
    """Yield columns of those rows that some groups have; all four of the groups that have any."""
    is_whole = "data" in columns
    some = [group for group in groups if _may_have(file.metadata.row_group(group), rows)]
    if not some:
        return
    table = file.read_row_groups(
        some, ["subject", "seq", *(() if is_whole else columns)], use_threads=False
    )
    is_meant = _mask(table, rows)
    if not is_whole:
        if len(found := table.filter(is_meant)):
            yield found
        return
    start = 0
    for group in some:
        length = file.metadata.row_group(group).num_rows
        part, meant = table.slice(start, length), is_meant.slice(start, length)
        start += length
        if pc.any(meant).as_py():
            rest = file.read_row_group(group, ["time", "data"], use_threads=False)
            yield pa.table([*part.columns, *rest.columns], schema=SCHEMA).filter(meant)


def _may_have(group: Any, rows: Rows) -> bool:
    """Whether a group has sequences of such rows."""
    seqs = group.column(1).statistics
    return bool(seqs.min <= rows.upto and rows.after < seqs.max)


def without(tables: Iterable[Table], doomed: Sequence[Rows]) -> Iterator[Table]:
    """Yield tables without some rows, and no empty ones."""
    for table in tables:
        kept = table
        for rows in doomed:
            kept = kept.filter(pc.invert(_mask(kept, rows)))
        if len(kept):
            yield kept


def stored(table: Table) -> Iterator[Stored]:
    """Yield the rows of a table."""
    for row in zip(*(table[name].to_pylist() for name in SCHEMA.names), strict=True):
        yield Stored(*row)


def lasts(table: Table) -> Table:
    """Return the last row of each subject of a table."""
    subjects = table["subject"].combine_chunks()
    is_last = pc.not_equal(subjects[:-1], subjects[1:]).to_pylist()
    return table.filter(pa.array([*is_last, True]))


def counts(table: Table) -> dict[str, int]:
    """Return how many rows each subject has."""
    return {
        each["values"]: each["counts"] for each in pc.value_counts(table["subject"]).to_pylist()
    }


def last_until(table: Table, micros: int) -> int:
    """Return the last sequence of a row up to that time, in microseconds since 1970; or 0."""
    nanos = table["time"].cast(pa.timestamp("ns", "UTC")).cast(pa.int64())
    found = table.filter(pc.less_equal(pc.divide(nanos, 1_000), micros))
    return int(pc.max(found["seq"]).as_py() or 0)


def _mask(table: Table, rows: Rows) -> Any:
    """Which rows of a table are meant."""
    subject, seq = table["subject"], table["seq"]
    is_meant = pc.and_(pc.greater(seq, rows.after), pc.less_equal(seq, rows.upto))
    if rows.subject is not None:
        is_meant = pc.and_(is_meant, pc.equal(subject, rows.subject))
    if rows.prefix:
        is_meant = pc.and_(is_meant, pc.starts_with(subject, rows.prefix))
    return is_meant


def _subject(table: Table, row: int) -> str:
    return str(table["subject"][row])
