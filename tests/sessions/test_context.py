"""Contexts: versions, hashes, patches, divergence, and who decides about what waits."""

from __future__ import annotations

import asyncio
import hashlib
import math
from typing import Any

import pytest

import foldlog
from foldlog.sessions import (
    ContextPatch,
    MergeRefused,
    MergeStrategy,
    Session,
    SessionContext,
    SessionState,
    context_hash,
)
from tests.sessions.conftest import OpenSession
from tests.sessions.support import patch, running, steer, told


def of(context: SessionContext) -> ContextPatch:
    """A patch by a task that was spawned with that context."""
    return patch(source_context_version=context.version, source_context_hash=context.context_hash)


# --- the hash -----------------------------------------------------------------------------------


def test_the_hash_is_that_of_sorted_json() -> None:
    text = '{"a": [1, 2.5], "b": "ü"}'
    expected = hashlib.sha256(text.encode()).hexdigest()
    assert context_hash({"b": "ü", "a": [1, 2.5]}) == expected
    assert context_hash({"b": "ü", "a": (1, 2.5)}) == expected


@pytest.mark.parametrize("held", [{"at": {1}}, {"at": b""}, {1: "one", "1": 1}])
def test_what_json_cannot_hold_has_no_hash(held: dict[Any, Any]) -> None:
    assert context_hash(held) is None


async def test_a_context_that_json_cannot_hold_is_kept_and_has_no_hash(session: Session) -> None:
    context = await session.update_context(llm_context={"at": {1, 2}, "nan": math.inf})
    assert (context.version, context.context_hash) == (1, None)
    assert context.llm_context == {"at": {1, 2}, "nan": math.inf}


# --- versions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("llm_context", [1]),
        ("tool_context", "abc"),
        ("memory", 1),
        ("artifacts", {"a": 1}),
        ("artifacts", ["a"]),
    ],
)
async def test_a_part_of_another_shape_is_refused(session: Session, part: str, value: Any) -> None:
    with pytest.raises(foldlog.PayloadError) as refused:
        await session.update_context(**{part: value})
    assert refused.value.path == part
    assert session.context == SessionContext()


async def test_a_new_session_has_an_empty_context(session: Session) -> None:
    assert session.context == SessionContext()


async def test_every_change_is_a_version_that_others_see(
    session: Session, open_session: OpenSession
) -> None:
    await session.update_context(llm_context={"n": 1}, tool_context={"user": "u"})
    await session.update_context(memory={"m": [1]}, artifacts=[{"id": "a"}])
    last = await session.update_context(llm_context={"n": 2})
    assert last == SessionContext(
        llm_context={"n": 2},
        tool_context={"user": "u"},
        memory={"m": [1]},
        artifacts=[{"id": "a"}],
        version=3,
        context_hash=context_hash({"n": 2}),
    )
    assert (await open_session()).context == last


async def test_what_was_handed_out_is_the_callers_own(session: Session) -> None:
    await session.update_context(llm_context={"list": [1]})
    session.context.llm_context["list"].append(2)
    assert session.context.llm_context == {"list": [1]}


async def test_concurrent_changes_are_all_versions(
    session: Session, open_session: OpenSession
) -> None:
    other = await open_session()
    await asyncio.gather(
        *(each.update_context(memory={"n": n}) for n in range(5) for each in (session, other))
    )
    assert (await session.refresh()).context.version == 10


async def test_a_part_that_cannot_be_held_changes_nothing(session: Session) -> None:
    with pytest.raises(foldlog.PayloadError) as refused:
        await session.update_context(llm_context={"x": {"y": object()}})
    assert refused.value.path == "llm_context.x.y"
    assert (await session.refresh()).context == SessionContext()


# --- patches ------------------------------------------------------------------------------------


async def test_append_adds_to_the_results(session: Session) -> None:
    await session.update_context(llm_context={"goal": "fly"})
    first, second = patch("a"), patch("b")
    assert await session.apply_context_patch(patch=first) is None
    assert await session.apply_context_patch(patch=second, strategy=MergeStrategy.APPEND) is None
    assert session.context.llm_context == {
        "goal": "fly",
        "background_results": [first.model_dump(mode="json"), second.model_dump(mode="json")],
    }
    assert session.context.context_hash == context_hash(session.context.llm_context)
    assert session.context.version == 3


async def test_replace_overwrites_the_result(session: Session) -> None:
    for task_id in ("a", "b"):
        await session.apply_context_patch(patch=patch(task_id), strategy=MergeStrategy.REPLACE)
    assert session.context.llm_context["background_result"]["task_id"] == "b"
    assert session.context.version == 2


async def test_nothing_is_appended_to_what_is_no_list(session: Session) -> None:
    await session.update_context(llm_context={"background_results": "mine"})
    patch_id = await session.apply_context_patch(patch=patch(), strategy=MergeStrategy.HUMAN_GATED)
    assert patch_id is not None
    with pytest.raises(MergeRefused):
        await session.apply_pending_patch(patch_id)
    assert await session.apply_pending_patch(patch_id, MergeStrategy.REPLACE)
    assert session.context.llm_context["background_results"] == "mine"


