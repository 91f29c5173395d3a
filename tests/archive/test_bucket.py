"""An archive in a bucket, over HTTP: what is cached of it, and a network that fails."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import from_url

import foldlog
from foldlog import LogUnavailable
from foldlog.log.archive import ArchivedLog
from foldlog.log.archive.places import IDENTITY
from foldlog.log.archive.segments import list_name
from tests.faults.proxy import Proxy
from tests.support.buckets import S3Server, s3_options, s3_server
from tests.support.build import update
from tests.support.stores import fresh_namespace

LIMITS = foldlog.ArchiveLimits(hot_bytes=0, segment_bytes=1, largest=1_000_000)
SECRET = "what nobody may read"


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
async def proxy(s3: S3Server) -> AsyncIterator[Proxy]:
    async with Proxy(s3.url) as proxy:
        yield proxy


class Machines:
    """Stores on one log and one bucket, each machine with a cache of its own."""

    def __init__(self, embedded: Path, caches: Path, url: str, endpoint: str) -> None:
        self._given: dict[str, Any] = {
            "path": embedded,
            "namespace": fresh_namespace(),
            "archive": url,
            "archive_limits": LIMITS,
            "archive_options": s3_options(endpoint, timeout=2, retries=1),
        }
        self._caches = caches
        self._opened: list[foldlog.Store] = []

    async def open(self, machine: str = "a", **options: Any) -> foldlog.Store:
        given = self._given | {"archive_cache": self._caches / machine} | options
        store = await foldlog.connect(**given)
        self._opened.append(store)
        assert isinstance(store._core.log, ArchivedLog)
        store._core.log.manifests.believed = 0.0
        return store

    def cached(self, machine: str) -> list[Path]:
        return sorted(each for each in (self._caches / machine).rglob("*") if each.is_file())

    async def close(self) -> None:
        for store in self._opened:
            await store.close()


@pytest.fixture
async def machines(
    embedded_path: Path, tmp_path: Path, s3: S3Server, proxy: Proxy
) -> AsyncIterator[Machines]:
    machines = Machines(embedded_path, tmp_path / "caches", s3.bucket(), proxy.url)
    yield machines
    await machines.close()


async def save(store: foldlog.Store, *ids: str) -> None:
    for session in ("s", "secret"):
        for id in ids:
            await store.save_update(update(id, session, content={"text": f"{SECRET} {session}"}))


async def ids(store: foldlog.Store, session: str = "s") -> list[str]:
    found = await store.list_updates(session, limit=1000, consistency="strong")
    return [each.update_id for each in found]


async def test_copies_on_another_machine_go_when_it_sees_that_they_were_replaced(
    machines: Machines,
) -> None:
    store, other = await machines.open("a"), await machines.open("b")
    await save(store, "1", "2")
    await store.archive(everything=True)
    assert await ids(other, "secret") == ["1", "2"]
    before = machines.cached("b")
    assert before
    await store.erase_session("secret")
    await (await machines.open("b"))._core.log.last(other._core.subject("updates", "s"))
    assert await ids(other) == ["1", "2"]
    assert not set(before) & set(machines.cached("b"))
    assert all(b"secret" not in each.read_bytes() for each in machines.cached("b"))


async def test_a_cache_that_is_too_small_is_enough_for_each_question(machines: Machines) -> None:
    store, merges = await machines.open("a", archive_cache_bytes=0), 0
    for id in (all := ["1", "2", "3", "4", "5"]):
        await save(store, id)
        merges += (await store.archive(everything=True)).merges
    assert merges == 1
    readers = [await machines.open("b", archive_cache_bytes=0) for _ in range(6)]
    assert await asyncio.gather(*map(ids, readers)) == [all] * len(readers)
    await readers[0].log.stored(0, 1)
    assert len(machines.cached("b")) == 1


async def test_what_the_cache_drops_is_whole_for_those_who_read_it(
    machines: Machines,
) -> None:
    store = await machines.open()
    await save(store, "1")
    await store.archive(everything=True)
    assert isinstance(store._core.log, ArchivedLog)
    [segment] = (await store._core.log.manifests.current(0)).segments
    bucket: Any = store._core.log.segments._place

    def read() -> None:
        obstore.put(bucket._store, "folder/other.parquet", b"other")
        bucket._max_cached = 0
        with bucket.open(segment.name) as first, bucket.open("folder/other.parquet") as second:
            assert [path.name for path in machines.cached("a")] == ["other.parquet"]
            assert second.read() == b"other"
            assert hashlib.sha256(first.read()).hexdigest() == segment.digest

    await asyncio.to_thread(read)


async def test_a_bucket_that_is_not_there_is_an_error_and_nothing_is_purged(
    machines: Machines,
) -> None:
    store = await machines.open(archive="s3://no-such-bucket")
    await save(store, "1")
    with pytest.raises(LogUnavailable, match="no such bucket"):
        await store.archive(everything=True)
    assert await ids(store) == ["1"]


Fault = Callable[[Proxy], None]


def refused(proxy: Proxy) -> None:
    proxy.refuses = True
    proxy.cut()


def cut_coming(proxy: Proxy) -> None:
    """Each answer ends in the middle of what it brings."""

    def half(data: bytes) -> bytes:
        asyncio.get_running_loop().call_soon(proxy.cut)
        return data[: len(data) - 20]

    proxy.to_client = half


def cut_going(proxy: Proxy) -> None:
    proxy.to_server = lambda data: None


def answering(status: str) -> Fault:
    answer = f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()

    def fault(proxy: Proxy) -> None:
        proxy.to_client = lambda data: answer

    return fault


def slow(proxy: Proxy) -> None:
    """Slower than a request may be."""
    proxy.hole()


FAULTS: dict[str, Fault] = {
    "refused": refused,
    "cut coming": cut_coming,
    "cut going": cut_going,
    "500": answering("500 Internal Server Error"),
    "503": answering("503 Slow Down"),
    "slow": slow,
}


@pytest.mark.parametrize(
    "fault",
    ["cut coming", *(pytest.param(e, marks=pytest.mark.long) for e in FAULTS if e != "cut coming")],
)
async def test_a_network_that_fails_costs_no_record_and_the_next_pass_goes_on(
    machines: Machines, proxy: Proxy, s3: S3Server, fault: str
) -> None:
    store = await machines.open("a")
    await save(store, "1")
    await store.archive(everything=True)
    await save(store, "2")
    FAULTS[fault](proxy)
    with pytest.raises(LogUnavailable, match="archive"):
        await store.archive(everything=True)
    assert await ids(store) == ["1", "2"]  # of the first it has a copy
    reader = await machines.open("b")
    with pytest.raises(LogUnavailable, match="archive"):
        await ids(reader)
    with pytest.raises(LogUnavailable, match="archive"):
        await store.erase_session("secret")
    proxy.heal()
    proxy.cut()
    assert await ids(reader) == ["1", "2"]
    await store.archive(everything=True)
    await store.erase_session("secret")
    for machine in ("c", "b"):
        assert await ids(await machines.open(machine)) == ["1", "2"]
        assert await ids(await machines.open(machine), "secret") == []
    assert isinstance(store._core.log, ArchivedLog)
    manifest = await store._core.log.manifests.current(0, fresh=True)
    objects = from_url(machines._given["archive"], **s3_options(s3.url))
    listed = {each["path"] for page in obstore.list(objects) for each in page}
    lists = {list_name(each.name) for each in manifest.segments}
    assert listed == {IDENTITY, *(each.name for each in manifest.segments), *lists}
