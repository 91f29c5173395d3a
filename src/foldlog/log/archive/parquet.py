"""Rows in Parquet files: written, merged and read one small group at a time.

A row is one record of the log: `subject`, `seq`, `time` (the log's clock, RFC 3339) and `data`, its
bytes. A file is sorted by subject and sequence, so that the rows of a subject stand in one group or
in a few neighbours, which the file's footer names.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from foldlog.log.archive.selection import REST, Selection
from foldlog.log.port import Stored

LIST: Final = ".subjects"
"""How the name of a list ends: the subjects of one file, and how many rows each has."""

_LISTED: Final = ["subject", "records"]
_SUM: Final = [("records", "sum")]

CUT: Final = 32 * 1024 * 1024
"""Bytes of one file, about."""

GROUP: Final = 512 * 1024
"""Bytes of rows that are compressed together, and read for one of them; one row may be longer."""

_GROUPS: Final = 320
"""Groups of one file, at most: its footer takes 3 KiB of memory for each."""

_AT_ONCE: Final = 16
"""Groups whose keys are read together, because each call costs as much as a group of keys."""

_ROW: Final = 100
"""Bytes of a row without its data, about."""

ERRORS: Final = (OSError, pa.ArrowException)
"""What a file that cannot be read or written raises."""

Table: TypeAlias = Any
"""A `pyarrow.Table` with columns of SCHEMA; pyarrow has no types."""

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
_KEYS: Final = ("subject", "seq")
_FORMAT: Final[dict[str, Any]] = {
    "compression": "zstd",
    "use_dictionary": ["subject"],
    "write_statistics": ["subject", "seq"],
    "bloom_filter_options": {"subject": {"ndv": 1_000, "fpp": 0.01}},
    "write_page_checksum": True,
}

_END: Final = 8
"""Bytes behind a footer: its length, and Parquet's mark."""


class Written(NamedTuple):
    """A file as it was written.

    `newest` are the sequence and the time of its newest row, `crc` is that of its footer: pages
    have checksums of their own. `listed` is the checksum of the list of its subjects, which stands
    beside it.
    """

    path: Path
    records: int
    raw_bytes: int
    low: str
    high: str
    newest: tuple[int, str]
    crc: int
    listed: int


# --- writing --------------------------------------------------------------------------------------


def pack(rows: Sequence[Stored]) -> Table:
    """Return rows as a table."""
    columns = zip(*((e.subject, e.seq, e.time, e.data) for e in rows), strict=True)
    return pa.table([list(column) for column in columns], schema=SCHEMA)


def sort(tables: Sequence[Table]) -> Iterator[Table]:
    """Yield the rows of some tables, in the order of a file."""
    if tables:
        yield pa.concat_tables(tables).sort_by(_ORDER)


def merge(sources: Sequence[Iterator[Table]]) -> Iterator[Table]:
    """Yield the rows of sources that are in order each; of a subject, those of the first first.

    No table may be empty. One of each source is held at a time.
    """
    held = [next(source, None) for source in sources]
    while unread := [table for table in held if table is not None]:
        # Up to here every source is known, but for what may come of this very subject.
        bound = min(_subject(table, -1) for table in unread)
        parts, is_known = list[Table](), True
        for n, source in enumerate(sources):
            if (table := held[n]) is None:
                continue
            is_before = pc.less_equal if is_known else pc.less
            count = pc.sum(is_before(table["subject"], bound)).as_py()
            parts.append(table.slice(0, count))
            held[n] = table.slice(count) if count < len(table) else next(source, None)
            is_known = is_known and (held[n] is None or _subject(held[n], 0) > bound)
        yield pa.concat_tables(parts).sort_by(_ORDER)


def group(tables: Iterable[Table]) -> Iterator[Table]:
    """Yield the same rows in tables of at most GROUP bytes and one row."""
    held = None
    for table in tables:
        held = table if held is None else pa.concat_tables([held, table])
        held = held.combine_chunks()
        start = 0
        for end in _ends(held)[:-1]:
            yield held.slice(start, end - start)
            start = end
        held = held.slice(start)
    if held is not None:
        yield held


