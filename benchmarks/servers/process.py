"""A server as a child process, ready when the context is entered, gone when it is left."""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import signal
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.unavailable import Unavailable

_STOP_TIMEOUT = 20.0  # seconds


@asynccontextmanager
async def running(
    arguments: Sequence[str],
    *,
    ready: str,
    environment: Mapping[str, str] | None = None,
    user: str | None = None,
    stop: signal.Signals = signal.SIGTERM,
    timeout: float = 60.0,
) -> AsyncIterator[None]:
    """Run a server, from a line of its output that matches `ready` until the context is left.

    Raises Unavailable, with the end of its output, where it ends before or takes longer than
    `timeout` seconds.
    """
    process = await asyncio.create_subprocess_exec(
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **(environment or {})},
        **_as(user),
    )
    tail: deque[str] = deque(maxlen=20)
    is_ready = asyncio.Event()
    follower = asyncio.create_task(_follow(process, re.compile(ready), is_ready, tail))
    try:
        try:
            async with asyncio.timeout(timeout):
                await is_ready.wait()
        except TimeoutError:
            raise Unavailable(_told(arguments[0], tail)) from None
        if process.returncode is not None or follower.done():
            raise Unavailable(_told(arguments[0], tail))
        yield
    finally:
        await _end(process, stop)
        await follower


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
        raise Unavailable(_told(arguments[0], deque(output.decode(errors="replace").splitlines())))


def unprivileged(*names: str) -> str | None:
    """The first of these users that exists, for root; None for anybody else, who stays as he is."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    for name in names:
        if name in known:
            return name
    raise Unavailable(f"root cannot run it, and there is no user {' or '.join(names)}")


async def _follow(
    process: asyncio.subprocess.Process,
    ready: re.Pattern[str],
    seen: asyncio.Event,
    tail: deque[str],
) -> None:
    """Read the output until it ends, so that neither its pipe nor our memory fills."""
    assert process.stdout is not None
    async for line in process.stdout:
        text = line.decode(errors="replace").rstrip()
        tail.append(text)
        if ready.search(text):
            seen.set()
    await process.wait()
    seen.set()


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


def _told(program: str, tail: deque[str]) -> str:
    last = "; ".join(line for line in list(tail)[-3:] if line)
    return f"{Path(program).name} did not start: {last or 'it said nothing'}"
