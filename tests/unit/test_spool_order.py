"""The appends of a degrading store stay in the order of their calls, and share what they can."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.build import task, update
from tests.support.degrading import failures_of
from tests.support.flaky import FlakyLog, spooling


async def test_a_later_save_never_overtakes_one_that_fails(tmp_path: Path) -> None:
    log = FlakyLog()
    async with spooling(tmp_path, log) as process:
        log.gate, log.state = asyncio.Event(), "away"
        first = asyncio.create_task(process.store.save_task(task(description="running")))
        await asyncio.sleep(0)
        log.state = "up"  # the log is back before the first has failed
        later = [
            asyncio.create_task(process.store.save_task(task(description=text)))
            for text in ("almost", "done")
        ]
        both = asyncio.create_task(process.store.save_update(update("a")))
        await asyncio.sleep(0)
        log.gate.set()
        await asyncio.gather(first, *later, both)
        await process.drained()
        assert len(await log.ids("tasks")) == 3
        [found] = await process.store.list_tasks("session")
        assert found.description == "done"


async def test_a_sequence_stands_in_the_order_of_calls_though_the_first_failed(
    tmp_path: Path,
) -> None:
    log = FlakyLog()
    async with spooling(tmp_path, log) as process:
        log.gate, log.state = asyncio.Event(), "not stored"
        saves = [asyncio.create_task(process.store.save_update(update("0")))]
        await asyncio.sleep(0)
        log.state = "up"
        saves += [
            asyncio.create_task(process.store.save_update(update(f"{n}"))) for n in range(1, 4)
        ]
        await asyncio.sleep(0)
        log.gate.set()
        await asyncio.gather(*saves)
        await process.drained()
        log.get_round_to_it()
        found = await process.store.list_updates("session", consistency="strong")
        assert [u.update_id for u in found] == ["0", "1", "2", "3"]


async def test_what_gathers_while_an_append_is_under_way_goes_together(tmp_path: Path) -> None:
    log = FlakyLog()
    async with spooling(tmp_path, log) as process:
        log.gate = asyncio.Event()
        first = asyncio.create_task(process.store.save_update(update("0")))
        await log.called()
        later = [
            asyncio.create_task(process.store.save_update(update(f"{n}", session)))
            for n in range(1, 100)
            for session in ("session", "other")
        ]
        await asyncio.sleep(0)
        log.gate.set()
        await asyncio.gather(first, *later)
        assert [subjects for _, subjects in log.calls] == [1, 198]
        assert await log.ids() == [f"{n}" for n in range(100)]


async def test_an_atomic_block_keeps_its_place_and_goes_alone(tmp_path: Path) -> None:
    log = FlakyLog()
    async with spooling(tmp_path, log) as process:

        async def block(id: str) -> None:
            async with process.store.atomic():
                await process.store.save_update(update(id))
                await process.store.save_update(update(id, "other"))

        save = process.store.save_update
        await asyncio.gather(save(update("a")), block("b"), save(update("c")), save(update("d")))
        assert [atomic for atomic, _ in log.calls] == [False, True, False]
        assert await log.ids() == ["a", "b", "c", "d"]


async def test_one_save_that_is_refused_is_not_the_others_fault(tmp_path: Path) -> None:
    async with spooling(tmp_path) as process:
        large = update("large", content={"x": "x" * 9 * 1024 * 1024})
        await asyncio.gather(
            *(process.store.save_update(u) for u in (update("a"), update("b"), large, update("c")))
        )
        assert process.counts == (0, 0, 0, 0)
        assert failures_of(process.store) == {"save_update": 1}
        assert await process.log.ids() == ["a", "b", "c"]


async def test_who_is_cancelled_while_waiting_holds_nobody_up(tmp_path: Path) -> None:
    log = FlakyLog()
    async with spooling(tmp_path, log) as process:
        log.gate = asyncio.Event()
        saves = [asyncio.create_task(process.store.save_update(update(f"{n}"))) for n in range(4)]
        await asyncio.sleep(0)
        for n in (0, 2):
            saves[n].cancel()
        await asyncio.sleep(0)
        log.gate.set()
        await asyncio.gather(*saves, return_exceptions=True)
        assert [save.cancelled() for save in saves] == [True, False, True, False]
        assert await log.ids() == ["1", "3"]
