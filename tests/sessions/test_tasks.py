"""Tasks from when they are spawned until they end, and which of them comes next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import foldlog
from foldlog import TaskStatus, TaskType, UpdateType
from foldlog.errors import NotFound
from foldlog.sessions import (
    IllegalTransition,
    Session,
    SessionManager,
)
from foldlog.sessions.lifecycle import FINAL, NEXT
from tests.sessions.conftest import OpenSession
from tests.sessions.support import running, statuses, told
from tests.support.build import task

MOVES: dict[str, Callable[[Session, str], Awaitable[Any]]] = {
    "start": lambda session, id: session.start_task(id),
    "complete": lambda session, id: session.complete_task(id),
    "fail": lambda session, id: session.fail_task(id, "broken"),
    "cancel": lambda session, id: session.cancel_task(id),
    "pause": lambda session, id: session.pause_task(id),
    "resume": lambda session, id: session.resume_task(id),
}
WAYS = {
    ("PENDING", "start"): "RUNNING",
    ("PENDING", "fail"): "FAILED",
    ("PENDING", "cancel"): "CANCELLED",
    ("RUNNING", "complete"): "COMPLETE",
    ("RUNNING", "fail"): "FAILED",
    ("RUNNING", "cancel"): "CANCELLED",
    ("RUNNING", "pause"): "PAUSED",
    ("PAUSED", "resume"): "RUNNING",
    ("PAUSED", "fail"): "FAILED",
    ("PAUSED", "cancel"): "CANCELLED",
}


async def at(session: Session, status: TaskStatus) -> None:
    """Have `task` stand there."""
    await session.spawn_task(task_id="task")
    if status is not TaskStatus.PENDING:
        await session.start_task("task")
    ways = {
        TaskStatus.PAUSED: session.pause_task,
        TaskStatus.COMPLETE: session.complete_task,
        TaskStatus.CANCELLED: session.cancel_task,
        TaskStatus.FAILED: lambda id: session.fail_task(id, "broken"),
    }
    if status in ways:
        await ways[status]("task")


# --- one task -----------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["memory"], indirect=True)
@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("status", TaskStatus)
async def test_a_task_goes_where_it_can_and_nowhere_else(
    store: foldlog.Store, session: Session, status: TaskStatus, move: str
) -> None:
    await at(session, status)
    updates = len(await told(store, "STATUS_CHANGE"))
    goal = WAYS.get((status.value, move))
    if goal is None:
        with pytest.raises(IllegalTransition) as refused:
            await MOVES[move](session, "task")
        assert (refused.value.task_id, refused.value.status) == ("task", status)
        assert len(await told(store, "STATUS_CHANGE")) == updates
        goal = status.value
    else:
        await MOVES[move](session, "task")
        last = (await told(store, "STATUS_CHANGE"))[-1]
        assert (last["previous"], last["status"]) == (status.value, goal)
    assert await statuses(store) == {"task": goal}
    assert session.get_task("task").status == goal


def test_the_ways_that_are_drawn_are_those_that_are_tested() -> None:
    drawn = {(before.value, after.value) for before, nexts in NEXT.items() for after in nexts}
    assert drawn == {(before, after) for (before, _), after in WAYS.items()}
    assert {status for status, nexts in NEXT.items() if not nexts} == FINAL


async def test_what_a_task_says_of_itself_is_kept(store: foldlog.Store, session: Session) -> None:
    await session.update_context(llm_context={"big": "x" * 1000})
    await running(session, description="look", trace_id="trace", priority=3, query="where?")
    await session.report("task", {"step": 1}, progress={"done": 0.5}, step_index=1, total_steps=2)
    await session.prioritize_task("task", 9)
    await session.complete_task("task", {"answer": (1, 2)})
    [found] = await store.list_tasks("s")
    assert (found.description, found.trace_id, found.priority) == ("look", "trace", 9)
    assert (found.progress, found.result) == ({"done": 0.5}, {"answer": (1, 2)})
    assert found.context_snapshot.query == "where?"
    assert found.context_snapshot.llm_context == {"big": "x" * 1000}
    assert found.updated_at > found.created_at


async def test_a_status_does_not_repeat_the_context(store: foldlog.Store, session: Session) -> None:
    await session.update_context(llm_context={"big": "x" * 50_000})
    await session.spawn_task(task_id="task")
    before = (await store.health()).streams[0].bytes
    await session.start_task("task")
    await session.complete_task("task")
    assert (await store.health()).streams[0].bytes - before < 5_000


async def test_the_history_of_a_session_shows_each_save_whole(
    store: foldlog.Store, session: Session
) -> None:
    await running(session)
    await session.complete_task("task", 7)
    history = await store.load_history("session:s")
    saves = [event.payload for event in history if event.kind == "session.task"]
    assert [save["status"] for save in saves] == ["PENDING", "RUNNING", "COMPLETE"]
    assert {save["context_snapshot"]["task_id"] for save in saves} == {"task"}
    assert saves[-1]["result"] == 7


async def test_a_session_lists_its_tasks_as_a_store_does(
    store: foldlog.Store, session: Session, open_session: OpenSession
) -> None:
    other = await open_session()
    await running(session, "a")
    await session.spawn_task(task_id="b")
    assert await other.list_tasks() == await store.list_tasks("s")
    waiting = await other.list_tasks(status=TaskStatus.PENDING)
    assert [each.task_id for each in waiting] == ["b"]


async def test_what_cannot_be_done_says_what_to_call(session: Session) -> None:
    await session.spawn_task("research")
    with pytest.raises(IllegalTransition, match=r"session\.start_task\('research'\)"):
        await session.report("research", "early")
    await session.start_task("research")
    await session.pause_task("research")
    with pytest.raises(IllegalTransition, match=r"session\.resume_task\('research'\)"):
        await session.complete_task("research")
    with pytest.raises(NotFound, match=r"session\.spawn_task"):
        await session.start_task("nobody")
    with pytest.raises(TypeError, match=r"^Session\.start_task\(\)"):
        await session.start_task()  # type: ignore[call-arg]


async def test_a_state_stays_as_it_is(session: Session, open_session: OpenSession) -> None:
    await running(session)
    await session.update_context(llm_context={"n": [1]})
    before, loaded = session.state, await (await open_session()).refresh()
    await session.report("task", 1, progress={"n": 1})
    await session.update_context(llm_context={"n": [1, 2]})
    await session.spawn_task(task_id="other")
    for state in (before, loaded):
        assert (state.context.version, state.context.llm_context) == (1, {"n": [1]})
        assert [(each.task_id, each.progress) for each in state.tasks] == [("task", None)]
    assert session.get_task("task").progress == {"n": 1}
    assert session.context.llm_context == {"n": [1, 2]}


async def test_a_manager_opens_a_session_once(store: foldlog.Store) -> None:
    async with SessionManager(state_store=store) as manager:
        found = await asyncio.gather(*(manager.get_or_create("s") for _ in range(3)))
        assert len(set(map(id, found))) == 1
        assert manager.get("s") is found[0]
        await running(found[0])
        await manager.drop("s")
        assert manager.get("s") is None
        assert (await manager.get_or_create("s")).get_task("task").status is TaskStatus.RUNNING


async def test_an_open_session_waits_for_no_other_that_opens(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SessionManager(state_store=store) as manager:
        found, began, go_on = await manager.get_or_create("s"), asyncio.Event(), asyncio.Event()

        async def hydrate(_: Session) -> None:
            began.set()
            await go_on.wait()

        monkeypatch.setattr(Session, "hydrate", hydrate)
        opening = asyncio.create_task(manager.get_or_create("other"))
        await began.wait()
        async with asyncio.timeout(5):
            assert await manager.get_or_create("s") is found
        go_on.set()
        await opening


async def test_an_id_is_spawned_once(session: Session, open_session: OpenSession) -> None:
    actors = [session, await open_session()]
    results = await asyncio.gather(
        *(each.spawn_task(task_id="task") for each in actors for _ in range(2))
    )
    assert {result.created_at for result in results} == {results[0].created_at}
    assert len((await session.refresh()).tasks) == 1


async def test_a_task_is_started_by_one_of_many(
    session: Session, open_session: OpenSession
) -> None:
    await session.spawn_task(task_id="task")
    actors = [session, await open_session(), await open_session()]
    results = await asyncio.gather(
        *(each.start_task("task") for each in actors), return_exceptions=True
    )
    assert sum(isinstance(result, foldlog.TaskState) for result in results) == 1
    assert sum(isinstance(result, IllegalTransition) for result in results) == 2


async def test_a_task_ends_once(
    store: foldlog.Store, session: Session, open_session: OpenSession
) -> None:
    await running(session)
    other = await open_session()
    results = await asyncio.gather(
        session.complete_task("task"),
        other.cancel_task("task"),
        other.fail_task("task", "late"),
        return_exceptions=True,
    )
    assert sum(isinstance(result, IllegalTransition) for result in results) == 2
    ends = [u for u in await told(store, "STATUS_CHANGE") if u["status"] in FINAL]
    assert len(ends) == 1


async def test_what_is_not_there_is_an_error(session: Session) -> None:
    for move in MOVES.values():
        with pytest.raises(NotFound):
            await move(session, "nobody")
    with pytest.raises(NotFound):
        session.get_task("nobody")
    with pytest.raises(NotFound):
        await session.report("nobody", 1)


async def test_what_was_appended_is_never_said_to_be_not(
    store: foldlog.Store, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*args: Any) -> Any:
        raise foldlog.LogUnavailable("gone")

    with monkeypatch.context() as outage:
        outage.setattr(session, "_read", away)
        with pytest.raises(foldlog.AppendUnknown) as raised:
            await session.spawn_task(task_id="task")
        with pytest.raises(foldlog.LogUnavailable):  # here there was nothing to append
            await session.apply_pending_patch("none")
    assert await statuses(store) == {"task": "PENDING"}
    [update] = await store.list_updates("s")
    assert update.update_id in raised.value.ids


async def test_a_call_whose_outcome_was_lost_is_settled_by_the_log(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await store.session("s")
    await running(session)
    append = store._core.log.append

    async def lost(*args: Any, **options: Any) -> Any:
        await append(*args, **options)
        raise foldlog.AppendUnknown(["x"], "")

    monkeypatch.setattr(store._core.log, "append", lost)
    reported = await session.report("task", 1)
    assert (await store.list_updates("s"))[-1].update_id == reported.update_id


async def test_after_a_cancelled_call_a_read_asks_the_log(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await store.session("s")
    await running(session)
    assert len(await store.list_updates("s")) == 2
    append, read, asked = store._core.log.append, store._core.log.read, list[Any]()

    async def lost(*args: Any, **options: Any) -> Any:
        await append(*args, **options)
        raise asyncio.CancelledError

    def noted(*args: Any, **options: Any) -> Any:
        asked.append(args)
        return read(*args, **options)

    monkeypatch.setattr(store._core.log, "append", lost)
    with pytest.raises(asyncio.CancelledError):
        await session.report("task", 1)
    monkeypatch.setattr(store._core.log, "read", noted)
    assert len(await store.list_updates("s")) == 3
    assert asked


async def test_nothing_is_reported_after_the_end(
    session: Session, open_session: OpenSession
) -> None:
    """Those who report while another completes the task: what is told after its end is refused."""
    await running(session)
    other = await open_session()
    results = await asyncio.gather(
        session.complete_task("task"),
        *(other.report("task", number) for number in range(20)),
        return_exceptions=True,
    )
    refused = [each for each in results[1:] if isinstance(each, IllegalTransition)]
    assert len(refused) + sum(not isinstance(each, Exception) for each in results[1:]) == 20
    store = session._store
    kinds = [each.update_type for each in await store.list_updates("s")]
    ended = len(kinds) - kinds[::-1].index(foldlog.UpdateType.STATUS_CHANGE)
    assert foldlog.UpdateType.PROGRESS not in kinds[ended:]


async def test_a_report_that_is_named_is_there_once(store: foldlog.Store, session: Session) -> None:
    await running(session)
    for _ in range(2):
        await session.report("task", "step", update_id="step-1")
    assert await told(store, "PROGRESS") == ["step"]


async def test_only_what_runs_reports(session: Session) -> None:
    await session.spawn_task(task_id="task")
    with pytest.raises(IllegalTransition):
        await session.report("task", "early")
    await session.start_task("task")
    await session.pause_task("task")
    await session.report("task", "still", update_type=UpdateType.THINKING)
    await session.cancel_task("task")
    with pytest.raises(IllegalTransition):
        await session.report("task", "late")


async def test_a_result_that_cannot_be_held_leaves_the_task_as_it_was(
    store: foldlog.Store, session: Session
) -> None:
    await running(session)
    with pytest.raises(foldlog.PayloadError) as refused:
        await session.complete_task("task", {"x": object()})
    assert refused.value.path == "result.x"
    assert await statuses(store) == {"task": "RUNNING"}


async def test_tasks_that_others_save_are_a_sessions_too(
    store: foldlog.Store, session: Session
) -> None:
    await store.save_task(task("theirs", "s", status=TaskStatus.RUNNING))
    await session.complete_task("theirs", 1)
    [found] = await store.list_tasks("s")
    assert (found.status, found.result, found.priority) == (TaskStatus.COMPLETE, 1, 5)


async def test_the_tasks_of_a_fork_are_its_own(store: foldlog.Store, session: Session) -> None:
    await running(session)
    fork = await store.session(await store.fork("s", to="f"))
    assert [each.session_id for each in await fork.list_tasks()] == ["f"]
    ended = await fork.complete_task("task")
    assert ended.session_id == "f"
    await store.save_task(ended)
    assert await statuses(store) == {"task": "RUNNING"}


async def test_background_tasks_tell_of_their_end_if_asked(
    store: foldlog.Store, session: Session
) -> None:
    for number, options in enumerate(({}, {"notify_on_complete": False})):
        await running(session, f"t{number}", task_type=TaskType.BACKGROUND, **options)
        await session.complete_task(f"t{number}")
    assert [note["task_id"] for note in await told(store, "NOTIFICATION")] == ["t0"]


# --- priorities ---------------------------------------------------------------------------------


async def test_the_most_urgent_is_started_first(session: Session) -> None:
    for task_id, priority in (("a", 0), ("b", 5), ("c", 5), ("d", 1)):
        await session.spawn_task(task_id=task_id, priority=priority)
    await session.prioritize_task("d", 7)
    order = []
    while (started := await session.start_next_task()) is not None:
        order.append(started.task_id)
    assert order == ["d", "b", "c", "a"]


async def test_many_who_take_the_next_take_each_once(
    session: Session, open_session: OpenSession
) -> None:
    for number in range(4):
        await session.spawn_task(task_id=f"t{number}")
    actors = [session, await open_session(), await open_session()]
    taken = await asyncio.gather(*(each.start_next_task() for each in actors for _ in range(2)))
    ids = sorted(each.task_id for each in taken if each is not None)
    assert ids == ["t0", "t1", "t2", "t3"]


@pytest.mark.parametrize("word", ["mode", "propagate_on_cancel"])
async def test_a_word_that_says_nothing_of_a_task_is_refused(session: Session, word: str) -> None:
    with pytest.raises(foldlog.PayloadError, match="it is one of") as refused:
        await session.spawn_task(**{word: "zzz"})
    assert refused.value.path == word
    assert await session.list_tasks() == []


async def test_an_id_stands_for_one_update_and_one_event(store: foldlog.Store) -> None:
    def order(priority: int) -> foldlog.SteeringEvent:
        return foldlog.SteeringEvent(
            session_id="trip",
            task_id="book",
            event_id="e",
            event_type=foldlog.SteeringEventType.PRIORITIZE,
            payload={"priority": priority},
        )

    async with store.session("trip") as session:
        await session.spawn_task(task_id="book")
        await session.start_task("book")
        for _ in range(2):
            await session.report("book", "searching", update_id="u")
        assert [await session.steer(order(3)) for _ in range(2)] == [True, False]
        with pytest.raises(foldlog.IdTaken):
            await session.report("book", "found", update_id="u")
        with pytest.raises(foldlog.IdTaken):
            await session.steer(order(4))
        assert session.get_task("book").priority == 3
    assert [each.content for each in await store.list_updates("trip") if each.update_id == "u"] == [
        "searching"
    ]
