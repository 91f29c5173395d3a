"""Where snapshots are kept: what both backends promise, and what the one on a server adds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from foldlog import LogUnavailable
from foldlog.log import snapshots as module
from foldlog.log.embedded import EmbeddedServer
from foldlog.log.jetstream import JetStreamLog
from foldlog.log.jetstream.stream import StreamClient
from foldlog.log.memory import MemoryLog
from foldlog.log.port import Log
from foldlog.log.snapshots import SnapshotStore
from foldlog.subjects import Namespace
from tests.support.stores import fresh_namespace


@pytest.fixture
async def log(request: pytest.FixtureRequest, embedded_path: Path) -> AsyncIterator[Log]:
    """A log of two shards; `jetstream` where nothing else is asked for."""
    name = fresh_namespace()
    if getattr(request, "param", "jetstream") == "memory":
        yield MemoryLog(Namespace(name, 2))
        return
    server = await EmbeddedServer.join(embedded_path)
    options = {"user": server.user, "password": server.password}
    log = await JetStreamLog.open(server.url, name, shards=2, options=options)
    yield log
    await log.close()
    await server.leave()


@pytest.fixture
def store(log: Log) -> SnapshotStore:
    assert isinstance(log, MemoryLog | JetStreamLog)
    return log.snapshots


both = pytest.mark.parametrize("log", ["memory", "jetstream"], indirect=True)


@both
async def test_what_was_put_is_found(log: Log, store: SnapshotStore) -> None:
    where, other = log.namespace.subject("updates", "a.b *"), log.namespace.subject("updates", "a")
    assert await store.get(where, "updates") is None
    for name, data in [("updates", b"old"), ("costs", b""), ("updates", b"new")]:
        await store.put(where, name, data)
    assert await store.get(where, "updates") == b"new"
    assert await store.get(where, "costs") == b""
    assert await store.get(other, "updates") is None
    assert await store.names() == {where.name: {"updates", "costs"}}


@both
async def test_what_exceeds_a_message_is_cut_and_put_together(
    log: Log, store: SnapshotStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = log.namespace.subject("updates", "a")
    monkeypatch.setattr(type(store._side), "max_bytes", 1_000)
    for size in (20_000, 980, 981, 0, 3_000):
        data = bytes(n % 251 for n in range(size))
        await store.put(where, "updates", data)
        assert await store.get(where, "updates") == data
        assert len(await store._side.subjects(">")) == max(-(-size // 980), 1)


@both
async def test_only_what_is_named_is_purged(log: Log, store: SnapshotStore) -> None:
    subjects = [
        log.namespace.subject("updates", "a"),
        log.namespace.subject("updates", "b"),
        log.namespace.subject("tasks", "a"),
        log.namespace.subject("trajectory", "a", "b"),
    ]
    await store.purge(subjects[0])
    await store.purge_all()
    for subject in subjects:
        await store.put(subject, subject.family, b"x")

    async def left() -> list[bool]:
        return [await store.get(each, each.family) is not None for each in subjects]

    await store.purge(subjects[0])
    assert await left() == [False, True, True, True]
    assert [await store.holds(subject) for subject in subjects] == [False, True, True, True]
    await store.put(subjects[0], "another", b"x")
    assert await store.holds(subjects[0])
    await store.purge(subjects[0])
    assert not await store.holds(subjects[0])
    await store.purge_all()
    assert await left() == [False] * 4


@both
async def test_a_log_keeps_its_identity_and_another_has_its_own(
    log: Log, store: SnapshotStore
) -> None:
    where = log.namespace.subject("updates", "a")
    assert await store.identity(where)
    assert await store.identity(where) == await store.identity(where)
    if isinstance(log, MemoryLog):
        assert await MemoryLog().snapshots.identity(where) != await store.identity(where)


async def test_the_stream_is_made_when_it_is_needed_and_keeps_the_last_only(
    log: JetStreamLog,
) -> None:
    where, name = log.namespace.subject("updates", "a"), log.namespace.stream("snapshots")
    store = log.snapshots
    await store.get(where, "updates")
    client = StreamClient(log.connection, name, timeout=5)
    assert (await client.describe()).error is not None
    for n in range(5):
        await store.put(where, "updates", bytes([n]))
    made = await client.describe()
    assert (made.error, made.state.messages) == (None, 1)
    # Whoever removes it loses nothing but time.
    await log.connection.request(f"$JS.API.STREAM.DELETE.{name}", timeout=5)
    await store.put(where, "updates", b"again")
    assert await store.get(where, "updates") == b"again"


async def test_where_nobody_may_answer_nobody_is_asked_twice(
    log: JetStreamLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, store = log.namespace.subject("updates", "a"), log.snapshots
    monkeypatch.setattr(module, "_PATIENCE", 0.01)

    async def silent(message: object) -> None:
        """What an account without permission hears: nothing."""

    name = f"$JS.API.DIRECT.GET.{log.namespace.stream('snapshots')}"
    subscription = await log.connection._client.subscribe(name, cb=silent)
    for _ in range(3):
        with pytest.raises(LogUnavailable):
            await store.get(where, "updates")
    await log.connection._client.flush()
    assert subscription.delivered == 1
    await subscription.unsubscribe()
