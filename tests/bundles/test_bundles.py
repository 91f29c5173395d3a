"""Bundles of real logs: archived, forked, erased, on shards; and of the demo's conversations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import foldlog
from foldlog import ArtifactScope, exporting
from foldlog.bundles import verify_bundle, verify_bundle_with_log, write_bundle
from foldlog.importer import demo_transcript, import_conversations
from foldlog.scoped import Scope
from tests.bundles.forging import KEY, pem, public
from tests.exporting.history import LONG, write
from tests.support.build import update
from tests.support.stores import Backend, fresh_namespace

UNSIGNED = "it is not signed: its author could have written another"


async def test_every_session_of_a_log_is_bundled(backend: Backend, tmp_path: Path) -> None:
    store = await backend.open(shards=2)
    try:
        fork = await write(store)
        until = await store.position()
        for number, session in enumerate(("a", "b", LONG, fork)):
            path = tmp_path / f"{number}"
            made = await write_bundle(store, session, path, until=until)
            report = await verify_bundle_with_log(store, path)
            assert report.findings == ()
            assert report.holds is not None
            assert report.holds[1:] == (made.records, made.blobs, made.sha256)
            logged = [r async for r in store.records(session_id=session, until=until)]
            assert made.records == len(logged) > 4
            again = tmp_path / f"{number} again"
            await write_bundle(store, session, again, until=until)
            assert again.read_bytes() == path.read_bytes()
        # What comes later is not the bundle's affair.
        await store.save_update(update("later", "a"))
        await store.belong("a", foldlog.kinds.events("trace b"))
        assert (await verify_bundle_with_log(store, tmp_path / "0")).is_good
    finally:
        await store.close()


@pytest.mark.usefixtures("purging_at_once")
async def test_an_archived_log_gives_the_same_bundle(embedded_path: Path, tmp_path: Path) -> None:
    place: dict[str, Any] = {"path": embedded_path, "namespace": fresh_namespace(), "shards": 2}
    place["archive"] = tmp_path / "archive"
    async with foldlog.connect(**place) as store:
        await write(store)
        until = await store.position()
        hot, cold = tmp_path / "hot", tmp_path / "cold"
        await write_bundle(store, "a", hot, until=until)
        moved = await store.archive(everything=True)
        assert moved.records > 20
        assert (await verify_bundle_with_log(store, hot)).findings == ()
        await write_bundle(store, "a", cold, until=until)
        assert cold.read_bytes() == hot.read_bytes()


async def test_the_log_says_what_it_no_longer_has(store: foldlog.Store, tmp_path: Path) -> None:
    await write(store)
    path, other = tmp_path / "a", tmp_path / "b"
    until = await store.position()
    await write_bundle(store, "b", path)
    await write_bundle(store, "a", other)
    await store.erase_session("b")
    assert verify_bundle(path).is_good  # what somebody holds is not erased
    [found] = (await verify_bundle_with_log(store, path)).findings
    assert found.reason.startswith("the session as it was then was erased since: it was cleared")
    with pytest.raises(foldlog.PastErased):
        await write_bundle(store, "b", tmp_path / "late", until=until)
    await store.erase(foldlog.kinds.events("trace a"))
    found = (await verify_bundle_with_log(store, other)).findings[0]
    assert "it was erased since, or was never there" in found.reason
    assert found.where.startswith("shard 0, sequence ")


async def test_another_log_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "bundle"
    async with foldlog.memory_store() as store:
        await write(store)
        await write_bundle(store, "a", path)
    for options, reason in (
        ({"namespace": "else"}, "it is of namespace 'else'"),
        ({"shards": 2}, "it is of 1 shard(s), the log has 2"),
        ({}, "ends at 0"),
    ):
        async with foldlog.memory_store(**options) as other:
            [found] = (await verify_bundle_with_log(other, path)).findings
            assert found.where == "the log"
            assert reason in found.reason
    async with foldlog.memory_store() as again:
        await write(again)
        assert not (await verify_bundle_with_log(again, path)).is_good


async def test_the_bundles_of_the_demo(tmp_path: Path) -> None:
    async with foldlog.memory_store() as store:
        await import_conversations(store, [demo_transcript()])
        for session in await store.sessions():
            await write_bundle(store, session, tmp_path / session)
            assert (await verify_bundle_with_log(store, tmp_path / session)).is_good


async def test_a_bundle_without_what_was_removed_is_good(tmp_path: Path) -> None:
    async with foldlog.memory_store() as store:
        scope = ArtifactScope(session_id="s")
        await store.artifact_store.put_bytes(b"one" * 1_000_000, scope=scope)
        await store.scoped.write(Scope.session("s"), "large", "value" * 60_000)
        deleted = await store.artifact_store.put_bytes(b"two", scope=scope)
        assert (await write_bundle(store, "s", tmp_path / "whole")).blobs == 3
        assert verify_bundle(tmp_path / "whole").notes == (UNSIGNED,)
        await store.artifact_store.delete(deleted.id)
        assert (await verify_bundle_with_log(store, tmp_path / "whole")).findings == ()
        assert (await write_bundle(store, "s", tmp_path / "less")).blobs == 2
        report = await verify_bundle_with_log(store, tmp_path / "less")
        assert report.findings == ()


async def test_a_bundle_that_cannot_be_made_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "bundle"
    async with foldlog.memory_store() as store:
        with pytest.raises(foldlog.BundleRefused, match="the log holds nothing of it at @0"):
            await write_bundle(store, "s", path)
        with pytest.raises(foldlog.InvalidId):
            await write_bundle(store, "", path)
        await store.save_update(update("u", "s"))
        path.write_bytes(b"mine")
        with pytest.raises(foldlog.Misuse, match="exists: name another file"):
            await write_bundle(store, "s", path)
        assert path.read_bytes() == b"mine"
        for key in (b"", pem(generate_private_key(SECP256R1())), public(KEY)):
            with pytest.raises(foldlog.BundleRefused, match="the private key"):
                await write_bundle(store, "s", tmp_path / "unsigned", private_key=key)
        assert [each.name for each in tmp_path.iterdir()] == ["bundle"]  # noqa: ASYNC240 - a test


async def test_a_signature_is_wanted_where_a_key_is_given(tmp_path: Path) -> None:
    signed, bare = tmp_path / "signed", tmp_path / "bare"
    async with foldlog.memory_store() as store:
        await store.save_update(update("u", "s"))
        await write_bundle(store, "s", signed, private_key=pem(KEY))
        await write_bundle(store, "s", bare)
    assert verify_bundle(signed, public_key=public(KEY)).is_good
    [found] = verify_bundle(signed, public_key=public(Ed25519PrivateKey.generate())).findings
    assert found.where == "signature"
    assert "was not checked" in verify_bundle(signed).notes[0]
    assert bare.stat().st_mode & 0o077 == 0
    [found] = verify_bundle(bare, public_key=public(KEY)).findings
    assert found.reason == "there is none"
    for key in (b"", b"-----BEGIN", public(generate_private_key(SECP256R1())), pem(KEY)):
        with pytest.raises(foldlog.BundleRefused, match="the public key"):
            verify_bundle(signed, public_key=key)


async def test_a_bundle_is_restored_as_any_export(tmp_path: Path) -> None:
    path, again = tmp_path / "a", tmp_path / "again"
    async with foldlog.memory_store() as store, foldlog.memory_store() as copy:
        await write(store)
        made = await write_bundle(store, "a", path)
        brought = await exporting.restore(copy, path)
        assert (brought.records, brought.blobs) == (made.records, made.blobs)
        assert await copy.list_updates("a") == await store.list_updates("a")
        await write_bundle(copy, "a", again, until=made.until)
        assert again.read_bytes() == path.read_bytes()
        assert (await verify_bundle_with_log(copy, path)).findings == ()
