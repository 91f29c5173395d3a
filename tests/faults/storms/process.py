"""A caller in a process of its own, which may be killed; what it did is in a file until the end.

Run as a script: `process.py NAMESPACE NAME SEED FILE`, with the server's URL in $FAULTS_URL. It
makes calls until its input ends.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

# Run as a script, so that it costs one interpreter and no pytest.
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import foldlog
from tests.faults.actor import Actor, Script
from tests.faults.history import AnyOp, Timing

_KEYS = 3


class CallingProcess:
    """A process that calls; another takes its place when it is killed."""

    def __init__(self, url: str, namespace: str, seed: int) -> None:
        self._environment = os.environ | {"FAULTS_URL": url}
        self._namespace = namespace
        self._seed = seed
        self._directory = tempfile.TemporaryDirectory(prefix="foldlog-faults-")
        self._files: list[Path] = []
        self._process: Process | None = None

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.communicate()
        self._directory.cleanup()

    async def _start(self) -> None:
        name = f"p{self._seed}.{len(self._files)}"
        self._files.append(Path(self._directory.name, name))
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            __file__,
            self._namespace,
            name,
            str(self._seed + len(self._files)),
            str(self._files[-1]),
            stdin=PIPE,
            stdout=PIPE,
            env=self._environment,
        )

    async def kill(self) -> None:
        """SIGKILL, once it has said something; and start another."""
        assert self._process is not None
        assert self._process.stdout is not None
        await self._process.stdout.readline()
        self._process.kill()
        await self._process.communicate()
        await self._start()

    async def stop(self) -> None:
        """Let it end by itself."""
        assert self._process is not None
        await self._process.communicate(b"")  # which ends its input
        assert self._process.returncode == 0, f"a caller ended with {self._process.returncode}"

    def ops(self) -> list[AnyOp]:
        """What all of them did: of each call the last that was written about it."""
        found: list[AnyOp] = []
        for file in self._files:
            if not file.exists():
                continue
            lines = [line for line in file.read_bytes().split(b"\n")[:-1] if line]
            ops = dict(map(_decoder.decode, lines))
            found += ops.values()
        return found


_decoder = msgspec.json.Decoder(tuple[int, AnyOp])


async def _main(namespace: str, name: str, seed: int, path: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    ops: list[AnyOp] = []
    said = False

    def note(op: AnyOp) -> None:
        nonlocal said
        # Begun in order, and never removed: an operation is found near the end.
        number = next(n for n in range(len(ops) - 1, -1, -1) if ops[n] is op)
        os.write(file, msgspec.json.encode((number, op)) + b"\n")
        if op.outcome == "ok" and not said:
            said = True
            sys.stdout.write("calling\n")
            sys.stdout.flush()

    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    async with await _connected(namespace) as store:
        script = Script(Actor(store, Timing(name, ops, note)), random.Random(seed), name, _KEYS)
        while not ended.done():
            await script.step()
    await ended


async def _connected(namespace: str) -> foldlog.Store:
    while True:
        try:
            return await foldlog.connect(os.environ["FAULTS_URL"], namespace=namespace)
        except foldlog.LogUnavailable:
            continue  # what it would connect to has just been killed


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]))
