"""Sessions in the list, what waits and its answers, steering, forks, feedback, artifacts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

import foldlog
from foldlog import TaskStatus, kinds
from foldlog.models import ArtifactScope
from foldlog.runs import RunPaused
from foldlog.sessions import ContextPatch, MergeStrategy
from foldlog.ui import app
from foldlog.ui.openapi import DOCUMENT
from tests.ui.support import said, task

ClientOf = Callable[..., httpx.AsyncClient]


async def listed(client: httpx.AsyncClient, **params: Any) -> list[str]:
    page = (await client.get("/api/sessions", params=params)).json()
    assert page["complete"] is True
    return [each["id"] for each in page["sessions"]]


async def test_sessions_are_found_by_id_text_and_status(
    store: foldlog.Store, client_of: ClientOf
) -> None:
    for name, status in (
        ("runs", TaskStatus.RUNNING),
        ("failed", TaskStatus.FAILED),
        ("done", TaskStatus.COMPLETE),
        ("paused", TaskStatus.PAUSED),
    ):
        await task(store, name, "t", status)
    await store.save_update(said("open", 1, {"text": "Nothing but Words"}))
    async with client_of(store) as client:
        assert await listed(client) == ["open", "paused", "done", "failed", "runs"]
        assert await listed(client, status="running") == ["runs"]
        assert await listed(client, status="failed") == ["failed"]
        assert await listed(client, status="finished") == ["done"]
        assert await listed(client, status="waiting") == ["paused"]
        assert await listed(client, text="nothing but") == ["open"]
        assert await listed(client, text="DO T") == ["paused", "done", "failed", "runs"]
        assert await listed(client, offset=1, limit=2) == ["paused", "done"]
        await store.save_update(said("runs", 1))
        assert (await listed(client))[0] == "runs", "the latest activity comes first"
        one = (await client.get("/api/session?session=runs")).json()
        assert one["session"]["status"] == "running"


async def test_nothing_is_answered_where_it_cannot_be_signed(
    store: foldlog.Store, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(event: Any) -> None:
        raise foldlog.LogUnavailable("the log is away")

    await store.save_planner_state("token", {"reason": "May I?"}, session_id="s")
    async with client_of(store) as client:
        [pause] = (await client.get("/api/waiting")).json()["waiting"]
        given = {"id": pause["id"], "answer": True, "session": "s"}
        with monkeypatch.context() as broken:
            broken.setattr(store, "save_event", fails)
            assert (await client.post("/api/answer", json=given)).status_code == 503
        assert (await client.get("/api/waiting")).json()["waiting"] == [pause]
        assert (await client.post("/api/answer", json=given)).json()["decision"] == "consumed"


async def test_what_only_a_framework_can_answer_is_refused_and_nothing_is_signed(
    store: foldlog.Store, client_of: ClientOf
) -> None:
    await store.save_planner_state("p", {"reason": "interrupt", "answer_in": "the graph"})
    async with client_of(store) as client:
        [pause] = (await client.get("/api/waiting")).json()["waiting"]
        given = {"id": pause["id"], "answer": True, "session": "s"}
        refused = await client.post("/api/answer", json=given)
        assert (refused.status_code, refused.json()["error"]["type"]) == (409, "Misuse")
        assert "the graph" in refused.json()["error"]["message"]
        assert (await client.get("/api/waiting")).json()["waiting"] == [pause]
    assert await store.load_history("session:s") == []


@pytest.mark.parametrize("shards", [1, 3])
async def test_what_waits_is_answered_once_and_the_answer_is_signed(
    client_of: ClientOf, shards: int
) -> None:
    async with foldlog.memory_store(shards=shards) as store:
        await answered_once(store, client_of)


async def answered_once(store: foldlog.Store, client_of: ClientOf) -> None:
    await store.save_planner_state("token", {"reason": "May I?"}, session_id="s")
    async with client_of(store, user="ann") as client:
        [pause] = (await client.get("/api/waiting")).json()["waiting"]
        given = {"id": pause["id"], "answer": True, "session": "s"}
        assert (await client.post("/api/answer", json=given)).json()["decision"] == "consumed"
    [note] = await store.items(kinds.events("session:s"))
    assert note.record.payload["by"] == "ann"
    async with store.session("s") as session:
        await session.spawn_task(task_id="t")
        await session.start_task("t")
        await session.apply_context_patch(
            patch=ContextPatch(task_id="t", digest=["Oslo"]), strategy=MergeStrategy.HUMAN_GATED
        )
    async with client_of(store, user="ann") as client:
        [item] = (await client.get("/api/waiting")).json()["waiting"]
        assert item["asked"]["digest"] == ["Oslo"]
        given = {"id": item["id"], "answer": True, "session": "s"}
        assert (await client.post("/api/answer", json=given)).json()["decision"] == "applied"
        again = await client.post("/api/answer", json=given | {"answer": False})
        assert (again.status_code, again.json()["error"]["decision"]) == (409, "applied")
        assert (await client.get("/api/waiting")).json()["waiting"] == []
        unknown = await client.post("/api/answer", json={"id": "x", "answer": True})
        assert unknown.status_code == 400
    answered = [e for e in await store.load_history("session:s") if e.kind == "ui.answered"][-1]
    assert answered.payload == {"id": item["id"], "decision": "applied", "by": "ann"}


async def test_a_question_gets_whatever_it_is_answered(
    store: foldlog.Store, client_of: ClientOf
) -> None:
    async def ask() -> Any:
        async with store.run("trip", session_id="s") as run:
            return await run.ask("seat", "Window or aisle?", wait=0)

    with pytest.raises(RunPaused):
        await ask()
    async with client_of(store) as client:
        [item] = (await client.get("/api/waiting?session=s")).json()["waiting"]
        given = {"id": item["id"], "answer": {"seat": "aisle"}, "session": "s"}
        await client.post("/api/answer", json=given)
    assert await ask() == {"seat": "aisle"}
    [noted] = [e for e in await store.load_history("session:s") if e.kind == "ui.answered"]
    assert (noted.payload["decision"], noted.payload["answer"]) == ("answered", {"seat": "aisle"})


VALID: dict[str, dict[str, Any]] = {
    "INJECT_CONTEXT": {"text": "by noon"},
    "REDIRECT": {"instruction": "in one sentence"},
    "USER_MESSAGE": {"text": "hello"},
    "PRIORITIZE": {"priority": 7},
    "PAUSE": {"reason": "lunch"},
    "RESUME": {},
    "CANCEL": {"reason": "enough"},
}


async def test_every_type_of_steering_is_checked_and_signed(
    store: foldlog.Store, client_of: ClientOf
) -> None:
    async with store.session("s") as session:
        await session.spawn_task(task_id="t")
        await session.start_task("t")
    async with client_of(store, user="ann") as client:
        event = {"session_id": "s", "task_id": "t"}
        for type_ in ("INJECT_CONTEXT", "REDIRECT", "USER_MESSAGE", "PRIORITIZE", "APPROVE"):
            bad = await client.post("/api/steer", json=event | {"event_type": type_})
            assert bad.status_code == 400, type_
            assert bad.json()["error"]["errors"], type_
        for type_, payload in VALID.items():
            given = event | {"event_type": type_, "payload": payload}
            done = await client.post("/api/steer", json=given)
            assert done.json()["took_effect"] is True, (type_, done.text)
        unknown = {"session_id": "s", "task_id": "no", "event_type": "PAUSE"}
        assert (await client.post("/api/steer", json=unknown)).status_code == 404
        none = event | {"event_type": "DANCE"}
        assert (await client.post("/api/steer", json=none)).status_code == 400
    events = await store.list_steering("s")
    assert [str(e.event_type) for e in events] == list(VALID)
    assert {e.payload["by"] for e in events} == {"ann"}


async def test_a_fork_goes_on_from_a_moment(store: foldlog.Store, client_of: ClientOf) -> None:
    for number in range(4):
        await store.save_update(said("s", number))
    items = await store.items(kinds.updates("s"))
    async with client_of(store) as client:
        given = {"session_id": "s", "at": str(items[1].position), "to": "s2"}
        made = await client.post("/api/fork", json=given)
        assert (made.status_code, made.json()) == (201, {"session_id": "s2"})
        assert (await client.post("/api/fork", json=given)).status_code == 409
        page = (await client.get("/api/records?session=s2")).json()
        shared = [r["id"] for r in page["records"] if r["type"] == "update.saved"]
        assert shared == ["s-0", "s-1"]
        about = (await client.get("/api/session?session=s2")).json()
        assert about["origin"]["session"] == "s"
        assert (await client.get("/api/session?session=s")).json()["forks"] == ["s2"]


async def test_feedback_is_signed(store: foldlog.Store, client_of: ClientOf) -> None:
    async with client_of(store, user="ann") as client:
        given = {"trace_id": "trace", "score": 1, "comment": "good"}
        assert (await client.post("/api/feedback", json=given)).status_code == 201
        assert (await client.post("/api/feedback", json={"trace_id": "trace"})).status_code == 400
    [said_] = await store.list_feedback("trace")
    assert (said_.score, said_.comment, said_.author) == (1.0, "good", "ann")


async def test_only_pictures_are_shown_as_they_are(
    store: foldlog.Store, client_of: ClientOf
) -> None:
    files = store.artifact_store
    scope = ArtifactScope(session_id="s")
    async with client_of(store) as client:
        for mime, shown in (
            ("image/png", True),
            ("image/svg+xml", False),
            ("text/html", False),
            ("text/html; image/png", False),
            (None, False),
        ):
            ref = await files.put_bytes(
                repr(mime).encode(), mime_type=mime, scope=scope, filename='a"\r\nx: y.html'
            )
            found = await client.get("/api/artifact", params={"id": ref.id, "session": "s"})
            assert found.content == repr(mime).encode()
            assert found.headers["content-security-policy"].startswith("sandbox")
            assert found.headers["content-disposition"].startswith(
                "inline" if shown else "attachment"
            )
            assert (found.headers["content-type"] == "image/png") is shown
            assert "x" not in found.headers
            other = await client.get("/api/artifact", params={"id": ref.id, "session": "other"})
            assert other.status_code == 404


async def test_a_body_is_an_object_of_bounded_size(
    store: foldlog.Store, client_of: ClientOf
) -> None:
    kind = {"content-type": "application/json"}
    async with client_of(store) as client:
        for body, status in (
            (b"", 400),
            (b"[]", 400),
            (b"{", 400),
            (b"[" * 100_000, 400),
            (b'{"a":"' + b"x" * 2_000_000 + b'"}', 413),
            (b'{"session_id": 1}', 400),
        ):
            response = await client.post("/api/steer", content=body, headers=kind)
            assert response.status_code == status, body[:20]


async def test_the_description_names_every_address(store: foldlog.Store) -> None:
    application = app(store)
    served = {route.path for route in application.routes if route.path.startswith("/api/")}
    assert served - {"/api/openapi.json"} == set(DOCUMENT["paths"])
