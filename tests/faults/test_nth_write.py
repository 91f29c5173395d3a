"""A server that is killed as it makes its nth write: into a socket, or into a file."""

from __future__ import annotations

import asyncio
import random
import shutil
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from tests.faults.checker import judge
from tests.faults.storms.crowd import Crowd
from tests.support.server import LocalServer

pytestmark = pytest.mark.long

_KILLS = 12
_WRITES = "write,pwrite64,writev,fsync,ftruncate"


async def test_a_server_killed_at_any_write_keeps_what_it_acked(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("no strace is installed here")
    rng = random.Random(5)
    async with (
        LocalServer(tmp_path / "data") as server,
        Crowd(server.url, "writes", seed=5) as crowd,
    ):
        for _ in range(_KILLS):
            await crowd.progressed()
            inject = f"inject={_WRITES}:signal=SIGKILL:when={rng.randint(1, 80)}"
            tracer = await asyncio.create_subprocess_exec(
                *(strace, "-f", "-p", str(server.pid), "-o", "/dev/null"),
                *("-e", f"trace={_WRITES}", "-e", inject),
                stderr=PIPE,
            )
            assert tracer.stderr is not None
            said = (await tracer.stderr.readline()).decode()
            if "attached" not in said:
                await tracer.communicate()
                pytest.skip(f"this process may not be traced: {said.strip()}")
            await server.ended()
            await tracer.communicate()
            await server.start()
        await crowd.progressed()
        assert judge(await crowd.told()) == []
