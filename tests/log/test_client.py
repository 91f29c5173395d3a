"""The lean client against nats-py's own: the same messages, with less around them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from foldlog.log.embedded import EmbeddedServer
from foldlog.log.jetstream.client import LeanClient, parse_headers


@pytest.fixture
async def clients(embedded_path: Path) -> AsyncIterator[tuple[LeanClient, Client]]:
    server = await EmbeddedServer.join(embedded_path)
    lean, plain = LeanClient(), Client()
    for client in (lean, plain):
        await client.connect(server.url, user=server.user, password=server.password)
    yield lean, plain
    for client in (lean, plain):
        await client.close()
    await server.leave()


@pytest.mark.parametrize(
    "raw",
    [
        b"NATS/1.0\r\nNats-Sequence: 7\r\nNats-Time-Stamp: 2026-01-01T00:00:00Z\r\n\r\n",
        b"NATS/1.0 404\r\n\r\n",
        b"NATS/1.0 404 Message Not Found\r\n\r\n",
        b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: 9\r\n\r\n",
        b"NATS/1.0\r\nempty:\r\ncolons: a:b: c\r\ntight:value\r\nwords: \xc3\xa9 \xff\r\n\r\n",
    ],
)
async def test_headers_are_read_as_nats_py_reads_them(raw: bytes) -> None:
    assert parse_headers(raw) == await Client()._process_headers(raw)


async def test_messages_arrive_in_order_and_whole(clients: tuple[LeanClient, Client]) -> None:
    lean, plain = clients
    got: list[Msg] = []
    all_there = asyncio.Event()

    def take(msg: Msg) -> None:
        got.append(msg)
        if len(got) == 100:
            all_there.set()

    subscription = await lean.call("lean.test", take)
    await lean.flush()
    sizes = [0, 1, 100_000, 7] * 25
    for n, size in enumerate(sizes):
        headers = {"n": str(n)} if n % 2 else None
        await plain.publish("lean.test", b"x" * size, reply=f"to.{n}", headers=headers)
    await all_there.wait()
    assert [len(msg.data) for msg in got] == sizes
    assert [msg.reply for msg in got] == [f"to.{n}" for n in range(100)]
    assert [msg.headers for msg in got] == [{"n": str(n)} if n % 2 else None for n in range(100)]
    await subscription.unsubscribe()
    await lean.flush()
    await plain.publish("lean.test", b"late")
    await plain.flush()
    await lean.flush()
    assert len(got) == 100
    assert lean._subs == {}


async def test_what_a_function_raises_ends_nothing(embedded_path: Path) -> None:
    server = await EmbeddedServer.join(embedded_path)
    errors: list[Exception] = []
    got: list[bytes] = []

    async def on_error(error: Exception) -> None:
        errors.append(error)

    def take(msg: Msg) -> None:
        if msg.data == b"bad":
            raise ValueError("bad")
        got.append(msg.data)

    lean = LeanClient()
    await lean.connect(server.url, user=server.user, password=server.password, error_cb=on_error)
    await lean.call("lean.raise", take)
    for data in (b"1", b"bad", b"2"):
        await lean.publish("lean.raise", data)
    await lean.flush()
    assert got == [b"1", b"2"]
    assert [str(error) for error in errors] == ["bad"]
    await lean.close()
    await server.leave()


async def test_a_call_survives_a_reconnect(clients: tuple[LeanClient, Client]) -> None:
    lean, plain = clients
    arrived = asyncio.Event()
    await lean.call("lean.again", lambda msg: arrived.set())
    back = asyncio.Event()

    async def reconnected() -> None:
        back.set()

    lean._reconnected_cb = reconnected
    assert lean._transport is not None
    lean._transport.close()
    await back.wait()
    await lean.flush()
    await plain.publish("lean.again", b"")
    await arrived.wait()
