"""A degrading process that is killed as it makes its nth change to its spool, by strace."""

from __future__ import annotations

import asyncio
import shutil
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

import foldlog
from tests.support.server import LocalServer
from tests.support.workers import PATIENCE, Worker, starting

pytestmark = pytest.mark.long

SPOOLER = Path(__file__).with_name("spooler.py")
WITHOUT_END = 1_000_000
_CHANGES = "pwrite64,fsync,ftruncate,unlink,rename"


async def heard_until(worker: Worker, said: list[str], waiting: range) -> bool:
    """Note ids of saves that return, until so many wait; False if the process has ended."""
    while True:
        try:
            id_, count = await worker.hear()
        except EOFError:
            return False
        said.append(id_)
        if count in waiting:
            return True


@pytest.mark.parametrize("nth", [1, 2, 3, 4, 6, 11, 30, 60])
async def test_what_it_was_told_is_on_the_log_once_and_in_order(tmp_path: Path, nth: int) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("no strace is installed here")
    async with (
        LocalServer(tmp_path / "server") as server,
        starting(SPOOLER, server.url, tmp_path / "spool", "session") as start,
    ):
        worker = await start("a")
        assert await worker.hear() == "ready"
        tracer = await asyncio.create_subprocess_exec(
            *(strace, "-f", "-p", str(worker.process.pid), "-o", "/dev/null"),
            *("-e", f"trace={_CHANGES}"),
            *("-e", f"inject={_CHANGES}:signal=SIGKILL:when={nth}"),
            stderr=PIPE,
        )
        assert tracer.stderr is not None
        first = (await tracer.stderr.readline()).decode()
        if "attached" not in first:
            await tracer.communicate()
            pytest.skip(f"this process may not be traced: {first.strip()}")
        worker.tell(WITHOUT_END)
        said = list[str]()
        lives = True
        while lives:
            await server.kill()
            lives = await heard_until(worker, said, range(5, WITHOUT_END))
            await server.start()
            lives = lives and await heard_until(worker, said, range(1))
        async with asyncio.timeout(PATIENCE):
            await tracer.communicate()
        async with foldlog.connect(server.url, spool=tmp_path / "spool") as store:
            subject = store._core.log.namespace.subject("updates", "session")
            pages = [page async for page in store._core.log.read(subject)]
            ids = (e.id for page in pages for record in page for e in record.envelopes)
            found = list(dict.fromkeys(ids))  # as every fold takes them
            # What it was killed before it could say may be there, too.
            assert found == [f"a{n}" for n in range(len(found))]
            assert said == found[: len(said)]
    assert list((tmp_path / "spool").glob("*")) == []
