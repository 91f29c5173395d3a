"""A disk that is full: what was acked stays, and what was not acked is not claimed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import foldlog
from foldlog import AppendFailed, AppendUnknown, LogUnavailable
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


async def test_a_full_disk_takes_nothing_that_was_acked(small_disk: Path) -> None:
    data, ballast = small_disk / "data", small_disk / "ballast"
    async with LocalServer(data) as server:
        async with foldlog.connect(server.url, timeout=2) as store:
            acked, doubtful = ["first"], list[str]()
            await store.save_update(update("first"))
            # The server would stop by itself at three quarters of the disk; this fills it.
            ballast.write_bytes(bytes(shutil.disk_usage(small_disk).free - _ROOM))
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
        await server.kill()
        ballast.unlink()
        await server.start()
        async with foldlog.connect(server.url) as store:
            await answered(lambda: store.save_update(update("after")))
            for id in doubtful:  # settled by the same id
                await answered(
                    lambda id=id: store.save_update(update(id, content={"x": "x" * 100_000}))
                )
            listed = await store.list_updates("session", consistency="strong", limit=1000)
            found = [item.update_id for item in listed]
    assert [id for id in found if id in acked] == acked
    assert sorted(found) == sorted([*acked, *doubtful, "after"])
