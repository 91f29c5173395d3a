"""Files of sorted rows against plain lists: written, merged, cut, read in part, damaged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from foldlog.log.archive import parquet
from foldlog.log.archive.selection import Selection
from foldlog.log.port import Stored

SUBJECTS = ("a.1", "a.10", "a.2", "b", "b.1")
EVERY = Selection()
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


selections = st.builds(
    Selection,
    subject=st.none() | st.sampled_from([*SUBJECTS, "a", "c"]),
    prefix=st.none() | st.sampled_from(["a.", "b", "a.1", ""]),
    after=st.integers(0, 40),
    upto=st.integers(0, 100),
)


def is_selected(row: Stored, which: Selection) -> bool:
    return (
        row.subject == (which.subject or row.subject)
        and row.subject.startswith(which.prefix or "")
        and which.after < row.seq <= which.upto
    )


def in_order(rows: list[Stored]) -> list[Stored]:
    return sorted(rows, key=lambda each: (each.subject, each.seq))


def write(directory: Path, name: str, rows: Iterator[parquet.Table]) -> list[parquet.Written]:
    where = directory / name
    where.mkdir()
    return parquet.write(where, bounded(parquet.group(rows)))


def bounded(groups: Iterator[parquet.Table]) -> Iterator[parquet.Table]:
    for each in groups:
        assert sum(len(row.data) for row in list(parquet.unpack(each))[:-1]) < parquet.GROUP
        yield each


def tables(
    files: list[parquet.Written], which: Selection = EVERY, *, newest_first: bool = False
) -> Iterator[parquet.Table]:
    for each in files:
        with each.path.open("rb") as file:
            footer = parquet.read_footer(file, each.crc)
            yield from parquet.read(file, footer, which, newest_first=newest_first)


def read(
    files: list[parquet.Written], which: Selection = EVERY, *, newest_first: bool = False
) -> list[Stored]:
    found = list[Stored]()
    for table in tables(files, which, newest_first=newest_first):
        assert len(table)
        found += parquet.unpack(table)
    return found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(runs(), selections, st.integers(1, 200), st.integers(1, 4_000), st.integers(1, 3))
def test_what_is_merged_and_read_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory,
    runs: Runs,
    which: Selection,
    group: int,
    cut: int,
    at_once: int,
) -> None:
    directory = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "GROUP", group)
        patch.setattr(parquet, "CUT", cut)
        patch.setattr(parquet, "_AT_ONCE", at_once)
        files_of_runs = [
            write(directory, str(n), parquet.sort([parquet.pack(run)] if run else []))
            for n, run in enumerate(runs)
        ]
        sources = [tables(files) for files in files_of_runs]
        merged = write(directory, "merged", parquet.merge(sources))
        everything = in_order([row for run in runs for row in run])
        assert read(merged) == everything
        selected = [row for row in everything if is_selected(row, which)]
        assert read(merged, which) == selected
        backwards = read(merged[::-1], which, newest_first=True)
        assert in_order(backwards) == selected
        if which.subject is not None and selected:
            first = tables(merged[::-1], which, newest_first=True)
            assert list(parquet.unpack(next(first)))[-1] == selected[-1]
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
        anew = write(directory, "without", parquet.leave_out(tables(merged), [which]))
        assert read(anew) == [row for row in everything if not is_selected(row, which)]


def test_a_group_is_found_without_reading_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "GROUP", 1)
    rows = [Stored(f"s{n:03d}", n, TIME.format(n), b"x") for n in range(1, 200)]
    [file] = write(tmp_path, "one", parquet.sort([parquet.pack(rows)]))
    footer = pq.read_metadata(file.path)
    assert footer.num_row_groups == len(rows)
    offsets = [footer.row_group(n).column(3).data_page_offset for n in range(len(rows))]
    spoil(file.path, *range(4, offsets[98]), *range(offsets[100], end_of_groups(file.path)))
    assert read([file], Selection("s100")) == [rows[99]]


def test_the_newest_group_comes_first_and_others_are_left_out_by_sequence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "GROUP", 1)
    rows = [Stored("s", n, TIME.format(n), b"x") for n in range(1, 40)]
    files = write(tmp_path, "one", parquet.sort([parquet.pack(rows)]))
    assert read(files, Selection("s"), newest_first=True) == rows[::-1]
    assert read(files, Selection(after=6, upto=7)) == [rows[6]]


def spoil(path: Path, *where: int) -> None:
    """Change bytes of a file."""
    content = bytearray(path.read_bytes())
    for at in where:
        content[at] ^= 0x10
    path.write_bytes(content)


def end_of_groups(path: Path) -> int:
    return path.stat().st_size - 8 - int(pq.read_metadata(path).serialized_size)


def written(directory: Path) -> parquet.Written:
    rows = [Stored("s", n, TIME.format(n), os.urandom(20)) for n in range(1, 200)]
    [file] = write(directory, "one", parquet.sort([parquet.pack(rows)]))
    return file


@pytest.mark.parametrize("column", range(4))
def test_a_changed_bit_of_a_row_is_noticed(tmp_path: Path, column: int) -> None:
    file = written(tmp_path)
    about = pq.read_metadata(file.path).row_group(0).column(column)
    spoil(file.path, about.data_page_offset + about.total_compressed_size // 2)
    with pytest.raises(parquet.ERRORS):
        read([file])


def test_each_changed_bit_of_a_footer_is_noticed(tmp_path: Path) -> None:
    file = written(tmp_path)
    for at in range(end_of_groups(file.path), file.path.stat().st_size):
        spoil(file.path, at)
        with pytest.raises(parquet.ERRORS):
            read([file])
        spoil(file.path, at)
    assert len(read([file])) == file.records


def test_a_file_ends_where_its_footer_would_grow_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "GROUP", 1)
    monkeypatch.setattr(parquet, "_GROUPS", 70)
    rows = [Stored("s", n, TIME.format(n), b"x") for n in range(1, 200)]
    files = write(tmp_path, "some", parquet.sort([parquet.pack(rows)]))
    assert [each.records for each in files] == [70, 70, 59]
    assert read(files) == rows


@pytest.mark.parametrize(
    ("time", "micros"),
    [("1970-01-01T00:00:00Z", 0), ("2026-01-02T03:04:05.1234567Z", 1_767_323_045_123_456)],
)
def test_moments_are_compared_by_the_microsecond(time: str, micros: int) -> None:
    table = parquet.pack([Stored("s", 7, time, b"")])
    assert parquet.find_last(table, micros) == 7
    assert parquet.find_last(table, micros - 1) == 0
    assert parquet.find_last(table, 2**62) == 7


def test_the_counts_of_subjects() -> None:
    rows = [Stored(s, n, TIME.format(n), b"") for n, s in enumerate("aabccc")]
    table = parquet.pack(rows)
    assert parquet.count(table) == {"a": 2, "b": 1, "c": 3}
