"""What FoldlogResumableStreamStore does beyond assistant-stream's own tests: see `upstream.py`.

The leases are those of its TypeScript, whose cases of a producer that was followed are here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from assistant_stream.resumable import ResumableStreamError, create_resumable_stream_context

import foldlog
from foldlog.integrations import assistant_ui
from foldlog.integrations.assistant_ui import FoldlogResumableStreamStore
from foldlog.streams import keeping
from foldlog_projections.streams import keys_of
from tests.support.workers import PATIENCE


class Clock:
    """The clock by which streams expire."""

    def __init__(self) -> None:
        self.skipped = 0.0

    def time(self) -> float:
        return time.time() + self.skipped


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (keeping, assistant_ui):
        monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def streams(store: foldlog.Store) -> FoldlogResumableStreamStore:
    return FoldlogResumableStreamStore(store, default_ttl_ms=800_000)


async def chunks(streams: FoldlogResumableStreamStore, id: str = "a", cursor: str = "") -> bytes:
    return b"".join([each.chunk async for each in streams.read(id, cursor, asyncio.Event())])


async def test_of_many_who_ask_on_two_servers_one_produces(
    streams: FoldlogResumableStreamStore, embedded_path: Path, namespace: str
) -> None:
    async with foldlog.connect(path=embedded_path, namespace=namespace) as other:
        each = [streams, FoldlogResumableStreamStore(other)] * 5
        roles = await asyncio.gather(*(streams.acquire("a") for streams in each))
        assert sorted(roles) == ["consumer"] * 9 + ["producer"]


async def test_a_reader_on_another_server_goes_on_behind_its_cursor(
    streams: FoldlogResumableStreamStore, embedded_path: Path, namespace: str
) -> None:
    await streams.acquire("a")
    await streams.append("a", "süß ".encode())
    async with foldlog.connect(path=embedded_path, namespace=namespace) as other:
        there = FoldlogResumableStreamStore(other)
        reading = there.read("a", "", asyncio.Event())
        first = await anext(reading)
        await reading.aclose()
        rest = asyncio.create_task(chunks(there, cursor=first.cursor))
        for chunk in (b"\xc3", b"\xa4", b"x" * 600_000):
            await streams.append("a", chunk)
        await streams.finalize("a", "done")
        assert await rest == b"\xc3\xa4" + b"x" * 600_000


async def test_a_producer_whose_stream_expired_is_kept_out_of_the_next_one(
    streams: FoldlogResumableStreamStore, clock: Clock
) -> None:
    first = await streams.acquire_lease("a")
    await streams.append("a", b"before", first)
    clock.skipped = 800.0
    assert await streams.status("a") == "streaming"  # it stays an eighth longer
    clock.skipped = 1_000.0
    with pytest.raises(RuntimeError, match="Stream not found: a"):
        await streams.append("a", b"late", first)
    assert await streams.status("a") == "missing"

    second = await streams.acquire_lease("a")
    clock.skipped = 0.0  # the log's clock has not gone on
    assert await streams.acquire_lease("a") is None
    await streams.append("a", b"fresh", second)
    with pytest.raises(ResumableStreamError, match="superseded") as superseded:
        await streams.append("a", b"stale", first)
    assert superseded.value.code == "missing"
    assert await streams.finalize("a", "done", lease=first) is False
    assert await streams.status("a") == "streaming"
    assert await streams.finalize("a", "done", lease=second) is True
    assert await streams.finalize("a", "done", lease=second) is False
    with pytest.raises(ResumableStreamError) as superseded:
        await streams.append("a", b"late", first)
    assert superseded.value.code == "missing"
    assert await chunks(streams) == b"fresh"
    await streams.delete("a")
    with pytest.raises(RuntimeError, match="Stream not found"):
        await streams.finalize("a", "done")


async def test_without_a_lease_a_server_has_that_of_its_last_acquisition(
    store: foldlog.Store, clock: Clock
) -> None:
    stale, fresh = FoldlogResumableStreamStore(store), FoldlogResumableStreamStore(store)
    await stale.acquire("a", ttl_ms=1)  # a second is the least
    clock.skipped = 2.0
    assert await fresh.acquire("a") == "producer"
    clock.skipped = 0.0
    with pytest.raises(ResumableStreamError, match="superseded"):
        await stale.append("a", b"stale")
    assert await stale.finalize("a", "error", "boom") is False
    await fresh.append("a", b"fresh")
    assert await fresh.finalize("a", "done") is True
    assert await stale.acquire("a") == "consumer"
    assert await chunks(stale) == b"fresh"


async def test_appending_has_the_time_to_live_begin_anew(
    store: foldlog.Store, streams: FoldlogResumableStreamStore
) -> None:
    lease = await streams.acquire_lease("a")
    key = foldlog.kinds.streams(*keys_of("assistant-ui/a"))
    before = (await store.view(key)).used
    await streams.append("a", b"x", lease)
    assert (await store.view(key)).used > before


@pytest.mark.parametrize("end", ["delete", "signal", "expire"])
async def test_a_reader_who_waits_ends(
    streams: FoldlogResumableStreamStore, clock: Clock, end: str
) -> None:
    await streams.acquire("a", ttl_ms=1 if end == "expire" else None)
    await streams.append("a", b"x")
    signal = asyncio.Event()
    reading = streams.read("a", "", signal)
    assert (await anext(reading)).chunk == b"x"
    rest = asyncio.ensure_future(anext(reading, None))
    for _ in range(5):  # as many round trips as the reader makes, and more: by then it waits
        await streams.status("a")
    if end == "signal":
        signal.set()
    elif end == "expire":
        clock.skipped = 10.0
    else:
        await streams.delete("a")
    async with asyncio.timeout(PATIENCE):  # less than a stream lives that does not expire
        assert await rest is None
    assert await streams.status("a") == ("streaming" if end == "signal" else "missing")


async def test_streams_go_with_their_session(store: foldlog.Store) -> None:
    streams = FoldlogResumableStreamStore(store, prefix="sessions/trip")
    await streams.acquire("a")
    await streams.append("a", b"x")
    await store.erase_session("trip")
    assert await streams.status("a") == "missing"
    assert await streams.acquire("a") == "producer"


async def test_errors_are_redacted_and_read_by_a_server_that_comes_later(
    embedded_path: Path, namespace: str
) -> None:
    def redact(saving: foldlog.Saving) -> dict[str, Any]:
        hide = {str: lambda said: said.replace("s3cret", "...")}
        return {name: hide.get(type(v), lambda v: v)(v) for name, v in saving.values.items()}

    async with foldlog.connect(path=embedded_path, namespace=namespace, redact=redact) as store:
        context = create_resumable_stream_context(store=FoldlogResumableStreamStore(store))

        async def answer() -> AsyncIterator[bytes]:
            yield b"The ferry "
            raise OSError("no key s3cret")

        with pytest.raises(RuntimeError):
            async for _ in await context.run("a", answer):
                pass
    async with foldlog.connect(path=embedded_path, namespace=namespace) as store:
        streams = FoldlogResumableStreamStore(store)
        assert await streams.status("a") == "error"
        with pytest.raises(RuntimeError, match=r"^no key \.\.\.$"):
            await chunks(streams)
        closed = (await store.items(foldlog.kinds.streams(*keys_of("assistant-ui/a"))))[-1]
        assert closed.record.error == "no key ..."
