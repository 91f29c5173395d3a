"""One session of Google's ADK in several processes, one of them killed."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import foldlog
from foldlog.integrations.google_adk import FoldlogSessionService, session_id_of
from tests.support.workers import StartWorker

TRIP: dict[str, Any] = {"app_name": "travel", "user_id": "ann", "session_id": "trip"}
MESSAGES = foldlog.kinds.messages(session_id_of(**TRIP))


async def test_a_killed_session_goes_on_elsewhere_and_is_followed_from_a_third_process(
    store: foldlog.Store, start_worker: StartWorker
) -> None:
    followed: list[str] = []

    async def follow() -> None:
        async with aclosing(store.watch(MESSAGES)) as items:
            async for item in items:
                followed.append(item.id)
                if "2 questions" in str(item.record.body):
                    return

    following = asyncio.create_task(follow())
    first = await start_worker("begin")
    assert await first.hear() == "1 questions"
    while (last := await first.hear()) < 3:
        pass
    await first.kill()

    second = await start_worker("go on")
    count, state = await second.hear()
    # Whole: an event that was appended has changed all three states, and nothing else has.
    assert state["n"] == state["user:n"] == state["app:n"] == count - 3 >= last
    assert await second.hear_rest() == ["2 questions"]

    await asyncio.wait_for(following, 60)
    session = await FoldlogSessionService(store).get_session(**TRIP)
    assert session is not None
    assert followed[1:] == [each.id for each in session.events]
    assert await store.sessions() == ["travel/ann/trip"]
    counted = [each for each in session.events if each.author == "counter"]
    assert [each.actions.state_delta["n"] for each in counted] == list(range(count - 2))


async def test_two_processes_lose_and_double_nothing(
    store: foldlog.Store, start_worker: StartWorker
) -> None:
    sessions = FoldlogSessionService(store)
    await sessions.create_session(**TRIP)
    workers = [await start_worker("count") for _ in range(2)]
    for each in workers:
        assert await each.hear() == "ready"
    for each in workers:
        each.tell()
    assert [await each.hear() for each in workers] == ["counted", "counted"]
    session = await sessions.get_session(**TRIP)
    assert session is not None
    numbers = [each.actions.state_delta["n"] for each in session.events]
    assert sorted(numbers) == sorted([*range(10), *range(10)])
    assert len({each.id for each in session.events}) == 20
