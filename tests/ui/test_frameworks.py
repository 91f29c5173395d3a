"""Sessions of every framework, written by its real adapter, as a person sees them."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

import foldlog
from tests.ui.conftest import looking
from tests.ui.pages import go, open_run

if TYPE_CHECKING:
    from playwright.async_api import Browser

PYTHON = Path(sys.prefix).parent / ".venv-integrations" / "bin" / "python"
"""The environment of the frameworks: see `make test-integrations`."""

TOOLS = {
    "openai_agents",
    "langgraph",
    "claude_agent",
    "google_adk",
    "pydantic_ai",
    "agent_framework",
}
ASKS = {
    "langgraph": ("Send the receipt?", "Send the receipt?"),
    "openai_agents": ("refund", "refund("),
    "a2a": ("input required", "Send the receipt?"),
    "pydantic_ai": ("refund", "refund("),
    "agent_framework": ("refunds", "request_info"),
}
"""What waits, in the conversation and on the list of all that waits; the others ask nobody."""

LINKED = ASKS.keys() - {"langgraph"}
"""Where the conversation links to that list: a record of LangGraph's does not tell what waits."""

pytestmark = pytest.mark.long


@pytest.mark.parametrize("framework", sorted(TOOLS | set(ASKS)))
async def test_every_frameworks_session_reads_as_a_conversation(
    browser: Browser, tmp_path: Path, framework: str
) -> None:
    if not PYTHON.exists():
        pytest.skip("needs the environment of the frameworks")
    script = Path(__file__).with_name("written.py")
    writing = await asyncio.create_subprocess_exec(
        *(str(PYTHON), str(script), framework, str(tmp_path)), stdout=asyncio.subprocess.PIPE
    )
    session = (await writing.communicate())[0].decode().splitlines()[-1]
    async with (
        foldlog.connect(path=tmp_path) as store,
        looking(browser, store, viewport={"width": 1440, "height": 3000}) as page,
    ):
        await open_run(page, quote(session, safe=""))
        turns = page.locator(".turn")
        asked = page.locator(".turn[data-role=user] strong", has_text="broken")
        assert await asked.count() == 1
        items = page.locator(".turn[data-role=assistant] .markdown li")
        assert await items.first.inner_text() == "amount: 12.50"
        failed = page.locator("[data-tone=FAILED]")
        assert await failed.count() >= 1
        if framework in TOOLS:
            call = page.locator(".call:not(.result)", has_text="refund").first
            await call.locator("> summary").click()
            assert await call.locator(".leaf", has_text=re.compile("order\\W*7")).count() == 1
            result = page.locator(".turn[data-role=tool] .result", has_text="paid").first
            assert await result.locator(".leaf", has_text=re.compile("status\\W*paid")).count() == 1
            assert await result.locator(".name", has_text="re").count() == 1, "named as its call"
        roles = await turns.evaluate_all("all => all.map(each => each.dataset.role)")
        assert set(roles) <= {"user", "assistant", "tool", "system", "note"}
        words = await page.locator(".turn .markdown").all_inner_texts()
        assert not [each for each in words if each.lstrip().startswith(("{", "[{"))], "raw JSON"
        asks, listed = ASKS.get(framework, (None, None))
        if asks:
            note = page.locator(".turn[data-role=note]", has_text="asks").first
            assert asks in await note.inner_text()
            assert await note.locator("a", has_text="waits").count() == (framework in LINKED)
        assert bool(listed) == bool(await store.waiting())
        if listed:
            await go(page, "#/waiting")
            await page.locator(".waits h2", has_text=listed).wait_for()
