"""Artifacts and their bytes: none without the other, whoever writes at the same time."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

import foldlog
from foldlog import ArtifactRef, ArtifactRetentionConfig, ArtifactScope
from foldlog.log.blobs import BlobName, Blobs
from foldlog.log.jetstream.log import JetStreamLog
from foldlog.log.memory import MemoryLog
from foldlog.subjects import blob
from foldlog.telemetry.stores import jetstream
from tests.conftest import OpenStore
from tests.contract.test_clear import Sent
from tests.support.pushed import all_is_pushed

SESSION = ArtifactScope(session_id="session")


def on_server(store: foldlog.Store) -> JetStreamLog:
    """The log of a store on a server."""
    log = jetstream(store)
    assert log is not None
    return log


async def blob_names(store: foldlog.Store) -> set[BlobName]:
    """Every blob of which something is stored, whether or not a record names it."""
    parts = blob(store._core.log.namespace.everything(), "*", "*")
    found = (each.split(".", 3) for each in await blobs_of(store)._side.subjects(parts))
    return {BlobName(subject, name) for _, _, name, subject in found}


def blobs_of(store: foldlog.Store) -> Blobs:
    return store._core.backend.blobs


def in_trace(trace_id: str) -> ArtifactScope:
    return ArtifactScope(session_id="session", trace_id=trace_id)


async def all_are_readable(store: foldlog.Store, scope: ArtifactScope | None = None) -> int:
    refs = await store.artifact_store.list(scope=scope)
    for ref in refs:
        data = await store.artifact_store.get(ref.id)
        assert data is not None
        assert len(data) == ref.size_bytes
    return len(refs)


# --- bytes go with their artifact -----------------------------------------------------------------


async def test_bytes_are_stored_once_however_often_they_are_saved(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    other = await reopen()
    for saver in (store, other, store):
        await saver.artifact_store.put_bytes(b"same", scope=SESSION)
    assert len(await blob_names(store)) == 1
    puts = (
        s.artifact_store.put_bytes(b"together", scope=SESSION)
        for s in (store, other)
        for _ in range(8)
    )
    refs = await asyncio.gather(*puts)
    assert len({ref.id for ref in refs}) == 1
    assert len(await blob_names(store)) == 2
    assert await all_are_readable(other, SESSION) == 2


async def test_a_second_save_returns_what_the_first_said(store: foldlog.Store) -> None:
    first = await store.artifact_store.put_bytes(b"x", filename="first", scope=SESSION)
    again = await store.artifact_store.put_bytes(b"x", filename="again", scope=SESSION)
    assert again == first


async def test_deleted_and_evicted_bytes_are_removed(reopen: OpenStore) -> None:
    retention = ArtifactRetentionConfig(max_artifacts_per_session=2, cleanup_strategy="fifo")
    store = await reopen(retention=retention)
    refs = [await store.artifact_store.put_bytes(data, scope=SESSION) for data in (b"a", b"b")]
    await store.artifact_store.delete(refs[0].id)
    assert len(await blob_names(store)) == 1
    for data in (b"c", b"d", b"e"):
        await store.artifact_store.put_bytes(data, scope=SESSION)
    assert len(await blob_names(store)) == 2
    assert await all_are_readable(store, SESSION) == 2


async def test_a_refused_artifact_leaves_no_bytes(reopen: OpenStore) -> None:
    retention = ArtifactRetentionConfig(max_artifacts_per_session=2, cleanup_strategy="none")
    store = await reopen(retention=retention)
    puts = (store.artifact_store.put_bytes(bytes([i]), scope=SESSION) for i in range(10))
    outcomes = await asyncio.gather(*puts, return_exceptions=True)
    assert sum(isinstance(outcome, ArtifactRef) for outcome in outcomes) == 2
    assert sum(isinstance(o, foldlog.ArtifactLimitExceeded) for o in outcomes) == 8
    assert len(await blob_names(store)) == 2


async def test_expired_bytes_are_removed_by_the_next_save_of_the_session(
    reopen: OpenStore, advance_clock: Callable[[float], None]
) -> None:
    store = await reopen(retention=ArtifactRetentionConfig(ttl_seconds=3600))
    for i in range(5):
        await store.artifact_store.put_bytes(bytes([i]), scope=SESSION)
    advance_clock(3601)
    await store.artifact_store.put_bytes(bytes([3]), scope=SESSION)
    assert len(await blob_names(store)) == 1
    assert await all_are_readable(store, SESSION) == 1


async def test_many_have_expired_and_one_of_them_is_saved_again(
    reopen: OpenStore, advance_clock: Callable[[float], None]
) -> None:
    store = await reopen(retention=ArtifactRetentionConfig(ttl_seconds=3600))
    await asyncio.gather(
        *(store.artifact_store.put_bytes(bytes([i]), scope=SESSION) for i in range(100))
    )
    advance_clock(3601)
    for i in (99, 98):
        ref = await store.artifact_store.put_bytes(bytes([i]), scope=SESSION)
        assert await store.artifact_store.get(ref.id) == bytes([i])
    assert await all_are_readable(store, SESSION) == 2
    assert len(await blob_names(store)) == 2


async def test_without_a_life_span_an_artifact_stays(
    reopen: OpenStore, advance_clock: Callable[[float], None]
) -> None:
    store = await reopen(retention=ArtifactRetentionConfig(ttl_seconds=0))
    ref = await store.artifact_store.put_bytes(b"x", scope=SESSION)
    advance_clock(1e9)
    assert await store.artifact_store.get(ref.id) == b"x"


async def test_a_cleared_session_keeps_no_bytes_and_takes_none_from_a_late_repeat(
    store: foldlog.Store, reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await reopen()
    sent = Sent(other, monkeypatch)
    refs = [await other.artifact_store.put_bytes(data, scope=SESSION) for data in (b"a", b"b")]
    apart = await store.artifact_store.put_bytes(b"a", scope=ArtifactScope(session_id="other"))
    assert len(await blob_names(store)) == 3
    await store.artifact_store.clear_session("session")
    assert len(await blob_names(store)) == 1
    await sent.again()
    await all_is_pushed(store, other)
    for reader in (store, other, await reopen()):
        assert await reader.artifact_store.list(scope=SESSION) == []
        assert await reader.artifact_store.get(refs[0].id) is None
        assert await reader.artifact_store.get(apart.id) == b"a"
    assert len(await blob_names(store)) == 1


async def test_a_cleared_session_takes_the_same_artifact_anew(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    other = await reopen()
    ref = await other.artifact_store.put_bytes(b"a", scope=SESSION)
    await store.artifact_store.clear_session("session")
    for saver in (store, other, await reopen()):
        assert await saver.artifact_store.put_bytes(b"a", scope=SESSION) == ref
        assert await saver.artifact_store.list(scope=SESSION) == [ref]
        assert await saver.artifact_store.get(ref.id) == b"a"
    assert len(await blob_names(store)) == 1


@pytest.mark.parametrize("step", ["_locate", "_record"])
async def test_a_save_is_whole_though_its_session_is_cleared_meanwhile(
    store: foldlog.Store, reopen: OpenStore, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    other = await reopen()
    await other.artifact_store.put_bytes(b"before", scope=SESSION)
    go_on = getattr(store.artifact_store, step)

    async def overtaken(*args: Any) -> Any:
        monkeypatch.setattr(store.artifact_store, step, go_on)
        await other.clear_session("session")
        return await go_on(*args)

    monkeypatch.setattr(store.artifact_store, step, overtaken)
    ref = await store.artifact_store.put_bytes(b"x", scope=SESSION)
    for reader in (store, other):
        assert await reader.artifact_store.get(ref.id) == b"x"
    assert len(await blob_names(store)) == 1


async def test_a_late_repeat_evicts_nothing(
    reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await reopen(retention=ArtifactRetentionConfig(max_artifacts_per_session=1))
    sent = Sent(store, monkeypatch)
    for data in (b"old", b"older"):
        await store.artifact_store.put_bytes(data, scope=SESSION)
    await store.artifact_store.clear_session("session")
    other = await reopen(retention=ArtifactRetentionConfig(max_artifacts_per_session=1))
    kept = await other.artifact_store.put_bytes(b"new", scope=SESSION)
    await sent.again()
    assert await other.artifact_store.list(scope=SESSION) == [kept]
    assert await store.artifact_store.get(kept.id) == b"new"


async def test_artifacts_that_forks_share_are_not_cleared(store: foldlog.Store) -> None:
    ref = await store.artifact_store.put_bytes(b"x", scope=SESSION)
    await store.fork("session", to="fork")
    with pytest.raises(foldlog.SessionHasForks):
        await store.artifact_store.clear_session("session")
    for session_id in ("session", "fork"):
        assert await store.artifact_store.get_with_session_check(ref.id, session_id) == b"x"


async def test_clearing_all_artifacts_forgets_them(store: foldlog.Store, reopen: OpenStore) -> None:
    other = await reopen()
    for scope in (None, SESSION, in_trace("t")):
        await other.artifact_store.put_bytes(b"x", scope=scope)
    await store.artifact_store.clear()
    assert await blob_names(store) == set()
    await all_is_pushed(other)
    for saver in (store, other):
        assert await saver.artifact_store.list() == []
    ref = await other.artifact_store.put_bytes(b"x", scope=SESSION)
    await all_is_pushed(store)
    assert await store.artifact_store.get(ref.id) == b"x"


async def test_what_belongs_to_no_session_belongs_to_none_of_any_name(store: foldlog.Store) -> None:
    loose = await store.artifact_store.put_bytes(b"x")
    await store.artifact_store.put_bytes(b"y", scope=ArtifactScope(session_id="__global__"))
    await store.artifact_store.clear_session("__global__")
    assert await store.artifact_store.list() == [loose]
    assert await store.artifact_store.get(loose.id) == b"x"
    assert await store.artifact_store.get_with_session_check(loose.id, "__global__") is None


# --- races ----------------------------------------------------------------------------------------


async def test_limits_hold_among_concurrent_saves(reopen: OpenStore) -> None:
    store = await reopen(retention=ArtifactRetentionConfig(max_artifacts_per_session=3))
    puts = (store.artifact_store.put_bytes(bytes([i]), scope=SESSION) for i in range(20))
    await asyncio.gather(*puts)
    assert await all_are_readable(store, SESSION) == 3
    assert len(await blob_names(store)) == 3


async def test_saves_and_deletions_at_once_never_leave_one_without_the_other(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    stores = (store, await reopen(), await reopen())

    async def save_and_delete(saver: foldlog.Store, deleter: foldlog.Store) -> None:
        for _ in range(10):
            ref = await saver.artifact_store.put_bytes(b"same", scope=SESSION)
            data, _ = await asyncio.gather(
                saver.artifact_store.get(ref.id), deleter.artifact_store.delete(ref.id)
            )
            assert data in (b"same", None)

    await asyncio.gather(
        *(save_and_delete(a, b) for a in stores for b in stores),
    )
    ref = await store.artifact_store.put_bytes(b"same", scope=SESSION)
    await all_is_pushed(*stores)
    for reader in (*stores, await reopen()):
        assert await reader.artifact_store.get(ref.id) == b"same"
    assert len(await blob_names(store)) == 1


async def test_a_save_that_came_second_leaves_nothing_when_the_first_is_deleted(
    store: foldlog.Store, reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await reopen()
    record = store.artifact_store._record

    async def second(*args: Any) -> Any:
        ref = await other.artifact_store.put_bytes(b"same", scope=SESSION)
        gone = await record(*args)
        assert await other.artifact_store.delete(ref.id)
        return gone

    monkeypatch.setattr(store.artifact_store, "_record", second)
    await store.artifact_store.put_bytes(b"same", scope=SESSION)
    assert await blob_names(store) == set()


async def test_a_cancelled_save_is_there_whole_or_not_at_all(store: foldlog.Store) -> None:
    for turns in range(12):
        saving = asyncio.ensure_future(store.artifact_store.put_bytes(bytes([turns]) * 300_000))
        for _ in range(turns):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(turn.set_result, None)
            await turn
        saving.cancel()
        await asyncio.gather(saving, return_exceptions=True)
    await all_are_readable(store)
    ref = await store.artifact_store.put_bytes(bytes([3]) * 300_000)
    assert await store.artifact_store.get(ref.id) == bytes([3]) * 300_000


# --- atomic ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shards", [1, 4])
async def test_an_artifact_saved_in_an_atomic_block_appears_with_it(
    reopen: OpenStore, shards: int
) -> None:
    store = await reopen(shards=shards)
    refs = []
    async with store.atomic():
        for i in range(8):  # whose ids fall on every shard
            refs.append(await store.artifact_store.put_bytes(bytes([i]), scope=in_trace("t")))
            assert await store.artifact_store.get(refs[i].id) is None
    assert [await store.artifact_store.get(ref.id) for ref in refs] == [
        bytes([i]) for i in range(8)
    ]
    assert await store.artifact_store.list(scope=SESSION) == refs


async def test_a_failed_atomic_block_saves_and_deletes_nothing(reopen: OpenStore) -> None:
    store = await reopen(retention=ArtifactRetentionConfig(max_artifacts_per_session=2))
    refs = [await store.artifact_store.put_bytes(data, scope=SESSION) for data in (b"a", b"b")]

    async def fail() -> None:
        async with store.atomic():
            await store.artifact_store.put_bytes(b"c", scope=SESSION)
            await store.artifact_store.delete(refs[1].id)
            raise KeyError

    with pytest.raises(KeyError):
        await fail()
    assert await store.artifact_store.list(scope=SESSION) == refs
    assert await all_are_readable(store, SESSION) == 2


# --- damage ---------------------------------------------------------------------------------------


async def test_bytes_that_were_lost_are_an_error(store: foldlog.Store) -> None:
    ref = await store.artifact_store.put_bytes(b"x", scope=SESSION)
    for held in await blob_names(store):
        await blobs_of(store).delete(held.subject, held.name)
    with pytest.raises(foldlog.LogCorrupt, match="missing"):
        await store.artifact_store.get(ref.id)
    assert await store.artifact_store.delete(ref.id)
    again = await store.artifact_store.put_bytes(b"x", scope=SESSION)
    assert await store.artifact_store.get(again.id) == b"x"


async def test_bytes_that_were_changed_are_an_error(store: foldlog.Store) -> None:
    ref = await store.artifact_store.put_bytes(b"x", scope=SESSION)
    for held in await blob_names(store):
        await blobs_of(store).delete(held.subject, held.name)
        await blobs_of(store).put(held.subject, held.name, b"y")
    with pytest.raises(foldlog.LogCorrupt, match="other bytes than were saved"):
        await store.artifact_store.get(ref.id)


# --- arguments ------------------------------------------------------------------------------------


async def test_what_is_no_bytes_is_refused(store: foldlog.Store) -> None:
    for data in ("text", 5, None, [1]):
        with pytest.raises(foldlog.PayloadError, match="data"):
            await store.artifact_store.put_bytes(data, scope=SESSION)


async def test_what_is_no_text_is_refused(store: foldlog.Store) -> None:
    for text in (b"bytes", 5, None):
        with pytest.raises(foldlog.PayloadError, match="text"):
            await store.artifact_store.put_text(text, scope=SESSION)


async def test_a_buffer_is_held_as_it_was(store: foldlog.Store) -> None:
    buffer = bytearray(b"before")
    ref = await store.artifact_store.put_bytes(buffer, scope=SESSION)
    buffer[:] = b"after!"
    assert await store.artifact_store.get(ref.id) == b"before"


async def test_a_scope_that_names_nobody_is_refused(store: foldlog.Store) -> None:
    fields = ("tenant_id", "user_id", "session_id", "trace_id")
    for field, value in itertools.product(fields, ("", "a\ud800")):
        with pytest.raises(foldlog.InvalidId):
            await store.artifact_store.put_bytes(b"x", scope=ArtifactScope(**{field: value}))


async def test_metadata_of_another_kind_is_refused(store: foldlog.Store) -> None:
    arguments = ("filename", "mime_type", "namespace")
    for argument, value in itertools.product(arguments, ("a\ud800", 5)):
        with pytest.raises(foldlog.PayloadError, match=argument):
            await store.artifact_store.put_bytes(b"x", **{argument: value})
    assert await store.artifact_store.list() == []


async def test_an_empty_id_is_refused(store: foldlog.Store) -> None:
    artifacts = store.artifact_store
    for call in (artifacts.get, artifacts.get_ref, artifacts.exists, artifacts.delete):
        with pytest.raises(foldlog.InvalidId):
            await call("")
    with pytest.raises(foldlog.InvalidId):
        await artifacts.get_with_session_check("x", "")
    with pytest.raises(foldlog.InvalidId):
        await artifacts.clear_session("")


def test_memory_blobs_are_what_the_memory_log_holds() -> None:
    assert isinstance(MemoryLog().blobs, Blobs)