async def test_a_patch_that_is_named_is_merged_once(session: Session) -> None:
    for _ in range(2):
        await session.apply_context_patch(patch=patch(), patch_id="p")
    assert len(session.context.llm_context["background_results"]) == 1


async def test_a_patch_that_cannot_be_held_changes_nothing(session: Session) -> None:
    with pytest.raises(foldlog.PayloadError):
        await session.apply_context_patch(patch=patch(facts={"x": object()}))
    assert (await session.refresh()).context.version == 0


# --- divergence ---------------------------------------------------------------------------------


async def merged(session: Session) -> Any:
    return session.context.llm_context["background_results"][-1]["context_diverged"]


async def test_a_patch_to_the_context_it_was_made_from_has_not_diverged(
    store: foldlog.Store, session: Session
) -> None:
    context = await session.update_context(llm_context={"n": 1})
    await session.apply_context_patch(patch=of(context))
    assert await merged(session) is False
    assert await told(store, "NOTIFICATION") == []


async def test_a_context_that_moved_on_is_told(store: foldlog.Store, session: Session) -> None:
    context = await session.update_context(llm_context={"n": 1})
    await session.update_context(llm_context={"n": 2})
    await session.apply_context_patch(patch=of(context))
    assert await merged(session) is True
    [warning] = await told(store, "NOTIFICATION")
    assert (warning["severity"], warning["title"]) == ("warning", "Context changed")


async def test_divergence_is_told_by_the_version_or_by_the_hash(session: Session) -> None:
    context = await session.update_context(llm_context={"n": 1})
    await session.apply_context_patch(patch=patch(source_context_version=context.version + 1))
    assert await merged(session) is True
    await session.apply_context_patch(patch=patch(source_context_hash="another"))
    assert await merged(session) is True
    await session.apply_context_patch(patch=patch())
    assert await merged(session) is False


async def test_a_task_is_spawned_with_the_context_as_it_is(session: Session) -> None:
    context = await session.update_context(llm_context={"n": 1}, tool_context={"t": "x"})
    task = await session.spawn_task(task_id="task")
    snapshot = task.context_snapshot
    assert (snapshot.context_version, snapshot.context_hash) == (1, context.context_hash)
    assert (snapshot.llm_context, snapshot.tool_context) == ({"n": 1}, {"t": "x"})
    await session.update_context(llm_context={"n": 2})
    assert (await session.refresh()).task("task").context_snapshot == snapshot


# --- what waits ---------------------------------------------------------------------------------


async def queued(session: Session, **fields: Any) -> str:
    patch_id = await session.apply_context_patch(
        patch=patch(**fields), strategy=MergeStrategy.HUMAN_GATED
    )
    assert patch_id is not None
    return patch_id


async def test_a_gated_patch_waits_and_asks(store: foldlog.Store, session: Session) -> None:
    patch_id = await queued(session)
    assert session.context.version == 0
    assert list(session.pending_patches) == [patch_id]
    assert session.pending_patches[patch_id].patch.digest == ["task is done"]
    [asked] = await told(store, "CHECKPOINT")
    assert asked == {
        "type": "context_patch_approval",
        "patch_id": patch_id,
        "task_id": "task",
        "digest": ["task is done"],
        "diverged": False,
        "options": ["approve", "reject"],
    }


async def test_it_is_approved_from_elsewhere_after_a_restart(
    session: Session, open_session: OpenSession
) -> None:
    patch_id = await queued(session)
    await session.close()
    other = await open_session()
    assert await other.apply_pending_patch(patch_id)
    assert not await other.apply_pending_patch(patch_id)
    assert not await other.reject_pending_patch(patch_id)
    assert len(other.context.llm_context["background_results"]) == 1
    assert other.pending_patches == {}
    assert other.state.outcome(patch_id) == "applied"


async def test_what_waits_says_how_it_was_offered(session: Session) -> None:
    patch_id = await session.apply_context_patch(patch=patch(), strategy=MergeStrategy.HUMAN_GATED)
    [waiting] = session.pending_patches.values()
    assert (waiting.patch_id, waiting.strategy) == (patch_id, MergeStrategy.HUMAN_GATED)


async def test_it_is_rejected_once(store: foldlog.Store, session: Session) -> None:
    patch_id = await queued(session)
    assert await session.reject_pending_patch(patch_id)
    assert not await session.apply_pending_patch(patch_id)
    assert (session.context.version, session.state.outcome(patch_id)) == (0, "rejected")
    [note] = await told(store, "NOTIFICATION")
    assert note["body"] == f"Context patch {patch_id} rejected"


