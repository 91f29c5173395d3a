"""Bundles of real logs: archived, forked, erased, on shards; and of the demo's conversations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog import ArtifactScope
from foldlog.bundles import verify_bundle, verify_bundle_with_log, write_bundle
from foldlog.importer import demo_transcript, import_conversations
from foldlog.log.archive import ArchivedLog
from foldlog.scoped import Scope
from tests.bundles.forging import Parts
from tests.exporting.history import LONG, write
from tests.support.build import update
from tests.support.stores import Backend, fresh_namespace

NOT_ANCHORED = "not anchored: its author could have written another"


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
            assert report.manifest == made.manifest
            assert report.digest == made.digest
            logged = [r async for r in store.records(session_id=session, until=until)]
            assert made.manifest.records == len(logged) > 4
            again = tmp_path / f"{number} again"
            await write_bundle(store, session, again, until=until)
            assert again.read_bytes() == path.read_bytes()
        # What comes later is not the bundle's affair.
        await store.save_update(update("later", "a"))
        await store.belong("a", foldlog.kinds.events("trace b"))
        assert (await verify_bundle_with_log(store, tmp_path / "0")).is_good
    finally:
        await store.close()


async def test_an_archived_log_gives_the_same_bundle(embedded_path: Path, tmp_path: Path) -> None:
    place: dict[str, Any] = {"path": embedded_path, "namespace": fresh_namespace(), "shards": 2}
    place["archive"] = tmp_path / "archive"
    async with foldlog.connect(**place) as store:
        assert isinstance(store._core.log, ArchivedLog)
        store._core.log.manifests.believed = 0.0  # nobody else reads: purge at once
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
    await store.delete(foldlog.kinds.events("trace a"))
    found = (await verify_bundle_with_log(store, other)).findings[0]
    assert "it was erased since, or was never there" in found.reason
    assert found.where.startswith("record ")


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


async def test_artifacts_that_are_gone_are_named(tmp_path: Path) -> None:
    async with foldlog.memory_store() as store:
        scope = ArtifactScope(session_id="s")
        kept = await store.artifact_store.put_bytes(b"one" * 1_000_000, scope=scope)
        twice = ArtifactScope(session_id="s", trace_id="t")
        await store.artifact_store.put_bytes(b"one" * 1_000_000, scope=twice)
        await store.scoped.write(Scope.session("s"), "large", "value" * 60_000)
        deleted = await store.artifact_store.put_bytes(b"two", scope=scope)
        await write_bundle(store, "s", tmp_path / "whole")
        assert len(Parts.of((tmp_path / "whole").read_bytes()).artifacts) == 3
        assert verify_bundle(tmp_path / "whole").notes == (NOT_ANCHORED,)
        await store.artifact_store.delete(deleted.id)
        assert (await verify_bundle_with_log(store, tmp_path / "whole")).findings == ()
        made = await write_bundle(store, "s", tmp_path / "less")
        included = {each.sha256: each.included for each in made.manifest.artifacts}
        assert included.pop(str(deleted.sha256)) is False
        assert included.pop(str(kept.sha256))
        assert list(included.values()) == [True]
        report = await verify_bundle_with_log(store, tmp_path / "less")
        assert report.findings == ()
        assert report.notes[0].startswith("1 of its artifacts are not included")


async def test_a_clock_that_went_back_is_told(tmp_path: Path) -> None:
    async with foldlog.memory_store() as store:
        await write(store)
        path = tmp_path / "bundle"
        await write_bundle(store, "a", path)
    parts = Parts.of(path.read_bytes())
    parts.lines[1]["time"] = "2020" + parts.lines[1]["time"][4:]
    path.write_bytes(parts.built())
    found = [str(each) for each in verify_bundle(path).findings]
    assert any(each.startswith("manifest.json: clock_steps_back is 0") for each in found)
    # A log may really have such a clock: then the bundle says so from the start.
    path.write_bytes(parts.recomputed())
    report = verify_bundle(path)
    assert report.is_good
    assert report.notes[0] == "times are not in order: steps back of the log's clock: 1"


async def test_a_bundle_that_cannot_be_made_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "bundle"
    async with foldlog.memory_store() as store:
        with pytest.raises(foldlog.BundleRefused, match="the log holds nothing of it at @0"):
            await write_bundle(store, "s", path)
        with pytest.raises(foldlog.InvalidId):
            await write_bundle(store, "", path)
        await store.save_update(update("u", "s"))
        path.write_bytes(b"mine")
        with pytest.raises(foldlog.BundleRefused, match="there is such a file already"):
            await write_bundle(store, "s", path)
        assert path.read_bytes() == b"mine"
        assert [each.name for each in tmp_path.iterdir()] == ["bundle"]  # noqa: ASYNC240 - a test
