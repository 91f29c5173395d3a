"""What a run says of itself to what stands on it: tokens, recorded results, typed answers."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

import foldlog
from foldlog import NotFound
from foldlog.runs import RunPaused
from tests.runs.running import Calls, R, S


@dataclasses.dataclass
class Flight:
    number: str
    fare: int


async def test_each_owner_has_a_greater_token(store: foldlog.Store) -> None:
    tokens = []
    for _ in range(3):
        opening = store.run(R, session_id=S)
        assert opening.token == 0
        async with opening as run:
            tokens.append(run.token)
    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize("remove", ["clear_session", "erase_session"])
async def test_a_token_is_greater_also_behind_a_removal(store: foldlog.Store, remove: str) -> None:
    async with store.run(R, session_id=S) as run:
        before = run.token
        await run.step("search", Calls().giving("search"))
    await getattr(store, remove)(S)
    async with store.run(R, session_id=S) as run:
        assert run.token > before


async def test_a_recorded_result_is_read_again(store: foldlog.Store) -> None:
    async with store.run(R, session_id=S) as run:
        await run.step("search", Calls().giving("search", "x" * 400_000))
        assert await run.recorded("search") == "x" * 400_000
        with pytest.raises(NotFound, match="book"):
            await run.recorded("book")
    assert await store.run(R, session_id=S).recorded("search", str) == "x" * 400_000


async def test_redoing_twice_is_redoing_once_until_the_step_began(store: foldlog.Store) -> None:
    calls = Calls()
    async with store.run(R, session_id=S) as run:
        for name in "ab":
            await run.step(name, calls.giving(name))
    for _ in range(2):  # it dies before the step is reached
        with pytest.raises(asyncio.CancelledError):
            async with store.run(R, session_id=S, redo_from="b"):
                raise asyncio.CancelledError
    async with store.run(R, session_id=S, redo_from="b") as run:
        for name in "ab":
            await run.step(name, calls.giving(name))
    assert calls.made == ["a", "b", "b"]


async def test_an_answer_is_of_the_type_that_is_declared(store: foldlog.Store) -> None:
    async with store.run(R, session_id=S) as run:
        with pytest.raises(RunPaused):
            await run.ask("where", wait=0)
        [item] = await store.waiting()
        await store.answer(item.id, {"number": "SK", "fare": 80})
        assert await run.ask("where", returns=Flight) == Flight("SK", 80)


async def test_a_step_that_is_done_again_says_again_what_it_says(store: foldlog.Store) -> None:
    async def work(found: str) -> None:
        said = [foldlog.Message.new("plain", text, role="assistant") for text in ("found:", found)]
        await store.append_messages(S, said)
        await store.append_messages(S, said)  # as after an outcome that nobody knows

    for found in ("one", "another"):
        async with store.run(R, session_id=S, restart=True) as run:
            await run.step("search", work, found)
    bodies = [each.body for each in await store.list_messages(S)]
    assert bodies == ["found:", "one", "found:", "another"]


async def test_a_step_that_is_done_again_reports_again(store: foldlog.Store) -> None:
    async def work(found: str) -> None:
        kind = foldlog.UpdateType.PROGRESS
        update = foldlog.StateUpdate(session_id=S, task_id=R, update_type=kind, content=found)
        await store.save_update(update)
        await store.save_update(update)  # as after an outcome that nobody knows

    for found in ("one", "another"):
        async with store.run(R, session_id=S, restart=True) as run:
            await run.step("search", work, found)
    reported = await store.list_updates(S, task_id=R)
    contents = [each.content for each in reported if each.update_type == "PROGRESS"]
    assert contents == ["one", "another"]
