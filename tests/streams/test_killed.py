"""What serves is killed again and again: each reader sees each event once, in order."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import httpx
import pytest

from tests.cli.support import ENVIRONMENT
from tests.support.browser import MISSING, chromium
from tests.support.ports import free_ports
from tests.support.server import LocalServer

if TYPE_CHECKING:
    from playwright.async_api import Page

HTML = "text/html"
PATH = "/sessions/trip/out"
# What a page does: it begins again where the last whole event has ended.
PAGE = """<script>
const found = []
let offset = "-1", isClosed = false, reads = 0

function read() {
  const source = new EventSource(`PATH?offset=${offset}&live=sse`)
  let data = []
  reads += 1
  source.addEventListener("data", event => data.push(...JSON.parse(event.data)))
  source.addEventListener("control", event => {
    const control = JSON.parse(event.data)
    found.push(...data)
    data = []
    offset = control.streamNextOffset
    isClosed = Boolean(control.streamClosed)
    if (isClosed) source.close()
  })
  source.onerror = () => {
    source.close()
    setTimeout(read, 50)
  }
}

read()
</script>""".replace("PATH", PATH)
SECONDS = 300.0
AWAY = (httpx.TransportError, json.JSONDecodeError)


class Serve:
    """`foldlog serve --http`, on one port, over a server that may be killed, too."""

    def __init__(self, server: LocalServer) -> None:
        self._server = server
        [self._port] = free_ports(1)
        self.url = f"http://127.0.0.1:{self._port}"
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()

    async def start(self) -> None:
        command = ("-m", "foldlog", "serve", "--url", self._server.url, "--json")
        process = self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *command,
            "--http",
            str(self._port),
            stdout=asyncio.subprocess.PIPE,
            env=os.environ | ENVIRONMENT,
        )
        assert process.stdout is not None
        async with asyncio.timeout(60):
            assert json.loads(await process.stdout.readline())["http"] == self.url

    async def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        await self._process.wait()


async def produce(url: str, count: int, sent: asyncio.Queue[int]) -> None:
    """Append numbers, each until it is acked, and close with the last."""
    async with httpx.AsyncClient(base_url=url, timeout=10) as client:
        await _until(client, "PUT", {}, b"", (200, 201))
        for n in range(count):
            headers = {"producer-id": "p", "producer-epoch": "0", "producer-seq": str(n)}
            if n == count - 1:
                headers["stream-closed"] = "true"
            await _until(client, "POST", headers, str(n).encode(), (200, 204))
            sent.put_nowait(n)


async def _until(
    client: httpx.AsyncClient, method: str, more: dict[str, str], body: bytes, good: tuple[int, ...]
) -> None:
    headers = {"content-type": "application/json"} | more
    while True:
        try:
            answer = await client.request(method, PATH, headers=headers, content=body)
        except AWAY:
            await asyncio.sleep(0.05)
            continue
        assert answer.status_code in (*good, 503), answer.text
        if answer.status_code in good:
            return


async def poll(url: str, path: str = PATH) -> list[Any]:
    """All that a long-poller has read until the stream is closed."""
    found, offset = list[Any](), "-1"
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        while True:
            try:
                at = {"offset": offset, "live": "long-poll"}
                answer = await client.get(path, params=at)
                if answer.status_code in (404, 503):
                    await asyncio.sleep(0.05)
                    continue
                assert answer.status_code in (200, 204), answer.text
                found += answer.json() if answer.content else []
            except AWAY:
                await asyncio.sleep(0.05)
                continue
            offset = answer.headers["stream-next-offset"]
            if "stream-closed" in answer.headers:
                return found


async def events(url: str) -> list[Any]:
    """All that a reader of events has read until the stream is closed."""
    found, offset = list[Any](), "-1"
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        while True:
            data, name = list[Any](), ""
            try:
                at = {"offset": offset, "live": "sse"}
                async with client.stream("GET", PATH, params=at) as answer:
                    async for line in answer.aiter_lines():
                        if line.startswith("event: "):
                            name = line.removeprefix("event: ")
                        elif line.startswith("data:") and name == "data":
                            data += json.loads(line.removeprefix("data:"))
                        elif line.startswith("data:"):
                            control = json.loads(line.removeprefix("data:"))
                            found, data, offset = found + data, [], control["streamNextOffset"]
                            if control.get("streamClosed"):
                                return found
            except AWAY:
                pass
            await asyncio.sleep(0.05)


@asynccontextmanager
async def looking(url: str) -> AsyncIterator[Page]:
    """A page in a browser, which reads until the stream is closed."""
    async with chromium() as browser:
        page = await browser.new_page()
        await page.route("**/page", lambda route: route.fulfill(content_type=HTML, body=PAGE))
        await page.goto(f"{url}/page")
        yield page


async def seen(page: Page) -> list[Any]:
    """All that a page has read until the stream is closed."""
    await page.wait_for_function("isClosed", timeout=SECONDS * 1000)
    found: list[Any] = await page.evaluate("found")
    return found


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.long)])
async def test_each_reader_sees_each_event_once_in_order(tmp_path: Path, kills: int) -> None:
    count, sent = 10 * (kills + 1), asyncio.Queue[int]()
    async with (
        asyncio.timeout(SECONDS),
        LocalServer(tmp_path) as server,
        Serve(server) as serve,
        nullcontext() if MISSING else looking(serve.url) as page,
        asyncio.TaskGroup() as group,
    ):
        readers = [poll(serve.url), events(serve.url), *([seen(page)] if page else [])]
        reading = [group.create_task(each) for each in readers]
        group.create_task(produce(serve.url, count, sent))
        for kill in range(kills):
            while await sent.get() < 10 * (kill + 1) - 1:
                pass
            # Alternately what speaks HTTP and what has the log, in the middle of it all.
            killed: Any = serve if kill % 2 else server
            await killed.kill()
            await killed.start()
        found = await asyncio.gather(*reading)
        assert found == [list(range(count))] * len(readers)
        if page is None:
            pytest.skip(f"the two clients alone: a browser {MISSING}")
        assert await page.evaluate("reads") > kills // 2
