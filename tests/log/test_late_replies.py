"""Requests that nobody replies to are given up, each at its own deadline."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from foldlog.log.embedded import EmbeddedServer
from foldlog.log.jetstream.connection import Connection, ReplyLost

PATIENCE = 60.0


async def test_each_request_is_given_up_at_its_own_deadline(embedded_path: Path) -> None:
    server = await EmbeddedServer.join(embedded_path)
    options = {"user": server.user, "password": server.password}
    connection = await Connection.open(server.url, timeout=5, options=options)

    async def ask(timeout: float) -> None:
        with pytest.raises(ReplyLost):
            await connection.request("silent", timeout=timeout)

    await connection.subscribe("silent", lambda msg: None)
    long = asyncio.create_task(ask(10 * PATIENCE))
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(ask(0.02), ask(0.01), ask(0.03))
        await ask(0.01)
    assert not long.done()
    await connection.close()
    await long
    await server.leave()
