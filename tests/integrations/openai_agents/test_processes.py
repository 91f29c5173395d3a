"""One session in several processes, one of them killed."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import foldlog
from foldlog.integrations.openai_agents import FoldlogSession
from tests.support.workers import StartWorker


async def test_a_killed_session_goes_on_elsewhere_and_is_followed_from_a_third_process(
    store: foldlog.Store, start_worker: StartWorker
) -> None:
    followed: list[Any] = []
    answered = asyncio.Event()

    async def follow() -> None:
        async with aclosing(store.watch(foldlog.kinds.messages("trip"))) as items:
            async for item in items:
                followed.append(item.record.body)
                if item.record.body.get("output") == "refunded 7":
                    answered.set()
                    return

    following = asyncio.create_task(follow())
    first = await start_worker("trip", "begin")
    assert [await first.hear(), await first.hear()] == ["1 heard", "2 heard"]
    token = await first.hear()
    while await first.hear() < 3:
        pass
    await first.kill()

    [waits] = await store.waiting()
    assert (waits.session_id, waits.by) == ("trip", "ann")
    assert waits.asked["payload"]["token"] == token
    resumers = [await start_worker("trip", "resume") for _ in range(3)]
    for each in resumers:
        assert await each.hear() == "ready"
    for each in resumers:
        each.tell()
    heard = [await each.hear() for each in resumers]
    assert sorted(heard, key=bool) == [None, None, "refunded 7"]  # exactly one went on

    await asyncio.wait_for(answered.wait(), 60)
    await following
    assert await store.waiting() == []
    items = await FoldlogSession("trip", store).get_items()
    assert [each["content"] for each in items if each.get("role") == "user"][:3] == [
        *("hello", "hello again", "refund 7")
    ]
    assert items[: len(followed)] == followed
    # All or nothing: each group of three is whole, the one included in which it was killed.
    added = [each["content"] for each in items if str(each.get("content"))[-2:-1] == " "]
    groups = [added[start : start + 3] for start in range(1, len(added), 3)]
    assert groups == [[f"{n} {part}" for part in range(3)] for n in range(len(groups))]
    assert len(groups) >= 4


async def test_two_processes_lose_and_double_nothing(
    store: foldlog.Store, start_worker: StartWorker
) -> None:
    for what, heard in (("add", [["added"], ["added"]]), ("pop", None)):
        workers = [await start_worker("trip", what) for _ in range(2)]
        for each in workers:
            assert await each.hear() == "ready"
        for each in workers:
            each.tell()
        said = [await each.hear_rest() for each in workers]
        if heard is not None:
            assert said == heard
            items = [each["content"] for each in await FoldlogSession("trip", store).get_items()]
            assert sorted(items) == sorted(2 * list(range(10)))
        else:
            assert sorted(said[0] + said[1]) == sorted(items)
    assert await FoldlogSession("trip", store).get_items() == []
