"""The guide to FastAPI: its server, asked as a browser asks that connects again and again."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import foldlog
from tests.docs.markdown import ROOT, read
from tests.support.build import update
from tests.support.workers import PATIENCE

EVENT = re.compile(r"id: (.+)\ndata: (.+)\n\n")


@pytest.fixture
async def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """The application of the guide, with its store open."""
    pytest.importorskip("fastapi")
    monkeypatch.setenv("FOLDLOG_PATH", str(tmp_path / "data"))
    blocks = read(ROOT / "docs/guides/fastapi.md").blocks
    [main] = [each.text for each in blocks if (each.title or "") == "main.py"]
    made = ModuleType("main")
    exec(compile(main, "main.py", "exec"), vars(made))
    async with made.app.router.lifespan_context(made.app):
        yield made.app


@asynccontextmanager
async def listening(app: Any, last: str | None) -> AsyncGenerator[asyncio.Queue[tuple[str, str]]]:
    """What a browser hears, as ids and data, from behind the last event that it names."""
    heard, left = asyncio.Queue[tuple[str, str]](), asyncio.Event()
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/sessions/trip/updates",
        "query_string": b"",
        "headers": [] if last is None else [(b"last-event-id", last.encode())],
    }

    async def receive() -> dict[str, Any]:
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        assert message.get("status", 200) == 200
        for id, data in EVENT.findall(message.get("body", b"").decode()):
            heard.put_nowait((id, data))

    served = asyncio.create_task(app(scope, receive, send))
    try:
        async with asyncio.timeout(PATIENCE):
            yield heard
    finally:
        left.set()
        await served


async def test_a_browser_that_connects_again_hears_each_event_once(app: Any) -> None:
    store: foldlog.Store = app.state.store
    saved, heard, last = list[str](), list[str](), None

    async def save(count: int) -> None:
        for _ in range(count):
            saved.append(f"u{len(saved)}")
            await store.save_update(update(saved[-1], "trip", content={"n": saved[-1]}))

    for lost in (0, 1, 2, 0):
        await save(2)  # while nobody listens
        async with listening(app, last) as events:
            while len(heard) < len(saved):
                last, data = await events.get()
                assert data == f'{{"n": "{last}"}}'
                heard.append(last)
            await save(1)
            heard.append(last := (await events.get())[0])
            await save(lost)
            for _ in range(lost):  # it was sent, and the browser has gone
                await events.get()
    async with listening(app, last) as events:
        await save(1)
        heard.append((await events.get())[0])
    assert heard == saved


async def test_a_browser_hears_what_follows_a_clearing(app: Any) -> None:
    store: foldlog.Store = app.state.store
    await store.save_update(update("before", "trip"))
    await store.clear_session("trip")
    await store.save_update(update("after", "trip"))
    async with listening(app, "before") as events:
        assert (await events.get())[0] == "after"


async def test_a_frameworks_request_is_a_conflict_and_waits_on(app: Any) -> None:
    import httpx

    store: foldlog.Store = app.state.store
    await store.save_planner_state("token", {"reason": "interrupt", "answer_in": "the graph"})
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://guide"
    ) as client:
        [item] = (await client.get("/waiting")).json()
        given = {"id": item["id"], "answer": True}
        refused = await client.post("/waiting", json=given)
        assert refused.status_code == 409
        assert "the graph" in refused.json()["detail"]
        assert (await client.get("/waiting")).json() == [item]
