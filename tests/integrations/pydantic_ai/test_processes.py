"""One conversation in several processes, one of them killed."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart

import foldlog
from foldlog.integrations.pydantic_ai import FoldlogConversationStore, follow
from tests.integrations.pydantic_ai.agents import make_agent
from tests.support.workers import PATIENCE, StartWorker


def told(messages: list[ModelMessage]) -> list[object]:
    parts = [part for each in messages if isinstance(each, ModelRequest) for part in each.parts]
    return [part.content for part in parts if isinstance(part, UserPromptPart)]


async def test_a_killed_conversation_goes_on_elsewhere_and_is_followed_from_a_third_process(
    store: foldlog.Store, start_worker: StartWorker
) -> None:
    seen: list[ModelMessage] = []

    async def watch() -> None:
        async with aclosing(follow(store, "trip")) as entries:
            async for entry in entries:
                seen.append(entry.message)
                if "and on" in told([entry.message]):
                    return

    watching = asyncio.create_task(watch())
    first = await start_worker("trip", "begin")
    for number in range(1, 5):
        assert await first.hear() == f"{number} told"
    await first.kill()

    conversations = FoldlogConversationStore(store)
    left = await conversations.load("trip")
    assert left is not None
    turns = len(left.messages) // 2
    assert turns >= 4
    assert told(left.messages) == [f"turn {n}" for n in range(turns)]  # each turn is whole
    assert len(left.messages) == 2 * turns

    second = await start_worker("trip", "resume")
    assert await second.hear() == f"{turns + 1} told"
    await second.finish()
    async with asyncio.timeout(PATIENCE):
        await watching
    loaded = await conversations.load("trip")
    assert loaded is not None
    assert loaded.messages[:-1] == seen
    assert loaded.usage.requests == turns + 1


async def test_two_processes_on_one_conversation_lose_and_double_nothing(
    store: foldlog.Store, start_worker: StartWorker
) -> None:
    writers = [await start_worker("trip", "add") for _ in range(2)]
    for each in writers:
        assert await each.hear() == "ready"
    for name, each in zip("ab", writers, strict=True):
        each.tell(name)
    for each in writers:
        assert await each.hear() == "added"
    loaded = await FoldlogConversationStore(store).load("trip")
    assert loaded is not None
    said = told(loaded.messages)
    for name in "ab":
        mine = [each for each in said if str(each).startswith(name)]
        assert mine == [f"{name} {number}" for number in range(10)]
    assert len(said) == 20


async def test_what_waits_is_approved_by_exactly_one_process(
    store: foldlog.Store, start_worker: StartWorker
) -> None:
    conversations = FoldlogConversationStore(store)
    result = await make_agent().run("book", conversation=Conversation(conversation_id="trip"))
    await conversations.save(result, scope="ann")
    [waits] = await store.waiting()
    assert (waits.session_id, waits.by, waits.asked["reason"]) == ("trip", "ann", "deferred_tools")
    assert waits.asked["payload"]["asked"] == [
        {"tool": "book", "arguments": {"train": "book"}, "id": "call-1"}
    ]

    workers = [await start_worker("trip", "approve") for _ in range(3)]
    for each in workers:
        assert await each.hear() == "ready"
    for each in workers:
        each.tell()
    heard = [await each.hear() for each in workers]
    assert sorted(heard, key=bool) == [None, None, "booked: book"]
    assert await store.waiting() == []
