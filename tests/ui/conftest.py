"""The page over a store in memory, asked in process or on a port of this machine."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import pytest_asyncio

import foldlog
from tests.support.browser import MISSING, chromium

if TYPE_CHECKING:
    import httpx
    from playwright.async_api import Browser, Page

if not (find_spec("starlette") and find_spec("uvicorn") and find_spec("httpx")):
    collect_ignore_glob = ["test_*.py"]  # the environments of the frameworks do without the page

HOSTS = ("127.0.0.1", "localhost")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of this folder in the event loop of the browser, which they share."""
    for item in items:
        if Path(__file__).parent in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(loop_scope="session")
async def store() -> AsyncIterator[foldlog.Store]:
    """A store over empty data."""
    async with foldlog.memory_store() as opened:
        yield opened


class Served(NamedTuple):
    """A page on a port: its address, its token, and a client that has let itself in."""

    url: str
    token: str
    client: httpx.AsyncClient


Serve = Callable[..., AbstractAsyncContextManager[Served]]


@asynccontextmanager
async def serving(store: foldlog.Store, *, port: int = 0, **options: Any) -> AsyncIterator[Served]:
    """Serve the page of a store on a port; 0: a free one."""
    import httpx
    import uvicorn

    from foldlog import ui

    application = ui.app(store, hosts=HOSTS, **options)
    with socket.create_server(("127.0.0.1", port)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        config = uvicorn.Config(application, log_level="warning", lifespan="off")
        server = uvicorn.Server(config)
        ready = asyncio.Event()
        startup = server.startup

        async def started(sockets: list[socket.socket] | None = None) -> None:
            await startup(sockets)
            ready.set()

        server.startup = started  # type: ignore[method-assign]
        server.capture_signals = _leave_signals  # type: ignore[method-assign]
        task = asyncio.create_task(server.serve([listening]))
        try:
            await ready.wait()
            token = application.state.token or ""
            headers = {"authorization": f"Bearer {token}"} if token else {}
            async with httpx.AsyncClient(base_url=url, headers=headers, timeout=20) as client:
                yield Served(url, token, client)
        finally:
            server.should_exit = server.force_exit = True
            await task
            for each in list(server.server_state.connections):
                each.transport.abort()  # as a server that was killed


def _leave_signals() -> Any:
    from contextlib import nullcontext

    return nullcontext()


@pytest.fixture
def client_of() -> Callable[..., httpx.AsyncClient]:
    """Makes a client of an application in this process, signed in unless told otherwise."""
    import httpx

    from foldlog import ui

    def make(store: foldlog.Store, *, signed_in: bool = True, **options: Any) -> httpx.AsyncClient:
        application = ui.app(store, **options)
        token = application.state.token
        headers = {"authorization": f"Bearer {token}"} if token and signed_in else {}
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(application), base_url="http://page", headers=headers
        )

    return make


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """A browser without a window; where there is none, the tests are skipped."""
    if MISSING:
        pytest.skip(MISSING)
    async with chromium() as opened:
        yield opened


@asynccontextmanager
async def looking(
    browser: Browser, store: foldlog.Store, *, options: dict[str, Any] | None = None, **screen: Any
) -> AsyncIterator[Page]:
    """The page of a store in a browser. That nothing went wrong in it is checked at the end."""
    wrong: list[str] = []
    async with (
        serving(store, **(options or {})) as served,
        await browser.new_context(**{"reduced_motion": "reduce"} | screen) as context,
    ):
        page = await context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.on(
            "request", lambda asked: wrong.append(asked.url) if not _is_own(asked.url) else None
        )
        await page.goto(f"{served.url}/?token={served.token}")
        await page.wait_for_selector("fl-app main > *")
        yield page
    assert wrong == []


def _is_own(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "data:", "blob:"))
