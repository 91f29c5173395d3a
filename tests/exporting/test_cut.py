"""Exports and restores whose process is killed go on, and come to what an uncut one comes to."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

import foldlog
from foldlog import ConfigurationError
from foldlog.exporting import check, export, restore
from foldlog.exporting.part import Part
from tests.exporting.history import write
from tests.exporting.test_round_trip import Open, blobs, fresh, read, timeless
from tests.exporting.worker import small_steps
from tests.support.build import update

__all__ = ["fresh"]


async def killed(action: str, path: Path, store: foldlog.Store, file: Path, place: str) -> None:
    """Run a worker that kills itself at a place, as `write+3`: after the third call."""
    name, number = place[:-1], place[-1]
    args = (action, str(path), store._core.log.namespace.name, str(file), name, number)
    module = ("-m", "tests.exporting.worker")
    process = await asyncio.create_subprocess_exec(sys.executable, *module, *args)
    assert await process.wait() == -signal.SIGKILL, place


@pytest.mark.long
@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz"])
async def test_an_export_that_is_killed_goes_on(
    fresh: Open, embedded_path: Path, tmp_path: Path, suffix: str
) -> None:
    store = await fresh(shards=2)
    await write(store)
    whole, cut = tmp_path / f"whole.{suffix}", tmp_path / f"cut.{suffix}"
    for place in ("write1", "write+4", "sync2", "sync+1", "write+5", "finish1"):
        await killed("export", embedded_path, store, cut, place)
        assert not cut.exists()
        await store.save_update(update(f"after {place}", "a"))
    made = await export(store, cut)
    assert made.until < await store.position()  # what came after the first sync is no part of it
    await export(store, whole, until=made.until)
    assert (check(cut).sha256, made.sha256) == (check(whole).sha256,) * 2
    assert set(os.listdir(tmp_path)) == {whole.name, cut.name}


@pytest.mark.long
async def test_a_restore_that_is_killed_goes_on(
    fresh: Open, embedded_path: Path, tmp_path: Path
) -> None:
    store, copy = await fresh(shards=2), await fresh(shards=2)
    await write(store)
    await export(store, tmp_path / "all.jsonl")
    places = ["restore1", "restore+1", "restore+3", "restore4", "blob1", "blob+2", "purge2"]
    for place in places:
        await killed("restore", embedded_path, copy, tmp_path / "all.jsonl", place)
    brought = await restore(copy, tmp_path / "all.jsonl")
    assert brought.present == len(await read(store))
    assert timeless(await read(copy)) == timeless(await read(store))
    assert await blobs(copy) == await blobs(store)
    assert await copy.position() == await store.position()
    assert (await copy.verify()).is_good


async def test_an_export_goes_on_only_for_the_same_question_and_log(
    fresh: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = await fresh(), await fresh()
    await write(store)
    await other.save_update(update("u", "s"))
    small_steps(monkeypatch.setattr)
    file, sync, finish = tmp_path / "all.jsonl", Part.sync, Part.finish

    async def cut(**options: str) -> None:
        def fail(part: Part) -> None:
            raise OSError("cut")

        monkeypatch.setattr(Part, "finish", fail)
        with pytest.raises(OSError, match="cut"):
            await export(store, file, **options)
        monkeypatch.setattr(Part, "finish", finish)

    synced = list[int]()
    monkeypatch.setattr(Part, "sync", lambda *args: synced.append(1) or sync(*args))
    await cut()
    first = len(synced)
    assert first > 3
    await cut()
    assert len(synced) - first <= 1  # went on near the end
    await cut(session_id="a")
    assert len(synced) > first + 1
    assert (await export(other, file)).records == 1
    with pytest.raises(ConfigurationError, match="cannot be written: No such file"):
        await export(store, tmp_path / "nowhere" / "x")
    part = Part(file)
    with pytest.raises(ConfigurationError, match="another process writes"):
        await export(store, file)
    part.close()
