"""A TCP proxy between a client and a server that breaks what passes, on demand.

It knows where the server's protocol lines end, so that it can cut in the middle of a frame, or let
a publish through and keep its ack.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit

Look = Callable[[bytes], bytes | None]
"""Looks at what passes one way; returns what is passed on, or None to cut the connection."""

_CHUNK = 64 * 1024


def passing(data: bytes) -> bytes:
    """Lets everything pass."""
    return data


def at_once() -> float:
    """Delays nothing."""
    return 0.0


class Proxy:
    """Listens on a port of its own while the context is entered.

    `to_server` and `to_client` look at what passes. `hole`: nothing passes either way, and nobody
    is told; what comes meanwhile is kept and passes later. `refuses`: new connections are closed.
    `delay` is asked how many seconds it takes longer, for each piece that passes; what comes
    behind it waits, as on any wire.
    """

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._open = asyncio.Event()
        self._open.set()
        self.to_server: Look = passing
        self.to_client: Look = passing
        self.refuses = False
        self.delay: Callable[[], float] = at_once
        self.connections = 0

    @property
    def url(self) -> str:
        """Where it listens, with the server's credentials."""
        user, _, _ = self._target.netloc.rpartition("@")
        return urlunsplit(self._target._replace(netloc=f"{user}@127.0.0.1:{self.port}"))

    @property
    def port(self) -> int:
        """Where it listens on 127.0.0.1."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.heal()
        self.cut()
        for link in list(self._links):
            await link.ended()
        await self._server.wait_closed()

    def hole(self, *, everything: bool = True) -> None:
        """Let nothing pass, and tell nobody: half-open connections.

        Not `everything`: only of the connections that there are; new ones pass.
        """
        for link in self._links:
            link.open.clear()
        if everything:
            self._open.clear()

    def heal(self) -> None:
        """Let everything pass again, what was held up first."""
        self.to_server = self.to_client = passing
        self.refuses = False
        self.delay = at_once
        self._open.set()
        for link in self._links:
            link.open.set()

    def cut(self) -> None:
        """Reset every connection."""
        for link in list(self._links):
            link.cut()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self.refuses:
            writer.transport.abort()
            return
        link = _Link(self, writer)
        if not self._open.is_set():
            link.open.clear()
        self._links.add(link)
        try:
            await link.run(reader, str(self._target.hostname), self._target.port or 0)
        finally:
            self._links.discard(link)


class _Link:
    """One client's connection, and the proxy's own to the server."""

    def __init__(self, proxy: Proxy, client: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._writers = [client]
        self._over = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()
        self._pumps: list[asyncio.Task[None]] = []

    async def run(self, reader: asyncio.StreamReader, host: str, port: int) -> None:
        """Pass bytes both ways until either side ends."""
        (client,) = self._writers
        try:
            from_server, server = await asyncio.open_connection(host, port)
        except OSError:
            client.transport.abort()
            self._over.set()
            return
        self._writers.append(server)
        proxy = self._proxy
        self._pumps = [
            asyncio.create_task(self._pump(reader, server, lambda data: proxy.to_server(data))),
            asyncio.create_task(
                self._pump(from_server, client, lambda data: proxy.to_client(data))
            ),
        ]
        try:
            await asyncio.wait(self._pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.cut()
            await asyncio.gather(*self._pumps, return_exceptions=True)
            self._over.set()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, look: Look
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                if delay := self._proxy.delay():
                    await asyncio.sleep(delay)
                await self.open.wait()
                passed = look(data)
                if passed is None:
                    return
                writer.write(passed)
                await writer.drain()

    def cut(self) -> None:
        """Reset both connections; what has not passed is gone."""
        for pump in self._pumps:
            pump.cancel()
        for writer in self._writers:
            raw = writer.get_extra_info("socket")
            if raw is not None and raw.fileno() >= 0:
                # A reset, not an orderly end: nobody may think that all was read.
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            writer.transport.abort()

    async def ended(self) -> None:
        """Wait until nothing of it is left."""
        await self._over.wait()
