"""What else may happen between two processes that run the same execution."""

from __future__ import annotations

import pytest

import foldlog
import foldlog.integrations.rh_agents
from tests.integrations.rh_agents.processes.conftest import Effects, ended, killed, paid
from tests.integrations.rh_agents.running import answered
from tests.support.workers import StartWorker

pytestmark = pytest.mark.long


async def test_a_step_that_died_with_its_process_is_reported_and_not_repeated(
    store: foldlog.Store, start_worker: StartWorker, effects: Effects
) -> None:
    await killed(await start_worker(halt_in="pay"), "in", "pay")
    said = await (await start_worker()).hear_rest()
    assert said == [["stuck", "pay"]]
    assert effects() == ["search", "pick", "pay"]
    [item] = await store.waiting()
    await store.confirm(item.id, {"answer": "unasked"})
    assert await ended(await start_worker()) == paid()
    assert effects() == ["search", "pick", "pay"]


async def test_the_user_answers_when_the_asking_process_is_gone(
    store: foldlog.Store, start_worker: StartWorker, effects: Effects
) -> None:
    asked = await ended(await start_worker(ask=True))
    assert asked == ["paused", "approve", {"seat": "12A", "fare": 100}]
    await answered(store, "yes")
    await killed(await start_worker(ask=True, halt_after="pick"), "after", "pick")
    assert await ended(await start_worker(ask=True)) == paid("yes")
    assert effects() == ["search", "pick", "pay"]
