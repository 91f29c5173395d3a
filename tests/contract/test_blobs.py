"""Large values: each belongs to one view, goes with it, and is never left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

import foldlog
from foldlog import ArtifactRetentionConfig, ArtifactScope
from foldlog.kind import Blob
from foldlog.scoped import Effect, Lifetime, Scope, StoreOptions
from foldlog.store import clearing, removal
from foldlog.subjects import blob
from tests.conftest import OpenStore
from tests.contract.test_artifact_bytes import blob_names, blobs_of
from tests.contract.test_belongings import damage
from tests.support.degrading import failures_of

SCOPE, LARGE = Scope.session("session"), "x" * 300_000
DATA = b"content" * 50_000
FOR_EVER = ArtifactRetentionConfig(ttl_seconds=0)


class Filmed(msgspec.Struct, frozen=True):
    title: str
    film: Blob = ""


FILMS = foldlog.Kind(
    "films",
    keys=("session_id",),
    owner="session",
    records={"film.made": Filmed},
    fold=foldlog.every,
)


@pytest.fixture
async def films(reopen: OpenStore) -> foldlog.Store:
    return await reopen(kinds=[FILMS])


async def film(store: foldlog.Store, session_id: str, data: bytes = DATA) -> str:
    """Save a film; return the name of its bytes."""
    key = FILMS(session_id)
    name = await store.blobs.put(key, data)
    await store.append(key, Filmed("a film", name))
    await store.blobs.keep(key, name, data)
    return name


async def died(*args: Any, **options: Any) -> Any:
    """What a process does that is killed: nothing more, not even cleaning up."""
    raise asyncio.CancelledError


async def cut_short(work: Awaitable[object]) -> None:
    with pytest.raises(asyncio.CancelledError):
        await work


async def delete(store: foldlog.Store, session_id: str) -> object:
    return await store.erase(FILMS(session_id))


async def clear(store: foldlog.Store, session_id: str) -> object:
    return await store.clear_session(session_id)


async def erase(store: foldlog.Store, session_id: str) -> object:
    return await store.erase_session(session_id)


# --- whose they are -----------------------------------------------------------------------------


@pytest.mark.parametrize("remove", [delete, clear, erase])
async def test_a_large_value_goes_with_its_view_and_with_no_other(
    films: foldlog.Store,
    reopen: OpenStore,
    remove: Callable[[foldlog.Store, str], Awaitable[object]],
) -> None:
    names = {each: await film(films, each) for each in ("a", "b")}
    assert len(await blob_names(films)) == 2  # the same bytes, stored for each
    await remove(films, "a")
    other = await reopen(kinds=[FILMS])
    assert await other.blobs.read(FILMS("a"), names["a"]) is None
    assert await other.blobs.read(FILMS("b"), names["b"]) == DATA
    await remove(films, "b")
    assert await blob_names(films) == set()


async def test_erasing_says_how_many_values_went(reopen: OpenStore) -> None:
    store = await reopen(kinds=[FILMS], retention=FOR_EVER)
    await film(store, "session")
    await store.scoped.write(SCOPE, "large", LARGE)
    await store.artifact_store.put_bytes(DATA, scope=ArtifactScope(session_id="session"))
    assert len(await blob_names(store)) == 3
    erased = await store.erase_session("session")
    assert (erased.blobs, erased.readable) == (3, ())
    assert await blob_names(store) == set()


async def test_a_fork_reads_what_its_origin_names(films: foldlog.Store) -> None:
    name = await film(films, "session")
    await films.fork("session", to="fork")
    own = await film(films, "fork", b"own")
    assert await films.blobs.read(FILMS("fork"), name) == DATA
    await films.clear_session("fork")
    assert await films.blobs.read(FILMS("session"), name) == DATA
    assert await films.blobs.read(FILMS("fork"), own) is None
    assert len(await blob_names(films)) == 1


async def test_a_value_that_was_removed_since_is_past(films: foldlog.Store) -> None:
    name = await film(films, "session")
    past = films.at(await films.position())
    assert await past.blobs.read(FILMS("session"), name) == DATA
    await films.blobs.remove(FILMS("session"), name)
    assert await films.blobs.read(FILMS("session"), name) is None
    with pytest.raises(foldlog.PastErased):
        await past.blobs.read(FILMS("session"), name)


async def test_bytes_that_were_changed_or_cut_are_an_error(films: foldlog.Store) -> None:
    name = await film(films, "session")
    [held] = await blob_names(films)
    blobs = blobs_of(films)
    await blobs.delete(held.subject, name)
    await blobs.put(held.subject, name, DATA[:-1] + b"?")
    with pytest.raises(foldlog.LogCorrupt, match="other bytes than were saved"):
        await films.blobs.read(FILMS("session"), name)
    await blobs._side.purge(f"*.1.{name}.{held.subject}")
    with pytest.raises(foldlog.LogCorrupt, match="chunk 2 of 3 is missing"):
        await films.blobs.read(FILMS("session"), name)


async def test_what_belongs_to_nothing_is_refused(films: foldlog.Store) -> None:
    unknown = foldlog.Kind("unknown", keys=("id",), fold=foldlog.every)
    for key in (FILMS(""), unknown("a")):
        for call in (films.blobs.put(key, b"x"), films.blobs.read(key, "x")):
            with pytest.raises((foldlog.InvalidId, foldlog.ConfigurationError)):
                await call


# --- what is cut short --------------------------------------------------------------------------


async def test_a_value_is_there_though_its_view_was_removed_before_its_record(
    films: foldlog.Store,
) -> None:
    key = FILMS("session")
    await film(films, "session", b"before")
    name = await films.blobs.put(key, DATA)
    await films.clear_session("session")
    await films.append(key, Filmed("after", name))
    await films.blobs.keep(key, name, DATA)
    assert await films.blobs.read(key, name) == DATA
    assert [each.name for each in await blob_names(films)] == [name]


async def test_a_value_that_is_stored_again_has_its_term(
    reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await reopen(retention=ArtifactRetentionConfig(ttl_seconds=7))
    put, record, terms = blobs_of(store).put, store.artifact_store._record, list[int | None]()

    async def putting(*args: Any, ttl: int | None = None) -> None:
        terms.append(ttl)
        await put(*args, ttl=ttl)

    async def recording(*args: Any) -> Any:
        await store.clear_session("session")
        return await record(*args)

    monkeypatch.setattr(blobs_of(store), "put", putting)
    monkeypatch.setattr(store.artifact_store, "_record", recording)
    scope = ArtifactScope(session_id="session")
    saved = await store.artifact_store.put_bytes(DATA, scope=scope)
    assert await store.artifact_store.get(saved.id) == DATA
    assert terms == [7, 7]


async def test_in_a_block_a_value_is_kept_when_its_record_is_there(
    films: foldlog.Store, reopen: OpenStore
) -> None:
    other, key = await reopen(kinds=[FILMS]), FILMS("session")
    async with films.atomic():
        name = await film(films, "session")
        await other.clear_session("session")
    assert await films.blobs.read(key, name) == DATA

    async def fail() -> None:
        async with films.atomic():
            await films.blobs.remove(key, name)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert await films.blobs.read(key, name) == DATA
    async with films.atomic():
        await films.blobs.remove(key, name)
    assert await films.blobs.read(key, name) is None


async def test_an_artifact_of_a_block_is_there_though_its_session_was_cleared(
    reopen: OpenStore,
) -> None:
    store, other, scope = await reopen(), await reopen(), ArtifactScope(session_id="session")
    async with store.atomic():
        saved = await store.artifact_store.put_bytes(DATA, scope=scope)
        await store.save_memory_state("acme:ann:trip", {"n": 1})
        await other.clear_session("session")
    assert await other.artifact_store.get(saved.id) == DATA


async def test_a_block_says_that_what_follows_it_failed(
    films: foldlog.Store, reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*args: Any, **options: Any) -> None:
        raise foldlog.LogUnavailable("nobody answers")

    degrading = await reopen(kinds=[FILMS], on_error="degrade")
    for store in (films, degrading):
        name = await store.blobs.put(FILMS("session"), DATA)
        monkeypatch.setattr(blobs_of(store), "put", fail)

        async def save(store: foldlog.Store = store, name: str = name) -> None:
            async with store.atomic():
                await store.append(FILMS("session"), Filmed("a film", name))
                await store.blobs.keep(FILMS("session"), name, DATA)

        if store is films:
            with pytest.raises(foldlog.AppendUnknown, match="what follows the block failed"):
                await save()
        else:
            await save()
        monkeypatch.undo()
    assert failures_of(degrading) == {"atomic": 1}
    assert len(await films.view(FILMS("session"), consistency="strong")) == 2


@pytest.mark.parametrize("moment", ["tombstone", "purge", "uploading"])
async def test_what_is_saved_while_its_view_is_removed_has_its_bytes_or_is_removed(
    films: foldlog.Store, reopen: OpenStore, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    other, key = await reopen(kinds=[FILMS]), FILMS("session")
    await film(films, "session", b"before")
    waiting, saved = ["session"], list[str]()

    async def meanwhile() -> None:
        if waiting:
            saved.append(await film(other, waiting.pop()))

    bury, purge, put = clearing._append_tombstones, films._core.log.purge, blobs_of(other)._side.put

    async def burying(*args: Any, **options: Any) -> None:
        if moment == "tombstone":
            await meanwhile()
        await bury(*args, **options)

    async def purging(*args: Any, **options: Any) -> None:
        await purge(*args, **options)
        if moment == "purge":
            await meanwhile()

    async def putting(messages: Any, **options: Any) -> bool:
        stored = await put(messages, **options)
        if moment == "uploading" and waiting:
            waiting.clear()
            await films.clear_session("session")
        return stored

    monkeypatch.setattr(clearing, "_append_tombstones", burying)
    monkeypatch.setattr(films._core.log, "purge", purging)
    monkeypatch.setattr(blobs_of(other)._side, "put", putting)
    if moment == "uploading":
        saved.append(await film(other, "session"))
    else:
        await films.clear_session("session")
    monkeypatch.undo()
    held = [each.film for each in await films.view(key, consistency="strong")]
    assert held == ([] if moment == "tombstone" else saved)
    assert {each.name for each in await blob_names(films)} == set(held)
    for name in held:
        assert await films.blobs.read(key, name) == DATA
    for name in {*saved} - {*held}:
        assert await films.blobs.read(key, name) is None


@pytest.mark.parametrize("moment", ["before the tombstones", "behind them"])
async def test_what_is_saved_while_all_is_cleared_has_its_bytes_or_is_removed(
    films: foldlog.Store, reopen: OpenStore, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    other, key, bury = await reopen(kinds=[FILMS]), FILMS("session"), removal.bury_unread
    await film(films, "session", b"before")
    name = await other.blobs.put(key, DATA)

    async def burying(*args: Any) -> None:
        if moment == "behind them":
            await bury(*args)
        await other.append(key, Filmed("meanwhile", name))
        await other.blobs.keep(key, name, DATA)
        if moment == "before the tombstones":
            await bury(*args)

    monkeypatch.setattr(removal, "bury_unread", burying)
    await films.clear(films.log.namespace.name)
    monkeypatch.undo()
    held = [each.film for each in await films.view(key, consistency="strong")]
    assert held == ([name] if moment == "behind them" else [])
    for each in held:
        assert await films.blobs.read(key, each) == DATA


@pytest.mark.parametrize("whole", [True, False])
async def test_a_sweep_and_a_clearing_of_all_pass_over_what_is_damaged(
    films: foldlog.Store, whole: bool
) -> None:
    await film(films, "session")
    await films.blobs.put(FILMS("lost"), b"lost")
    await damage(films, films._core.subject(FILMS, "session"), whole=whole)
    assert await films.blobs.sweep(older_than=0) == 1
    assert len(await blob_names(films)) == 1
    await films.clear(films.log.namespace.name)
    assert await blob_names(films) == set()
    assert await films.view(FILMS("session"), consistency="strong") == []


async def test_a_sweep_removes_what_no_record_names(
    films: foldlog.Store, reopen: OpenStore
) -> None:
    kept = await film(films, "session")
    await films.blobs.put(FILMS("session"), b"lost")
    await films.blobs.put(FILMS("nobody"), b"lost, too")
    cut_short = blob(films._core.subject(FILMS, "session").name, f"{'0' * 64}-cut", 0)
    await blobs_of(films)._side.put([(cut_short, b"the first part")])
    await films.fork("session", to="fork")
    assert await films.blobs.sweep() == 0  # their records may still come
    knows_no_films = await reopen()
    assert await knows_no_films.blobs.sweep(older_than=0) == 0
    assert await films.blobs.sweep(older_than=0) == 3
    assert [each.name for each in await blob_names(films)] == [kept]
    assert await films.blobs.read(FILMS("fork"), kept) == DATA


@pytest.mark.parametrize("moment", ["before the bytes", "after the bytes"])
async def test_the_bytes_of_a_value_that_was_never_written_are_swept(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    await store.scoped.write(SCOPE, "kept", LARGE)
    kept = await blob_names(store)
    if moment == "before the bytes":
        monkeypatch.setattr(store._core.backend.blobs, "put", died)
    else:
        monkeypatch.setattr(store.scoped._keys, "append", died)
    await cut_short(store.scoped.write(SCOPE, "lost", "y" * 300_000))
    monkeypatch.undo()

    await store.blobs.sweep(older_than=0)
    assert await blob_names(store) == kept
    assert await store.scoped.read(SCOPE, "kept") == LARGE
    assert await store.scoped.write(SCOPE, "lost", "y" * 300_000)
    assert await store.scoped.read(SCOPE, "lost") == "y" * 300_000


async def test_the_bytes_of_an_artifact_that_was_never_saved_are_swept(
    reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await reopen(retention=FOR_EVER)
    scope = ArtifactScope(session_id="a")
    saved = await store.artifact_store.put_bytes(b"saved", scope=scope)
    await store.fork("a", to="fork")
    await store.artifact_store.delete(saved.id)  # the fork has it
    monkeypatch.setattr(store.artifact_store, "_record", died)
    await cut_short(store.artifact_store.put_bytes(DATA, scope=scope))
    monkeypatch.undo()
    assert len(await blob_names(store)) == 2
    assert await store.blobs.sweep(older_than=0) == 1
    assert await store.artifact_store.get(saved.id) == b"saved"


async def test_a_refused_upload_leaves_nothing(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*args: Any, **options: Any) -> None:
        raise foldlog.AppendFailed("it is full")

    monkeypatch.setattr(store._core.backend.blobs, "put", refuse)
    with pytest.raises(foldlog.AppendFailed):
        await store.artifact_store.put_bytes(DATA)
    monkeypatch.undo()
    assert await store.artifact_store.list() == []
    assert await blob_names(store) == set()


async def test_a_refused_record_takes_its_bytes_along(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*args: Any, **options: Any) -> None:
        raise foldlog.AppendFailed("it is full")

    monkeypatch.setattr(store.scoped._keys, "append", refuse)
    with pytest.raises(foldlog.AppendFailed):
        await store.scoped.write(SCOPE, "large", LARGE)
    assert await blob_names(store) == set()


async def test_a_large_value_that_is_not_kept_is_not_stored(store: foldlog.Store) -> None:
    transient = StoreOptions(lifetime=Lifetime.TRANSIENT)
    await store.scoped.apply([Effect.WriteMemory(SCOPE, "draft", LARGE, transient)])
    assert await blob_names(store) == set()
