"""What the disk or the log does not take of what a degrading store spools."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog.store.spool import file
from tests.support.build import update
from tests.support.degrading import failures_of
from tests.support.flaky import FlakyLog, files, logged, spooling

MIB = 1024 * 1024


async def test_what_does_not_fit_is_dropped_and_what_fits_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with spooling(tmp_path, limit=2000) as process:
        process.log.state = "away"
        for n in range(3):
            await process.store.save_update(update(f"{n}", content={"x": "x" * 600}))
        await process.store.save_update(update("small"))  # behind a gap, but there is room for it
        assert process.counts == (3, 3, 0, 1)
        assert process.outbox.health.bytes <= 2000
        assert failures_of(process.store) == {"save_update": 4}
        await process.drained()
        assert await process.log.ids() == ["0", "1", "small"]
        await process.store.save_update(update("later"))
    lost = [fields for fields in logged(caplog) if fields[0] == logging.ERROR]
    assert [fields[1:4] for fields in lost] == [("statestore_save_failed", "save_update", None)]
    assert "the spool is full" in lost[0][4]


async def test_a_save_waits_for_the_drain_rather_than_find_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "CHUNK_BYTES", 500)
    async with spooling(tmp_path, limit=5000) as process:
        process.log.state = "away"
        while process.outbox.health.bytes < 4000:
            await process.store.save_update(update(f"{process.counts[1]}"))
        spooled, saves = process.counts[1], list[asyncio.Task[None]]()

        def save() -> None:
            """Once a chunk was delivered: the log is back, and the file has no room for all."""
            if len(process.log.calls) == sent + 2:
                for n in range(50):
                    saves.append(asyncio.create_task(process.store.save_update(update(f"new {n}"))))

        sent = len(process.log.calls)
        process.log.before_append = save
        await process.drained()
        await asyncio.gather(*saves)
        await process.drained()
        expected = [f"{n}" for n in range(spooled)] + [f"new {n}" for n in range(50)]
        assert await process.log.ids() == expected
        assert process.counts == (0, spooled, spooled, 0)


async def test_a_disk_that_takes_nothing_more_costs_only_what_it_does_not_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: Any, offset: int) -> int:
        os.pwritev(fd, [bytes(data)[:7]], offset)  # a part of it got through
        raise OSError(errno.ENOSPC, "no space left on device")

    async with spooling(tmp_path) as process:
        process.log.state = "away"
        await process.store.save_update(update("a"))
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full)
            await process.store.save_update(update("lost"))
        await process.store.save_update(update("b"))
        assert process.counts == (2, 2, 0, 1)
        assert failures_of(process.store) == {"save_update": 3}
        await process.drained()
        assert await process.log.ids() == ["a", "b"]


async def test_who_waits_is_told_where_there_is_no_thread_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_thread(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    async with spooling(tmp_path) as process:
        process.log.state = "away"
        with monkeypatch.context() as patch:
            patch.setattr(asyncio, "to_thread", no_thread)
            async with asyncio.timeout(30):
                await process.store.save_update(update("lost"))
        await process.store.save_update(update("kept"))
        assert process.counts == (1, 1, 0, 1)
        with monkeypatch.context() as patch:
            patch.setattr(asyncio, "to_thread", no_thread)
            with pytest.raises(foldlog.LogUnavailable, match="new thread"):
                await process.drained()
        while process.outbox.health.waiting:  # the next attempt may have begun by then
            with contextlib.suppress(foldlog.LogUnavailable):
                await process.drained()
        assert await process.log.ids() == ["kept"]


async def test_a_spool_that_cannot_be_made_raises_nothing(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("a file")
    async with spooling(tmp_path) as process:
        process.log.state = "away"
        await process.store.save_update(update("lost"))
        assert process.counts == (0, 0, 0, 1)
        process.log.back()
        await process.store.save_update(update("a"))
        assert await process.log.ids() == ["a"]


async def test_many_saves_share_one_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[int] = []
    fsync = os.fsync

    def counting(fd: int) -> None:
        syncs.append(fd)
        fsync(fd)

    async with spooling(tmp_path) as process:
        process.log.state = "away"
        await process.store.save_update(update("first"))
        # Once the drain rests, nothing else writes.
        monkeypatch.setattr(os, "fsync", counting)
        saves = (process.store.save_update(update("a", f"{n}")) for n in range(50))
        await asyncio.gather(*saves)
        assert process.counts == (51, 51, 0, 0)
        assert 1 <= len(syncs) <= 3  # the first alone, those meanwhile, and what the drain notes


async def test_nothing_is_told_before_it_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_the_disk: list[bytes] = []
    fsync = os.fsync

    def noting(fd: int) -> None:
        fsync(fd)
        on_the_disk.extend(path.read_bytes() for path in files(tmp_path))

    async with spooling(tmp_path) as process:
        process.log.state = "away"
        monkeypatch.setattr(os, "fsync", noting)
        for id in ("first", "second"):
            await process.store.save_update(update(id, content={"in": f"{id} update"}))
            assert any(f"{id} update".encode() in content for content in on_the_disk)
            on_the_disk.clear()


async def test_a_file_that_is_damaged_under_its_owner_holds_nothing_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with spooling(tmp_path) as process:
        process.log.state = "away"
        for id in ("a", "b", "c"):
            await process.store.save_update(update(id, content={"x": f"only in {id}"}))
        [path] = files(tmp_path)
        content = path.read_bytes()
        path.write_bytes(content.replace(b"only in b", b"ONLY in b"))
        await process.drained()
        await process.store.save_update(update("d"))
        assert process.counts == (0, 3, 1, 2)
        assert await process.log.ids() == ["a", "d"]
        [aside] = files(tmp_path)
        assert aside.suffix == ".damaged"
        assert any(str(aside) in record.getMessage() for record in caplog.records)


async def test_what_the_log_will_never_take_waits_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with spooling(tmp_path) as process:
        process.log.state = "away"
        await process.store.save_update(update("a"))
        await process.store.save_update(update("large", content={"x": "x" * 9 * MIB}))
        await process.store.save_update(update("b"))
        await process.drained()
        assert await process.log.ids() == ["a", "b"]
        assert process.counts == (0, 3, 2, 0)
        assert process.outbox.health.refused == 1
    [aside] = files(tmp_path)
    assert aside.suffix == ".refused"
    [(_, event, method, _, reason)] = [f for f in logged(caplog) if f[0] == logging.ERROR]
    assert (event, method) == ("statestore_spool_refused", "append")
    assert str(aside) in reason


async def test_what_the_log_refuses_does_not_hold_up_the_rest_and_is_tried_again_when_asked(
    tmp_path: Path,
) -> None:
    log = FlakyLog()
    async with spooling(tmp_path, log) as process:
        log.state = "away"
        for id in ("a", "bad", "b"):
            await process.store.save_update(update(id))
        log.refused = {"bad"}
        log.state = "up"
        while process.counts[0]:
            try:
                await process.outbox.settle()
            except foldlog.LogUnavailable:
                continue
        await process.store.save_update(update("c"))
        assert await log.ids() == ["a", "b", "c"]
        assert (process.counts, process.outbox.health.refused) == ((0, 3, 2, 0), 1)
    [aside] = files(tmp_path)
    aside.rename(aside.with_suffix(".spool"))
    log.refused = set()
    async with spooling(tmp_path, log):
        assert await log.ids() == ["a", "b", "c", "bad"]
    assert files(tmp_path) == []


async def test_a_log_that_refuses_everything_is_waited_for(tmp_path: Path) -> None:
    log = FlakyLog()
    async with spooling(tmp_path, log) as process:
        log.state = "away"
        for id in ("a", "b"):
            await process.store.save_update(update(id))
        log.refused, log.state = {"a", "b", "probe"}, "up"
        for _ in range(8):
            with pytest.raises(foldlog.LogUnavailable):
                await process.outbox.settle()
        assert process.counts == (2, 2, 0, 0)
        log.refused = set()
        await process.drained()
        assert await log.ids() == ["a", "b"]