async def test_of_many_who_decide_one_does(session: Session, open_session: OpenSession) -> None:
    patch_id = await queued(session)
    actors = [session, await open_session(), await open_session()]
    decided = await asyncio.gather(
        *(each.apply_pending_patch(patch_id) for each in actors),
        *(each.reject_pending_patch(patch_id) for each in actors),
        *(each.steer(steer("APPROVE", patch_id=patch_id)) for each in actors),
    )
    assert decided.count(True) == 1
    state = await session.refresh()
    applied = len(state.context.llm_context.get("background_results", []))
    assert applied == (state.outcome(patch_id) == "applied")


@pytest.mark.parametrize("kind", ["APPROVE", "REJECT"])
async def test_steering_decides_and_is_on_record(
    store: foldlog.Store, session: Session, kind: str
) -> None:
    patch_id = await queued(session)
    assert await session.steer(steer(kind, patch_id=patch_id))
    assert session.state.outcome(patch_id) == ("applied" if kind == "APPROVE" else "rejected")
    assert not await session.steer(steer("APPROVE", patch_id=patch_id))
    assert [event.event_type for event in await store.list_steering("s")] == [kind]


async def test_an_approved_patch_is_judged_again(store: foldlog.Store, session: Session) -> None:
    context = await session.update_context(llm_context={"n": 1})
    patch_id = await session.apply_context_patch(
        patch=of(context), strategy=MergeStrategy.HUMAN_GATED
    )
    assert patch_id is not None
    await session.update_context(llm_context={"n": 2})
    await session.apply_pending_patch(patch_id)
    assert await merged(session) is True
    titles = [note["title"] for note in await told(store, "NOTIFICATION")]
    assert titles == ["Context changed", "Context updated"]


async def test_a_task_ends_and_its_patch_is_merged_in_one_moment(
    store: foldlog.Store, session: Session
) -> None:
    task = await running(session)
    assert task.status == "RUNNING"
    await session.complete_task("task", {"n": 1}, patch=patch())
    assert session.get_task("task").result == {"n": 1}
    assert len(session.context.llm_context["background_results"]) == 1
    subjects = {"tasks", "session", "updates"}
    seqs = {
        (await store._core.log.last(store._core.log.namespace.subject(family, "s"))).seq  # type: ignore[union-attr]
        for family in subjects
    }
    assert max(seqs) - min(seqs) == len(subjects) - 1  # nothing stands between them


# --- loading ------------------------------------------------------------------------------------


async def test_a_session_is_loaded_in_one_call(store: foldlog.Store, session: Session) -> None:
    await session.update_context(llm_context={"n": 1})
    await running(session, "front")
    await session.spawn_task(task_id="back", task_type=foldlog.TaskType.BACKGROUND)
    await session.create_group("g", group_id="g")
    patch_id = await queued(session)
    state = await SessionState.load("s", store)
    assert [task.task_id for task in state.tasks] == ["front", "back"]
    assert state.foreground_task_id == "front"
    assert state.task("back").context_snapshot.spawned_from_task_id == "front"
    assert state.context == session.context
    assert list(state.pending_patches) == [patch_id]
    assert state.group("g").status == "open"


async def test_an_unknown_session_is_empty(store: foldlog.Store) -> None:
    state = await SessionState.load("nobody", store)
    assert (state.tasks, state.context, state.pending_patches) == ([], SessionContext(), {})
    assert state.foreground_task_id is None


async def test_a_cleared_session_is_empty(store: foldlog.Store, session: Session) -> None:
    await running(session)
    await queued(session)
    assert await store.sessions() == ["s"]
    await store.clear_session("s")
    assert await store.sessions() == []
    state = await session.refresh()
    assert (state.tasks, state.pending_patches) == ([], {})
    await session.update_context(llm_context={"anew": 1})
    assert await store.sessions() == ["s"]


async def test_a_session_that_was_cleared_may_do_the_same_again(
    store: foldlog.Store, session: Session
) -> None:
    for _ in range(2):
        assert (await session.update_context(llm_context={"goal": "Oslo"})).version == 1
        await session.create_group("g", group_id="g")
        await session.spawn_task(task_id="task", group_id="g")
        assert session.state.group("g").task_ids == ("task",)
        await session.apply_context_patch(
            patch=patch(), strategy=MergeStrategy.HUMAN_GATED, patch_id="p"
        )
        assert await session.apply_pending_patch("p")
        assert not await session.apply_pending_patch("p")
        assert len(session.context.llm_context["background_results"]) == 1
        await store.clear_session("s")


async def test_a_session_survives_a_rebuild(store: foldlog.Store, session: Session) -> None:
    await session.update_context(llm_context={"n": math.nan})
    await running(session)
    await queued(session)
    report = await store.rebuild()
    assert (report.differing, report.projections["session"]) == ((), 1)


async def test_an_empty_id_is_refused(store: foldlog.Store) -> None:
    with pytest.raises(foldlog.InvalidId):
        await store.session("")
