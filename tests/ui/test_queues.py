"""Queues on the page's API: what there is, and what is done to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

import foldlog
from foldlog.runs import Run, RunFailed
from tests.workers.working import PATIENCE

ClientOf = Callable[..., httpx.AsyncClient]


@foldlog.durable(attempts=1)
async def failing(run: Run) -> None:
    raise ValueError("no such city")


async def listed(client: httpx.AsyncClient) -> dict[str, Any]:
    response = await client.get("/api/queues")
    assert response.status_code == 200
    found: dict[str, Any] = response.json()
    return found


async def do(client: httpx.AsyncClient, doing: str, name: str, **fields: Any) -> int:
    given = {"doing": doing, "name": name} | fields
    return (await client.post("/api/queue", json=given)).status_code


async def by(store: foldlog.Store, trace: str) -> list[tuple[str, str]]:
    """What was done to queues, and by whom, as an audit trail has it."""
    events = await store.load_history(trace)
    return [(e.payload["doing"], e.payload["by"]) for e in events if e.kind == "ui.queue"]


async def test_queues_workers_schedules_and_failed_runs_are_listed(
    store: foldlog.Store, client_of: ClientOf
) -> None:
    is_there, may_end = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        is_there.set()
        await may_end.wait()

    @foldlog.durable
    async def waiting(run: Run) -> None:
        await run.step("wait", wait)

    async with client_of(store) as client:
        nothing: list[Any] = []
        assert await listed(client) == dict.fromkeys(
            ("queues", "workers", "schedules", "failed"), nothing
        )
        begins = await store.queues.schedule("daily", "0 9 * * *", failing, zone="Europe/Oslo")
        async with foldlog.Worker(store, [failing, waiting], slots=4):
            run = await store.start(failing, id="x", session_id="ann")
            with pytest.raises(RunFailed):
                await run.result(timeout=PATIENCE)
            await store.start(waiting, id="y")
            await is_there.wait()
            found = await listed(client)
            may_end.set()
    [queue], [worker], [schedule], [failed] = found.values()
    assert (queue["name"], queue["held"], queue["failed"], queue["paused"]) == (
        *("default", 1),
        *(1, False),
    )
    assert (worker["slots"], worker["functions"]) == (4, ["failing", "waiting"])
    assert [(each["id"], each["function"]) for each in worker["runs"]] == [("y", "waiting")]
    assert (schedule["name"], schedule["next"]) == ("daily", begins.timestamp())
    assert (failed["session_id"], failed["id"]) == ("ann", "x")
    assert failed["error"] == "ValueError: no such city"


async def test_a_queue_is_paused_and_goes_on_and_it_says_who_did_it(
    store: foldlog.Store, client_of: ClientOf
) -> None:
    async with client_of(store, user="ann") as client:
        assert await do(client, "pause", "mail") == 200
        assert [each["paused"] for each in (await listed(client))["queues"]] == [True]
        assert await do(client, "resume", "mail") == 200
        assert [each["paused"] for each in (await listed(client))["queues"]] == [False]
    assert await by(store, "queue:mail") == [("pause", "ann"), ("resume", "ann")]


async def test_a_failed_run_is_sent_again_once(store: foldlog.Store, client_of: ClientOf) -> None:
    is_mended = False

    @foldlog.durable(attempts=1)
    async def mended(run: Run) -> str:
        if not is_mended:
            raise ValueError("no")
        return "done"

    async with client_of(store, user="ann") as client, foldlog.Worker(store, [mended]):
        run = await store.start(mended, id="x", session_id="s")
        with pytest.raises(RunFailed):
            await run.result(timeout=PATIENCE)
        is_mended = True
        assert await do(client, "send-again", "x", session_id="s") == 200
        assert await run.result(timeout=PATIENCE) == "done"
        assert (await listed(client))["failed"] == []
        assert await do(client, "send-again", "x", session_id="s") == 404
    assert await by(store, "session:s") == [("send-again", "ann")]


async def test_a_run_is_started_once_and_it_says_who_did_it(
    store: foldlog.Store, client_of: ClientOf
) -> None:
    @foldlog.durable
    async def greet(run: Run, name: str) -> str:
        return f"hello {name}"

    given = {"doing": "start", "name": "greet", "arguments": {"name": "Ann"}}
    async with client_of(store, user="ann") as client, foldlog.Worker(store, [greet]):
        for _ in range(2):
            found = await client.post("/api/queue", json=given | {"id": "x", "session_id": "s"})
            assert found.json() == {"done": True, "session_id": "s", "id": "x"}
        run = store.queues.handle("x", session_id="s")
        assert await run.result(timeout=PATIENCE) == "hello Ann"
        new = (await client.post("/api/queue", json=given)).json()
        assert new["id"] == new["session_id"] != "x"
        assert await do(client, "start", "greet", id="x", session_id="s") == 409
        assert await do(client, "start", "greet", arguments={"id": "y"}) == 400
    assert await by(store, "session:s") == [("start", "ann")] * 2


async def test_a_schedule_ends(store: foldlog.Store, client_of: ClientOf) -> None:
    await store.queues.schedule("daily", "0 9 * * *", "report")
    async with client_of(store, user="ann") as client:
        assert await do(client, "unschedule", "daily") == 200
        assert (await listed(client))["schedules"] == []
    assert await by(store, "schedule:daily") == [("unschedule", "ann")]


async def test_what_is_no_action_is_refused(store: foldlog.Store, client_of: ClientOf) -> None:
    before = await store.position()
    async with client_of(store) as client:
        assert await do(client, "drop", "default") == 400
        assert await do(client, "pause", "") == 400
        assert await do(client, "send-again", "never") == 404
    assert await store.position() == before
