"""`foldlog archive` with a damaged file, and what `doctor` and `verify` say of it."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

import foldlog
from foldlog.log.archive import ArchivedLog
from tests.cli.support import run
from tests.support.build import update


async def archive_one(data: Path, archive: Path) -> None:
    async with foldlog.connect(path=data, archive=archive) as store:
        assert isinstance(store._core.log, ArchivedLog)
        store._core.log.manifests.believed = 0.0
        await store.save_update(update("u", "trip"))
        await store.archive(everything=True)


async def hold(data: Path, archive: Path) -> None:
    async with foldlog.connect(path=data, archive=archive) as store:
        assert isinstance(store._core.log, ArchivedLog)
        manifests = store._core.log.manifests
        known = await manifests.current(0, fresh=True)
        says = replace(known.says, holder="another", held_until=time.time() + 60)
        await manifests.change(0, known, says)


def test_a_damaged_file_is_named_and_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, archive = tmp_path / "data", tmp_path / "archive"
    asyncio.run(archive_one(data, archive))
    monkeypatch.setenv("FOLDLOG_ARCHIVE", str(archive))
    [file] = archive.glob("*/*.parquet")
    file.unlink()
    doctor = run("doctor", "--path", data, "--json")
    checks = {each["name"]: each["verdict"] for each in json.loads(doctor.stdout)["checks"]}
    name = f"{file.parent.name}/{file.name}"
    assert (doctor.code, checks[f"archived file {name}"]) == (1, "fail")
    verify = run("verify", "--path", data, "--json")
    assert verify.code == 1
    assert [each["where"] for each in json.loads(verify.stdout)["findings"]][-1] == name
    assert run("archive", "--path", data, "--forget", file.name).code == 2  # nobody can be asked
    forgotten = run("archive", "--path", data, "--forget", file.name, "--yes", "--json")
    assert (forgotten.code, json.loads(forgotten.stdout)["file"]) == (0, name)
    verify = run("verify", "--path", data, "--json")
    assert (verify.code, json.loads(verify.stdout)["accepted"][0]["where"]) == (0, name)
    assert "accepted loss" in run("verify", "--path", data).stdout
    assert run("doctor", "--path", data).code == 0


def test_a_shard_that_another_archiver_holds_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, archive = tmp_path / "data", tmp_path / "archive"
    asyncio.run(archive_one(data, archive))
    asyncio.run(hold(data, archive))
    monkeypatch.setenv("FOLDLOG_ARCHIVE", str(archive))
    assert "another archiver holds 1 shard" in run("archive", "--path", data).stdout
