"""The server as a process: its clients, its ends, its port, and that it writes nothing."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog import mcp
from foldlog.mcp import serving
from tests.cli.support import PATIENCE, Cli, run
from tests.mcp.support import asking, talking
from tests.support.stores import fresh_namespace

HELLO = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
)
httpx: Any = import_module("httpx2" if find_spec("httpx2") else "httpx")


async def test_nothing_is_written_whatever_is_asked(embedded_path: Path) -> None:
    cli = Cli(embedded_path, fresh_namespace())
    async with foldlog.connect(**cli.place, pause_ttl=0.001) as store:
        # It has expired, and is listed: a reader that may write takes it off.
        await store.save_planner_state("expired", {}, session_id="trip")
        async with store.run("trip") as made:
            await made.step("pack", lambda: "a bag")
        before = await store.position()
        async with asking(cli) as ask:
            trip: dict[str, Any] = {"session_id": "trip"}
            for tool, asked in (
                *(("sessions", {}), ("session", trip), ("story", trip)),
                *(("steps", trip), ("waiting", {}), ("queues", {}), ("sql", {})),
                ("waiting", {"at": str(before)}),
            ):
                assert not (await ask(tool, **asked)).is_error, tool
        assert await store.position() == before
        assert await store.waiting() == []
        assert await store.position() != before


async def test_two_clients_at_once(log: Cli) -> None:
    async with asking(log) as one, asking(log) as another:
        asked = [client("story", session_id="ann") for client in (one, another) for _ in range(5)]
        assert len({answer.text for answer in await asyncio.gather(*asked)}) == 1


@pytest.mark.parametrize("how", ["end of input", signal.SIGINT, signal.SIGTERM])
def test_it_ends_with_its_client_or_by_a_signal(log: Cli, how: str | signal.Signals) -> None:
    with log.start("mcp") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(HELLO + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "foldlog"
        if isinstance(how, signal.Signals):
            process.send_signal(how)
        else:
            process.stdin.close()
        assert process.wait(PATIENCE) == 0


async def test_a_log_that_is_not_there_is_an_error_in_one_line(tmp_path: Path) -> None:
    result = await asyncio.to_thread(run, "mcp", "--path", tmp_path / "none")
    assert result.code == 1
    assert "there is no data directory" in result.stderr


@asynccontextmanager
async def on_a_port(log: Cli) -> AsyncIterator[dict[str, str]]:
    """A server on a free port: its address and token."""
    with log.start("mcp", "--http", "0", "--json") as process:
        assert process.stdout is not None
        yield json.loads(await asyncio.to_thread(process.stdout.readline))
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, PATIENCE) == 0


async def test_on_a_port_it_serves_who_has_the_token(log: Cli) -> None:
    http = import_module("mcp.client.streamable_http").streamable_http_client
    async with on_a_port(log) as facts:
        token = {"Authorization": f"Bearer {facts['token']}"}
        async with (
            httpx.AsyncClient(headers=token) as client,
            http(facts["url"], http_client=client) as (read, write, *_),
            talking(read, write) as ask,
        ):
            [item] = (await ask("waiting")).document["waiting"]
            assert item["session_id"] == "ann"
        async with httpx.AsyncClient() as client:
            refused = await client.post(facts["url"], content=HELLO)
            assert (refused.status_code, "token" in refused.text) == (401, True)
            rebound = token | {"Host": "evil.example", "Content-Type": "application/json"}
            refused = await client.post(facts["url"], content=HELLO, headers=rebound)
            assert refused.status_code == 400
            foreign = token | {"Origin": "http://evil.example", "Content-Type": "application/json"}
            refused = await client.post(facts["url"], content=HELLO, headers=foreign)
            assert refused.status_code == 403


async def _call(store: foldlog.Store, tool: str, **asked: Any) -> Any:
    """Call a tool of a server in this process."""
    return await serving.make_server(store).call_tool(tool, asked)


@pytest.mark.skipif(serving.IS_1, reason="a client of version 1 does not say that it gives up")
async def test_what_a_client_gives_up_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    store = foldlog.memory_store()
    began, cancelled = asyncio.Event(), asyncio.Event()

    async def waits(**asked: Any) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    monkeypatch.setattr(store, "waiting", waits)
    async with import_module("mcp").Client(mcp.server(store)) as client:
        asking_ = asyncio.create_task(client.call_tool("waiting", {}))
        await began.wait()
        asking_.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking_
        await cancelled.wait()
        assert (await client.call_tool("queues", {})).content


async def test_an_answer_that_takes_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "SECONDS", 0.01)
    store = foldlog.memory_store()
    monkeypatch.setattr(store, "waiting", lambda **asked: asyncio.Event().wait())
    with pytest.raises(Exception, match=r"took longer than 0\.01 s: ask for less at a time"):
        await _call(store, "waiting")


def test_without_the_sdk_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp, "find_spec", lambda name: None)
    with pytest.raises(foldlog.ConfigurationError, match=r"pip install 'foldlog\[mcp\]'"):
        mcp.server(foldlog.memory_store())
