"""One session in several processes, one of them killed."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import foldlog
from foldlog.integrations.agent_framework import FoldlogCheckpointStorage, FoldlogHistoryProvider
from tests.integrations.agent_framework.desk import REFUNDS, Refund, make_agent
from tests.support.workers import StartWorker


async def test_a_killed_session_goes_on_elsewhere_and_is_followed_from_a_third_process(
    store: foldlog.Store, start_worker: StartWorker
) -> None:
    followed: list[Any] = []
    goes_on = asyncio.Event()

    async def follow() -> None:
        async with aclosing(store.watch(foldlog.kinds.messages("trip"))) as items:
            async for item in items:
                followed.append(item.record.body)
                if goes_on.is_set() and item.record.role == "assistant":
                    return

    following = asyncio.create_task(follow())
    first = await start_worker("trip", "begin")
    assert [await first.hear() for _ in range(3)] == ["1 heard", "2 heard", 1]
    while await first.hear() != "5 heard":
        pass
    await first.kill()

    resumers = [await start_worker("trip", "resume") for _ in range(3)]
    for each in resumers:
        assert await each.hear() == "ready"
    for each in resumers:
        each.tell()
    heard = [await each.hear() for each in resumers]
    assert sorted(heard, key=bool) == [None, None, "order 7: paid back"]  # exactly one went on
    assert await store.waiting() == []
    storage = FoldlogCheckpointStorage("trip", store, types=[Refund])
    latest = await storage.get_latest(workflow_name=REFUNDS)
    assert latest is not None
    assert not latest.pending_request_info_events

    provider = FoldlogHistoryProvider(store)
    before = await provider.get_messages("trip")
    assert len(before) >= 10
    spoken = sum(each.role == "user" for each in before)
    goes_on.set()
    agent = make_agent(provider)
    answer = await agent.run("hello", session=agent.create_session(session_id="trip"))
    assert answer.text == f"{spoken + 1} heard"
    await asyncio.wait_for(following, 60)
    assert followed == [each.to_dict() for each in await provider.get_messages("trip")]


async def test_two_processes_lose_and_double_nothing(
    store: foldlog.Store, start_worker: StartWorker
) -> None:
    workers = [await start_worker("trip", "speak") for _ in range(2)]
    for each in workers:
        assert await each.hear() == "ready"
    for each in workers:
        each.tell()
    assert [await each.hear_rest() for each in workers] == [["saved"], ["saved"]]
    found = await FoldlogHistoryProvider(store).get_messages("trip")
    assert sorted(each.text for each in found) == sorted(2 * [str(n) for n in range(10)])
