"""What a spool file holds: whatever was written comes back, whatever was changed does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from foldlog.envelope import Draft
from foldlog.errors import ConfigurationError
from foldlog.log.port import Append
from foldlog.store.spool.file import SpoolFile
from foldlog.store.spool.frames import (
    HEADER_BYTES,
    Entry,
    Progress,
    Waiting,
    decode_header,
    encode_frame,
    encode_header,
    entry,
)
from foldlog.subjects import Namespace

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
DRAFTS = st.builds(
    Draft,
    TEXT,
    TEXT,
    st.integers(0, 9),
    st.floats(allow_nan=False),
    st.binary(max_size=64),
    st.none() | st.tuples(TEXT),
)
WAITING = st.builds(
    Waiting, TEXT, st.tuples(TEXT), st.lists(DRAFTS, min_size=1, max_size=3).map(tuple)
)
ENTRIES = st.builds(
    Entry, st.booleans(), st.booleans(), st.lists(WAITING, min_size=1, max_size=3).map(tuple)
)
in_a_directory = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def written(directory: Path, entries: list[Entry]) -> Path:
    """A file with these entries, whose process has ended."""
    file = SpoolFile.create(directory, "default.log")
    file.append([encode_frame(e) for e in entries], sum(e.envelopes for e in entries))
    file.release()
    return file.path


def adopted(path: Path) -> list[Entry]:
    file = SpoolFile.adopt(path)
    assert file is not None
    try:
        found = [placed.entry for placed in file.read(most_bytes=1 << 30)]
        assert file.waiting == sum(e.envelopes for e in found)
        # What is added now is found behind, whatever was cut off.
        file.append([encode_frame(LAST)], 1)
        assert [p.entry for p in file.read(most_bytes=1 << 30)] == [*found, LAST]
        return found
    finally:
        file.remove()


LAST = Entry(False, False, (Waiting("updates", ("s",), (Draft("id", "t", 1, 0.5, b"x"),)),))


@in_a_directory
@given(st.lists(ENTRIES, min_size=1, max_size=4))
def test_what_was_put_comes_back_in_order(tmp_path: Path, entries: list[Entry]) -> None:
    assert adopted(written(tmp_path, entries)) == entries


@in_a_directory
@given(st.lists(ENTRIES, min_size=1, max_size=4), st.data())
def test_of_a_torn_file_all_that_was_whole_is_there(
    tmp_path: Path, entries: list[Entry], data: st.DataObject
) -> None:
    path = written(tmp_path, entries)
    ends = [HEADER_BYTES]
    for e in entries:
        ends.append(ends[-1] + len(encode_frame(e)))
    size = data.draw(st.integers(HEADER_BYTES, ends[-1]))
    zeros = data.draw(st.integers(0, 40))  # as a file system leaves them after a power loss
    path.write_bytes(path.read_bytes()[:size] + bytes(zeros))
    whole = sum(end <= size for end in ends[1:])
    assert adopted(path) == entries[:whole]


@in_a_directory
@given(st.lists(ENTRIES, min_size=1, max_size=4), st.data())
def test_a_changed_byte_is_noticed(
    tmp_path: Path, entries: list[Entry], data: st.DataObject
) -> None:
    path = written(tmp_path, entries)
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(HEADER_BYTES, len(content) - 1))
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    found = adopted(path)
    assert len(found) < len(entries)
    assert found == entries[: len(found)]


@given(st.binary(max_size=60), st.integers(0, 200))
def test_a_header_is_whole_or_none(data: bytes, size: int) -> None:
    assert decode_header(data, size) is None
    progress = Progress(HEADER_BYTES, HEADER_BYTES + size)
    header = encode_header(progress)
    assert decode_header(header, HEADER_BYTES + size) == progress
    assert decode_header(header, HEADER_BYTES + size - 1) is None  # of a longer file


def test_an_entry_finds_its_shard_when_it_is_appended() -> None:
    one, four = Namespace("n"), Namespace("n", 4)
    drafts = (Draft("id", "t", 1, 0.5, b"x"),)
    append = Append(one.subject("updates", "s2"), drafts)
    made = entry([append], atomic=True, doubtful=False, known=lambda subject: 7)
    assert made.appends(four) == [Append(four.subject("updates", "s2"), drafts)]
    assert four.subject("updates", "s2").shard != one.subject("updates", "s2").shard


def test_a_torn_header_makes_everything_doubtful(tmp_path: Path) -> None:
    path = written(tmp_path, [LAST, LAST])
    path.write_bytes(b"?" + path.read_bytes()[1:])
    file = SpoolFile.adopt(path)
    assert file is not None
    assert file.waiting == 2
    assert file.progress == Progress(HEADER_BYTES, file.end)
    file.remove()


def test_a_file_is_its_owners_alone(tmp_path: Path) -> None:
    file = SpoolFile.create(tmp_path, "default.log")
    assert SpoolFile.adopt(file.path) is None
    assert file.path.stat().st_mode & 0o777 == 0o600
    file.append([encode_frame(LAST)], 1)
    file.release()
    again = SpoolFile.adopt(file.path)
    assert again is not None
    again.remove()
    assert not file.path.exists()


def test_directories_are_made_private(tmp_path: Path) -> None:
    SpoolFile.create(tmp_path / "a" / "b", "default.log").remove()
    for directory in (tmp_path / "a", tmp_path / "a" / "b"):
        assert directory.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o720, 0o702])
def test_a_directory_that_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    from tests.support.flaky import place

    where = place(tmp_path)
    assert where.files() == []  # there is none yet
    where.directory.mkdir()
    where.directory.chmod(mode)
    with pytest.raises(ConfigurationError, match="not this user's alone"):
        where.files()
    where.directory.chmod(0o755)
    assert where.files() == []
