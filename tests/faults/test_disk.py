"""A disk that is full: what was acked stays, and what was not acked is not claimed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import foldlog
from foldlog import AppendFailed, AppendUnknown, LogUnavailable, Store
from tests.faults.storms.patience import answered
from tests.support.build import update
from tests.support.server import LocalServer

pytestmark = pytest.mark.long

_BYTES = 64 * 1024 * 1024
_ROOM = 2 * 1024 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MB."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("a small disk needs root, and mount")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_BYTES}", "tmpfs", str(disk)]
    mounted = subprocess.run(mount, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no small disk could be mounted: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def read(file: Path) -> str:
    """The text of a file."""
    return file.read_text()


async def fill(store: Store, disk: Path) -> tuple[list[str], list[str], Path]:
    """Save until the disk is full. Returns what was acked, what is in doubt, and what fills it."""
    acked, doubtful = ["first"], list[str]()
    await store.save_update(update("first"))
    ballast = disk / "ballast"
    # The server would stop by itself at three quarters of the disk; this fills it.
    ballast.write_bytes(bytes(shutil.disk_usage(disk).free - _ROOM))
    for number in range(60):
        try:
            await store.save_update(update(f"{number}", content={"x": "x" * 100_000}))
        except (AppendUnknown, AppendFailed, LogUnavailable) as error:
            doubtful += [f"{number}"] * isinstance(error, AppendUnknown)
            if len(doubtful) == 2:
                break
        else:
            acked.append(f"{number}")
    assert doubtful, "the disk did not fill up"
    return acked, doubtful, ballast


async def check(store: Store, acked: list[str], doubtful: list[str]) -> None:
    """Save again what is in doubt: what was acked stands where it stood, and nothing is lost."""
    await answered(lambda: store.save_update(update("after")))
    for id in doubtful:  # settled by the same id
        await answered(lambda id=id: store.save_update(update(id, content={"x": "x" * 100_000})))
    listed = await store.list_updates("session", consistency="strong", limit=1000)
    found = [item.update_id for item in listed]
    assert [id for id in found if id in acked] == acked
    assert sorted(found) == sorted([*acked, *doubtful, "after"])


async def test_a_full_disk_takes_nothing_that_was_acked(small_disk: Path) -> None:
    async with LocalServer(small_disk / "data") as server:
        async with foldlog.connect(server.url, timeout=2) as store:
            acked, doubtful, ballast = await fill(store, small_disk)
        await server.kill()
        ballast.unlink()
        await server.start()
        async with foldlog.connect(server.url) as store:
            await check(store, acked, doubtful)


async def test_an_open_store_goes_on_once_the_disk_has_space_again(small_disk: Path) -> None:
    async with foldlog.connect(path=small_disk / "data", timeout=2) as store:
        acked, doubtful, ballast = await fill(store, small_disk)
        ballast.unlink()
        await check(store, acked, doubtful)
        health = await store.health()
        assert health.embedded is not None
        assert "the disk takes writes again" in read(Path(health.embedded.log_file))