def _ends(table: Table) -> list[int]:
    """Where the groups of a table end."""
    sizes = pc.add(pc.binary_length(table["data"]).cast(pa.int64()), _ROW)
    before = pc.subtract(pc.cumulative_sum(sizes), sizes)
    numbers = pc.divide(before, GROUP).combine_chunks()
    ends: list[int] = pc.run_end_encode(numbers).run_ends.to_pylist()
    return ends


def write(directory: Path, groups: Iterator[Table]) -> list[Written]:
    """Write groups of rows that are in order as files of about CUT bytes; none for no rows."""
    found = list[Written]()
    for first in groups:
        found.append(_write(directory / f"{len(found)}.parquet", chain([first], groups)))
    return found


def _write(path: Path, groups: Iterator[Table]) -> Written:
    """Write groups until the file is long enough."""
    records, raw_bytes, newest, subjects = 0, 0, (0, ""), list[Any]()
    with path.open("w+b") as file:
        with pq.ParquetWriter(file, SCHEMA, **_FORMAT) as writer:
            for table in islice(groups, _GROUPS):
                writer.write_table(table, row_group_size=len(table))
                records += len(table)
                raw_bytes += pc.sum(pc.binary_length(table["data"])).as_py()
                latest = pc.index(table["seq"], pc.max(table["seq"])).as_py()
                newest = max(newest, (table["seq"][latest].as_py(), table["time"][latest].as_py()))
                subjects.append(pc.value_counts(table["subject"]))
                if file.tell() >= CUT:
                    break
        crc = zlib.crc32(_footer_bytes(file))
    counts = pa.Table.from_struct_array(pa.concat_arrays(subjects)).rename_columns(_LISTED)
    list_path = path.with_suffix(LIST)
    pq.write_table(counts, list_path, compression="zstd")
    ends = _subject(counts, 0), _subject(counts, -1)
    listed = zlib.crc32(list_path.read_bytes())
    return Written(path, records, raw_bytes, *ends, newest, crc, listed)


# --- reading --------------------------------------------------------------------------------------


def read_footer(file: IO[bytes], crc: int) -> Footer:
    """Return the footer of a file, whose checksum is `crc`.

    Raises:
        OSError, pyarrow.ArrowException: it cannot be read, or is another.
    """
    footer = _footer_bytes(file)
    if zlib.crc32(footer) != crc:
        raise pa.ArrowInvalid("the footer is damaged")
    return pq.read_metadata(pa.BufferReader(footer))


def read_list(file: IO[bytes], crc: int) -> Table:
    """Return the list of a file's subjects, whose checksum is `crc`. Errors as `read_footer`."""
    content = file.read()
    if zlib.crc32(content) != crc:
        raise pa.ArrowInvalid("the list of its subjects is damaged")
    return pq.read_table(pa.BufferReader(content))


def count_listed(listed: Table, which: Selection) -> dict[str, int]:
    """Return how many rows each subject has by such a list, whatever their sequences."""
    found = listed.filter(_of_subjects(listed, which)).group_by("subject").aggregate(_SUM)
    return dict(zip(found["subject"].to_pylist(), found["records_sum"].to_pylist(), strict=True))


def _footer_bytes(file: IO[bytes]) -> bytes:
    """The end of a file, from its footer on; of one that is damaged, some of it."""
    size = file.seek(0, 2)
    file.seek(max(size - _END, 0))
    length = int.from_bytes(file.read(4), "little")
    file.seek(max(size - _END - length, 0))
    return file.read()


