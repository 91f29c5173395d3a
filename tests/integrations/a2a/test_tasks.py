"""Tasks on a log: versions, owners, lists, sessions, and what is refused."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import pytest
from a2a.server.cluster import ConcurrentTaskModificationError, TaskVersion
from a2a.types import ListTasksRequest, Message, Part, Task, TaskState
from a2a.utils.errors import InvalidParamsError
from google.protobuf.struct_pb2 import Value

import foldlog
from foldlog.integrations.a2a import FoldlogTaskStore, FoldlogVersionedTaskStore
from foldlog_projections.a2a import a2atasks
from tests.integrations.a2a.support import ANN, BOB, MISSING, chunk, now, save, task
from tests.integrations.killing import dying_at

DIGITS = re.compile(r"\d{4,}")


def hide(saving: foldlog.Saving) -> Mapping[str, Any]:
    """Mask every long number, wherever it stands."""

    def masked(value: Any) -> Any:
        if isinstance(value, str):
            return DIGITS.sub("*", value)
        if isinstance(value, dict):
            return {key: masked(each) for key, each in value.items()}
        return [masked(each) for each in value] if isinstance(value, list) else value

    return {name: masked(value) for name, value in saving.values.items()}


async def states(tasks: Any, **wanted: Any) -> list[str]:
    page = await tasks.list(ListTasksRequest(**wanted), ANN)
    return [each.id for each in page.tasks]


# --- versions -----------------------------------------------------------------------------------


async def test_of_writers_at_one_version_exactly_one_saves(log: foldlog.Store) -> None:
    tasks = FoldlogVersionedTaskStore(log)
    first = await save(tasks, task())
    saves = [save(tasks, task(state="working", at=n + 1), first) for n in range(20)]
    outcomes = await asyncio.gather(*saves, return_exceptions=True)
    assert [o for o in outcomes if isinstance(o, TaskVersion)] == [TaskVersion(2)]
    assert sum(isinstance(o, ConcurrentTaskModificationError) for o in outcomes) == 19


async def test_writers_who_read_again_lose_nothing(log: foldlog.Store) -> None:
    tasks = FoldlogVersionedTaskStore(log)
    await save(tasks, task())

    async def say(text: str) -> None:
        while True:
            stored = await tasks.get("t1", ANN)
            assert stored is not None
            stored.task.history.append(Message(message_id=text, parts=[Part(text=text)]))
            try:
                await save(tasks, stored.task, stored.version)
            except ConcurrentTaskModificationError:
                continue
            return

    await asyncio.gather(*(say(str(n)) for n in range(12)))
    stored = await tasks.get("t1", ANN)
    assert stored is not None
    assert sorted(int(each.message_id) for each in stored.task.history) == list(range(12))
    assert stored.version == TaskVersion(13)


async def test_a_cancel_wins_over_any_version_that_has_not_ended(log: foldlog.Store) -> None:
    tasks = FoldlogVersionedTaskStore(log)
    first = await save(tasks, task())
    await save(tasks, task(state="working"), first)
    await save(tasks, task(state="canceled"), first)
    with pytest.raises(ConcurrentTaskModificationError):
        await save(tasks, task(state="canceled"), TaskVersion(3))
    with pytest.raises(ConcurrentTaskModificationError):
        await save(tasks, task("never", "canceled"))


async def test_both_task_stores_have_the_same_tasks(log: foldlog.Store) -> None:
    versioned = FoldlogVersionedTaskStore(log)
    first = await save(versioned, task())
    await versioned.as_task_store.save(task(state="working"), ANN)
    with pytest.raises(ConcurrentTaskModificationError):
        await save(versioned, task(state="completed"), first)
    stored = await versioned.get("t1", ANN)
    assert stored is not None
    assert (stored.task.status.state, stored.version) == (2, TaskVersion(2))


async def test_a_task_that_grows_is_saved_as_what_it_grew_by(log: foldlog.Store) -> None:
    tasks, grown = FoldlogVersionedTaskStore(log), task(state="working")
    version = await save(tasks, grown)
    for _ in range(50):
        event = chunk(grown, "x" * 1000)
        version = await save(tasks, grown, version, event)
    sizes = [len(str(each.record.change)) for each in await log.items(a2atasks.kind("a2a", "t1"))]
    assert max(sizes) < 1200
    stored = await tasks.get("t1", ANN)
    assert stored is not None
    assert stored.task == grown


# --- owners and names ---------------------------------------------------------------------------


async def test_an_owner_sees_and_touches_nothing_of_anothers(log: foldlog.Store) -> None:
    tasks = FoldlogTaskStore(log)
    await tasks.save(task(), ANN)
    assert await tasks.get("t1", BOB) is None
    assert (await tasks.list(ListTasksRequest(), BOB)).total_size == 0
    await tasks.delete("t1", BOB)
    with pytest.raises(ConcurrentTaskModificationError):
        await tasks.save(task(state="completed"), BOB)
    assert await tasks.get("t1", ANN) == task()


async def test_servers_of_another_name_have_other_tasks(log: foldlog.Store) -> None:
    await FoldlogTaskStore(log, name="planner").save(task(), ANN)
    assert await FoldlogTaskStore(log).get("t1", ANN) is None
    assert await FoldlogTaskStore(log, name="planner").get("t1", ANN) == task()


async def test_an_owner_resolver_says_whose_a_task_is(log: foldlog.Store) -> None:
    tasks = FoldlogTaskStore(log, owner_resolver=lambda context: "everybody")
    await tasks.save(task(), ANN)
    assert await tasks.get("t1", BOB) == task()


# --- lists --------------------------------------------------------------------------------------


async def test_pages_follow_each_other_whatever_becomes_of_their_tasks(log: foldlog.Store) -> None:
    tasks = FoldlogTaskStore(log)
    for n in range(7):
        await tasks.save(task(f"t{n}", at=n and 100 + n), ANN)
    seen, token = [], ""
    while True:
        page = await tasks.list(ListTasksRequest(page_size=2, page_token=token), ANN)
        seen += [each.id for each in page.tasks]
        token = page.next_page_token
        if not token:
            break
        await tasks.delete(seen[-1], ANN)  # the one that the token names
    assert seen == ["t6", "t5", "t4", "t3", "t2", "t1", "t0"]
    assert await states(tasks) == ["t6", "t4", "t2", "t0"]


async def test_a_list_is_filtered_by_context_state_and_time(log: foldlog.Store) -> None:
    tasks = FoldlogTaskStore(log)
    await tasks.save(task("old", "completed", at=10), ANN)
    await tasks.save(task("new", "working", at=20), ANN)
    await tasks.save(task("other", "working", context="home", at=30), ANN)
    await tasks.save(task("timeless", "working"), ANN)
    assert await states(tasks) == ["other", "new", "old", "timeless"]
    assert await states(tasks, context_id="trip") == ["new", "old", "timeless"]
    assert await states(tasks, status=TaskState.TASK_STATE_WORKING) == ["other", "new", "timeless"]
    since = ListTasksRequest()
    since.status_timestamp_after.FromSeconds(20)
    assert [each.id for each in (await tasks.list(since, ANN)).tasks] == ["other", "new"]
    await tasks.save(task("new", "completed", at=40), ANN)
    assert await states(tasks, status=TaskState.TASK_STATE_COMPLETED) == ["new", "old"]


@pytest.mark.parametrize(
    "wanted", [{"page_token": "no token"}, {"page_size": -1}, {"page_size": 101}]
)
async def test_a_page_that_cannot_be_is_refused(log: foldlog.Store, wanted: Any) -> None:
    with pytest.raises(InvalidParamsError):
        await FoldlogTaskStore(log).list(ListTasksRequest(**wanted), ANN)


# --- sessions -----------------------------------------------------------------------------------


async def test_a_task_is_part_of_its_contexts_session(log: foldlog.Store) -> None:
    tasks = FoldlogVersionedTaskStore(log)
    version = await save(tasks, task(), event=task())
    grown = task(state="working")
    await save(tasks, grown, version, chunk(grown, "a secret"))
    await save(tasks, task("t2", context="home"))
    assert await log.sessions() == ["home", "trip"]
    then = await log.position()

    erased = await log.erase_session("trip")
    assert erased.removed["a2atasks"] == 2
    assert erased.readable == ()
    assert await log.sessions() == ["home"]
    assert await tasks.get("t1", ANN) is None
    page = await tasks.list(ListTasksRequest(), ANN)
    assert ([each.id for each in page.tasks], page.total_size) == (["t2"], 1)
    assert await FoldlogTaskStore(log.at(then)).get("t2", ANN) == task("t2", context="home")


async def test_the_past_is_read_as_it_was(log: foldlog.Store) -> None:
    tasks = FoldlogTaskStore(log)
    await tasks.save(task(state="working"), ANN)
    then = await log.position()
    await tasks.save(task(state="completed"), ANN)
    before = FoldlogTaskStore(log.at(then))
    assert await before.get("t1", ANN) == task(state="working")
    assert await states(before, status=TaskState.TASK_STATE_WORKING) == ["t1"]


async def test_what_is_redacted_is_on_no_record() -> None:
    async with foldlog.memory_store(redact=hide) as log:
        tasks, card = FoldlogVersionedTaskStore(log), task(state="working")
        version = await save(tasks, card, event=card)
        for text in ("card 4711", "and 4711 again"):
            version = await save(tasks, card, version, chunk(card, text))
        stored = await tasks.get("t1", ANN)
        assert stored is not None
        assert [p.text for p in stored.task.artifacts[0].parts] == ["card *", "and * again"]
        records = await log.items(a2atasks.kind("a2a", "t1"))
        assert "4711" not in str(records)
        assert "card *" in str(records)


async def test_a_hook_that_leaves_no_task_is_refused() -> None:
    def break_it(saving: foldlog.Saving) -> Mapping[str, Any]:
        return {**saving.values, "change": [0, {"history": 1}]}

    async with foldlog.memory_store(redact=break_it) as log:
        with pytest.raises(foldlog.PayloadError, match="no task"):
            await FoldlogTaskStore(log).save(task(), ANN)
        assert await log.keys(a2atasks.kind) == []


async def test_a_task_that_asks_waits_until_it_goes_on(log: foldlog.Store) -> None:
    tasks, asking = FoldlogVersionedTaskStore(log), task(state="working")
    version = await save(tasks, asking)
    version = await save(tasks, asking, version, now(asking, "input_required", "Window or aisle?"))
    [item] = await log.waiting()
    assert (item.session_id, item.task_id, item.by) == ("trip", "t1", "ann")
    assert item.asked["reason"] == "input-required"
    assert item.asked["payload"]["parts"] == [{"text": "Window or aisle?"}]
    version = await save(tasks, asking, version, now(asking, "working"))
    assert await log.waiting() == []

    version = await save(tasks, asking, version, now(asking, "auth_required", "Who are you?"))
    [item] = await log.waiting(session_id="trip")
    with pytest.raises(foldlog.Misuse, match="send its agent a message"):
        await log.answer(item.id)
    assert await log.waiting() == [item]
    await save(tasks, asking, version, now(asking, "working"))
    with pytest.raises(foldlog.AlreadyAnswered):
        await log.answer(item.id)


async def test_what_waits_is_saved_with_its_task_or_not_at_all(log: foldlog.Store) -> None:
    tasks, asking = FoldlogVersionedTaskStore(log), task(state="working")
    version = await save(tasks, asking)
    event = now(asking, "input_required", "Why?")
    with dying_at(log, "save_planner_state"):
        await save(tasks, asking, version, event)
    assert await states(tasks, status=TaskState.TASK_STATE_WORKING) == ["t1"]

    await save(tasks, asking, version, event)
    with dying_at(log, "load_planner_state"):
        await tasks.as_task_store.save(task(state="completed"), ANN)
    assert await states(tasks, status=TaskState.TASK_STATE_INPUT_REQUIRED) == ["t1"]
    assert len(await log.waiting()) == 1
    with dying_at(log, "erase"):
        await tasks.delete("t1", ANN)
    assert (await log.waiting(), await states(tasks)) == ([], [])
    await tasks.delete("t1", ANN)  # what is not listed can still be deleted
    assert await tasks.get("t1", ANN) is None


async def test_of_servers_that_go_on_at_once_each_ends_what_waited(log: foldlog.Store) -> None:
    tasks = FoldlogTaskStore(log)
    await tasks.save(task(state="input_required"), ANN)
    [item] = await log.waiting()
    saves = (tasks.save(task(state="working", at=n + 1), ANN) for n in range(8))
    await asyncio.gather(*saves)
    assert await log.waiting() == []
    with pytest.raises(foldlog.AlreadyAnswered):
        await log.answer(item.id)


async def test_a_fork_shares_what_there_was_and_has_new_tasks_of_its_own(
    log: foldlog.Store,
) -> None:
    tasks = FoldlogVersionedTaskStore(log)
    await save(tasks, task())
    await log.fork("trip", to="trip-2")
    await save(tasks, task("t2", context="trip-2"))
    with pytest.raises(foldlog.SessionHasForks):
        await log.erase_session("trip")
    await log.erase_session("trip-2")
    assert await states(tasks) == ["t1"]


async def test_tasks_and_what_waits_may_be_on_several_shards() -> None:
    async with foldlog.memory_store(shards=4) as log:
        tasks = FoldlogVersionedTaskStore(log)
        for n in range(6):
            asking = task(f"t{n}", "working", context=f"c{n}")
            await save(tasks, asking, event=now(asking, "input_required", "Why?"))
        assert len(await log.waiting()) == 6
        async with log.atomic():
            version = await save(tasks, task("last"))
        stored = await tasks.get("last", ANN)
        assert stored is not None
        assert stored.version == version


# --- bad input ----------------------------------------------------------------------------------


async def test_what_is_no_task_is_refused(log: foldlog.Store) -> None:
    tasks: Any = FoldlogVersionedTaskStore(log)
    with pytest.raises(foldlog.PayloadError, match="no Task"):
        await save(tasks, {"id": "t1"})  # type: ignore[arg-type]
    with pytest.raises(foldlog.InvalidId):
        await save(tasks, task(""))
    with pytest.raises(foldlog.PayloadError, match="event"):
        await save(tasks, task(), event="working")
    not_json = task()
    not_json.artifacts.add(artifact_id="a").parts.add().data.CopyFrom(
        Value(number_value=float("nan"))
    )
    with pytest.raises(foldlog.PayloadError, match=r"(?i)nan"):
        await save(tasks, not_json)
    with pytest.raises(TypeError, match="integer versions"):
        await save(tasks, task(), TaskVersion("an etag"))
    assert await log.keys(a2atasks.kind) == []


def test_what_is_no_store_is_refused() -> None:
    with pytest.raises(foldlog.ConfigurationError, match="Store"):
        FoldlogTaskStore("./data")  # type: ignore[arg-type]


async def test_a_deleted_task_is_gone_with_its_history(log: foldlog.Store) -> None:
    tasks = FoldlogVersionedTaskStore(log)
    asking = task(state="working")
    await save(tasks, asking, event=now(asking, "input_required", "Why?"))
    await tasks.delete("t1", ANN)
    await tasks.delete("t1", ANN)
    assert await tasks.get("t1", ANN) is None
    assert await log.items(a2atasks.kind("a2a", "t1")) == []
    assert await log.waiting() == []
    assert await save(tasks, task(), MISSING) == TaskVersion(1)
    assert isinstance((await tasks.list(ListTasksRequest(), ANN)).tasks[0], Task)
