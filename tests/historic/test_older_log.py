"""A backup that an earlier version made comes in by `restore`, and is read and used as before."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog import SessionHasForks, exporting
from foldlog.envelope import CLEARED as CLEARED_SUBJECT
from foldlog.integrations.rh_agents import StateBackend
from foldlog.scoped import Scope
from foldlog_projections import artifacts
from foldlog_projections.registry import KINDS
from foldlog_projections.rh_agents import stateartifacts
from foldlog_projections.scoped import scoped
from tests.cli.support import run
from tests.historic.older import (
    BACKUP,
    CLEARED,
    EXPECTED,
    LARGE,
    LASTING,
    SAVED_AGAIN,
    SHARED,
    answers,
    append_late,
    results,
)
from tests.support.build import MOMENT, update
from tests.support.stores import fresh_namespace

SINCE = frozenset({"processes", "queues", "runs", "said", "schedules", "streams"})
"""Kinds that have come since. A new one is added here, not to the backup."""

NEVER_IN_A_BACKUP = {"archive"}

EXPECTATION = json.loads(EXPECTED.read_text("utf-8"))


def in_file() -> list[dict[str, Any]]:
    """The lines of the backup."""
    with gzip.open(BACKUP, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


on_both = pytest.mark.parametrize("store", ["memory", "embedded"], indirect=True)


@pytest.fixture(params=["memory", pytest.param("embedded", marks=pytest.mark.long)])
async def store(
    request: pytest.FixtureRequest, embedded_path: Path
) -> AsyncIterator[foldlog.Store]:
    """A store into which the backup was restored."""
    options: dict[str, Any] = {"namespace": fresh_namespace()} | LASTING
    if request.param == "memory":
        opened = foldlog.memory_store(**options)
    else:
        opened = foldlog.connect(path=embedded_path, **options)
    async with opened as store:
        await exporting.restore(store, BACKUP)
        yield store


async def names_of_blobs(store: foldlog.Store) -> set[tuple[str, tuple[str, ...]]]:
    """The kinds and keys of the views that have large values."""
    found = set[tuple[str, tuple[str, ...]]]()
    for each in await store._core.backend.blobs.names():
        subject = store._core.log.namespace.parse(each.subject)
        assert subject is not None
        found.add((subject.family, subject.keys))
    return found


async def test_every_kind_that_existed_then_has_a_record() -> None:
    found = {line["kind"] for line in in_file() if "kind" in line}
    assert {kind.name for kind in KINDS} - SINCE - NEVER_IN_A_BACKUP <= found


def test_the_command_brings_it_in(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    assert run("restore", BACKUP, "--path", directory).code == 0
    assert run("verify", "--path", directory).code == 0
    assert "of the fork" in run("updates", "fork", "--path", directory).stdout


@on_both
async def test_reads_answer_as_they_did(store: foldlog.Store) -> None:
    found, expected = await answers(store), dict(EXPECTATION["answers"])
    # What a writer saves that knows of the clearing takes effect now.
    assert expected.pop("cleared and saved again") == []
    assert [each["update_id"] for each in found.pop("cleared and saved again")] == ["u0"]
    expected["sessions"] = [*expected["sessions"], SAVED_AGAIN]
    assert found == expected


async def test_recorded_results_are_returned_as_they_were(store: foldlog.Store) -> None:
    assert await results(store) == EXPECTATION["results"]


async def test_verifying_and_rebuilding_find_no_difference(store: foldlog.Store) -> None:
    assert (await exporting.restore(store, BACKUP)).records == 0  # it is there already
    assert (await store.verify()).is_good
    assert (await store.rebuild()).differing == ()
    before = await answers(store)
    assert (await store.verify()).is_good
    assert await answers(store) == before
    assert await store.blobs.sweep(older_than=0) == 0


async def test_a_late_repeat_stays_refused_and_new_saves_take_effect(store: foldlog.Store) -> None:
    for n in range(3):
        await append_late(store, f"u{n}")
    assert [each.update_id for each in await store.list_updates(CLEARED)] == ["new"]
    await store.save_update(update("u1", CLEARED))
    await store.save_update(update("newer", CLEARED))
    found = await store.list_updates(CLEARED, consistency="strong")
    assert [each.update_id for each in found] == ["new", "u1", "newer"]
    await store.clear_session(CLEARED)
    await append_late(store, "u2")
    assert [each.update_id for each in await store.list_updates(CLEARED)] == []
    assert (await store.verify()).is_good


async def test_sessions_go_on(store: foldlog.Store) -> None:
    for item in await store.waiting(session_id="ann"):
        await store.answer(item.id)
    assert await store.waiting(session_id="ann") == []
    async with StateBackend(store).execution("asks ann", session_id="ann") as run:
        assert await run.ask("question", {"buy": "ann"}) is True
    await store.save_update(update("more", "ann"))
    await store.save_update(update("u1", "ann", content={"n": 1, "bytes": b"\x00\xff"}))
    with pytest.raises(foldlog.IdTaken):
        await store.save_update(update("u1", "ann"))
    updates = [each.update_id for each in await store.list_updates("ann")]
    assert updates.count("u1") == updates.count("more") == 1
    scope = foldlog.ArtifactScope(session_id="ann", trace_id="trace ann")
    ref = await store.artifact_store.put_bytes(SHARED, scope=scope)
    assert ref.filename == "shared"
    await store.scoped.write(Scope.session("ann"), "large", "another " + LARGE)
    assert await store.scoped.read(Scope.session("ann"), "large") == "another " + LARGE
    await store.fork("ben", to="fork of ben")
    assert await store.scoped.read(Scope.session("fork of ben"), "large") == LARGE
    for ref in await store.artifact_store.list(scope=foldlog.ArtifactScope(session_id="ben")):
        data = await store.artifact_store.get_with_session_check(ref.id, "fork of ben")
        assert data == await store.artifact_store.get(ref.id) is not None
    assert (await store.verify()).is_good


async def test_artifacts_of_executions_are_replaced_and_deleted(store: foldlog.Store) -> None:
    backend = StateBackend(store).artifacts
    assert await backend.load_artifact("replaced") == b"second " * 9
    await backend.save_artifact("replaced", b"second " * 9)
    assert await backend.get_size("replaced") == 63
    await backend.save_artifact("replaced", b"third")
    assert (await backend.load_artifact("replaced"), await backend.get_size("replaced")) == (
        *(b"third", 5),
    )
    garbage = await backend.collect_garbage(older_than=0)
    assert garbage.artifact_ids == ("replaced", "report")
    assert garbage.bytes > 500
    left = {keys[0] for kind, keys in await names_of_blobs(store) if kind == "stateartifacts"}
    assert left == set(await backend.list_artifacts())
    assert await results(store) == EXPECTATION["results"]


@on_both
async def test_an_erased_session_is_gone_and_others_keep_the_same_bytes(
    store: foldlog.Store,
) -> None:
    with pytest.raises(SessionHasForks):
        await store.erase_session("ann")
    for session in ("fork", "ann"):
        erased = await store.erase_session(session)
        assert erased.readable == ()
    assert await store.sessions() == ["ben", CLEARED, SAVED_AGAIN]
    left = [each async for each in store.records(session_id="ann") if each.kind != "lineage"]
    assert {each.type for record in left for each in record.envelopes} <= {CLEARED_SUBJECT}
    assert await store.list_updates("ann") == await store.list_messages("ann") == []
    assert not any("ann" in keys for _, keys in await names_of_blobs(store))
    assert not any("session:ann" in keys for _, keys in await names_of_blobs(store))

    expected = EXPECTATION["answers"]
    found = await store.artifact_store.list(scope=foldlog.ArtifactScope(session_id="ben"))
    assert [each.id for each in found] == expected["artifacts"]["by session"]["ben"]
    assert SHARED in [await store.artifact_store.get(each.id) for each in found]
    assert await store.scoped.read(Scope.session("ben"), "large") == LARGE
    async with StateBackend(store).execution("run ben", session_id="ben") as run:
        assert await run.get_event_result("large") == LARGE

    erased = await store.erase_session("ben")
    assert erased.readable == ()
    assert erased.removed.keys() >= {"artifacts", "scoped", "states", "updates", "memory"}
    assert await names_of_blobs(store) == {
        (artifacts.kind.name, ("__global__", "no-session")),
        (scoped.kind.name, ("custom:shelf", "book")),
        (stateartifacts.kind.name, ("report",)),
        (stateartifacts.kind.name, ("replaced",)),
    }
    assert await store.scoped.read(Scope.custom("shelf"), "book") == LARGE
    await store.save_update(update("u1", "ann", created_at=MOMENT))
    assert len(await store.list_updates("ann")) == 1
    assert (await store.verify()).is_good


async def test_a_new_backup_holds_all_of_it(store: foldlog.Store, tmp_path: Path) -> None:
    await exporting.export(store, tmp_path / "again.jsonl.gz")
    async with foldlog.memory_store(**LASTING) as copy:
        await exporting.restore(copy, tmp_path / "again.jsonl.gz")
        assert await answers(copy) == await answers(store)
        assert await results(copy) == EXPECTATION["results"]
        assert await names_of_blobs(copy) == await names_of_blobs(store)
