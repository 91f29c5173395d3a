"""`history`, `watch` and `clear` of a session: the words that every facade has."""

from __future__ import annotations

from contextlib import aclosing

import pytest

import foldlog
from foldlog.sessions import ConversationTurn, Session, ShortTermMemoryConfig
from tests.sessions.conftest import OpenSession
from tests.sessions.support import running, steer


async def test_the_history_of_a_session_is_its_audit_trail(session: Session) -> None:
    await running(session)
    await session.steer(steer("USER_MESSAGE", text="faster"))
    history = await session.history()
    assert {event.kind for event in history} == {
        "session.task",
        "session.update",
        "session.steering",
    }
    assert [e.payload["status"] for e in history if e.kind == "session.task"] == [
        "PENDING",
        "RUNNING",
    ]


async def test_a_session_is_watched_by_its_updates(
    session: Session, open_session: OpenSession
) -> None:
    other = await open_session()
    await running(session, "a")
    async with aclosing(other.watch()) as updates:
        first = await anext(updates)
        assert first.content["status"] == "PENDING"
        assert (await anext(updates)).content["status"] == "RUNNING"
        reported = await session.report("a", "half way")
        assert await anext(updates) == reported
    await running(session, "b")
    async with aclosing(other.watch(after=first.update_id, task_id="b")) as updates:
        assert (await anext(updates)).task_id == "b"


async def test_clearing_a_session_leaves_nothing_and_the_object_usable(
    session: Session, open_session: OpenSession
) -> None:
    await running(session)
    await session.update_context(llm_context={"goal": "Oslo"})
    config = ShortTermMemoryConfig(strategy="truncation")
    memory = await session.memory(config, key="acme:ann:s")
    other = await session.memory(config, key="acme:ann:another")
    for each in (memory, other):
        await each.add_turn(ConversationTurn("To Oslo!", "Which day?"))
    await session.clear()
    assert (session.context.version, await session.list_tasks(), await session.history()) == (
        0,
        [],
        [],
    )
    assert (memory.state.turns, len(other.state.turns)) == ((), 1)
    await memory.add_turn(ConversationTurn("To Bergen!", "Which day?"))
    again = await (await open_session()).memory(config, key="acme:ann:s")
    assert [turn.user_message for turn in again.state.turns] == ["To Bergen!"]
    await running(session, "later")
    assert session.get_task("later").status is foldlog.TaskStatus.RUNNING


async def test_a_session_with_forks_is_not_cleared(session: Session, store: foldlog.Store) -> None:
    await running(session)
    memory = await session.memory(ShortTermMemoryConfig(strategy="truncation"), key="acme:ann:s")
    await memory.add_turn(ConversationTurn("To Oslo!", "Which day?"))
    await store.fork("s", to="fork")
    with pytest.raises(foldlog.SessionHasForks):
        await session.clear()
    assert [task.task_id for task in await session.list_tasks()] == ["task"]
    assert len(memory.state.turns) == 1
