"""Blobs: what both backends promise, and what the Object Store of JetStream adds."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client

from foldlog import AppendFailed, LogCorrupt, StoreClosed
from foldlog.log.blobs import Blobs, MemoryBlobs
from foldlog.log.embedded import EmbeddedServer
from foldlog.log.jetstream import JetStreamLog
from foldlog.log.jetstream.blobs import CHUNK_BYTES, JetStreamBlobs
from tests.support.stores import fresh_namespace

BIG = bytes(range(256)) * (40 * CHUNK_BYTES // 256) + b"odd"  # several groups and pages


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def put(blobs: Blobs, name: str, data: bytes, ttl: int | None = None) -> None:
    await blobs.put(name, data, sha256=digest(data), ttl=ttl)


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
    return JetStreamBlobs(request.getfixturevalue("jetstream"))


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1, len(BIG)])
async def test_bytes_come_back(blobs: Blobs, size: int) -> None:
    assert await blobs.get("name") is None
    await put(blobs, "name", BIG[:size])
    assert await blobs.get("name") == BIG[:size]


async def test_names_are_apart(blobs: Blobs) -> None:
    await asyncio.gather(*(put(blobs, f"n{i}", BIG[: i * CHUNK_BYTES // 2]) for i in range(8)))
    for i in range(8):
        assert await blobs.get(f"n{i}") == BIG[: i * CHUNK_BYTES // 2]


async def test_what_is_deleted_is_gone(blobs: Blobs) -> None:
    await blobs.delete("never")
    await put(blobs, "one", b"1")
    await put(blobs, "two", b"2")
    await blobs.delete("one")
    await blobs.delete("one")
    assert await blobs.get("one") is None
    assert await blobs.get("two") == b"2"


# --- JetStream ----------------------------------------------------------------------------------


async def test_nothing_of_a_deleted_blob_stays(jetstream: JetStreamLog, client: Client) -> None:
    blobs = JetStreamBlobs(jetstream)
    await put(blobs, "name", BIG)
    await blobs.delete("name")
    bucket = jetstream.namespace.bucket()
    assert (await client.jetstream().stream_info(f"OBJ_{bucket}")).state.messages == 0


async def test_object_store_clients_read_the_bucket(
    jetstream: JetStreamLog, client: Client
) -> None:
    await put(JetStreamBlobs(jetstream), "name", BIG, ttl=60)
    bucket = await client.jetstream().object_store(jetstream.namespace.bucket())
    found = await bucket.get("name")
    assert found.data == BIG
    assert [info.name for info in await bucket.list()] == ["name"]


async def test_blobs_carry_their_life_span_and_some_grace(
    jetstream: JetStreamLog, client: Client
) -> None:
    blobs = JetStreamBlobs(jetstream)
    for name, ttl in (("for-ever", None), ("a-minute", 60), ("ages", 10**15)):
        await put(blobs, name, b"x", ttl=ttl)
    js, bucket = client.jetstream(), jetstream.namespace.bucket()
    spans = []
    for name in ("for-ever", "a-minute", "ages"):
        meta = base64.urlsafe_b64encode(name.encode()).decode()
        for subject in (f"$O.{bucket}.C.{name}", f"$O.{bucket}.M.{meta}"):
            stored = await js.get_last_msg(f"OBJ_{bucket}", subject)
            spans.append((stored.headers or {}).get("Nats-TTL"))
    assert spans == [None, None, "3660s", "3660s", None, None]
    assert await blobs.get("ages") == b"x"


async def test_a_missing_chunk_is_an_error(jetstream: JetStreamLog, client: Client) -> None:
    blobs, js = JetStreamBlobs(jetstream), client.jetstream()
    await put(blobs, "name", BIG)
    bucket = jetstream.namespace.bucket()
    last = await js.get_last_msg(f"OBJ_{bucket}", f"$O.{bucket}.C.name")
    assert last.seq is not None
    await js.delete_msg(f"OBJ_{bucket}", last.seq - 20)
    with pytest.raises(LogCorrupt, match="chunk 41 of 41 is missing"):
        await blobs.get("name")


async def test_another_length_is_an_error(jetstream: JetStreamLog, client: Client) -> None:
    blobs, js = JetStreamBlobs(jetstream), client.jetstream()
    await put(blobs, "name", b"12")
    bucket = jetstream.namespace.bucket()
    last = await js.get_last_msg(f"OBJ_{bucket}", f"$O.{bucket}.C.name")
    assert last.seq is not None
    await js.delete_msg(f"OBJ_{bucket}", last.seq)
    await js.publish(f"$O.{bucket}.C.name", b"123")
    with pytest.raises(LogCorrupt, match="3 bytes instead of 2"):
        await blobs.get("name")


async def test_a_refused_upload_leaves_nothing(jetstream: JetStreamLog, client: Client) -> None:
    blobs, js = JetStreamBlobs(jetstream), client.jetstream()
    await put(blobs, "first", b"x")
    stream = f"OBJ_{jetstream.namespace.bucket()}"
    config = (await js.stream_info(stream)).config
    await js.update_stream(config, max_bytes=10 * CHUNK_BYTES)
    with pytest.raises(AppendFailed):
        await put(blobs, "second", BIG)
    assert await blobs.get("second") is None
    assert (await js.stream_info(stream)).state.messages == 2


async def test_a_closed_log_has_no_blobs(jetstream: JetStreamLog) -> None:
    blobs = JetStreamBlobs(jetstream)
    await put(blobs, "name", b"x")
    await jetstream.close()
    with pytest.raises(StoreClosed):
        await put(blobs, "other", b"x")
    with pytest.raises(StoreClosed):
        await blobs.get("name")
    with pytest.raises(StoreClosed):
        await blobs.delete("name")


async def test_two_make_the_bucket_at_once(jetstream: JetStreamLog) -> None:
    makers = [JetStreamBlobs(jetstream) for _ in range(8)]
    await asyncio.gather(*(put(maker, f"n{i}", b"x") for i, maker in enumerate(makers)))
    for i in range(8):
        assert await makers[0].get(f"n{i}") == b"x"
