"""Tasks from when they are spawned until they end, alone, in families and in groups."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import foldlog
from foldlog import TaskStatus, TaskType, UpdateType
from foldlog.sessions import (
    GroupSealed,
    IllegalTransition,
    MergeStrategy,
    Session,
    TaskExists,
    UnknownGroup,
    UnknownTask,
)
from foldlog.sessions.status import FINAL, NEXT
from tests.sessions.conftest import OpenSession
from tests.sessions.support import patch, running, statuses, steer, told
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


async def test_an_id_is_spawned_once(session: Session, open_session: OpenSession) -> None:
    actors = [session, await open_session()]
    results = await asyncio.gather(
        *(each.spawn_task(task_id="task") for each in actors for _ in range(2)),
        return_exceptions=True,
    )
    assert [type(result) for result in results].count(TaskExists) == 3
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
        with pytest.raises(UnknownTask):
            await move(session, "nobody")
    with pytest.raises(UnknownTask):
        session.get_task("nobody")
    with pytest.raises(UnknownTask):
        await session.report("nobody", 1)


async def test_what_was_appended_is_never_said_to_be_not(
    store: foldlog.Store, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*args: Any) -> Any:
        raise foldlog.LogUnavailable("gone")

    with monkeypatch.context() as outage:
        outage.setattr(session._ledger, "read", away)
        with pytest.raises(foldlog.AppendUnknown) as raised:
            await session.spawn_task(task_id="task")
        with pytest.raises(foldlog.LogUnavailable):  # here there was nothing to append
            await session.apply_pending_patch("none")
    assert await statuses(store) == {"task": "PENDING"}
    [update] = await store.list_updates("s")
    assert update.update_id in raised.value.ids


@pytest.mark.parametrize("outcome", [foldlog.AppendUnknown(["x"], ""), asyncio.CancelledError()])
async def test_after_a_call_whose_end_is_unknown_a_read_asks_the_log(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch, outcome: BaseException
) -> None:
    session = await store.session("s")
    await running(session)
    assert len(await store.list_updates("s")) == 2
    append, read, asked = store.log.append, store.log.read, list[Any]()

    async def lost(*args: Any, **options: Any) -> Any:
        await append(*args, **options)
        raise outcome

    def noted(*args: Any, **options: Any) -> Any:
        asked.append(args)
        return read(*args, **options)

    monkeypatch.setattr(store.log, "append", lost)
    with pytest.raises(type(outcome)):
        await session.report("task", 1)
    monkeypatch.setattr(store.log, "read", noted)
    assert len(await store.list_updates("s")) == 3
    assert asked


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
    fork = await store.session(await store.fork("s", into="f"))
    assert [each.session_id for each in fork.list_tasks()] == ["f"]
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


# --- families -----------------------------------------------------------------------------------


async def family(session: Session) -> None:
    """root > child > grandchild; root > isolated > below; root > done > under-done."""
    await running(session, "root")
    for task_id, parent, how in (
        ("child", "root", "cascade"),
        ("grandchild", "child", "cascade"),
        ("isolated", "root", "isolate"),
        ("below", "isolated", "cascade"),
        ("done", "root", "cascade"),
        ("under-done", "done", "cascade"),
        ("other", "elsewhere", "cascade"),
    ):
        await session.spawn_task(
            task_id=task_id,
            parent_task_id=parent,
            propagate_on_cancel=how,  # type: ignore[arg-type]
        )
    await session.start_task("done")
    await session.complete_task("done")


async def test_a_cancellation_reaches_all_that_was_spawned_and_is_not_isolated(
    store: foldlog.Store, session: Session
) -> None:
    await family(session)
    assert await session.cancel_task("root", reason="enough")
    assert await statuses(store) == {
        "root": "CANCELLED",
        "child": "CANCELLED",
        "grandchild": "CANCELLED",
        "isolated": "PENDING",
        "below": "PENDING",
        "done": "COMPLETE",
        "under-done": "CANCELLED",
        "other": "PENDING",
    }
    events = {event.task_id: event for event in await store.list_steering("s")}
    assert set(events) == {"root", "child", "grandchild", "under-done"}
    assert events["grandchild"].payload == {"reason": "enough", "cascaded_from": "root"}
    assert (events["root"].source, events["child"].source) == ("user", "system")


async def test_a_cascade_is_all_or_nothing(session: Session, store: foldlog.Store) -> None:
    await family(session)
    last = (await store.health()).streams[0].last_seq
    await session.cancel_task("root")
    # One record for the tasks, one for the updates, one for the steering: one append.
    assert (await store.health()).streams[0].last_seq == last + 3


async def test_a_circle_of_tasks_is_cancelled_and_has_an_end(
    store: foldlog.Store, session: Session
) -> None:
    for task_id, parent in (("a", "b"), ("b", "c"), ("c", "a"), ("self", "self")):
        snapshot = foldlog.TaskContextSnapshot(
            session_id="s", task_id=task_id, spawned_from_task_id=parent
        )
        await store.save_task(task(task_id, "s", context_snapshot=snapshot))
    await session.cancel_task("a")
    await session.cancel_task("self")
    assert set((await statuses(store)).values()) == {"CANCELLED"}


async def test_nothing_is_spawned_from_what_was_cancelled_but_what_is_isolated(
    session: Session,
) -> None:
    await running(session, "root")
    await session.cancel_task("root")
    with pytest.raises(IllegalTransition):
        await session.spawn_task(task_id="late", parent_task_id="root")
    await session.spawn_task(task_id="free", parent_task_id="root", propagate_on_cancel="isolate")


async def test_who_spawns_meanwhile_is_cancelled_or_refused(
    store: foldlog.Store, session: Session, open_session: OpenSession
) -> None:
    await running(session, "root")
    other = await open_session()
    results = await asyncio.gather(
        *(other.spawn_task(task_id=f"t{n}", parent_task_id="root") for n in range(3)),
        session.cancel_task("root"),
        return_exceptions=True,
    )
    assert results[-1] is True
    assert set((await statuses(store)).values()) == {"CANCELLED"}


async def test_the_foreground_is_the_parent_unless_one_is_named(session: Session) -> None:
    orphan = await session.spawn_task(task_id="orphan")
    assert orphan.context_snapshot.spawned_from_task_id == "foreground"
    await session.start_task("orphan")
    assert session.foreground_task_id == "orphan"
    child = await session.spawn_task(task_type=TaskType.BACKGROUND)
    assert child.context_snapshot.spawned_from_task_id == "orphan"
    await session.complete_task("orphan")
    assert session.foreground_task_id is None


# --- groups -------------------------------------------------------------------------------------


async def grouped(session: Session, *task_ids: str, **options: Any) -> None:
    await session.create_group("research", group_id="g", **options)
    for task_id in task_ids:
        await running(session, task_id, group_id="g")


async def test_a_group_is_complete_when_it_is_sealed_and_all_of_it_is(
    store: foldlog.Store, session: Session
) -> None:
    await grouped(session, "a", "b")
    await session.complete_task("a")
    group = await session.seal_group("g")
    assert (group.status, group.pending_task_ids) == ("sealed", ("b",))
    assert await told(store, "NOTIFICATION", task_id="g") == []
    await session.complete_task("b")
    group = session.state.group("g")
    assert (group.status, group.completed_task_ids) == ("complete", ("a", "b"))
    assert group.ended_at is not None
    [ended] = await told(store, "NOTIFICATION", task_id="g")
    assert (ended["kind"], ended["status"], ended["task_count"]) == ("group_ended", "complete", 2)


async def test_a_group_that_is_sealed_last_is_complete_at_once(session: Session) -> None:
    await grouped(session, "a")
    await session.complete_task("a")
    assert (await session.seal_group("g")).status == "complete"
    assert (await session.seal_group("g")).status == "complete"


async def test_a_group_fails_with_one_of_its_tasks_when_all_have_ended(session: Session) -> None:
    await grouped(session, "a", "b")
    await session.seal_group("g")
    await session.fail_task("a", "broken")
    assert session.state.group("g").status == "sealed"
    await session.complete_task("b")
    group = session.state.group("g")
    assert (group.status, group.failed_task_ids) == ("failed", ("a",))


async def test_a_cascade_ends_groups_in_the_same_moment(
    store: foldlog.Store, session: Session
) -> None:
    await running(session, "root")
    await session.create_group("research", group_id="g")
    for task_id in ("a", "b"):
        await session.spawn_task(task_id=task_id, parent_task_id="root", group_id="g")
    await session.seal_group("g")
    await session.cancel_task("root")
    assert session.state.group("g").status == "failed"
    assert len(await told(store, "NOTIFICATION", task_id="g")) == 1


async def test_nothing_joins_what_is_sealed_or_not_there(session: Session) -> None:
    await grouped(session)
    assert (await session.seal_group("g")).status == "complete"
    with pytest.raises(GroupSealed):
        await session.spawn_task(task_id="late", group_id="g")
    with pytest.raises(UnknownGroup):
        await session.spawn_task(task_id="lost", group_id="nobody")
    with pytest.raises(UnknownGroup):
        await session.seal_group("nobody")
    assert (await session.refresh()).tasks == []


async def test_a_group_ends_once_whoever_comes_last(
    store: foldlog.Store, session: Session, open_session: OpenSession
) -> None:
    for number in range(5):
        group_id = f"g{number}"
        await session.create_group("race", group_id=group_id)
        ids = [f"{group_id}-{task}" for task in range(2)]
        for task_id in ids:
            await running(session, task_id, group_id=group_id)
        other = await open_session()
        await asyncio.gather(
            session.complete_task(ids[0]), other.complete_task(ids[1]), other.seal_group(group_id)
        )
        assert (await session.refresh()).group(group_id).status == "complete"
        assert len(await told(store, "NOTIFICATION", task_id=group_id)) == 1


async def test_who_waits_for_a_group_hears_of_its_end(
    session: Session, open_session: OpenSession
) -> None:
    await grouped(session, "a")
    other = await open_session()
    waiting = asyncio.create_task(other.wait_for_group("g"))
    await session.seal_group("g")
    await session.complete_task("a")
    async with asyncio.timeout(20):
        assert (await waiting).status == "complete"
        assert (await other.wait_for_group("g")).status == "complete"


async def test_who_waits_for_a_group_does_not_mistake_a_task_for_it(
    session: Session, open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    await session.create_group("flights", group_id="g")
    await session.spawn_task(task_id="g", group_id="g")
    await session.seal_group("g")
    waiter, looked = await open_session(), asyncio.Semaphore(0)
    refresh = waiter.refresh

    async def noted() -> Any:
        state = await refresh()
        looked.release()
        return state

    monkeypatch.setattr(waiter, "refresh", noted)
    waiting = asyncio.create_task(waiter.wait_for_group("g"))
    await looked.acquire()
    await session.start_task("g")
    await looked.acquire()  # it has heard of that
    await session.complete_task("g")
    assert (await waiting).status == "complete"


async def test_a_groups_strategy_is_that_of_its_tasks(session: Session) -> None:
    await grouped(session, "a", "b", merge_strategy=MergeStrategy.HUMAN_GATED)
    await session.complete_task("a", patch=patch("a"))
    assert list(session.pending_patches) == ["a"]
    await session.complete_task("b", patch=patch("b"), strategy=MergeStrategy.APPEND)
    assert len(session.context.llm_context["background_results"]) == 1


async def test_steering_a_cancel_is_the_same_as_cancelling(
    store: foldlog.Store, session: Session
) -> None:
    await family(session)
    event = steer("CANCEL", "root", event_id="stop", reason="enough")
    assert await session.steer(event)
    assert not await session.steer(event), "it was seen before"
    ids = {each.event_id for each in await store.list_steering("s")}
    assert ids == {"stop", "stop:child", "stop:grandchild", "stop:under-done"}
