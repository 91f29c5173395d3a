"""The lean client against nats-py's own: the same messages, with less around them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from foldlog.errors import AppendFailed, LogUnavailable
from foldlog.log.embedded import EmbeddedServer
from foldlog.log.jetstream.client import LeanClient, Outgoing, header_block, parse_headers


@pytest.fixture
async def clients(embedded_path: Path) -> AsyncIterator[tuple[LeanClient, Client]]:
    server = await EmbeddedServer.join(embedded_path)
    lean, plain = LeanClient(), Client()
    for client in (lean, plain):
        await client.connect(
            server.url, user=server.user, password=server.password, reconnect_time_wait=0.01
        )
    yield lean, plain
    for client in (lean, plain):
        await client.close()
    await server.leave()


async def reached(client: Client) -> None:
    """Wait until the server has all that `client` was told to send, its subscriptions above all.

    The ping of nats-py overtakes what has not been written yet. The next one is behind it.
    """
    await client.flush()
    await client.flush()


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
    await reached(lean)
    sizes = [0, 1, 100_000, 7] * 25
    for n, size in enumerate(sizes):
        headers = {"n": str(n)} if n % 2 else None
        await plain.publish("lean.test", b"x" * size, reply=f"to.{n}", headers=headers)
    await all_there.wait()
    assert [len(msg.data) for msg in got] == sizes
    assert [msg.reply for msg in got] == [f"to.{n}" for n in range(100)]
    assert [msg.headers for msg in got] == [{"n": str(n)} if n % 2 else None for n in range(100)]
    await subscription.unsubscribe()
    await reached(lean)
    await plain.publish("lean.test", b"late")
    await reached(plain)
    await reached(lean)
    assert len(got) == 100
    assert lean._subs == {}


@pytest.mark.parametrize("at_once", [False, True])
async def test_what_is_sent_arrives_as_if_published(
    clients: tuple[LeanClient, Client], at_once: bool
) -> None:
    lean, plain = clients
    headers = {"one": "1", "two": "zw\u00f6lf"}
    got = await plain.subscribe("lean.sent")
    await reached(plain)
    lean.send(
        Outgoing("lean.sent", b"bare"),
        Outgoing("lean.sent", b"", header_block(headers), "answer.here"),
        Outgoing("lean.sent", bytes(100_000), header_block({})),
        at_once=at_once,
    )
    messages = [await got.next_msg(timeout=30) for _ in range(3)]
    assert [len(msg.data) for msg in messages] == [4, 0, 100_000]
    assert [msg.reply for msg in messages] == ["", "answer.here", ""]
    assert messages[1].headers == headers


async def test_nothing_is_sent_where_one_of_many_is_too_large(
    clients: tuple[LeanClient, Client],
) -> None:
    lean, plain = clients
    got = await plain.subscribe("lean.large")
    await reached(plain)
    with pytest.raises(AppendFailed):
        lean.send(Outgoing("lean.large", b"1"), Outgoing("lean.large", bytes(lean.max_payload + 1)))
    lean.send(Outgoing("lean.large", b"2"))
    assert (await got.next_msg(timeout=30)).data == b"2"


async def test_a_closed_client_sends_nothing() -> None:
    with pytest.raises(LogUnavailable):
        LeanClient().send(Outgoing("lean.closed", b""))


async def test_what_a_function_raises_ends_nothing(embedded_path: Path) -> None:
    server = await EmbeddedServer.join(embedded_path)
    errors: list[Exception] = []
    got: list[bytes] = []
    last = asyncio.Event()

    async def on_error(error: Exception) -> None:
        errors.append(error)

    def take(msg: Msg) -> None:
        if msg.data == b"bad":
            raise ValueError("bad")
        got.append(msg.data)
        if msg.data == b"2":
            last.set()

    lean = LeanClient()
    await lean.connect(server.url, user=server.user, password=server.password, error_cb=on_error)
    try:
        await lean.call("lean.raise", take)
        for data in (b"1", b"bad", b"2"):
            await lean.publish("lean.raise", data)
        async with asyncio.timeout(30):
            await last.wait()
    finally:
        await lean.close()
        await server.leave()
    assert got == [b"1", b"2"]
    assert [str(error) for error in errors] == ["bad"]


async def test_a_call_survives_a_reconnect(clients: tuple[LeanClient, Client]) -> None:
    lean, plain = clients
    arrived = asyncio.Event()
    await lean.call("lean.again", lambda msg: arrived.set())
    back = asyncio.Event()

    async def reconnected() -> None:
        back.set()

    lean._reconnected_cb = reconnected
    assert lean._transport is not None
    lean._transport.close()  # type: ignore[no-untyped-call]
    await back.wait()
    await reached(lean)
    await plain.publish("lean.again", b"")
    await arrived.wait()


async def test_what_a_connection_did_not_take_is_not_sent_over_the_next(
    clients: tuple[LeanClient, Client],
) -> None:
    lean, plain = clients
    got = await plain.subscribe("lean.late")
    await reached(plain)
    back = asyncio.Event()

    async def reconnected() -> None:
        back.set()

    lean._reconnected_cb = reconnected
    assert lean._flusher_task is not None
    lean._flusher_task.cancel()  # it would wait for a socket that takes no more
    lean.send(Outgoing("lean.late", b"of before"))
    await lean._process_op_err(nats.errors.StaleConnectionError())
    await back.wait()
    lean.send(Outgoing("lean.late", b"of now"))
    assert (await got.next_msg(timeout=30)).data == b"of now"


async def test_a_transport_that_must_be_drained_is(clients: tuple[LeanClient, Client]) -> None:
    lean, plain = clients
    got = await plain.subscribe("lean.drained")
    await reached(plain)

    class Queueing:
        """Writes when it is drained, as nats-py's websocket transport does."""

        def __init__(self, below: Any) -> None:
            self.below = below
            self.queued: list[bytes] = []

        def writelines(self, parts: list[bytes]) -> None:
            self.queued += parts

        async def drain(self) -> None:
            self.below.writelines(self.queued)
            self.queued = []
            await self.below.drain()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.below, name)

    lean._transport = Queueing(lean._transport)  # type: ignore[assignment]
    lean.send(Outgoing("lean.drained", b"1"), at_once=True)
    assert (await got.next_msg(timeout=30)).data == b"1"


async def test_closing_amid_a_reconnect_cancels_nobody_else(
    clients: tuple[LeanClient, Client],
) -> None:
    """Who reconnects waits for the old socket to close; cancelled, nothing is left to wait for."""
    lean, _ = clients
    closed = asyncio.Event()

    async def on_closed() -> None:
        closed.set()

    lean._closed_cb = on_closed
    await lean._process_op_err(nats.errors.StaleConnectionError())
    await asyncio.sleep(0)  # the reconnect has begun
    await lean.close()
    assert closed.is_set()
