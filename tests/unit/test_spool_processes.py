"""Processes that end while something waits in the spool, and those that take it over."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from foldlog.store.spool import outbox
from tests.support.build import task, update
from tests.support.flaky import FlakyLog, crashed, files, spooling


async def test_the_next_process_appends_what_waits_before_anything_else(tmp_path: Path) -> None:
    log = FlakyLog()
    await crashed(tmp_path, log, lambda store: store.save_update(update("a")))
    await crashed(tmp_path, log, lambda store: store.save_update(update("b")))
    log.state = "up"
    async with spooling(tmp_path, log) as process:
        assert process.counts == (0, 0, 2, 0)
        await process.store.save_update(update("c"))
        assert await log.ids() == ["a", "b", "c"]
        assert files(tmp_path) == []


async def test_a_process_that_finds_the_log_away_queues_behind(tmp_path: Path) -> None:
    log = FlakyLog()
    await crashed(tmp_path, log, lambda store: store.save_update(update("a")))
    async with spooling(tmp_path, log) as process:
        await process.store.save_update(update("b"))
        assert process.counts == (2, 1, 0, 0)
        await process.drained()
        assert await log.ids() == ["a", "b"]


async def test_all_that_others_left_comes_first_and_the_oldest_of_it(tmp_path: Path) -> None:
    log = FlakyLog()
    left = {}
    for n in range(3):  # one program that crashes again and again during one outage
        async with spooling(tmp_path, log) as process:
            log.state = "away"
            await process.store.save_memory_state("key", {"n": n})
            left |= {path: path.read_bytes() for path in files(tmp_path) if path not in left}
    assert len(left) == 3
    for path, content in left.items():
        path.write_bytes(content)
    async with spooling(tmp_path, log) as process:
        await process.store.save_memory_state("key", {"n": 3})
        await process.drained()
        assert await process.store.load_memory_state("key") == {"n": 3}
        saved = await log.on_it("memory", "key")
        assert [msgspec.msgpack.decode(each.payload)["state"]["n"] for each in saved] == [
            0,
            1,
            2,
            3,
        ]
    assert files(tmp_path) == []


async def test_what_was_being_appended_at_a_crash_is_not_doubled(tmp_path: Path) -> None:
    log = FlakyLog()
    async with spooling(tmp_path, log) as process:
        log.state = "away"
        for id in ("a", "b"):
            await process.store.save_memory_state("key", {"id": id})
        [path] = files(tmp_path)
        at_the_append: list[bytes] = []
        log.before_append = lambda: at_the_append.append(path.read_bytes())
        await process.drained()
        log.before_append = lambda: None
        await process.store.save_memory_state("key", {"id": "c"})
    path.write_bytes(at_the_append[-1])
    async with spooling(tmp_path, log) as process:
        assert process.counts[0] == 0
        assert len(await log.ids("memory", "key")) == 3
        assert await process.store.load_memory_state("key") == {"id": "c"}


async def test_two_processes_never_append_the_same(tmp_path: Path) -> None:
    log = FlakyLog()
    async with spooling(tmp_path, log) as one:
        log.state = "away"
        await one.store.save_update(update("a"))
        async with spooling(tmp_path, log) as two:
            assert two.counts == (0, 0, 0, 0)
            await two.store.save_update(update("b"))
            await two.drained()
            await one.drained()
            assert (one.counts, two.counts) == ((0, 1, 1, 0), (0, 1, 1, 0))
    assert sorted(await log.ids()) == ["a", "b"]


async def test_one_that_lives_takes_over_what_another_left(tmp_path: Path) -> None:
    log = FlakyLog()
    async with spooling(tmp_path, log) as process:
        await crashed(tmp_path, log, lambda store: store.save_update(update("a")))
        await process.store.save_update(update("b"))
        await process.drained()
        assert await log.ids() == ["a", "b"]


async def test_the_spool_of_another_log_is_left_alone_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = FlakyLog()
    await crashed(tmp_path, log, lambda store: store.save_update(update("a")))
    log.state = "up"
    [path] = files(tmp_path)
    async with spooling(tmp_path, log, prefix="default.other") as process:
        assert process.counts == (0, 0, 0, 0)
    async with spooling(tmp_path, log, prefix="tenant.log") as process:
        assert process.counts == (0, 0, 0, 0)
    assert files(tmp_path) == [path]
    assert [str(path) in record.getMessage() for record in caplog.records].count(True) == 1


async def test_closing_while_the_log_is_away_says_what_waits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with spooling(tmp_path) as process:
        process.log.state = "away"
        await process.store.save_update(update("a"))
    assert caplog.records[-1].getMessage() == f"envelopes that wait in {tmp_path / 'spool'}: 1"
    assert len(files(tmp_path)) == 1


async def test_closing_appends_what_the_log_takes(tmp_path: Path) -> None:
    log = FlakyLog()
    async with spooling(tmp_path, log) as process:
        log.state = "away"
        for n in range(3):
            await process.store.save_update(update(f"{n}", content={"x": "x" * 1024 * 1024}))
        log.back()
    assert await log.ids() == ["0", "1", "2"]


async def test_closing_does_not_wait_for_a_log_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "_CLOSING_SECONDS", 0)
    log = FlakyLog()
    async with spooling(tmp_path, log) as process:
        log.state = "away"
        for n in range(3):
            await process.store.save_update(update(f"{n}", content={"x": "x" * 1024 * 1024}))
        log.gate, sent = asyncio.Event(), asyncio.Event()  # no append ends
        log.before_append = sent.set
        log.calls.clear()
        log.back()
        await sent.wait()
    assert len(log.calls) == 1  # nothing of the rest was begun
    log.gate = None
    async with spooling(tmp_path, log):
        assert await log.ids() == ["0", "1", "2"]


async def test_what_was_appended_before_a_crash_has_no_second_effect(tmp_path: Path) -> None:
    log = FlakyLog()
    async with spooling(tmp_path, log) as process:
        log.state = "away"
        for n in range(2):
            await process.store.save_task(task(description=f"{n}"))
            await process.store.save_update(update(f"{n}"))
            await process.store.save_memory_state("key", {"n": n})
        left = {path: path.read_bytes() for path in files(tmp_path)}
        await process.drained()
        await process.store.save_task(task(description="last"))
        await process.store.save_update(update("last"))
        await process.store.save_memory_state("key", {"n": "last"})
    for path, content in left.items():
        path.write_bytes(content)  # as if it had been killed before it could remove the file
    async with spooling(tmp_path, log) as process:
        assert process.counts == (0, 0, 6, 0)
        assert [t.description for t in await process.store.list_tasks("session")] == ["last"]
        assert [u.update_id for u in await process.store.list_updates("session")] == [
            *("0", "1", "last")
        ]
        assert await process.store.load_memory_state("key") == {"n": "last"}
