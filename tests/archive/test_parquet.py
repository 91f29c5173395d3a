"""Files of sorted rows against plain lists: written, merged, cut, read in part, damaged."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from foldlog.log.archive import parquet
from foldlog.log.archive.rows import Rows
from foldlog.log.port import Stored

SUBJECTS = ("a.1", "a.10", "a.2", "b", "b.1")
EVERY = Rows()
TIME = "2026-01-02T03:04:05.{:09d}Z"

Runs = list[list[Stored]]


@st.composite
def runs(draw: st.DrawFn) -> Runs:
    """Ranges of a log, one after the other; some have nothing."""
    sizes = draw(st.lists(st.integers(0, 12), min_size=1, max_size=5))
    row = st.tuples(st.sampled_from(SUBJECTS), st.binary(max_size=30), st.integers(1, 3))
    found, seq = Runs(), 0
    for size in sizes:
        found.append([])
        for subject, data, step in draw(st.lists(row, min_size=size, max_size=size)):
            seq += step
            found[-1].append(Stored(subject, seq, TIME.format(seq * 1_001), data))
    return found


asked = st.builds(
    Rows,
    subject=st.none() | st.sampled_from([*SUBJECTS, "a", "c"]),
    prefix=st.none() | st.sampled_from(["a.", "b", "a.1", ""]),
    after=st.integers(0, 40),
    upto=st.integers(0, 100),
)


def is_meant(row: Stored, rows: Rows) -> bool:
    return (
        row.subject == (rows.subject or row.subject)
        and row.subject.startswith(rows.prefix or "")
        and rows.after < row.seq <= rows.upto
    )


def in_order(rows: list[Stored]) -> list[Stored]:
    return sorted(rows, key=lambda each: (each.subject, each.seq))


def write(directory: Path, name: str, tables: Iterator[parquet.Table]) -> list[parquet.Written]:
    where = directory / name
    where.mkdir()
    return parquet.write(where, tables)


def tables(
    files: list[parquet.Written], rows: Rows = EVERY, *, newest_first: bool = False
) -> Iterator[parquet.Table]:
    for each in files:
        footer, columns = parquet.footer_of(each.path), parquet.SCHEMA.names
        yield from parquet.read(each.path, footer, rows, columns, newest_first=newest_first)


def read(
    files: list[parquet.Written], rows: Rows = EVERY, *, newest_first: bool = False
) -> list[Stored]:
    found = list[Stored]()
    for table in tables(files, rows, newest_first=newest_first):
        assert len(table)
        found += parquet.stored(table)
    return found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(runs(), asked, st.integers(1, 200), st.integers(1, 4_000), st.integers(1, 3))
def test_what_is_merged_and_read_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory,
    runs: Runs,
    rows: Rows,
    group: int,
    cut: int,
    at_once: int,
) -> None:
    directory = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "GROUP", group)
        patch.setattr(parquet, "CUT", cut)
        patch.setattr(parquet, "_AT_ONCE", at_once)
        written = [
            write(directory, str(n), parquet.in_order([parquet.table_of(run)] if run else []))
            for n, run in enumerate(runs)
        ]
        sources = [tables(files) for files in written]
        merged = write(directory, "merged", parquet.merge(sources))
        everything = in_order([row for run in runs for row in run])
        assert read(merged) == everything
        meant = [row for row in everything if is_meant(row, rows)]
        assert read(merged, rows) == meant
        backwards = read(merged[::-1], rows, newest_first=True)
        assert in_order(backwards) == meant
        if rows.subject is not None and meant:
            first = tables(merged[::-1], rows, newest_first=True)
            assert list(parquet.stored(next(first)))[-1] == meant[-1]
        ends = accumulate(each.records for each in merged)
        parts = [
            everything[end - each.records : end] for end, each in zip(ends, merged, strict=True)
        ]
        assert [(each.low, each.high) for each in merged] == [
            (part[0].subject, part[-1].subject) for part in parts
        ]
        assert [each.newest for each in merged] == [
            max((row.seq, row.time) for row in part) for part in parts
        ]
        assert sum(each.raw_bytes for each in merged) == sum(len(row.data) for row in everything)
        anew = write(directory, "without", parquet.without(tables(merged), [rows]))
        assert read(anew) == [row for row in everything if not is_meant(row, rows)]


def test_a_group_is_found_without_reading_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "GROUP", 1)
    rows = [Stored(f"s{n:03d}", n, TIME.format(n), b"x") for n in range(1, 200)]
    [file] = write(tmp_path, "one", parquet.in_order([parquet.table_of(rows)]))
    footer = parquet.footer_of(file.path)
    assert footer.num_row_groups == len(rows)
    offsets = [footer.row_group(n).column(3).data_page_offset for n in range(len(rows))]
    spoil(file.path, lambda at: at >= offsets[100] or at < offsets[98])
    assert read([file], Rows("s100")) == [rows[99]]


def test_the_newest_group_comes_first_and_others_are_left_out_by_sequence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "GROUP", 1)
    rows = [Stored("s", n, TIME.format(n), b"x") for n in range(1, 40)]
    files = write(tmp_path, "one", parquet.in_order([parquet.table_of(rows)]))
    assert read(files, Rows("s"), newest_first=True) == rows[::-1]
    assert read(files, Rows(after=6, upto=7)) == [rows[6]]


def spoil(path: Path, which: Callable[[int], bool]) -> None:
    """Change bytes of a file that lie in its groups."""
    content = bytearray(path.read_bytes())
    footer = parquet.footer_of(path).serialized_size
    for at in range(4, len(content) - footer - 8):
        if which(at):
            content[at] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.parametrize("column", range(4))
def test_a_changed_bit_is_noticed(tmp_path: Path, column: int) -> None:
    rows = [Stored("s", n, TIME.format(n), os.urandom(20)) for n in range(1, 200)]
    [file] = write(tmp_path, "one", parquet.in_order([parquet.table_of(rows)]))
    about = parquet.footer_of(file.path).row_group(0).column(column)
    middle = about.data_page_offset + about.total_compressed_size // 2
    spoil(file.path, lambda at: at == middle)
    with pytest.raises(parquet.ERRORS):
        read([file])


@pytest.mark.parametrize(
    ("time", "micros"),
    [("1970-01-01T00:00:00Z", 0), ("2026-01-02T03:04:05.1234567Z", 1_767_323_045_123_456)],
)
def test_moments_are_compared_by_the_microsecond(time: str, micros: int) -> None:
    table = parquet.table_of([Stored("s", 7, time, b"")])
    assert parquet.last_until(table, micros) == 7
    assert parquet.last_until(table, micros - 1) == 0
    assert parquet.last_until(table, 2**62) == 7


def test_the_lasts_and_the_counts_of_subjects() -> None:
    rows = [Stored(s, n, TIME.format(n), b"") for n, s in enumerate("aabccc")]
    table = parquet.table_of(rows)
    assert list(parquet.stored(parquet.lasts(table))) == [rows[1], rows[2], rows[5]]
    assert parquet.counts(table) == {"a": 2, "b": 1, "c": 3}
