"""A server as a child process, ready when the context is entered, gone when it is left."""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import signal
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from benchmarks.unavailable import Unavailable

_STOP_TIMEOUT = 20.0  # seconds
_LOOK = 0.02  # seconds between two looks at what a server that starts says


@asynccontextmanager
async def running(
    arguments: Sequence[str],
    *,
    ready: str,
    environment: Mapping[str, str] | None = None,
    user: str | None = None,
    stop: signal.Signals = signal.SIGTERM,
    timeout: float = 60.0,
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a server, from a line of its output that matches `ready` until the context is left.

    Raises Unavailable, with the end of its output, where it ends before or takes longer than
    `timeout` seconds.
    """
    # A file, and no pipe: a server that says much would wait for whoever reads it, and nobody does
    # while another event loop runs.
    with tempfile.TemporaryFile() as output:
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            **_as(user),
        )
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    while process.returncode is None:
                        if re.search(ready, _said(output)):
                            break
                        await asyncio.sleep(_LOOK)
            if process.returncode is not None or not re.search(ready, _said(output)):
                raise Unavailable(_told(arguments[0], _said(output)))
            yield process
        finally:
            await _end(process, stop)


async def run(arguments: Sequence[str], *, user: str | None = None) -> None:
    """Run a program to its end. Raises Unavailable, with the end of its output, where it fails."""
    process = await asyncio.create_subprocess_exec(
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        **_as(user),
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise Unavailable(_told(arguments[0], output.decode(errors="replace")))


def unprivileged(*names: str) -> str | None:
    """The first of these users that exists, for root; None for anybody else, who stays as he is."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    for name in names:
        if name in known:
            return name
    raise Unavailable(f"root cannot run it, and there is no user {' or '.join(names)}")


def _said(output: BinaryIO) -> str:
    """What was written to a file until now."""
    size = os.fstat(output.fileno()).st_size
    return os.pread(output.fileno(), size, 0).decode(errors="replace")


async def _end(process: asyncio.subprocess.Process, stop: signal.Signals) -> None:
    if process.returncode is not None:
        return
    process.send_signal(stop)
    try:
        async with asyncio.timeout(_STOP_TIMEOUT):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _as(user: str | None) -> dict[str, Any]:
    """What subprocesses take to run as somebody else."""
    if user is None:
        return {}
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": [], "cwd": "/"}


def _told(program: str, output: str) -> str:
    last = "; ".join(line for line in output.splitlines()[-3:] if line)
    return f"{Path(program).name} did not start: {last or 'it said nothing'}"
