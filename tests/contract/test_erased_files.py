"""Erasing on disk: no file of the data directory holds what was erased."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

import foldlog
from foldlog import ArtifactScope
from foldlog.envelope import draft
from foldlog.log.jetstream import wire
from foldlog.log.jetstream.asking import ask
from foldlog.scoped import Scope
from foldlog.store.spool import Drafts, Place
from foldlog.store.spool.file import DAMAGED, REFUSED, SUFFIX, Frame, SpoolFile, encode_frame
from foldlog.telemetry.stores import jetstream
from foldlog.views.snapshots import DUE_ENVELOPES
from foldlog_projections.agents import agentstates
from foldlog_projections.updates import UpdateSaved
from tests.support.build import task, update
from tests.support.workers import starting

SECRET = "4929 1234 5678 9012 belongs to nobody"


def files_with(directory: Path, text: str = SECRET) -> list[str]:
    """The files below a directory that hold a text."""
    return [
        str(path.relative_to(directory))
        for path in sorted(directory.rglob("*"))
        if path.is_file() and text.encode() in path.read_bytes()
    ]


async def fill(store: foldlog.Store, session: str, content: object, ids: range) -> None:
    await asyncio.gather(
        *(store.save_update(update(f"u{n}", session, content=content)) for n in ids)
    )


@pytest.mark.parametrize("steps", ["erase", "erase again", "clear, then erase"])
async def test_no_file_holds_what_was_erased(tmp_path: Path, steps: str) -> None:
    async with foldlog.connect(path=tmp_path) as store:
        await fill(store, "other", "kept", range(50))
        for n in range(0, 300, 3):
            await fill(store, "session", {"n": n, "card": SECRET}, range(n, n + 3))
        await fill(store, "other", "kept", range(50, 100))
        assert files_with(tmp_path)
        if steps == "clear, then erase":
            await store.clear_session("session")
        erased = await store.erase_session("session")
        if steps == "erase again":
            erased = await store.erase_session("session")
        assert (erased.readable, files_with(tmp_path)) == ((), [])
        assert len(await store.list_updates("other", consistency="strong")) == 100
    assert files_with(tmp_path) == []
    async with foldlog.connect(path=tmp_path) as store:
        assert await store.list_updates("session") == []
        assert len(await store.list_updates("other")) == 100


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which file a handle is of")
async def test_what_was_overwritten_or_removed_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss of power brings back what no sync has followed: bytes of files, names in folders."""
    synced, fsync = set[str](), os.fsync

    def noted(handle: int) -> None:
        fsync(handle)
        synced.add(os.readlink(f"/proc/self/fd/{handle}"))

    async with foldlog.connect(path=tmp_path) as store:
        await fill(store, "session", SECRET, range(200))
        before = files_and_folders(tmp_path)
        monkeypatch.setattr(os, "fsync", noted)
        assert (await store.erase_session("session")).on_disk == 0
        assert (before & files_and_folders(tmp_path)) - synced == set()


async def test_what_is_staged_and_goes_while_an_erasure_looks_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of a batch goes before it is listed, or its file before it is opened."""
    batches = tmp_path / "jetstream" / "$G" / "streams" / "any" / "batches"
    scandir, went = os.scandir, list[Any]()

    def listed(path: Any = ".") -> Any:
        if str(path) == str(batches):
            (batches / "committed" / "msgs").mkdir(parents=True, exist_ok=True)
        if str(path) == str(batches / "committed"):
            shutil.rmtree(path)
            went.append(path)
        return scandir(path)

    async with foldlog.connect(path=tmp_path) as store:
        await fill(store, "session", SECRET, range(3))
        (batches / "staged" / "msgs").mkdir(parents=True)
        (batches / "staged" / "msgs" / "1.blk").symlink_to(tmp_path / "gone")
        monkeypatch.setattr(os, "scandir", listed)
        erased = await store.erase_session("session")
        assert (erased.readable, erased.on_disk, len(went)) == ((), 0, 2)


async def test_a_record_that_a_killed_server_did_not_overwrite_is_told(tmp_path: Path) -> None:
    """It notes first that the record is gone: here, it is asked to do no more than that."""
    async with foldlog.connect(path=tmp_path) as store:
        for n in range(3):
            await fill(store, "session", SECRET, range(n, n + 1))
        await fill(store, "other", "public", range(3))
        log = jetstream(store)
        assert log is not None
        last = await log.last(store._core.subject("updates", "session"))
        assert last is not None
        verb = f"STREAM.MSG.DELETE.{(await log.info()).streams[0].name}"
        only_noted = {"seq": last.seq, "no_erase": True}
        await ask(log.connection, verb, wire.Answer, only_noted, timeout=5)
        for _ in range(2):
            assert (await store.erase_session("session")).on_disk
            assert files_with(tmp_path) != []
        assert (await store.erase_session("other")).on_disk == 0


def files_and_folders(directory: Path) -> set[str]:
    """All of them, but for the folder that the server makes for each batch, and removes."""
    found = (each for each in (directory, *directory.rglob("*")) if "batches" not in each.parts)
    return {str(each) for each in found if each.is_file() or each.is_dir()}


class Cart(BaseModel):
    items: list[str]


async def fill_every_place(store: foldlog.Store, text: str) -> None:
    """Puts a text wherever a session's may stand, and leaves older versions behind."""
    long = text * 20_000  # longer than an envelope holds
    await store.save_update(update("u", "trip", content=text))
    for number in range(5):
        await store.save_memory_state("acme:ann:trip", {"n": number, "card": text})
    await store.save_planner_state("token", {"card": text}, session_id="trip")
    scope, artifacts = Scope.session("trip"), ArtifactScope(session_id="trip")
    for value in (text, f"{text}!", long):
        await store.scoped.write(scope, "key", value)
        await store.scoped.search(scope, "nobody", 1)
    await store.scoped.write(scope, "small", text)
    await store.artifact_store.put_text(long, scope=artifacts)
    deleted = await store.artifact_store.put_text(f"{long}!", scope=artifacts)
    await store.artifact_store.delete(deleted.id)
    async with store.agents.turn("shop/1") as turn:
        turn.update("cart", Cart(items=[text]))
    async with store.run("booking", session_id="trip") as run:
        for step, result in (("small", text), ("large", long)):
            await run.step(step, _returned, result)
    await store.belong("trip", agentstates.kind("default", "shop/1"))
    await fill_until_snapshots(store, text)


