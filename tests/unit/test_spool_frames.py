"""What a spool file holds: whatever was written comes back, whatever was changed does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from foldlog.envelope import Draft
from foldlog.errors import ConfigurationError
from foldlog.locks import LockFile
from foldlog.log.port import Append
from foldlog.store.spool import file as spool_file
from foldlog.store.spool.file import Drafts, Frame, SpoolFile, decode_frames, encode_frame
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
PARTS = st.builds(
    Drafts, TEXT, st.tuples(TEXT), st.lists(DRAFTS, min_size=1, max_size=3).map(tuple)
)
FRAMES = st.builds(Frame, st.booleans(), st.lists(PARTS, min_size=1, max_size=3).map(tuple))
in_a_directory = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def written(directory: Path, frames: list[Frame]) -> Path:
    """A file with these frames, whose process has ended."""
    file = SpoolFile.create(directory, "default.log")
    file.append([encode_frame(e) for e in frames])
    file.release()
    return file.path


def adopted(path: Path) -> list[Frame]:
    """What the next process finds in a file, chunk by chunk."""
    file = SpoolFile.adopt(path)
    assert file is not None
    waiting, found = file.waiting, list[Frame]()
    while chunk := file.read():
        assert len(chunk.frames) == 1 or not any(e.atomic for e in chunk.frames)
        found += chunk.frames
        file.done = chunk.end
    assert (file.done, waiting) == (file.end, sum(e.envelopes for e in found))
    file.waiting = 0
    file.finish()
    assert not path.exists()
    return found


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that few frames are several chunks."""
    monkeypatch.setattr(spool_file, "CHUNK_BYTES", 100)


LAST = Frame(False, (Drafts("updates", ("s",), (Draft("id", "t", 1, 0.5, b"x"),)),))


@in_a_directory
@given(st.lists(FRAMES, min_size=1, max_size=4))
def test_what_was_put_comes_back_in_order(tmp_path: Path, frames: list[Frame]) -> None:
    assert adopted(written(tmp_path, frames)) == frames


@in_a_directory
@given(st.lists(FRAMES, min_size=1, max_size=4), st.data())
def test_of_a_torn_file_all_that_was_whole_is_there(
    tmp_path: Path, frames: list[Frame], data: st.DataObject
) -> None:
    path = written(tmp_path, frames)
    ends = [0]
    for e in frames:
        ends.append(ends[-1] + len(encode_frame(e)))
    size = data.draw(st.integers(0, ends[-1]))
    zeros = data.draw(st.integers(0, 40))  # as a file system leaves them after a power loss
    content = path.read_bytes()
    torn = content[:size] + bytes(zeros)
    path.write_bytes(torn)
    whole = sum(torn[:end] == content[:end] for end in ends[1:])
    assert adopted(path) == frames[:whole]


@in_a_directory
@given(st.lists(FRAMES, min_size=1, max_size=4), st.data())
def test_a_changed_byte_is_noticed(
    tmp_path: Path, frames: list[Frame], data: st.DataObject
) -> None:
    path = written(tmp_path, frames)
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    found = adopted(path)
    assert len(found) < len(frames)
    assert found == frames[: len(found)]


@given(st.binary(max_size=60))
def test_bytes_that_nobody_wrote_hold_nothing(data: bytes) -> None:
    assert list(decode_frames(data)) == []


def test_a_frame_finds_its_shard_when_it_is_appended() -> None:
    one, four = Namespace("n"), Namespace("n", 4)
    drafts = (Draft("id", "t", 1, 0.5, b"x"),)
    append = Append(one.subject("updates", "s2"), drafts)
    [waiting] = Frame.of([append], atomic=True).drafts
    assert (waiting.subject(four), waiting.drafts) == (four.subject("updates", "s2"), drafts)
    assert four.subject("updates", "s2").shard != one.subject("updates", "s2").shard


def test_a_file_is_its_owners_alone(tmp_path: Path) -> None:
    file = SpoolFile.create(tmp_path, "default.log")
    assert SpoolFile.adopt(file.path) is None
    assert file.path.stat().st_mode & 0o777 == 0o600
    file.append([encode_frame(LAST)])
    file.release()
    again = SpoolFile.adopt(file.path)
    assert again is not None
    again.release()
    assert file.path.exists()


def test_a_file_that_another_process_took_for_a_leftover_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = LockFile.try_lock
    adopted = list[Path]()

    def after_another(self: LockFile) -> bool:
        """Another process adopts the file after it was made and before it was locked."""
        if not adopted:
            adopted.append(self.path)
            leftover = SpoolFile.adopt(self.path)
            assert leftover is not None
            leftover.finish()
        return lock(self)

    monkeypatch.setattr(LockFile, "try_lock", after_another)
    file = SpoolFile.create(tmp_path, "default.log")
    file.append([encode_frame(LAST)])
    assert [file.path] == list(tmp_path.iterdir())
    assert file.path != adopted[0]
    file.release()


def test_directories_are_made_private(tmp_path: Path) -> None:
    SpoolFile.create(tmp_path / "a" / "b", "default.log").release()
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
