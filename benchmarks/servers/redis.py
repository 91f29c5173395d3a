"""Redis on a throw-away data directory, with an append-only file that is synced at every write."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.servers.process import running
from benchmarks.unavailable import Unavailable

URL_VARIABLE = "FOLDLOG_BENCH_REDIS"


@asynccontextmanager
async def redis(directory: Path) -> AsyncIterator[str]:
    """Yield the URL of a server: the one that $FOLDLOG_BENCH_REDIS names, or one of our own.

    Our own listens on a Unix socket only. Redis forgets a second of writes by default; here it is
    as durable as the others.
    """
    given = os.environ.get(URL_VARIABLE)
    if given:
        yield given
        return
    server = shutil.which("redis-server")
    if server is None:
        raise Unavailable(f"Redis is not installed, and ${URL_VARIABLE} names no other")
    socket = directory / "redis.sock"
    options = {
        "--port": "0",
        "--unixsocket": str(socket),
        "--dir": str(directory),
        "--save": "",
        "--appendonly": "yes",
        "--appendfsync": "always",
    }
    arguments = [server, *(word for option in options.items() for word in option)]
    async with running(arguments, ready="ready to accept connections"):
        yield f"unix://{socket}"
