"""Steering as it comes: what it does by itself, and how it reaches whoever does the work."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing

import pytest

import foldlog
from foldlog import SteeringEvent, SteeringEventType
from foldlog.errors import NotFound
from foldlog.sessions import (
    IllegalTransition,
    Session,
)
from tests.sessions.conftest import OpenSession
from tests.sessions.support import running, statuses, steer


async def take(session: Session, count: int, **options: bool) -> list[SteeringEvent]:
    """The next events of `task`'s inbox."""
    async with asyncio.timeout(20), aclosing(session.inbox("task", **options)) as inbox:
        return [await anext(inbox) for _ in range(count)]


async def rest(session: Session) -> list[str]:
    """What comes until the inbox ends."""
    async with asyncio.timeout(20), aclosing(session.inbox("task")) as inbox:
        return [event.event_id async for event in inbox]


async def test_what_is_said_to_a_task_reaches_it_in_order(
    session: Session, open_session: OpenSession
) -> None:
    await running(session)
    user = await open_session()
    for number in range(3):
        await user.steer(steer("USER_MESSAGE", event_id=f"e{number}", text=f"n{number}"))
    await user.steer(steer("REDIRECT", event_id="r", goal="green tea"))
    taken = await take(session, 4)
    assert [event.event_id for event in taken] == ["e0", "e1", "e2", "r"]
    assert json.loads(taken[3].to_injection())["steering"]["payload"] == {"goal": "green tea"}


async def test_what_comes_while_somebody_listens_is_heard(
    session: Session, open_session: OpenSession
) -> None:
    await running(session)
    listening = asyncio.create_task(take(session, 1))
    await (await open_session()).steer(steer("USER_MESSAGE", event_id="e", text="hello"))
    [event] = await listening
    assert event.event_id == "e"


async def test_an_event_is_for_its_task_alone(session: Session) -> None:
    await running(session)
    await running(session, "other")
    await session.steer(steer("USER_MESSAGE", "other", event_id="theirs", text="x"))
    await session.steer(steer("USER_MESSAGE", event_id="mine", text="x"))
    [event] = await take(session, 1)
    assert event.event_id == "mine"


async def test_an_event_is_taken_by_one_worker(session: Session, open_session: OpenSession) -> None:
    await running(session)
    workers = [session, await open_session(), await open_session()]
    for number in range(6):
        await session.steer(steer("USER_MESSAGE", event_id=f"e{number}", text="x"))
    await session.cancel_task("task")
    taken = await asyncio.gather(*(rest(worker) for worker in workers))
    ids = [event_id for each in taken for event_id in each]
    assert len(ids) == 7, "each once, the cancellation included"
    assert len(set(ids)) == 7


async def test_a_new_worker_goes_on_where_the_last_one_stopped(
    session: Session, open_session: OpenSession
) -> None:
    await running(session)
    for number in range(3):
        await session.steer(steer("USER_MESSAGE", event_id=f"e{number}", text="x"))
    await take(session, 2)
    [event] = await take(await open_session(), 1)
    assert event.event_id == "e2"


async def test_what_is_not_acknowledged_comes_again(
    session: Session, open_session: OpenSession
) -> None:
    await running(session)
    await session.steer(steer("USER_MESSAGE", event_id="e", text="x"))
    [event] = await take(session, 1, acknowledge=False)
    other = await open_session()
    [again] = await take(other, 1, acknowledge=False)
    assert again.event_id == event.event_id == "e"
    results = await asyncio.gather(session.acknowledge(event), other.acknowledge(event))
    assert sorted(results) == [False, True]
    assert (await other.refresh()).is_acknowledged("e")
    await session.cancel_task("task")
    assert "e" not in await rest(other)


async def test_an_inbox_ends_with_a_cancellation(session: Session) -> None:
    await running(session)
    await session.steer(steer("CANCEL", event_id="stop"))
    assert await rest(session) == ["stop"]
    assert await rest(session) == []


async def test_the_inbox_of_a_task_that_has_ended_has_an_end(session: Session) -> None:
    await running(session)
    await session.steer(steer("USER_MESSAGE", event_id="e", text="too late"))
    await session.complete_task("task")
    assert await rest(session) == ["e"]


