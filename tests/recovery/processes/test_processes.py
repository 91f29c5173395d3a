"""What else may happen between two processes that run the same execution."""

from __future__ import annotations

import pytest

import foldlog
import foldlog.recovery
from foldlog.recovery import StateStatus
from tests.recovery.processes.conftest import Effects, ended, killed, loaded, paid
from tests.support.workers import StartWorker

pytestmark = pytest.mark.long


async def test_a_step_that_died_with_its_process_is_reported_and_not_repeated(
    store: foldlog.Store, start_worker: StartWorker, effects: Effects
) -> None:
    await killed(await start_worker(halt_in="pay"), "in", "pay")
    said = await (await start_worker()).hear_rest()
    assert said == [["unknown", "pay"], ["stuck", "pay"]]
    assert effects() == ["search", "pick", "pay"]
    async with store.recovery.execution("booking-1") as run:
        await run.confirm("pay", {"answer": "unasked"})
    assert await ended(await start_worker()) == paid()
    assert effects() == ["search", "pick", "pay"]


async def test_the_user_answers_when_the_asking_process_is_gone(
    store: foldlog.Store, start_worker: StartWorker, effects: Effects
) -> None:
    asked = await ended(await start_worker(ask=True))
    assert asked == ["paused", "approve", {"seat": "12A", "fare": 100}]
    assert await store.recovery.answer("booking-1", "approve", "yes")
    await killed(await start_worker(ask=True, halt_after="pick"), "after", "pick")
    assert await ended(await start_worker(ask=True)) == paid("yes")
    assert effects() == ["search", "pick", "pay"]


async def test_a_process_that_was_taken_over_cannot_go_on(
    store: foldlog.Store, start_worker: StartWorker, effects: Effects
) -> None:
    first = await start_worker(halt_after="pick")
    while await first.hear() != ["after", "pick"]:
        pass
    second = await start_worker()
    assert await ended(second) == paid()
    first.tell()
    assert await ended(first) == ["conflict"]
    assert effects() == ["search", "pick", "pay"]
    assert (await loaded(store)).status is StateStatus.COMPLETED