def read(
    file: IO[bytes],
    footer: Footer,
    which: Selection,
    more: Sequence[str] = REST,
    *,
    newest_first: bool = False,
) -> Iterator[Table]:
    """Yield the selected rows of a file in tables that are not empty.

    Args:
        file: the file, which stays open.
        footer: its footer.
        which: which rows.
        more: the columns beside `subject` and `seq`.
        newest_first: the tables come from the end; each is in order nevertheless.

    Raises:
        OSError, pyarrow.ArrowException: it cannot be read.
    """

    def subjects(group: int) -> Any:
        return footer.row_group(group).column(0).statistics

    every = range(footer.num_row_groups)
    first = bisect_left(every, which.low, key=lambda group: subjects(group).max)
    end = bisect_right(every, which.high, key=lambda group: subjects(group).min)
    groups = [n for n in range(first, end) if _may_have(footer.row_group(n), which)]
    if newest_first:
        groups.reverse()
    if not groups:
        return
    opened = pq.ParquetFile(
        file, metadata=footer, page_checksum_verification=True, pre_buffer=False
    )
    for start in range(0, len(groups), _AT_ONCE):
        yield from _select(opened, groups[start : start + _AT_ONCE], which, more)


def _select(file: Any, groups: list[int], which: Selection, more: Sequence[str]) -> Iterator[Table]:
    """Yield the selected rows of some groups; `data` is read of the groups that have any."""
    if "data" not in more:
        table = file.read_row_groups(groups, [*_KEYS, *more], use_threads=False)
        if len(found := table.filter(_mask(table, which))):
            yield found
        return
    keys = file.read_row_groups(groups, list(_KEYS), use_threads=False)
    mask, start = _mask(keys, which), 0
    for group in groups:
        length = file.metadata.row_group(group).num_rows
        part, selected = keys.slice(start, length), mask.slice(start, length)
        start += length
        if pc.any(selected).as_py():
            rest = file.read_row_group(group, list(more), use_threads=False)
            yield pa.table([*part.columns, *rest.columns], schema=SCHEMA).filter(selected)


def _may_have(group: Any, which: Selection) -> bool:
    """Whether a group has such sequences."""
    seqs = group.column(1).statistics
    return bool(seqs.min <= which.upto and which.after < seqs.max)


def leave_out(tables: Iterable[Table], doomed: Sequence[Selection]) -> Iterator[Table]:
    """Yield tables without some rows, and no empty ones."""
    for table in tables:
        masks = [_mask(table, which) for which in doomed]
        kept = table.filter(pc.invert(reduce(pc.or_, masks))) if masks else table
        if len(kept):
            yield kept


def unpack(table: Table) -> Iterator[Stored]:
    """Yield the rows of a table that has all columns."""
    for row in zip(*(table[name].to_pylist() for name in SCHEMA.names), strict=True):
        yield Stored(*row)


def count(table: Table) -> dict[str, int]:
    """Return how many rows each subject has."""
    found = pc.value_counts(table["subject"]).to_pylist()
    return {each["values"]: each["counts"] for each in found}


def find_last(table: Table, micros: int) -> int:
    """Return the last sequence of a row up to that time, in microseconds since 1970; or 0."""
    nanos = table["time"].cast(pa.timestamp("ns", "UTC")).cast(pa.int64())
    found = table.filter(pc.less_equal(pc.divide(nanos, 1_000), micros))
    return int(pc.max(found["seq"]).as_py() or 0)


def _mask(table: Table, which: Selection) -> Any:
    """Which rows of a table are selected."""
    seq = table["seq"]
    mask = pc.and_(pc.greater(seq, which.after), pc.less_equal(seq, which.upto))
    return pc.and_(mask, _of_subjects(table, which))


def _of_subjects(table: Table, which: Selection) -> Any:
    """Which rows of a table have a selected subject."""
    mask = pc.starts_with(table["subject"], which.prefix or "")
    if which.subject is not None:
        mask = pc.and_(mask, pc.equal(table["subject"], which.subject))
    return mask


def _subject(table: Table, row: int) -> str:
    return str(table["subject"][row])
