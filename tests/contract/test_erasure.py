"""Erasure: what was removed is told, and that nothing of it can be read is looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

import foldlog
from foldlog import ArtifactScope
from foldlog.envelope import CLEARED, Recorded
from foldlog.scoped import Scope
from foldlog.store.erasure import Fragments
from foldlog_projections import lineage
from tests.conftest import OpenStore
from tests.contract.test_clear import Sent, contents, fill
from tests.support.build import binding, event, update

SECRET = "4929 1234 5678 9012 belongs to nobody"


async def raw(store: foldlog.Store) -> dict[str, list[Recorded]]:
    """All that the log holds, by subject."""
    found: dict[str, list[Recorded]] = {}
    for subject in await store._core.log.subjects():
        async for page in store._core.log.read(subject):
            found.setdefault(subject.name, []).extend(
                envelope for record in page for envelope in record.envelopes
            )
    return found


def types(found: dict[str, list[Recorded]]) -> set[str]:
    """Of what the log holds; that a session was cleared stands in two places."""
    held = {envelope.type for envelopes in found.values() for envelope in envelopes}
    return held - {lineage.CLEARED}


async def test_what_was_removed_is_told_and_nothing_of_it_is_left(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    await fill(store, "session")
    await store.save_remote_binding(binding(trace_id="session-a", metadata={"card": SECRET}))
    await store.save_event(event("session-a", 9.0, payload={"card": SECRET}))
    erased = await store.erase_session("session")
    assert erased.removed == {
        "artifacts": 2,
        "bindings": 1,
        "events": 3,
        "planner": 2,
        "steering": 3,
        "tasks": 2,
        "traces": 4,
        "trajectory": 4,
        "updates": 3,
    }
    assert erased.blobs == 2
    assert set(erased.traces) == {"session-a", "session-b", "session:session"}
    assert erased.payload_bytes > 1000
    assert erased.looked_at >= 5 + 3 * 3 + 3 + 2
    assert erased.readable == ()

    left = await raw(store)
    assert types(left) == {CLEARED}
    [marker] = await store._core.log.subjects("cleared")
    assert [e.seq for e in left[marker.name]] == [erased.generation]
    assert SECRET.encode() not in b"".join(e.payload for held in left.values() for e in held)
    for reader in (store, await reopen()):
        assert await contents(reader, "session") == {}
        assert await reader.sessions() == []


async def test_where_an_artifact_was_is_forgotten_too(store: foldlog.Store) -> None:
    scope = ArtifactScope(session_id="session")
    other = ArtifactScope(session_id="other")
    gone = await store.artifact_store.put_bytes(b"secret", scope=scope)
    stays = await store.artifact_store.put_bytes(b"secret", scope=other)
    await store.erase_session("session")
    assert [s.keys for s in await store._core.log.subjects("artifact")] == [(stays.id,)]
    assert await store.artifact_store.get(gone.id) is None
    assert await store.artifact_store.get(stays.id) == b"secret"
    again = await store.artifact_store.put_bytes(b"new", scope=scope)
    assert await store.artifact_store.get(again.id) == b"new"


async def test_erasing_again_removes_the_bytes_of_late_repeats(
    store: foldlog.Store, reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = await reopen()
    sent = Sent(late, monkeypatch)
    for name in ("a", "b"):
        await late.save_update(update(name, content=SECRET))
    first = await store.erase_session("session")
    await sent.again()
    assert await store.list_updates("session", consistency="strong") == []
    assert types(await raw(store)) == {CLEARED, "update.saved"}

    second = await (await reopen()).erase_session("session")
    assert (second.removed, second.readable) == ({"updates": 2}, ())
    assert second.generation > first.generation
    assert types(await raw(store)) == {CLEARED}
    await sent.again()  # what was dropped is dropped again
    assert await store.list_updates("session", consistency="strong") == []


async def test_an_unknown_session_has_nothing_to_erase(store: foldlog.Store) -> None:
    erased = await store.erase_session("nobody")
    assert (erased.removed, erased.readable, erased.blobs) == ({}, (), 0)
    with pytest.raises(foldlog.InvalidId):
        await store.erase_session("")


async def test_what_a_fork_shares_stays_with_its_origin(store: foldlog.Store) -> None:
    await fill(store, "session")
    before = await contents(store, "session")
    child = await store.fork("session")
    await store.save_update(update("own", child))
    with pytest.raises(foldlog.SessionHasForks):
        await store.erase_session("session")
    erased = await store.erase_session(child)
    assert (erased.removed["updates"], erased.readable) == (1, ())
    assert await store.list_updates(child, consistency="strong") == []
    assert await contents(store, "session") == before
    assert (await store.erase_session("session")).readable == ()


async def test_no_earlier_moment_holds_what_was_erased(store: foldlog.Store) -> None:
    await store.save_update(update("u", "trip", content=SECRET))
    for text in (SECRET, "harmless"):
        await store.save_memory_state("acme:ann:trip", {"card": text})
        await store.scoped.write(Scope.session("trip"), "card", text)
    before = await store.position()
    await store.erase_session("trip")
    past = store.at(before)
    for read in (
        past.list_updates("trip"),
        past.load_memory_state("acme:ann:trip"),
        past.scoped.read(Scope.session("trip"), "card"),
    ):
        with pytest.raises(foldlog.PastErased):
            await read


@pytest.mark.parametrize("broken", ["records", "snapshots", "bytes"])
async def test_what_is_not_gone_is_named(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """The proof finds what a clearing that does less would leave behind."""
    await fill(store, "session")
    snapshots = store._core.hot_views.snapshots
    assert snapshots is not None
    subject = store._core.subject("updates", "session")
    await snapshots.store.put(subject, 0, b"a snapshot")

    async def nothing(*args: object, **kwargs: object) -> None:
        return None

    match broken:
        case "records":
            monkeypatch.setattr(store._core.log, "purge", nothing)
            expected = "updates.session at sequence"
        case "snapshots":
            monkeypatch.setattr(snapshots.store, "purge", nothing)
            expected = "the snapshot of"
        case _:
            monkeypatch.setattr(store._core.backend.blobs, "delete", nothing)
            expected = "the bytes"
    erased = await store.erase_session("session")
    assert any(expected in named for named in erased.readable), erased.readable


# --- on the disk --------------------------------------------------------------------------------


def test_fragments_are_found_in_files(tmp_path: Path) -> None:
    fragments = Fragments()
    fragments.add(b"short")
    fragments.add(b"the first of two long payloads")
    fragments.add(b"x" * 1000 + b" the end of a long one counts")
    assert fragments.found_below(tmp_path) == 0
    (tmp_path / "empty").touch()
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "1.blk").write_bytes(b"..the first of two long payloads..")
    assert fragments.found_below(tmp_path) == 1
    (tmp_path / "2.blk").write_bytes(b"x" * 1000 + b" the end of a long one counts")
    assert fragments.found_below(tmp_path) == 2


def below(directory: Path) -> list[bytes]:
    """What every file below a directory holds."""
    return [path.read_bytes() for path in directory.rglob("*") if path.is_file()]


@pytest.mark.parametrize("backend", ["embedded"], indirect=True)
async def test_what_an_embedded_servers_files_still_hold_is_told(store: foldlog.Store) -> None:
    await store.save_update(update("a", content=SECRET))
    erased = await store.erase_session("session")
    embedded = (await store.health()).embedded
    assert embedded is not None
    held = any(SECRET.encode() in found for found in below(Path(embedded.path, "jetstream")))
    assert erased.on_disk == int(held)


@pytest.mark.parametrize("backend", ["memory"], indirect=True)
async def test_a_log_without_files_tells_nothing_of_them(store: foldlog.Store) -> None:
    assert (await store.erase_session("session")).on_disk is None
