"""The component of the guide to streams in a browser, with the protocol's client: both from npm."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import pytest_asyncio

import foldlog
from tests.docs.markdown import ROOT, read
from tests.streams.conftest import served
from tests.support.workers import PATIENCE

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page, Route

PACKAGES = ("@durable-streams/client@0.2.7", "react@19", "react-dom@19", "esbuild@0.28")
MAIN = """
import { StrictMode } from "react"
import { createRoot } from "react-dom/client"
import { Answer } from "./Answer"

const answer = <Answer url={`${location.origin}/sessions/trip/answer`} />
createRoot(document.body).render(<StrictMode>{answer}</StrictMode>)
"""
PAGE = '<!doctype html><link rel="icon" href="data:,"><body><script src="main.js"></script>'
JSON = {"content-type": "application/json"}
PARTS = [f"<{n}>" for n in range(60)]

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The component and what it needs, as one script."""
    if shutil.which("npm") is None:
        pytest.skip("there is no npm here")
    path = tmp_path_factory.mktemp("react")
    blocks = read(ROOT / "docs/guides/streams.md").blocks
    [component] = [each.text for each in blocks if each.title == "Answer.tsx"]
    path.joinpath("Answer.tsx").write_text(component, "utf-8")
    path.joinpath("main.tsx").write_text(MAIN, "utf-8")
    path.joinpath("package.json").write_text('{"private": true}', "utf-8")
    options = ("--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
    code, said = _run(path, "npm", "install", *options, *PACKAGES)
    if code:
        pytest.skip(f"npm could not install the packages: {said[-300:]}")
    build = ("npx", "esbuild", "main.tsx", "--bundle", "--jsx=automatic", "--outfile=main.js")
    code, said = _run(path, *build)
    assert code == 0, said
    return path.joinpath("main.js").read_text("utf-8")


@pytest_asyncio.fixture(loop_scope="session")
async def url(store: foldlog.Store) -> AsyncIterator[str]:
    async with served(store, poll_seconds=2) as url:
        yield url


async def test_a_reload_goes_on_without_a_gap_and_shows_each_part_once(
    browser: Browser, script: str, url: str
) -> None:
    async with await browser.new_context() as tab, httpx.AsyncClient(base_url=url) as agent:
        page = await tab.new_page()
        wrong, asked = list[str](), list[str]()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        await page.route(re.compile("/page$|/main.js$"), lambda route: _give(route, script))
        await agent.put("/sessions/trip/answer", headers=JSON)

        async def say(begin: int, end: int) -> None:
            for part in PARTS[begin:end]:
                answer = await agent.post("/sessions/trip/answer", headers=JSON, json=part)
                assert answer.is_success, answer.text

        await say(0, 10)
        await page.goto(f"{url}/page")
        await _shows(page, 10)

        # 1. It comes as it is said, also while the page loads again.
        saying = asyncio.create_task(say(10, 30))
        await page.reload()
        await saying
        await _shows(page, 30)

        # 2. What is said while the tab is away is there when it is back, and no more is asked for.
        await page.goto("about:blank")
        await say(30, 45)
        asked.clear()
        await page.goto(f"{url}/page")
        await _shows(page, 45)
        offsets = [parse_qs(urlsplit(each).query).get("offset") for each in asked]
        reads = [each[0] for each in offsets if each]
        assert reads
        assert "-1" not in reads

        # 3. Without a network it waits, and goes on.
        await tab.set_offline(True)
        await say(45, 59)
        await tab.set_offline(False)
        await _shows(page, 59)

        # 4. The end is the end, also for a page that is loaded again.
        last = JSON | {"stream-closed": "true"}
        await agent.post("/sessions/trip/answer", headers=last, content=json.dumps(PARTS[-1]))
        await _shows(page, 60, "done")
        await page.reload()
        await _shows(page, 60, "done")
        assert wrong == []


async def _give(route: Route, script: str) -> None:
    if route.request.url.endswith("/main.js"):
        await route.fulfill(content_type="text/javascript", body=script)
    else:
        await route.fulfill(content_type="text/html", body=PAGE)


async def _shows(page: Page, count: int, state: str = "answering") -> None:
    """Wait until all parts are shown, in order and once: at no time is there anything else."""
    async with asyncio.timeout(PATIENCE):
        while True:
            text = await page.locator("article").inner_text()
            found = re.findall(r"<\d+>", text)
            assert found == PARTS[: len(found)]
            if len(found) == count and text.endswith(state):
                return


def _run(path: Path, *command: str) -> tuple[int, str]:
    ran = subprocess.run(
        command, cwd=path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    return ran.returncode, ran.stdout + ran.stderr
