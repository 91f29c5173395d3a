"""What waits for a person, on every backend: listed once, answered once, gone when it is over."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

import foldlog
from foldlog import WaitingKind
from foldlog.runs import RunPaused
from foldlog.sessions import ContextPatch, MergeStrategy
from foldlog_projections import waiting
from tests.conftest import OpenStore

PAUSE = {
    "trajectory": {"steps": []},
    "reason": "await_input",
    "payload": {"question": "which city?"},
    "tool_context": {"user_id": "ann", "session_id": "s", "trace_id": "t"},
}


async def pause(store: foldlog.Store, token: str = "token") -> None:
    """A planner waits."""
    await store.save_planner_state(token, PAUSE)


async def gate(store: foldlog.Store, patch_id: str = "patch", session_id: str = "s") -> None:
    """A patch waits for approval."""
    async with store.session(session_id) as session:
        await session.apply_context_patch(
            patch=ContextPatch(task_id="task", digest=["80 euros"]),
            strategy=MergeStrategy.HUMAN_GATED,
            patch_id=patch_id,
        )


async def hold(store: foldlog.Store, task_id: str = "task", session_id: str = "s") -> None:
    """A task is paused."""
    async with store.session(session_id) as session:
        await session.spawn_task(task_id=task_id, description="look for fares", trace_id="t")
        await session.start_task(task_id)
        await session.report(
            task_id, {"options": ["a", "b"]}, update_type=foldlog.UpdateType.CHECKPOINT
        )
        await session.pause_task(task_id, reason="a or b?")


async def ask(store: foldlog.Store, *, session_id: str | None = None) -> Any:
    """A run asks; returns the answer, or None while there is none."""
    try:
        async with store.run("run", session_id=session_id) as run:
            return await run.ask("step::1", {"question": "book?", "user_id": "ann"}, wait=0)
    except RunPaused:
        return None


async def all_of(store: foldlog.Store) -> None:
    """One thing of each kind waits."""
    for begin in (pause, gate, hold, ask):
        await begin(store)


async def kinds(store: foldlog.Store, **asked: Any) -> list[str]:
    return [str(item.kind) for item in await store.waiting(**asked)]


async def only(store: foldlog.Store) -> foldlog.Waiting:
    """The one thing that waits."""
    [item] = await store.waiting()
    return item


# --- what is listed -------------------------------------------------------------------------------


async def test_all_that_waits_is_on_one_list(store: foldlog.Store, reopen: OpenStore) -> None:
    assert await store.waiting() == []
    await all_of(store)
    found = {item.kind: item for item in await (await reopen()).waiting()}
    assert sorted(found) == ["patch", "pause", "question", "task"]
    planner, patch = found[WaitingKind.PAUSE], found[WaitingKind.PATCH]
    task, question = found[WaitingKind.TASK], found[WaitingKind.QUESTION]
    assert planner.asked == {"reason": "await_input", "payload": {"question": "which city?"}}
    assert (planner.session_id, planner.trace_id, planner.by) == ("s", "t", "ann")
    assert planner.until is not None
    assert planner.until > planner.since
    assert patch.asked.digest == ["80 euros"]
    assert (patch.session_id, patch.task_id, patch.until) == ("s", "task", None)
    assert task.asked == {
        "description": "look for fares",
        "reason": "a or b?",
        "checkpoint": {"options": ["a", "b"]},
    }
    assert (task.session_id, task.task_id, task.trace_id) == ("s", "task", "t")
    assert question.asked == {"question": "book?", "user_id": "ann"}
    assert (question.session_id, question.task_id, question.by) == ("run", "run", "ann")
    assert question.step == "step::1"


async def test_it_is_listed_oldest_first_and_in_pages(store: foldlog.Store) -> None:
    for number in range(150):
        await pause(store, f"token-{number}")
    whole = await store.waiting()
    assert [item.since for item in whole] == sorted(item.since for item in whole)
    assert {item.id.split("/")[1] for item in whole} == {f"token-{n}" for n in range(150)}
    paged: list[foldlog.Waiting] = []
    while page := await store.waiting(after=paged[-1].id if paged else None, limit=40):
        assert len(page) <= 40
        paged += page
    assert paged == whole


async def test_a_page_goes_on_behind_an_item_that_was_answered(store: foldlog.Store) -> None:
    for number in range(4):
        await pause(store, f"token-{number}")
    first, second, *rest = await store.waiting()
    await store.answer(second.id)
    assert await store.waiting(after=second.id) == rest
    assert await store.waiting(limit=2) == [first, rest[0]]


async def test_one_session_can_be_asked_for(store: foldlog.Store) -> None:
    await all_of(store)
    await gate(store, session_id="other")
    assert await kinds(store, session_id="s") == ["patch", "task"]
    assert await kinds(store, session_id="other") == ["patch"]


async def test_what_somebody_else_saves_as_paused_waits_too(store: foldlog.Store) -> None:
    async with store.session("s") as session:
        await session.spawn_task(task_id="task")
        task = await session.start_task("task")
    task.update_status(foldlog.TaskStatus.PAUSED)
    await store.save_task(task)
    item = await only(store)
    assert abs(item.since - task.updated_at) < dt.timedelta(milliseconds=1)
    await store.answer(item.id)
    assert (await store.list_tasks("s"))[0].status is foldlog.TaskStatus.RUNNING
    task.update_status(foldlog.TaskStatus.PAUSED)
    await store.save_task(task)
    again = await only(store)
    task.update_status(foldlog.TaskStatus.FAILED)
    await store.save_task(task)
    assert await store.waiting() == []
    with pytest.raises(foldlog.AlreadyAnswered, match="FAILED"):
        await store.answer(again.id)


async def test_a_save_that_waits_for_nobody_appends_nothing_else(store: foldlog.Store) -> None:
    async with store.session("s") as session:
        await session.spawn_task(task_id="task")
        await session.start_task("task")
        await session.complete_task("task")
    async with store.run("run") as run:
        await run.step("step", asyncio.sleep, 0)
    await store.save_task((await store.list_tasks("s"))[0])
    assert await store.keys(waiting.kind) == []


# --- answers --------------------------------------------------------------------------------------


async def test_a_patch_is_applied_or_dropped(store: foldlog.Store) -> None:
    await gate(store, "one")
    await gate(store, "two")
    one, two = await store.waiting()
    assert (await store.answer(one.id, True)).decision == "applied"
    assert (await store.answer(two.id, False)).decision == "rejected"
    async with store.session("s") as session:
        assert session.pending_patches == {}
        assert [session.state.outcome(each) for each in ("one", "two")] == ["applied", "rejected"]
        assert len(session.context.llm_context["background_results"]) == 1
    steering = await store.list_steering("s")
    assert [event.event_type.value for event in steering] == ["APPROVE", "REJECT"]
    assert await store.waiting() == []


async def test_a_task_goes_on_or_is_cancelled(store: foldlog.Store) -> None:
    await hold(store, "one")
    await hold(store, "two")
    one, two = await store.waiting()
    assert (await store.answer(one.id)).decision == "resumed"
    assert (await store.answer(two.id, False)).decision == "cancelled"
    assert [task.status.value for task in await store.list_tasks("s")] == ["RUNNING", "CANCELLED"]
    told = [event.event_type.value for event in await store.list_steering("s")]
    assert told == ["PAUSE", "PAUSE", "RESUME", "CANCEL"]


async def test_a_run_gets_its_answer(store: foldlog.Store, reopen: OpenStore) -> None:
    assert await ask(store) is None
    assert await ask(store) is None  # asking again is no second question
    item = await only(store)
    assert (await (await reopen()).answer(item.id, {"seat": 7})).decision == "answered"
    assert await ask(store) == {"seat": 7}
    assert await store.waiting() == []


async def test_a_pause_is_consumed_and_its_state_handed_over(store: foldlog.Store) -> None:
    await pause(store)
    item = await only(store)
    answered = await store.answer(item.id)
    assert (answered.decision, answered.state) == ("consumed", PAUSE)
    assert await store.load_planner_state("token") is None


async def test_what_only_a_framework_can_answer_says_where_and_waits_on(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    where = "your program: invoke the graph with Command(resume=...)"
    await store.save_planner_state("token", {**PAUSE, "answer_in": where})
    item, other = await only(store), await reopen()
    for decide in (store.answer, other.answer, store.confirm, store.retract):
        with pytest.raises(foldlog.Misuse, match="only the framework can go on") as refused:
            await decide(item.id)
        assert item.id in str(refused.value)
        assert where in str(refused.value)
    assert await only(store) == await only(other) == item
    assert await store.load_planner_state("token") is not None  # as the framework goes on
    assert await store.waiting() == []
    with pytest.raises(foldlog.AlreadyAnswered):
        await store.answer(item.id)


@pytest.mark.parametrize("begin", [pause, gate, hold, ask])
async def test_of_many_answers_one_decides(
    store: foldlog.Store, reopen: OpenStore, begin: Callable[[foldlog.Store], Any]
) -> None:
    """Whoever comes second hears what was decided, and changes nothing."""
    await begin(store)
    other, item = await reopen(), await only(store)
    answers = [bool(number % 3) for number in range(6)]
    ended = await asyncio.gather(
        *((store, other)[n % 2].answer(item.id, answer) for n, answer in enumerate(answers)),
        return_exceptions=True,
    )
    [first] = [each for each in ended if isinstance(each, foldlog.Answered)]
    late = [each for each in ended if isinstance(each, foldlog.AlreadyAnswered)]
    assert len(late) == 5
    said = {"resumed": "the task is now RUNNING", "cancelled": "the task is now CANCELLED"}
    assert {each.decision for each in late} == {said.get(first.decision, first.decision)}
    assert await store.waiting() == await other.waiting() == []


async def test_an_answer_to_an_earlier_question_does_not_decide_a_later_one(
    store: foldlog.Store, advance_clock: Callable[[float], None]
) -> None:
    await hold(store)
    before = await only(store)
    await store.answer(before.id)
    advance_clock(1.0)
    async with store.session("s") as session:
        await session.pause_task("task", reason="and now?")
    after = await only(store)
    assert after.id != before.id
    with pytest.raises(foldlog.AlreadyAnswered):
        await store.answer(before.id, False)
    assert await only(store) == after


async def test_an_answer_does_not_decide_what_is_asked_in_place_of_its_question(
    store: foldlog.Store, advance_clock: Callable[[float], None]
) -> None:
    async def refund(euros: int) -> Any:
        async with store.run("refund") as run:
            return await run.ask("approve", {"euros": euros}, wait=0)

    with pytest.raises(RunPaused):
        await refund(1)
    before = await only(store)
    for _ in range(2):  # asking the same again, as after a restart, is the same question
        advance_clock(1.0)
        with pytest.raises(RunPaused):
            await refund(1)
        assert await only(store) == before
    with pytest.raises(RunPaused):
        await refund(9000)
    after = await only(store)
    assert (after.asked, after.since > before.since) == ({"euros": 9000}, True)
    with pytest.raises(foldlog.NotWaiting):
        await store.answer(before.id, True)
    assert (await store.answer(after.id, False)).decision == "answered"
    assert await refund(9000) is False


async def test_what_was_decided_by_another_door_waits_no_more(store: foldlog.Store) -> None:
    await all_of(store)
    items = {item.kind: item for item in await store.waiting()}
    async with store.session("s") as session:
        await session.reject_pending_patch("patch")
        await session.resume_task("task")
    await store.answer(items[WaitingKind.QUESTION].id, "yes")
    await store.load_planner_state("token")
    assert (await store.view(waiting.kind("0"))) == {}
    for kind, decision in (
        ("patch", "rejected"),
        ("task", "the task is now RUNNING"),
        ("question", "answered"),
        ("pause", "consumed"),
    ):
        with pytest.raises(foldlog.AlreadyAnswered) as refused:
            await store.answer(items[WaitingKind(kind)].id)
        assert refused.value.decision == decision
        assert refused.value.answer == ("yes" if kind == "question" else None)


async def test_what_has_expired_says_so(
    reopen: OpenStore, advance_clock: Callable[[float], None]
) -> None:
    store = await reopen(pause_ttl=100.0)
    await pause(store)
    item = await only(store)
    advance_clock(101.0)
    assert await store.waiting() == []
    with pytest.raises(foldlog.WaitingExpired, match="has to be asked again"):
        await store.answer(item.id)


@pytest.mark.parametrize("begin", [pause, gate, hold, ask])
async def test_what_never_waited_takes_no_answer(
    store: foldlog.Store, begin: Callable[[foldlog.Store], Any]
) -> None:
    await begin(store)
    kind, *_, since = (await only(store)).id.split("/")
    keys = ["nobody"] if kind == "pause" else ["nobody", "nothing"]
    with pytest.raises(foldlog.NotWaiting, match="nobody"):
        await store.answer("/".join([kind, *keys, since]))


@pytest.mark.parametrize(
    "id", ["", "x", "patch/s/1f", "task/s/t/soon", "pause/a/b/1f", f"pause/a/{'f' * 400}"]
)
async def test_what_is_no_id_is_refused(store: foldlog.Store, id: str) -> None:
    with pytest.raises(foldlog.InvalidId):
        await store.answer(id)
    with pytest.raises(foldlog.InvalidId):
        await store.waiting(after=id)


@pytest.mark.parametrize("begin", [gate, hold])
async def test_a_decision_is_true_or_false(
    store: foldlog.Store, begin: Callable[[foldlog.Store], Any]
) -> None:
    await begin(store)
    with pytest.raises(foldlog.PayloadError, match="True approves"):
        await store.answer((await only(store)).id, "perhaps")
    assert len(await store.waiting()) == 1


async def test_any_key_can_stand_in_an_id(store: foldlog.Store) -> None:
    await gate(store, patch_id="a/b %?é", session_id="s/1@x")
    assert (await store.answer((await only(store)).id)).decision == "applied"


# --- the end of what they belong to ---------------------------------------------------------------


@pytest.mark.parametrize("way", ["clear_session", "erase_session"])
async def test_a_session_that_is_removed_leaves_nothing(store: foldlog.Store, way: str) -> None:
    await gate(store)
    await hold(store)
    await gate(store, session_id="other")
    gone = [item for item in await store.waiting() if item.session_id == "s"]
    await getattr(store, way)("s")
    assert list(await store.view(waiting.kind("0"))) == [(await only(store)).id]
    assert (await only(store)).session_id == "other"
    for item in gone:
        with pytest.raises(foldlog.NotWaiting):
            await store.answer(item.id)


async def test_what_belongs_to_a_session_waits_and_goes_with_it(store: foldlog.Store) -> None:
    await store.save_planner_state("token", {}, session_id="s")
    await ask(store, session_id="s")
    assert [item.session_id for item in await store.waiting()] == ["s", "s"]
    assert await kinds(store, session_id="s") == ["pause", "question"]
    await store.clear_session("s")
    assert await store.view(waiting.kind("0")) == {}


async def test_a_run_that_is_removed_asks_no_more(store: foldlog.Store) -> None:
    await ask(store)
    item = await only(store)
    await store.clear_session("run")
    assert await store.waiting() == []
    assert await store.view(waiting.kind("0")) == {}
    with pytest.raises(foldlog.NotWaiting):
        await store.answer(item.id)


async def test_the_past_leaves_out_what_was_removed_since(store: foldlog.Store) -> None:
    await gate(store, session_id="other")
    kept = await store.waiting()
    await gate(store)
    await hold(store)
    await ask(store, session_id="s")
    await store.save_planner_state("token", {}, session_id="s")
    async with store.run("kept", session_id="other"):
        pass
    moment = await store.position()
    assert len(await store.at(moment).waiting()) == 5
    await store.clear_session("s")
    then = store.at(moment)
    assert await then.waiting() == [item async for item in then.watch_waiting()] == kept
    assert [task.task_id for task in await then.list_tasks("other")] == ["kept"]
    with pytest.raises(foldlog.PastErased):
        await then.waiting(session_id="s")


async def test_the_past_shows_what_waited_then(store: foldlog.Store) -> None:
    await all_of(store)
    then, items = await store.position(), await store.waiting()
    for item in items:
        await store.answer(item.id)
    assert await store.waiting() == []
    assert await store.at(then).waiting() == items
    with pytest.raises(foldlog.ReadOnlyStore):
        await store.at(then).answer(items[0].id)


# --- watching -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shards", [1, 3])
async def test_watching_shows_what_waits_and_what_comes(reopen: OpenStore, shards: int) -> None:
    store, other = await reopen(shards=shards), await reopen(shards=shards)
    await gate(store, session_id="a")
    await gate(store, session_id="b")
    async with aclosing(other.watch_waiting()) as watched:
        seen = [(await anext(watched)).session_id for _ in range(2)]
        await store.answer((await store.waiting())[0].id)
        for begin in (pause, hold, ask):
            await begin(store)
            item = await anext(watched)
            seen.append(str(item.kind))
    assert seen == ["a", "b", "pause", "task", "question"]


async def test_watching_leaves_out_what_was_answered_before_its_turn(
    store: foldlog.Store, advance_clock: Callable[[float], None]
) -> None:
    for token in "abc":
        await pause(store, token)
        advance_clock(1.0)
    async with aclosing(store.watch_waiting()) as watching:
        assert (await anext(watching)).id.startswith("pause/a/")
        await store.load_planner_state("b")
        assert (await anext(watching)).id.startswith("pause/c/")


async def test_watching_one_session(store: foldlog.Store) -> None:
    await gate(store, session_id="a")
    async with aclosing(store.watch_waiting(session_id="b")) as watched:
        coming = asyncio.ensure_future(anext(watched))
        await gate(store, session_id="b")
        assert (await coming).session_id == "b"


async def test_watching_the_past_ends(store: foldlog.Store) -> None:
    await all_of(store)
    items, past = await store.waiting(), store.at(await store.position())
    assert [item async for item in past.watch_waiting()] == items


# --- redaction ------------------------------------------------------------------------------------


async def test_what_is_asked_is_what_the_hook_left(reopen: OpenStore) -> None:
    def hide(saving: foldlog.Saving) -> dict[str, Any]:
        return {
            **saving.values,
            **{name: "[hidden]" for name in saving.values if name == "question"},
        }

    store = await reopen(redact=hide)
    await ask(store)
    assert (await only(store)).asked == "[hidden]"
