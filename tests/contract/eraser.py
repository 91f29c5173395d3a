"""A process that erases a session and is killed on the way. Run as a script.

eraser.py PATH SESSION COUNT    SIGKILLs itself when it asks for deletions the COUNT-th time
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

# Run as a script, so that a worker costs one interpreter and no pytest.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import foldlog
from foldlog.log.jetstream.client import Outgoing
from foldlog.log.jetstream.connection import Connection


async def main(path: str, session: str, count: str) -> None:
    left, request_all = int(count), Connection.request_all

    async def counted(self: Connection, messages: Sequence[Outgoing], *, timeout: float) -> object:
        nonlocal left
        left -= "STREAM.MSG.DELETE" in messages[0].subject
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return await request_all(self, messages, timeout=timeout)

    Connection.request_all = counted  # type: ignore[assignment, method-assign]
    async with foldlog.connect(path=path) as store:
        await store.erase_session(session)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
