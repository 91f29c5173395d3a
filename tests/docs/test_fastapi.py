"""The guide to FastAPI: its server, asked as a browser asks that connects again and again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

import foldlog
from tests.docs.markdown import ROOT, read
from tests.support.build import update
from tests.support.workers import PATIENCE


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


@pytest.fixture
async def browser(app: Any) -> AsyncIterator[httpx.AsyncClient]:
    """What asks the application, from this machine."""
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def hear(browser: httpx.AsyncClient, offset: str) -> tuple[list[str], str]:
    """The updates behind an offset, once there are some, and the offset behind them."""
    asked = {"kind": "updates", "offset": offset, "live": "long-poll"}
    async with asyncio.timeout(PATIENCE):
        answer = await browser.get("/streams/feeds/sessions/trip", params=asked)
    assert answer.is_success, answer.text
    heard = [each["record"]["update_id"] for each in answer.json()]
    return heard, answer.headers["stream-next-offset"]


async def test_a_browser_that_connects_again_hears_each_event_once(
    app: Any, browser: httpx.AsyncClient
) -> None:
    store: foldlog.Store = app.state.store
    saved, heard, offset = list[str](), list[str](), "-1"

    async def save(count: int) -> None:
        for _ in range(count):
            saved.append(f"u{len(saved)}")
            await store.save_update(update(saved[-1], "trip", content={"n": saved[-1]}))

    for _ in range(4):
        await save(2)  # while nobody listens
        await hear(browser, offset)  # the answer was lost on its way
        new, offset = await hear(browser, offset)
        heard += new
        hearing = asyncio.create_task(hear(browser, offset))
        await save(1)
        new, offset = await hearing
        heard += new
        assert heard == saved


async def test_a_browser_hears_what_follows_a_clearing(
    app: Any, browser: httpx.AsyncClient
) -> None:
    store: foldlog.Store = app.state.store
    await store.save_update(update("before", "trip"))
    heard, offset = await hear(browser, "-1")
    assert heard == ["before"]
    await store.clear_session("trip")
    await store.save_update(update("after", "trip"))
    heard, _ = await hear(browser, offset)
    assert heard == ["after"]


async def test_a_frameworks_request_is_a_conflict_and_waits_on(
    app: Any, browser: httpx.AsyncClient
) -> None:
    store: foldlog.Store = app.state.store
    await store.save_planner_state("token", {"reason": "interrupt", "answer_in": "the graph"})
    [item] = (await browser.get("/waiting")).json()
    given = {"id": item["id"], "answer": True}
    refused = await browser.post("/waiting", json=given)
    assert refused.status_code == 409
    assert "the graph" in refused.json()["detail"]
    assert (await browser.get("/waiting")).json() == [item]
