"""Ports that applications are served on."""

from __future__ import annotations

import asyncio
import socket

from foldlog import serving


async def test_what_is_served_is_sent_without_delay() -> None:
    loop = asyncio.get_running_loop()
    accepted: asyncio.Future[socket.socket] = loop.create_future()

    class Served(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted.set_result(transport.get_extra_info("socket"))

    with serving._listening(serving.LOOPBACK, 0) as listening:
        async with await loop.create_server(Served, sock=listening):
            port = listening.getsockname()[1]
            _, writer = await asyncio.open_connection(serving.LOOPBACK, port)
            connection = await accepted
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            writer.close()
