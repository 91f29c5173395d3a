"""Who has a run: from the moment of opening, and not longer than until it was left."""

from __future__ import annotations

import asyncio

import foldlog
from tests.support.flaky import FlakyLog


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
