"""Exports and restores whose process is killed come to what an uncut one comes to."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

import foldlog
from foldlog.errors import Busy, ConfigurationError, Misuse
from foldlog.exporting import export, export_parquet, restore, writing
from foldlog.exporting.newfile import NewFile
from tests.exporting.history import write
from tests.exporting.test_round_trip import Open, blobs, fresh, read

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
async def test_an_export_that_was_killed_is_begun_anew(
    fresh: Open, embedded_path: Path, tmp_path: Path, suffix: str
) -> None:
    store = await fresh(shards=2)
    await write(store)
    whole, cut = tmp_path / f"whole.{suffix}", tmp_path / f"cut.{suffix}"
    for place in ("write1", "write+4", "finish1"):
        await killed("export", embedded_path, store, cut, place)
        assert os.listdir(tmp_path) == [f"{cut.name}.part"]
    await export(store, cut)
    await export(store, whole)
    assert cut.read_bytes() == whole.read_bytes()
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
    assert await read(copy) == await read(store)
    assert await blobs(copy) == await blobs(store)
    assert await copy.position() == await store.position()
    assert (await copy.verify()).is_good


async def test_an_export_overwrites_nothing_and_leaves_nothing(
    fresh: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, file = await fresh(), tmp_path / "all.jsonl"
    await write(store)
    with monkeypatch.context() as patched:
        patched.setattr(writing, "blob", None)
        with pytest.raises(TypeError):
            await export(store, file)
    assert os.listdir(tmp_path) == []
    out = NewFile(file)
    with pytest.raises(Busy, match="another process writes"):
        await export(store, file)
    file.write_text("mine")  # meanwhile
    with pytest.raises(Misuse, match="exists: name another file, or remove it"):
        out.finish()
    out.close()
    for write_it in (export, export_parquet):
        with pytest.raises(Misuse, match="exists: name another file, or remove it"):
            await write_it(store, file)
        with pytest.raises(ConfigurationError, match="cannot be written: No such file"):
            await write_it(store, tmp_path / "nowhere" / "x")
    assert file.read_text() == "mine"
    assert os.listdir(tmp_path) == ["all.jsonl"]
