"""Runs of agents that are instrumented with OpenTelemetry, on the page."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import httpx
import pytest

import foldlog
from tests.ui.conftest import looking
from tests.ui.pages import open_run

if not find_spec("opentelemetry.exporter"):
    pytest.skip("needs OpenTelemetry's exporter", allow_module_level=True)
from foldlog import otlp
from foldlog.ui.catalogue import Catalogue
from tests.otlp.support import Recorder, body

if TYPE_CHECKING:
    from playwright.async_api import Browser


async def receive(store: foldlog.Store, recorder: Recorder) -> None:
    transport = httpx.ASGITransport(otlp.app(store))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        headers = {"content-type": "application/x-protobuf"}
        answer = await client.post("/v1/traces", content=body(recorder.spans), headers=headers)
        assert answer.status_code == 200


async def test_what_the_list_says_of_a_session_of_spans(store: foldlog.Store) -> None:
    """What was asked first, what was said last, and when; also of spans without content."""
    recorder = Recorder()
    recorder.agent_run("s", question="Where to?")
    with recorder.span("chat m", gen_ai__operation__name="chat", session__id="silent"):
        pass
    await receive(store, recorder)
    page = await Catalogue(store).page(text="", status="", offset=0, limit=9)
    found = {each.id: each for each in page["sessions"]}
    assert (found["s"].title, found["s"].last) == ("Where to?", "There are no flights to Oslo.")
    assert (found["silent"].title, found["silent"].last) == ("chat m", "chat m")
    assert found["s"].last_activity > 0


@pytest.mark.long
async def test_a_run_of_spans_reads_as_a_conversation(
    browser: Browser, store: foldlog.Store
) -> None:
    """Each message once, though each call of a model repeats those before; tokens once, too."""
    recorder = Recorder()
    recorder.agent_run("s", question="Where to?")
    await receive(store, recorder)
    async with looking(browser, store) as page:
        await open_run(page, "s")
        turns = page.locator("article.turn")
        await turns.nth(3).wait_for()
        roles = await turns.evaluate_all("all => all.map(each => each.dataset.role)")
        assert roles == ["user", "assistant", "tool", "assistant"]
        texts = await turns.all_inner_texts()
        assert "Where to?" in texts[0]
        assert "search" in texts[1]
        assert "no flights" in texts[2]
        assert "There are no flights to Oslo." in texts[3]
        totals = await page.locator(".totals").inner_text()
        assert "1 tool calls" in totals
        assert "36 tokens" in totals  # those of the two calls, and not of the agent again
        assert "1 error" in totals
        await page.click("[data-tab=timeline]")
        rows = page.locator("button.event .title")
        await rows.nth(4).wait_for()
        titles = await rows.all_inner_texts()
        assert {"model gpt-4o", "tool search"} <= set(titles)
        assert await page.locator("button.event[data-tone=FAILED]").count() == 1
        await page.click("[data-tab=waterfall]")
        bars = page.locator(".span")
        await bars.nth(3).wait_for()
        names = await bars.locator("summary .name").all_inner_texts()
        assert (names[0], names.count("gpt-4o"), names.count("search")) == ("planner", 2, 1)
        depths = "all => all.map(each => Number(each.style.getPropertyValue('--depth')))"
        assert await bars.evaluate_all(depths) == [0] + [1] * (len(names) - 1)
        failed = bars.locator(".status[data-status=failed]")
        assert await failed.count() == 1