async def _returned(result: str) -> str:
    return result


async def fill_until_snapshots(store: foldlog.Store, text: str) -> None:
    """Puts a text into a view of many keys, until its snapshot was replaced."""
    snapshots = store._core.hot_views.snapshots
    assert snapshots is not None
    for start in range(0, 4 * DUE_ENVELOPES, DUE_ENVELOPES // 2):
        ids = range(start, start + DUE_ENVELOPES // 2)
        async with store.atomic():
            for number in ids:
                await store.save_task(task(f"t{number}", "trip", description=text))
        await store.list_tasks("trip", consistency="strong")
        await snapshots.settle()


@pytest.mark.parametrize("kills", [False, True], ids=["erased", "killed between, and erased again"])
async def test_no_file_holds_what_stood_in_any_place(tmp_path: Path, kills: bool) -> None:
    worker = Path(__file__).with_name("eraser.py")
    async with foldlog.connect(path=tmp_path) as store:
        await fill_every_place(store, SECRET)
        held = files_with(tmp_path)
        for part in ("_0/msgs", "_blobs/msgs", "_snapshots/msgs", "search/"):
            assert any(part in name for name in held), part
        if kills:
            async with starting(worker, tmp_path, "trip") as start:
                for request in (1, 2, 5, 9):  # each goes on where the one before ended
                    killed = await start(request)
                    assert await killed.hear_rest() == []
                    assert await killed.process.wait() == -signal.SIGKILL
        erased = await store.erase_session("trip")
        assert (erased.readable, erased.on_disk or 0, files_with(tmp_path)) == ((), 0, [])
    assert files_with(tmp_path) == []


async def test_no_spool_file_holds_what_was_erased(tmp_path: Path) -> None:
    """What the log refused, and what a killed writer left while the store was open."""
    place = Place.of_embedded(None, tmp_path, "default")
    async with foldlog.connect(path=tmp_path) as store:
        for suffix in (SUFFIX, REFUSED, DAMAGED):
            file = SpoolFile.create(*place, suffix=suffix)
            frames = [spooled(False, "trip", SECRET), spooled(False, "other", "kept")]
            frames.append(spooled(True, "trip", SECRET))
            file.append([encode_frame(frame) for frame in frames])
            file.release()
        alone = SpoolFile.create(*place, suffix=REFUSED)
        alone.append([encode_frame(spooled(False, "trip", SECRET))])
        alone.release()
        assert len(files_with(tmp_path)) == 4
        await store.erase_session("trip")
        assert files_with(tmp_path) == []
        assert len(files_with(tmp_path, "kept")) == 3
        assert len(list((tmp_path / "spool").iterdir())) == 3
    async with foldlog.connect(path=tmp_path) as store:
        assert [u.content for u in await store.list_updates("other")] == ["kept"]
        assert await store.list_updates("trip") == []


def spooled(atomic: bool, session: str, content: str) -> Frame:
    made = UpdateSaved(session, "task", "u", "PROGRESS", content, "2026-01-01T00:00:00+00:00")
    body = msgspec.msgpack.encode(made)
    saved = Drafts("updates", (session,), (draft("update.saved", body, id="u"),))
    other = Drafts("tasks", ("third",), (draft("task.saved", b"\xc0", id="x"),))
    return Frame(atomic, (saved, other) if atomic else (saved,))


async def test_a_stream_that_denies_deletes_is_named(tmp_path: Path) -> None:
    async with foldlog.connect(path=tmp_path) as store:
        await store.save_update(update("u", "trip", content=SECRET))
        log = jetstream(store)
        assert log is not None
        connection, stream = log.connection, log.namespace.stream(0)
        described = await ask(connection, f"STREAM.INFO.{stream}", dict[str, Any], timeout=5)
        denying = {**described["config"], "deny_delete": True}
        await ask(connection, f"STREAM.UPDATE.{stream}", dict[str, Any], denying, timeout=5)
        with pytest.raises(foldlog.ConfigurationError, match=f"{stream} denies deletes"):
            await store.erase_session("trip")
        assert files_with(tmp_path)
    async with foldlog.connect(path=tmp_path) as store:
        assert await store.list_updates("trip") == []
