"""PostgreSQL on a throw-away data directory, as its package configures it: fsync on."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from benchmarks.servers.process import run, running, unprivileged
from benchmarks.unavailable import Unavailable

DSN_VARIABLE = "FOLDLOG_BENCH_POSTGRES"


@asynccontextmanager
async def postgres(directory: Path) -> AsyncIterator[str]:
    """Yield the DSN of a server: the one that $FOLDLOG_BENCH_POSTGRES names, or one of our own.

    Our own listens on a Unix socket inside `directory` only, and runs with what `initdb` writes:
    nothing is tuned, neither for durability nor against it.
    """
    given = os.environ.get(DSN_VARIABLE)
    if given:
        yield given
        return
    await make(directory)
    async with serving(directory):
        yield url_of(directory)


async def make(directory: Path) -> None:
    """Make an empty database below a directory. Raises Unavailable."""
    user = unprivileged("postgres", "nobody")
    if user is not None:
        shutil.chown(directory, user)
    command = [_program("initdb"), "-D", str(directory / "data"), "-U", "bench", "-A", "trust"]
    await run([*command, "-E", "UTF8", "--locale=C", "--no-sync"], user=user)


def serving(directory: Path) -> AbstractAsyncContextManager[asyncio.subprocess.Process]:
    """Have a server run on what `make` made. Entering it raises Unavailable."""
    options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={directory}"]
    return running(
        [_program("postgres"), "-D", str(directory / "data"), *options],
        ready="database system is ready to accept connections",
        user=unprivileged("postgres", "nobody"),
        stop=signal.SIGINT,  # its fast shutdown, which does not wait for clients
    )


def url_of(directory: Path) -> str:
    """The URL of the server that runs on what is in a directory."""
    return f"postgresql://bench@/postgres?host={directory}"


def _program(name: str) -> str:
    """Where a program of PostgreSQL is. Debian keeps them off the PATH, by version."""
    for place in sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True):
        if (place / name).is_file():
            return str(place / name)
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"PostgreSQL is not installed, and ${DSN_VARIABLE} names no other")
    return found


def _version(place: Path) -> int:
    version = place.parent.name
    return int(version) if version.isdigit() else 0
