"""What the standard library's logging is told of a store: where time goes, and no content."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
from pathlib import Path

import msgspec
import pytest

import foldlog
from tests.support.build import event, update
from tests.support.stores import fresh_namespace

SECRET = "what nobody but the store is to see"


def lines(caplog: pytest.LogCaptureFixture, name: str) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == f"foldlog.{name}"]


class Noted(msgspec.Struct, frozen=True):
    text: str


def count(state: int, record: Noted, envelope: object) -> int:
    return state + 1


notes = foldlog.Kind(
    "notes",
    keys=("name",),
    records={"note.saved": Noted},
    fold=foldlog.Fold(int, count, state=int, early_snapshots=True),
)


async def test_debug_tells_where_time_goes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "foldlog")
    async with foldlog.connect(path=tmp_path, kinds=[notes]) as store:
        await asyncio.gather(*(store.append(notes("list"), Noted(SECRET)) for _ in range(1100)))
        assert await store.view(notes("list")) == 1100
        assert await store.view(notes("list"), consistency="strong") == 1100
    async with foldlog.connect(path=tmp_path, kinds=[notes]) as store:
        assert await store.view(notes("list")) == 1100

    started = lines(caplog, "embedded")
    assert re.fullmatch(r"nats-server of .* started on port \d+, in \d\.\d{3} s", started[0])
    connected = lines(caplog, "connection")
    where = r"connected to nats://127\.0\.0\.1:\d+: nats-server 2\.\S+, in \S+ s"
    assert re.fullmatch(where, connected[0])
    assert (len(started), len(connected)) == (2, 2)
    groups = [
        re.search(r"(\d+) of \1 records stored, \d+ bytes", x) for x in lines(caplog, "append")
    ]
    assert all(groups)
    view = "foldlog.default.0.notes.list"
    cold, warm, again = lines(caplog, "views")
    assert cold.startswith(f"hydration of {view}: 1100 more envelopes, up to sequence ")
    assert warm.startswith(f"catch-up of {view}: 0 more envelopes")
    assert again.startswith(f"hydration of {view}: 1100 more envelopes")
    written, used = lines(caplog, "snapshots")
    assert written.startswith(f"snapshot of {view} written: 1")
    assert used.startswith(f"snapshot of {view} used: 1")
    assert SECRET not in caplog.text
    assert "password" not in caplog.text


@pytest.mark.usefixtures("purging_at_once")
async def test_what_is_archived_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("pyarrow")
    caplog.set_level(logging.DEBUG, "foldlog")
    async with foldlog.connect(path=tmp_path / "data", archive=tmp_path / "archive") as store:
        await store.save_event(event("trace", payload={"text": SECRET}))
        await store.archive(everything=True)
    segment, purged = lines(caplog, "archive")
    assert segment.startswith("shard 0: archived: 1 records of ")
    assert purged.startswith("shard 0: the log is purged up to sequence ")
    assert SECRET not in caplog.text


async def test_a_lost_connection_is_a_warning_and_its_return_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "foldlog")
    async with foldlog.connect(path=tmp_path, on_error="degrade") as store:
        await store.save_update(update("u1"))
        health = await store.health()
        assert health.embedded is not None
        assert health.embedded.pid is not None
        os.kill(health.embedded.pid, signal.SIGKILL)
        await store.save_update(update("u2"))
        assert [each.update_id for each in await store.list_updates("session")] == ["u1", "u2"]
    lost, back = lines(caplog, "connection")
    assert lost.endswith("was lost; connecting again")
    assert re.fullmatch(r"connected to nats://\S+ again, after \S+ s", back)


async def test_what_is_spooled_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "foldlog")
    options = {"spool": tmp_path, "namespace": fresh_namespace()}
    async with foldlog.connect(
        "nats://127.0.0.1:1", on_error="degrade", timeout=0.3, **options
    ) as store:
        await store.save_update(update("u1", content={"text": SECRET}))
    assert any("1 saves spooled: " in line for line in lines(caplog, "spool"))
    assert SECRET not in caplog.text


async def test_nothing_is_told_unless_it_is_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "foldlog")
    async with foldlog.connect(path=tmp_path) as store:
        await store.save_update(update("u1"))
        await store.list_updates("session")
    assert caplog.records == []