@pytest.mark.parametrize("how", ["complete_task", "fail_task"])
async def test_an_inbox_ends_with_its_task(
    session: Session, open_session: OpenSession, how: str
) -> None:
    await running(session)
    other = await open_session()
    async with aclosing(session.inbox("task")) as inbox:
        coming = asyncio.ensure_future(anext(inbox, None))
        await asyncio.sleep(0)
        await other.steer(steer("USER_MESSAGE", event_id="last", text="x"))
        await getattr(other, how)("task", "done")
        async with asyncio.timeout(20):
            event = await coming
            assert event is not None
            assert event.event_id == "last"
            assert await anext(inbox, None) is None


async def test_of_many_who_steer_with_one_id_one_is_heard(
    store: foldlog.Store, session: Session, open_session: OpenSession
) -> None:
    await running(session)
    others = [session, await open_session(), await open_session()]
    event = steer("USER_MESSAGE", event_id="once", text="x")
    assert sum(await asyncio.gather(*(each.steer(event) for each in others for _ in range(3)))) == 1
    assert len(await store.list_steering("s")) == 1


async def test_a_session_is_entered_or_awaited(store: foldlog.Store) -> None:
    async with store.session("s") as session:
        await running(session)
    assert (await store.session("s")).get_task("task").status is foldlog.TaskStatus.RUNNING


async def test_there_is_no_inbox_of_no_task(session: Session) -> None:
    with pytest.raises(NotFound):
        await take(session, 1)


async def test_steering_moves_its_task(store: foldlog.Store, session: Session) -> None:
    await running(session)
    for kind, expected in (("PAUSE", "PAUSED"), ("RESUME", "RUNNING"), ("CANCEL", "CANCELLED")):
        assert await session.steer(steer(kind))
        assert await statuses(store) == {"task": expected}


async def test_what_is_only_saved_is_heard_and_moves_nothing(
    store: foldlog.Store, session: Session
) -> None:
    await running(session)
    await store.save_steering(steer("CANCEL"))
    assert await statuses(store) == {"task": "RUNNING"}
    assert [event.event_type.value for event in await take(session, 1)] == ["CANCEL"]
    await store.save_steering(steer("PAUSE", "nobody"))
    assert await statuses(store) == {"task": "RUNNING"}


async def test_steering_that_cannot_be_is_refused_and_not_on_record(
    store: foldlog.Store, session: Session
) -> None:
    await session.spawn_task(task_id="task")
    for event, error in (
        (steer("PAUSE"), IllegalTransition),
        (steer("RESUME"), IllegalTransition),
        (steer("PAUSE", "nobody"), NotFound),
        (steer("USER_MESSAGE", "nobody", text="x"), NotFound),
        (steer("USER_MESSAGE"), foldlog.SteeringValidationError),
        (steer("PRIORITIZE", priority="high"), foldlog.SteeringValidationError),
        (steer("APPROVE"), foldlog.SteeringValidationError),
        (steer("PAUSE", session_id="another"), foldlog.PayloadError),
    ):
        with pytest.raises(error):
            await session.steer(event)
    await session.cancel_task("task")
    with pytest.raises(IllegalTransition):
        await session.steer(steer("USER_MESSAGE", text="too late"))
    kinds = [event.event_type for event in await store.list_steering("s")]
    assert kinds == [SteeringEventType.CANCEL]


async def test_steering_is_sanitised(store: foldlog.Store, session: Session) -> None:
    await running(session)
    await session.steer(steer("USER_MESSAGE", text="x" * 10_000))
    [event] = await store.list_steering("s")
    assert len(event.payload["text"]) == 4096


async def test_an_event_takes_effect_once(
    session: Session, open_session: OpenSession, store: foldlog.Store
) -> None:
    await running(session)
    event = steer("PAUSE", event_id="p")
    actors = [session, await open_session()]
    results = await asyncio.gather(*(each.steer(event) for each in actors for _ in range(2)))
    assert sorted(results) == [False, False, False, True]
    await session.resume_task("task")
    assert not await session.steer(event)
    assert await statuses(store) == {"task": "RUNNING"}


async def test_an_approval_of_what_is_no_patch_reaches_the_task(session: Session) -> None:
    await running(session)
    assert await session.steer(steer("APPROVE", event_id="a", resume_token="token"))
    [event] = await take(session, 1)
    assert event.payload == {"resume_token": "token"}
