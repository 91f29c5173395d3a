"""Contents: stored once, there for as long as somebody needs them, and never left behind."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any

import pytest

import foldlog
from foldlog import ArtifactRetentionConfig, ArtifactScope
from foldlog.scoped import Effect, Lifetime, Scope, StoreOptions
from foldlog.store.blobs import BlobStore
from foldlog_projections.blobs import Claim
from tests.conftest import OpenStore
from tests.contract.test_artifact_bytes import blob_names

SCOPE, LARGE = Scope.session("session"), "x" * 300_000
DATA = b"content" * 50_000
SHA256 = hashlib.sha256(DATA).hexdigest()
FOR_EVER = ArtifactRetentionConfig(ttl_seconds=0)


def claim(number: int) -> Claim:
    return Claim("test", ("key",), f"{number}")


def of_session(session_id: str) -> ArtifactScope:
    return ArtifactScope(session_id=session_id)


async def died(*args: Any, **options: Any) -> Any:
    """What a process does that is killed: nothing more, not even cleaning up."""
    raise asyncio.CancelledError


async def cut_short(work: Any) -> None:
    with pytest.raises(asyncio.CancelledError):
        await work


# --- who shares ---------------------------------------------------------------------------------


async def test_a_content_goes_with_the_last_of_those_who_need_it(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    stores = [BlobStore(each, each.backend.blobs) for each in (store, await reopen())]
    names = {await stores[number % 2].claim(claim(number), DATA, SHA256) for number in range(4)}
    assert await blob_names(store) == names
    [name] = names
    for number in range(3):
        assert await stores[number % 2].release(SHA256, claim(number)) == 0
        assert await stores[1].release(SHA256, claim(number)) is None
        assert await stores[0].get(name) == DATA
    assert await stores[1].release(SHA256, claim(3)) == len(DATA)
    assert await blob_names(store) == set()
    assert await stores[0].get(name) is None


async def test_whoever_claims_and_releases_at_once_finds_the_bytes(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    stores = [BlobStore(each, each.backend.blobs) for each in (store, await reopen())]

    async def claim_and_release(number: int) -> None:
        blobs = stores[number % 2]
        for _ in range(4):
            name = await blobs.claim(claim(number), DATA, SHA256)
            assert await blobs.get(name) == DATA
            assert await blobs.release(SHA256, claim(number)) is not None

    await asyncio.gather(*(claim_and_release(number) for number in range(6)))
    assert await blob_names(store) == set()
    assert (await stores[0].read(SHA256)).claims == {}


async def test_what_is_needed_for_longer_has_a_copy_that_lasts(
    store: foldlog.Store, advance_clock: Callable[[float], None]
) -> None:
    blobs = store._blobs
    short = await blobs.claim(claim(1), DATA, SHA256, ttl=60)
    assert await blobs.claim(claim(2), DATA, SHA256, ttl=60) == short
    long = await blobs.claim(claim(3), DATA, SHA256)
    assert long != short
    assert await blobs.claim(claim(4), DATA, SHA256, ttl=10**6) == long
    advance_clock(60 + 3700)
    for number in (4, 3):  # the others are over
        await blobs.release(SHA256, claim(number))
    assert (await blobs.read(SHA256)).claims == {}
    assert await blobs.get(long) is None


async def test_erasing_leaves_what_another_session_has_saved_and_nothing_else(
    reopen: OpenStore,
) -> None:
    store = await reopen(retention=FOR_EVER)
    refs = [
        await store.artifact_store.put_bytes(DATA, scope=of_session(name)) for name in ("a", "b")
    ]
    assert len(await blob_names(store)) == 1
    for erased, stays in (("a", True), ("b", False)):
        report = await store.erase_session(erased)
        assert (report.artifacts, report.artifact_bytes, report.readable) == (1, len(DATA), ())
        assert await store.artifact_store.get(refs[1].id) == (DATA if stays else None)
    assert await blob_names(store) == set()


# --- what is cut short --------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["before the bytes", "after the bytes", "after the claim"])
async def test_the_bytes_of_a_value_that_was_never_written_are_collected(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    await store.scoped.write(SCOPE, "kept", LARGE)
    kept = await blob_names(store)
    target: Any
    match moment:
        case "before the bytes":
            target, name = store._blobs._stored, "put"
        case "after the bytes":
            target, name = store._blobs, "_decide"
            stored = store._blobs._stored.put

            async def put_and_die(*args: Any, **options: Any) -> None:
                await stored(*args, **options)
                monkeypatch.setattr(target, name, died)

            monkeypatch.setattr(store._blobs._stored, "put", put_and_die)
        case _:
            target, name = store.scoped._keys, "append"
    if moment != "after the bytes":
        monkeypatch.setattr(target, name, died)
    await cut_short(store.scoped.write(SCOPE, "lost", "y" * 300_000))
    monkeypatch.undo()

    collect = store.recovery.artifacts.collect_garbage
    assert await collect() == ((), 0)  # it may still be under way
    await collect(older_than=0)
    assert await blob_names(store) == kept
    assert await store.scoped.read(SCOPE, "kept") == LARGE
    assert await store.scoped.write(SCOPE, "lost", "y" * 300_000)
    assert await store.scoped.read(SCOPE, "lost") == "y" * 300_000


async def test_the_bytes_of_an_artifact_that_was_never_saved_are_collected(
    reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await reopen(retention=FOR_EVER)
    saved = await store.artifact_store.put_bytes(b"saved", scope=of_session("a"))
    await store.fork("a", into="fork")
    await store.artifact_store.delete(saved.id)  # the fork has it
    monkeypatch.setattr(store.artifact_store, "_record", died)
    await cut_short(store.artifact_store.put_bytes(DATA, scope=of_session("a")))
    monkeypatch.undo()
    assert len(await blob_names(store)) == 2
    garbage = await store.recovery.artifacts.collect_garbage(older_than=0)
    assert garbage == ((), len(DATA))
    assert len(await blob_names(store)) == 1
    assert await store.artifact_store.get(saved.id) == b"saved"


async def test_a_removal_that_was_cut_short_is_finished(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = store._blobs
    await blobs.claim(claim(1), DATA, SHA256)
    monkeypatch.setattr(blobs._stored, "delete", died)
    await cut_short(blobs.release(SHA256, claim(1)))
    monkeypatch.undo()
    assert len(await blob_names(store)) == 1
    await store.recovery.artifacts.collect_garbage(older_than=0)
    assert await blob_names(store) == set()


async def test_a_refused_upload_claims_nothing(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*args: Any, **options: Any) -> None:
        raise foldlog.AppendFailed("it is full")

    monkeypatch.setattr(store._blobs._stored, "put", refuse)
    with pytest.raises(foldlog.AppendFailed):
        await store.artifact_store.put_bytes(DATA)
    monkeypatch.undo()
    assert (await store._blobs.read(SHA256)).claims == {}
    assert await blob_names(store) == set()


@pytest.mark.parametrize("moment", ["before the bytes", "after the bytes"])
async def test_a_claim_that_is_overtaken_by_clearing_leaves_no_other_bytes(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    put, cleared = store._blobs._stored.put, list[str]()

    async def overtaken(*args: Any, **options: Any) -> None:
        is_first = not cleared
        cleared.append(moment)
        if is_first and moment == "before the bytes":
            await store.clear()
        await put(*args, **options)
        if is_first and moment == "after the bytes":
            await store.clear()

    monkeypatch.setattr(store._blobs._stored, "put", overtaken)
    name = await store._blobs.claim(claim(1), DATA, SHA256)
    assert len(cleared) == 2
    assert await blob_names(store) == {name}
    assert await store._blobs.get(name) == DATA
    await store.clear()
    assert await blob_names(store) == set()


async def test_a_large_value_that_is_not_kept_is_not_stored(store: foldlog.Store) -> None:
    transient = StoreOptions(lifetime=Lifetime.TRANSIENT)
    await store.scoped.apply([Effect.WriteMemory(SCOPE, "draft", LARGE, transient)])
    assert await blob_names(store) == set()
