"""Who has a run: from the moment of opening, and not longer than until it was left."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

import foldlog
from foldlog import LogUnavailable, PayloadError
from foldlog.log.port import Append
from foldlog.runs import process, tenure
from foldlog.runs.process import Look
from foldlog_projections.runs import processes
from tests.runs.running import R, S, status
from tests.support.flaky import FlakyLog


async def test_a_result_that_cannot_be_recorded_ends_the_run_as_failed(
    store: foldlog.Store,
) -> None:
    with pytest.raises(PayloadError):
        async with store.run(R, session_id=S) as run:
            run.result = object()
    assert await status(store) == "FAILED"
    async with store.run(R, session_id=S, wait=0):
        pass
    assert await status(store) == "COMPLETE"


class SlowAck(FlakyLog):
    """Its acks come some time after it has stored."""

    stored: asyncio.Event | None = None

    async def append(self, appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        seqs = await super().append(appends, atomic=atomic)
        if self.stored is not None:
            self.stored.set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return seqs


async def test_an_opening_that_is_cancelled_leaves_the_run_to_others() -> None:
    log = SlowAck()
    async with foldlog.memory_store(log=log) as store, store.run("another"):
        log.stored = asyncio.Event()
        opening = asyncio.ensure_future(store.run(R, session_id=S).__aenter__())
        await log.stored.wait()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        async with store.run(R, session_id=S, wait=0):
            pass


async def test_no_run_is_taken_before_the_lease_is_on_record() -> None:
    log = FlakyLog()
    async with foldlog.memory_store(log=log) as store:
        log.gate = asyncio.Event()
        openings = [asyncio.ensure_future(store.run(each).__aenter__()) for each in "ab"]
        await log.called()
        for _ in range(100):
            await asyncio.sleep(0)
        calls = list(log.calls)
        log.gate.set()
        for each in openings:
            await (await each).close()
        assert len(calls) == 1


async def test_a_lease_is_renewed_however_often_runs_begin_and_end(store: foldlog.Store) -> None:
    owner, lease = process.process_of(store), 1.0
    await owner.hold(lease)
    async with asyncio.timeout(10):
        while (await store.view(processes.kind(owner.id))).number < 3:
            await owner.hold(lease)
            await asyncio.sleep(0)
            owner.let_go(lease)
    owner.let_go(lease)


async def test_the_silence_of_a_log_that_is_away_is_not_its_owners(store: foldlog.Store) -> None:
    clock = [0.0]
    look = Look(store, lambda: clock[0])
    owner = processes.kind("elsewhere")
    await store.append(owner, processes.Lives(5.0, 1, "host", 1))
    assert not await look.is_gone("elsewhere")
    clock[0] += 60  # nobody could look, and it could not renew
    assert not await look.is_gone("elsewhere")
    for _ in range(3):
        clock[0] += 1
        assert not await look.is_gone("elsewhere")
    await store.append(owner, processes.Lives(5.0, 2, "host", 1))
    for _ in range(5):
        assert not await look.is_gone("elsewhere")
        clock[0] += 1
    assert await look.is_gone("elsewhere")


async def test_a_run_that_could_not_be_left_is_let_go_when_the_log_takes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tenure, "PATIENCE", 0.0)
    monkeypatch.setattr(process, "_LONGEST_LOOK", 0.001)
    log = FlakyLog()
    async with foldlog.memory_store(log=log) as store:
        with pytest.raises(LogUnavailable):
            async with store.run(R, session_id=S):
                log.state = "away"
        log.state = "up"
        async with store.run(R, session_id=S, wait=30):
            pass
        assert await status(store) == "COMPLETE"


async def test_a_store_closes_that_owes_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenure, "PATIENCE", 0.0)
    log = FlakyLog()
    async with asyncio.timeout(30), foldlog.memory_store(log=log) as store:
        with pytest.raises(LogUnavailable):
            async with store.run(R, session_id=S):
                log.state = "away"


async def test_health_tells_what_a_run_waits_for(store: foldlog.Store) -> None:
    async def told(words: str) -> bool:
        async with asyncio.timeout(30):
            while not any(words in each for each in (await store.health()).waits):
                await store.position()
        return True

    def do() -> int:
        return 1

    async with store.run(R, session_id=S) as run:
        second = asyncio.ensure_future(store.run(R, session_id=S).__aenter__())
        assert await told("waits for its owner, process")
        async with store.session(S) as session:
            await session.pause_task(R)
            step = asyncio.ensure_future(run.step("one", do))
            assert await told("waits for an order to resume")
            await session.resume_task(R)
        assert await step == 1
    await (await second).close()
    assert (await store.health()).waits == ()
