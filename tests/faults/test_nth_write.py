"""A server that is killed as it makes its nth write: into a socket, or into a file."""

from __future__ import annotations

import asyncio
import random
import shutil
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

import foldlog
from foldlog import AppendUnknown, FoldlogError
from tests.faults.checker import judge
from tests.faults.storms.crowd import Crowd
from tests.support.build import update
from tests.support.server import LocalServer

pytestmark = pytest.mark.long

_KILLS = 12
_WRITES = "write,pwrite64,writev,fsync,ftruncate"


@asynccontextmanager
async def injecting(pid: int, calls: str, what: str) -> AsyncIterator[None]:
    """Have something befall the system calls of a process."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("no strace is installed here")
    tracer = await asyncio.create_subprocess_exec(
        *(strace, "-f", "-p", str(pid), "-o", "/dev/null"),
        *("-e", f"trace={calls}", "-e", f"inject={calls}:{what}"),
        stderr=PIPE,
    )
    assert tracer.stderr is not None
    said = (await tracer.stderr.readline()).decode()
    if "attached" not in said:
        await tracer.communicate()
        pytest.skip(f"this process may not be traced: {said.strip()}")
    try:
        yield
    finally:
        if tracer.returncode is None:
            tracer.terminate()
        await tracer.communicate()


async def test_a_server_killed_at_any_write_keeps_what_it_acked(tmp_path: Path) -> None:
    rng = random.Random(5)
    async with (
        LocalServer(tmp_path / "data") as server,
        Crowd(server.url, "writes", seed=5) as crowd,
    ):
        for _ in range(_KILLS):
            await crowd.progressed()
            what = f"signal=SIGKILL:when={rng.randint(1, 80)}"
            async with injecting(server.pid, _WRITES, what):
                await server.ended()
            await server.start()
        await crowd.progressed()
        assert judge(await crowd.told()) == []


async def test_an_open_store_goes_on_after_a_disk_that_failed_once(tmp_path: Path) -> None:
    """The server stores nothing more once a sync has failed: it is started anew."""
    async with foldlog.connect(path=tmp_path / "data") as store:
        await store.save_update(update("before"))
        server = store._core.backend.server
        assert server is not None
        assert server.pid is not None
        async with injecting(server.pid, "fsync,fdatasync", "error=EIO:when=1"):
            with suppress(AppendUnknown):  # it may be stored by the server that comes next
                await store.save_update(update("meanwhile"))
        async with asyncio.timeout(60):
            while True:
                try:
                    await store.save_update(update("after"))
                    break
                except FoldlogError:
                    continue
        found = [each.update_id for each in await store.list_updates("session")]
        assert [each for each in found if each != "meanwhile"] == ["before", "after"]
