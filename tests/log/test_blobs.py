"""Blobs: what both backends promise, and how JetStream holds them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client

from foldlog import AppendFailed, LogCorrupt, StoreClosed
from foldlog.log.blobs import CHUNK_BYTES, Blobs
from foldlog.log.embedded import EmbeddedServer
from foldlog.log.jetstream import JetStreamLog
from foldlog.subjects import blob
from tests.support.beside import MemoryBlobs
from tests.support.stores import fresh_namespace

BIG = bytes(range(256)) * (40 * CHUNK_BYTES // 256) + b"odd"  # several groups and pages


def part(log: JetStreamLog, name: str, number: int | str) -> tuple[str, str]:
    """The stream and the subject of one part of a blob."""
    return log.namespace.stream("blobs"), blob(view(log.blobs), name, number)


def view(blobs: Blobs) -> str:
    """The subject of the view that the blobs of these tests belong to."""
    return blobs._namespace.subject("tasks", "trip").name


@pytest.fixture
async def server(embedded_path: Path) -> AsyncIterator[EmbeddedServer]:
    joined = await EmbeddedServer.join(embedded_path)
    yield joined
    await joined.leave()


@pytest.fixture
async def jetstream(server: EmbeddedServer) -> AsyncIterator[JetStreamLog]:
    options = {"user": server.user, "password": server.password}
    log = await JetStreamLog.open(server.url, fresh_namespace(), options=options)
    yield log
    await log.close()


@pytest.fixture
async def client(server: EmbeddedServer) -> AsyncIterator[Client]:
    connected = await nats.connect(server.url, user=server.user, password=server.password)
    yield connected
    await connected.close()


@pytest.fixture(params=["memory", "jetstream"])
def blobs(request: pytest.FixtureRequest) -> Blobs:
    if request.param == "memory":
        return MemoryBlobs()
    log: JetStreamLog = request.getfixturevalue("jetstream")
    return log.blobs


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1, len(BIG)])
async def test_bytes_come_back(blobs: Blobs, size: int) -> None:
    assert await blobs.get(view(blobs), "name") is None
    await blobs.put(view(blobs), "name", BIG[:size])
    assert await blobs.get(view(blobs), "name") == BIG[:size]


async def test_names_are_apart(blobs: Blobs) -> None:
    await asyncio.gather(
        *(blobs.put(view(blobs), f"n{i}", BIG[: i * CHUNK_BYTES // 2]) for i in range(8))
    )
    for i in range(8):
        assert await blobs.get(view(blobs), f"n{i}") == BIG[: i * CHUNK_BYTES // 2]


async def test_what_is_deleted_is_gone(blobs: Blobs) -> None:
    await blobs.delete(view(blobs), "never")
    await blobs.put(view(blobs), "one", b"1")
    await blobs.put(view(blobs), "two", b"2")
    await blobs.delete(view(blobs), "one")
    await blobs.delete(view(blobs), "one")
    assert await blobs.get(view(blobs), "one") is None
    assert await blobs.get(view(blobs), "two") == b"2"


# --- JetStream ----------------------------------------------------------------------------------


async def test_nothing_of_a_deleted_blob_stays(jetstream: JetStreamLog, client: Client) -> None:
    blobs = jetstream.blobs
    await blobs.put(view(blobs), "name", BIG)
    await blobs.delete(view(blobs), "name")
    stream, _ = part(jetstream, "name", 0)
    assert (await client.jetstream().stream_info(stream)).state.messages == 0


async def test_who_stores_a_blob_again_or_at_once_stores_it_once(
    jetstream: JetStreamLog, client: Client
) -> None:
    blobs = jetstream.blobs
    await asyncio.gather(*(blobs.put(view(blobs), "name", BIG) for _ in range(3)))
    await blobs.put(view(blobs), "name", BIG)
    assert await blobs.get(view(blobs), "name") == BIG
    stream, _ = part(jetstream, "name", 0)
    assert (await client.jetstream().stream_info(stream)).state.messages == 42


async def test_blobs_carry_their_life_span_and_some_grace(
    jetstream: JetStreamLog, client: Client
) -> None:
    blobs = jetstream.blobs
    for name, ttl in (("for-ever", None), ("a-minute", 60), ("ages", 10**15)):
        await blobs.put(view(blobs), name, b"x", ttl=ttl)
    spans = []
    for name in ("for-ever", "a-minute", "ages"):
        for number in (0, "whole"):
            stored = await client.jetstream().get_last_msg(*part(jetstream, name, number))
            spans.append((stored.headers or {}).get("Nats-TTL"))
    assert spans == [None, None, "3660s", "3660s", None, None]
    assert await blobs.get(view(blobs), "ages") == b"x"


async def test_a_missing_chunk_is_an_error(jetstream: JetStreamLog, client: Client) -> None:
    blobs, js = jetstream.blobs, client.jetstream()
    await blobs.put(view(blobs), "name", BIG)
    stream, subject = part(jetstream, "name", 20)
    stored = await js.get_last_msg(stream, subject)
    assert stored.seq is not None
    await js.delete_msg(stream, stored.seq)
    with pytest.raises(LogCorrupt, match="chunk 21 of 41 is missing"):
        await blobs.get(view(blobs), "name")


async def test_another_length_is_an_error(jetstream: JetStreamLog, client: Client) -> None:
    blobs, js = jetstream.blobs, client.jetstream()
    await blobs.put(view(blobs), "name", b"12")
    await js.publish(part(jetstream, "name", 0)[1], b"123")
    with pytest.raises(LogCorrupt, match="3 bytes instead of 2"):
        await blobs.get(view(blobs), "name")


async def test_of_a_refused_upload_nothing_is_read_and_all_can_be_deleted(
    jetstream: JetStreamLog, client: Client
) -> None:
    blobs, js = jetstream.blobs, client.jetstream()
    await blobs.put(view(blobs), "first", b"x")
    stream, _ = part(jetstream, "first", 0)
    config = (await js.stream_info(stream)).config
    await js.update_stream(config, max_bytes=10 * CHUNK_BYTES)
    with pytest.raises(AppendFailed):
        await blobs.put(view(blobs), "second", BIG)
    assert await blobs.get(view(blobs), "second") is None
    await blobs.delete(view(blobs), "second")
    assert (await js.stream_info(stream)).state.messages == 2


async def test_a_closed_log_has_no_blobs(jetstream: JetStreamLog) -> None:
    blobs = jetstream.blobs
    await blobs.put(view(blobs), "name", b"x")
    await jetstream.close()
    with pytest.raises(StoreClosed):
        await blobs.put(view(blobs), "other", b"x")
    with pytest.raises(StoreClosed):
        await blobs.get(view(blobs), "name")
    with pytest.raises(StoreClosed):
        await blobs.delete(view(blobs), "name")


async def test_two_make_the_stream_at_once(server: EmbeddedServer, jetstream: JetStreamLog) -> None:
    options = {"user": server.user, "password": server.password}
    name = jetstream.namespace.name
    logs = [await JetStreamLog.open(server.url, name, options=options) for _ in range(8)]
    await asyncio.gather(
        *(log.blobs.put(view(log.blobs), f"n{i}", b"x") for i, log in enumerate(logs))
    )
    for i, log in enumerate(logs):
        assert await jetstream.blobs.get(view(jetstream.blobs), f"n{i}") == b"x"
        await log.close()
