"""`load_history("session:<id>")`: what a session did, as events of one trace."""

from __future__ import annotations

import foldlog
from foldlog import TaskStatus
from tests.conftest import OpenStore
from tests.support.build import MOMENT, event, steering, task, update

TRACE = "session:session"


async def test_every_save_of_the_session_is_an_event(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    await store.save_task(task())
    await store.save_update(update("u1", content={"raw": b"\x00"}, step_index=2))
    await store.save_task(task(status=TaskStatus.RUNNING))
    await store.save_steering(steering("e1", payload={"text": "a" * 10_000}))
    await store.save_task(task(status=TaskStatus.COMPLETE, result={"n": 1}))
    for reader in (store, await reopen()):
        history = await reader.load_history(TRACE)
        assert [e.kind for e in history] == [
            "session.task",
            "session.update",
            "session.task",
            "session.steering",
            "session.task",
        ]
        assert {(e.trace_id, e.node_name, e.node_id) for e in history} == {(TRACE, None, "task")}
        assert [e.ts for e in history] == sorted(e.ts for e in history)
        statuses = [e.payload["status"] for e in history if e.kind == "session.task"]
        assert statuses == ["PENDING", "RUNNING", "COMPLETE"]
        assert history[1].payload == {
            "session_id": "session",
            "task_id": "task",
            "trace_id": None,
            "update_id": "u1",
            "update_type": "PROGRESS",
            "content": {"raw": b"\x00"},
            "step_index": 2,
            "total_steps": None,
            "created_at": MOMENT.isoformat(),
        }
        [steered] = await reader.list_steering("session")
        assert history[3].payload["payload"] == steered.payload


async def test_a_task_can_be_read_back_from_its_event(store: foldlog.Store) -> None:
    saved = task(result={"n": [1, None]}, progress={"of": 3}, description="d", trace_id="t")
    await store.save_task(saved)
    [shown] = await store.load_history(TRACE)
    payload = dict(shown.payload)
    context = foldlog.TaskContextSnapshot.model_validate(payload.pop("context_snapshot"))
    assert context == saved.context_snapshot
    assert payload.pop("created_at") == payload.pop("updated_at") == MOMENT.isoformat()
    assert payload == {
        "task_id": "task",
        "session_id": "session",
        "status": "PENDING",
        "task_type": "BACKGROUND",
        "priority": 5,
        "trace_id": "t",
        "error": None,
        "description": "d",
        "result": {"n": [1, None]},
        "progress": {"of": 3},
    }


async def test_saved_events_stand_among_them(store: foldlog.Store) -> None:
    early, late = event(TRACE, 1.0), event(TRACE, 1e12, kind="session.task")
    await store.save_event(late)
    await store.save_update(update("u"))
    await store.save_event(early)
    history = await store.load_history(TRACE)
    assert [e.kind for e in history] == ["node_success", "session.update", "session.task"]
    assert [history[0], history[2]] == [early, late]


async def test_repeats_are_no_events(store: foldlog.Store) -> None:
    for _ in range(3):
        await store.save_update(update("u"))
        await store.save_steering(steering("e"))
    history = await store.load_history(TRACE)
    assert [e.kind for e in history] == ["session.update", "session.steering"]


async def test_messages_are_events_also_those_that_were_removed(store: foldlog.Store) -> None:
    said = foldlog.Message("m1", "plain", {"text": "hi"}, role="user")
    answered = foldlog.Message("m2", "plain", {"text": "ho"}, role="assistant", author="guide")
    for _ in range(2):
        await store.append_messages("session", [said, answered])
    await store.pop_message("session")
    history = await store.load_history(TRACE)
    assert [(e.kind, e.node_name, e.node_id) for e in history] == [
        ("session.message", "user", "m1"),
        ("session.message", "guide", "m2"),
        ("session.message_removed", None, None),
    ]
    assert history[0].payload == {
        "session_id": "session",
        "id": "m1",
        "format": "plain",
        "body": {"text": "hi"},
        "role": "user",
        "author": None,
        "conversation": "main",
    }
    assert history[2].payload["ids"] == ("m2",)


async def test_sessions_do_not_see_each_other(store: foldlog.Store) -> None:
    await store.save_update(update("u", "other"))
    await store.save_event(event("session", 1.0))
    assert await store.load_history(TRACE) == []
    assert len(await store.load_history("session:other")) == 1
    assert await store.load_history("session:") == []
    await store.save_event(event("session:", 1.0))
    assert await store.load_history("session:") == [event("session:", 1.0)]


async def test_a_cleared_session_has_no_history(store: foldlog.Store) -> None:
    await store.save_task(task())
    await store.save_update(update("u"))
    await store.save_event(event(TRACE))
    await store.clear_session("session")
    assert await store.load_history(TRACE) == []
    await store.save_update(update("new"))
    assert [e.payload["update_id"] for e in await store.load_history(TRACE)] == ["new"]


async def test_a_history_belongs_to_the_caller(store: foldlog.Store) -> None:
    await store.save_update(update("u", content={"list": [1]}))
    for _ in range(2):
        [shown] = await store.load_history(TRACE)
        assert shown.payload["content"] == {"list": [1]}
        shown.payload["content"]["list"].append(2)


async def test_other_stores_see_it_strongly(store: foldlog.Store, reopen: OpenStore) -> None:
    other = await reopen()
    assert await other.load_history(TRACE) == []
    for i in range(5):
        await store.save_update(update(f"u{i}"))
        await store.save_task(task(priority=i))
        history = await other.load_history(TRACE, consistency="strong")
        assert len(history) == 2 * (i + 1)
