"""Batches of the embedded server are staged in memory, and nothing is lost by it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from pathlib import Path

import pytest

import foldlog
from foldlog import FoldlogError, Store, StoredEvent
from foldlog.log.embedded.staging import MEMORY, ROOM, Staging

STREAM = "FOLDLOG_default_0"
WIDTH = 40


def link_of(directory: Path, stream: str = STREAM) -> Path:
    return directory / "jetstream" / "$G" / "streams" / stream / "batches"


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """Stands for a directory in memory."""
    made = tmp_path / "memory"
    made.mkdir()
    return made


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    """The `batches` of a stream in a data directory without a server."""
    link = link_of(tmp_path / "data", "S")
    link.parent.mkdir(parents=True)
    return link


@pytest.fixture
def staging(tmp_path: Path, memory: Path, monkeypatch: pytest.MonkeyPatch) -> Staging:
    monkeypatch.setattr("foldlog.log.embedded.staging.ROOM", 1)
    return Staging(tmp_path / "data", memory=memory)


def test_a_link_leads_to_a_private_directory(staging: Staging, stream: Path, memory: Path) -> None:
    staging.ensure("S")
    target = stream.readlink()
    assert target.parent.parent == memory
    assert target.parent.stat().st_mode & 0o777 == 0o700
    staging.ensure("S")
    assert stream.readlink() == target


def test_memory_that_was_emptied_is_made_again(
    staging: Staging, stream: Path, memory: Path
) -> None:
    staging.ensure("S")
    for made in memory.iterdir():
        shutil.rmtree(made)
    staging.ensure("S")
    assert stream.is_dir()


def test_what_an_earlier_run_left_is_swept(staging: Staging, stream: Path, memory: Path) -> None:
    staging.ensure("S")
    before = stream.readlink()
    (before / "batch").mkdir()
    stream.unlink()  # as nats-server does when it starts
    staging.ensure("S")
    (made,) = memory.iterdir()
    assert list(made.iterdir()) == [stream.readlink()]
    assert stream.readlink() != before


def test_a_batch_under_way_stays_where_it_is(staging: Staging, stream: Path) -> None:
    (stream / "batch").mkdir(parents=True)
    staging.ensure("S")
    assert not stream.is_symlink()
    (stream / "batch").rmdir()
    staging.ensure("S")
    assert stream.is_symlink()


def test_removing_leaves_nothing(staging: Staging, stream: Path, memory: Path) -> None:
    staging.ensure("S")
    staging.remove()
    assert not list(memory.iterdir())
    assert not stream.is_symlink()


def test_what_a_restart_has_to_complete_stays(staging: Staging, stream: Path, memory: Path) -> None:
    staging.ensure("S")
    left = stream.readlink() / "batch"
    left.mkdir()
    staging.remove()
    assert stream.readlink() == left.parent
    assert left.is_dir()
    left.rmdir()
    staging.remove()
    assert not list(memory.iterdir())


def test_a_data_directory_that_was_deleted_leaves_nothing(
    staging: Staging, stream: Path, memory: Path, tmp_path: Path
) -> None:
    staging.ensure("S")
    (stream.readlink() / "batch").mkdir()
    shutil.rmtree(tmp_path / "data")
    staging.discard()
    assert not list(memory.iterdir())


def test_memory_that_others_have_filled_is_left(
    staging: Staging, stream: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging.ensure("S")
    for bound in ("LITTLE", "ROOM"):
        monkeypatch.setattr(f"foldlog.log.embedded.staging.{bound}", 2**63)
    staging.ensure("S")
    assert not stream.is_symlink()


def test_another_directory_at_the_same_path_has_another_place(
    staging: Staging, stream: Path, memory: Path, tmp_path: Path
) -> None:
    staging.ensure("S")
    (tmp_path / "data").rename(tmp_path / "first")
    link = link_of(tmp_path / "data", "S")
    link.parent.mkdir(parents=True)
    Staging(tmp_path / "data", memory=memory).ensure("S")
    first = link_of(tmp_path / "first", "S")
    assert first.readlink().parent != link.readlink().parent
    assert first.is_dir()


def test_a_directory_that_others_can_enter_is_not_used(
    staging: Staging, stream: Path, memory: Path
) -> None:
    staging.ensure("S")
    (made,) = memory.iterdir()
    stream.unlink()
    made.chmod(0o755)
    staging.ensure("S")
    assert not stream.is_symlink()


def test_without_room_batches_stay_on_disk(
    staging: Staging, stream: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foldlog.log.embedded.staging.ROOM", 2**63)
    staging.ensure("S")
    assert not stream.is_symlink()


def test_without_memory_batches_stay_on_disk(tmp_path: Path, stream: Path) -> None:
    Staging(tmp_path / "data", memory=tmp_path / "nowhere").ensure("S")
    assert not stream.is_symlink()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM:
        pytest.skip(f"{MEMORY} is missing or small")
    return tmp_path / "data"


def event(trace: str, number: int) -> StoredEvent:
    return StoredEvent(trace, float(number), "k", None, None, {"number": number})


async def save_block(store: Store, number: int) -> None:
    async with store.atomic():
        for trace in range(WIDTH):
            await store.save_event(event(f"t{trace}", number))


async def blocks_found(store: Store) -> list[set[float]]:
    histories = await asyncio.gather(*(store.load_history(f"t{n}") for n in range(WIDTH)))
    return [{found.ts for found in history} for history in histories]


async def test_a_store_stages_in_memory_while_it_is_open(directory: Path) -> None:
    async with foldlog.connect(path=directory) as store:
        link = link_of(directory)
        made = link.readlink().parent
        assert made.parent == MEMORY
        await save_block(store, 1)
        shutil.rmtree(made)  # what happens when the user logs out
        await save_block(store, 2)
        assert link.is_dir()
        assert await blocks_found(store) == [{1.0, 2.0}] * WIDTH
    assert not made.exists()


async def test_a_server_killed_while_blocks_are_saved_keeps_each_whole_or_not_at_all(
    directory: Path,
) -> None:
    acked: set[float] = set()
    tried = 0

    async with foldlog.connect(path=directory, timeout=20) as store:

        async def save(number: int) -> None:
            try:
                await save_block(store, number)
            except FoldlogError:
                return
            acked.add(float(number))

        for _ in range(8):
            saving = [asyncio.create_task(save(tried + n)) for n in range(1, 9)]
            tried += len(saving)
            await asyncio.wait(saving, return_when=asyncio.FIRST_COMPLETED)
            health = await store.health()
            assert health.embedded is not None
            assert health.embedded.pid is not None
            os.kill(health.embedded.pid, signal.SIGKILL)
            await asyncio.gather(*saving)
        await save_block(store, tried + 1)
        found = await blocks_found(store)
        assert link_of(directory).is_dir()
    assert all(block == found[0] for block in found)
    assert acked <= found[0]
