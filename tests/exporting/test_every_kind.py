"""A log with a view of every kind goes out and comes back, equal to the byte, in each way."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog.bundles import verify_bundle_with_log, write_bundle
from foldlog.exporting import check, export, restore
from foldlog.log.memory import MemoryLog
from foldlog_projections.registry import KINDS
from tests.cli.support import run
from tests.exporting.test_round_trip import blobs, read
from tests.historic.older import LASTING, OWN, write
from tests.historic.test_older_log import NEVER_IN_A_BACKUP, SINCE
from tests.support.build import update

OPTIONS: dict[str, Any] = LASTING


@asynccontextmanager
async def written() -> AsyncIterator[foldlog.Store]:
    log = MemoryLog()
    async with (
        foldlog.memory_store(log=log, **OPTIONS) as store,
        foldlog.memory_store(log=log, **OPTIONS) as other,
    ):
        await write(store, other)
        yield store


@pytest.fixture
async def store() -> AsyncIterator[foldlog.Store]:
    async with written() as store:
        yield store


async def test_an_export_of_everything(store: foldlog.Store, tmp_path: Path) -> None:
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    made = await export(store, one)
    kinds = {json.loads(line).get("kind") for line in one.read_bytes().splitlines()}
    assert {kind.name for kind in KINDS} - SINCE - NEVER_IN_A_BACKUP <= kinds
    async with foldlog.memory_store(**OPTIONS) as copy:
        assert await restore(copy, one) == (made.records, 0, made.blobs)
        assert await read(copy) == await read(store)
        assert await blobs(copy) == await blobs(store)
        await export(copy, other)
        assert other.read_bytes() == one.read_bytes()
        assert (await copy.verify()).is_good


@pytest.mark.parametrize("session", OWN)
async def test_a_session_as_an_export_and_as_a_bundle(
    store: foldlog.Store, tmp_path: Path, session: str
) -> None:
    files = [tmp_path / f"{n}" for n in range(4)]
    made = await export(store, files[0], session_id=session)
    bundled = await write_bundle(store, session, files[1], until=made.until)
    assert made == bundled
    assert check(files[0]) == check(files[1])
    for file, again in ((files[0], files[2]), (files[1], files[3])):
        async with foldlog.memory_store(**OPTIONS) as copy:
            await restore(copy, file)
            assert (await verify_bundle_with_log(copy, files[1])).findings == ()
            if file == files[0]:
                await export(copy, again, session_id=session, until=made.until)
            else:
                await write_bundle(copy, session, again, until=made.until)
            assert again.read_bytes() == file.read_bytes()


def test_the_commands(tmp_path: Path) -> None:
    first, backup, second = (tmp_path / name for name in ("first.gz", "backup.gz", "second.gz"))

    async def begin() -> None:
        async with written() as store:
            await export(store, first)

    asyncio.run(begin())
    for command, path in (("restore", tmp_path / "restored"), ("import", tmp_path / "imported")):
        assert run(command, first, "--path", path).code == 0
    assert run("backup", backup, "--path", tmp_path / "restored").code == 0
    assert run("export", second, "--path", tmp_path / "imported").code == 0
    assert first.read_bytes() == backup.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(
    "words",
    [["backup"], ["export"], ["export", "--format", "parquet"], ["export", "--session", "session"]],
)
def test_the_commands_overwrite_no_file(tmp_path: Path, words: list[str]) -> None:
    async def begin() -> None:
        async with foldlog.connect(path=tmp_path / "data") as store:
            await store.save_update(update("u1"))

    asyncio.run(begin())
    file = tmp_path / "mine"
    file.write_text("mine")
    refused = run(*words, file, "--path", tmp_path / "data")
    assert (refused.code, refused.stdout) == (1, "")
    assert refused.stderr == f"foldlog: {file} exists: name another file, or remove it\n"
    assert file.read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["data", "mine"]
