"""Asking a server who it is, by the line with which every nats-server greets a connection."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from typing import Any

from foldlog.locks import pauses
from foldlog.log.embedded.config import HOST

GREETING_LIMIT = 65536
"""Bytes after which an unfinished greeting is taken for something else."""

GREETING_TIMEOUT = 0.5
"""Seconds after which a connection that is not greeted is given up. Another process may have taken
the port and be waiting for the client to speak first."""


def parse_greeting(line: bytes) -> dict[str, Any] | None:
    """Return the facts of an INFO line, None when it is not one."""
    verb, _, facts = line.partition(b" ")
    if verb != b"INFO":
        return None
    try:
        greeting = json.loads(facts)
    except ValueError:
        return None
    return greeting if isinstance(greeting, dict) else None


async def greeting_of(port: int) -> dict[str, Any] | None:
    """Return how the server on `port` introduces itself, None when there is no nats-server."""
    loop = asyncio.get_running_loop()
    received = b""
    with socket.socket() as connection:
        connection.setblocking(False)
        try:
            async with asyncio.timeout(GREETING_TIMEOUT):
                await loop.sock_connect(connection, (HOST, port))
                while not received.endswith(b"\n") and len(received) < GREETING_LIMIT:
                    part = await loop.sock_recv(connection, GREETING_LIMIT)
                    if not part:
                        break
                    received += part
        except OSError:  # refused, reset, or too slow (TimeoutError is one)
            return None
    return parse_greeting(received)


async def wait_until_ready(port: int, name: str, is_alive: Callable[[], bool]) -> str | None:
    """Wait for the server called `name` to listen on `port` and return its version.

    nats-server listens last, when its log is recovered. Returns None once `is_alive` says that
    nobody works on it any more; the caller bounds the wait.
    """
    for pause in pauses():
        alive = is_alive()  # asked first: a server may be ready and die before it is seen
        greeting = await greeting_of(port)
        if greeting is not None and greeting.get("server_name") == name:
            return str(greeting.get("version"))
        if not alive:
            return None
        await asyncio.sleep(pause)
    raise AssertionError("unreachable: the pauses never end")
