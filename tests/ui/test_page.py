"""What a person sees on the page, in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import foldlog
from foldlog import Message, TaskStatus
from foldlog.cli.demo import scene
from foldlog.importer import demo_transcript, import_conversations
from foldlog.importer.planning import text_of
from tests.ui.conftest import looking
from tests.ui.pages import go, moment, number, open_run, shows, where
from tests.ui.support import said, task

if TYPE_CHECKING:
    from playwright.async_api import Browser

TAU = Path(__file__).parents[3] / "shared" / "data" / "tau-bench-airline.jsonl"

pytestmark = pytest.mark.long


async def test_sessions_are_listed_and_found(browser: Browser, store: foldlog.Store) -> None:
    await import_conversations(store, [demo_transcript()])
    await task(store, "busy", "t")
    async with looking(browser, store) as page:
        rows = page.locator(".sessions li")
        await page.wait_for_selector(".sessions li")
        assert await rows.count() == 7
        assert await rows.first.locator(".status").inner_text() == "running"
        await page.keyboard.press("/")
        await page.keyboard.type("gears on my blue")
        await number(rows, 1)
        assert "bike-repair-0" in await rows.first.inner_text()
        await page.fill("#find", "")
        await page.click(".chip[data-status=failed]")
        await number(rows, 2)
        await page.fill("#find", "no such thing")
        await page.get_by_text("No session matches").wait_for()
        await page.click(".chip[data-status=failed]")
        await page.fill("#find", "busy")
        await rows.first.locator("a").click()
        await page.wait_for_selector("fl-run h1:text-is('busy')")


async def test_an_empty_store_says_so(browser: Browser, store: foldlog.Store) -> None:
    async with looking(browser, store) as page:
        await page.get_by_text("No session yet").wait_for()
        await store.save_update(said("new", 1))
        await page.wait_for_selector(".sessions li")
        await go(page, "#/waiting")
        await page.get_by_text("Nothing waits").wait_for()


@pytest.mark.parametrize("data", ["bundled", "tau-bench"])
async def test_a_conversation_reads_as_it_went(
    browser: Browser, store: foldlog.Store, data: str
) -> None:
    if data == "tau-bench" and not TAU.exists():
        pytest.skip("the tau-bench conversations are not there")
    report = await import_conversations(store, [demo_transcript() if data == "bundled" else TAU])
    assert report.conversations
    session = sorted(await store.sessions())[0]
    messages = await store.list_messages(session)
    async with looking(browser, store) as page:
        await open_run(page, session)
        await page.wait_for_selector(".turn")
        await page.evaluate("document.querySelector('fl-list').scrollTop = 0")
        await page.wait_for_selector(".row[data-place='0'] .turn[data-role=system]")
        first = next(text_of(each.body) for each in messages if each.role == "user")
        await page.evaluate("document.querySelector('fl-conversation fl-list').reveal(1)")
        turn = page.locator(".turn[data-role=user] .markdown", has_text=first.split("\n")[0][:60])
        await turn.first.wait_for()
        calls = page.locator(".call:not(.result) summary .name")
        await calls.first.wait_for()
        tab = page.locator("[data-tab=timeline]")
        await tab.click()
        await page.wait_for_selector(".event")
        assert (await where(page))[1] >= len(messages)


async def test_scrubbing_shows_what_was_and_what_changed(
    browser: Browser, store: foldlog.Store
) -> None:
    await scene.play(store)
    async with looking(browser, store) as page:
        await open_run(page, scene.SESSION, "timeline")
        now, total = await where(page)
        assert now == total
        # An event of the timeline is the moment after it.
        row = page.locator(".event", has_text="task outing started").first
        await page.evaluate("document.querySelector('fl-timeline fl-list').scrollTop = 0")
        await row.click()
        await page.wait_for_selector(".live[aria-pressed=false]")
        changes = page.locator(".now .changes")
        await changes.locator("del", has_text="PENDING").first.wait_for()
        await changes.locator("ins", has_text="RUNNING").first.wait_for()
        await page.locator(".where .n", has_not_text=f"{total:,} / {total:,}").wait_for()
        shown, _ = await where(page)
        # Steps by keyboard; the slider is one control among others.
        await page.keyboard.press("ArrowRight")
        await moment(page, shown + 1, total)
        await page.keyboard.press("k")
        await moment(page, shown, total)
        slider = page.locator("input[type=range]")
        await slider.focus()
        await page.keyboard.press("Home")
        await moment(page, 0, total)
        await page.get_by_text("Before the first record").wait_for()
        # A link names the moment: it shows the same in another page.
        await slider.fill(str(shown))
        await moment(page, shown, total)
        await page.wait_for_function("location.hash.includes('at=%40')")
        gist = await page.inner_text(".now h2")
        await page.evaluate("location.reload()")
        await moment(page, shown, total)
        await shows(page.locator(".now h2"), gist)
        # Playing ends at the last record.
        await slider.fill(str(total - 3))
        await page.select_option(".speed select", "64")
        await page.click(".play")
        await moment(page, total, total)
        await page.wait_for_selector(".play[aria-label=Play]")


async def test_panes_show_the_state_of_the_moment(browser: Browser, store: foldlog.Store) -> None:
    await scene.play(store)
    async with looking(browser, store) as page:
        await open_run(page, scene.SESSION)
        panes = page.locator(".panes")
        for title in (
            "Waiting",
            "Tasks",
            "Context",
            "Memory",
            "Artifacts",
        ):
            await panes.locator("h3", has_text=title).wait_for()
        assert "an outing to the coast" in await panes.inner_text()
        await page.locator("input[type=range]").fill("2")
        await number(panes.locator("h3", has_text="Artifacts"), 0)
        picture = page.locator("fl-conversation img.picture")
        await page.keyboard.press("End")
        await picture.scroll_into_view_if_needed()
        assert (
            await picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 180
        )


async def test_what_another_program_writes_appears(browser: Browser, store: foldlog.Store) -> None:
    await store.save_update(said("s", 1))
    async with looking(browser, store) as page:
        await open_run(page, "s", "timeline")
        await store.save_update(said("s", 2, {"text": "it happens now"}))
        await page.locator(".event", has_text="it happens now").wait_for()
        # Paused, new records arrive and the moment stays.
        await page.click(".live")
        await store.save_update(said("s", 3))
        await moment(page, 2, 3)
        await page.click(".live")
        await moment(page, 3, 3)
        await page.get_by_text("Following").wait_for()


COUNT = 100_000
HEAP_BYTES = 300_000_000
ROWS = 100


@pytest.mark.parametrize("tab", ["timeline", "conversation"])
async def test_a_session_of_100_000_records_scrolls_and_scrubs(
    browser: Browser, store: foldlog.Store, tab: str
) -> None:
    await task(store, "s", "t", TaskStatus.RUNNING)
    for start in range(0, COUNT, 1000):
        numbers = range(start, start + 1000)
        await store.append_messages(
            "s", [Message(f"m{n}", "x", {"content": f"word {n} **of** it"}) for n in numbers]
        )
    async with looking(browser, store) as page:
        await go(page, f"#/session/s?tab={tab}")
        rows = page.locator(f"fl-{tab} .row")
        await rows.first.wait_for()  # the first records are shown while others come
        assert await rows.count() < ROWS
        await page.wait_for_selector(".live[data-state=live]", timeout=120_000)
        await moment(page, COUNT + 1, COUNT + 1)
        to = "at => document.querySelector('fl-list').scrollTop = at"
        for at, text in ((0, "word 0 "), (1e9, f"word {COUNT - 1} "), (3000, "word ")):
            await page.evaluate(to, at)
            await rows.filter(has_text=text).first.wait_for()
            assert await rows.count() < ROWS
        for place in (COUNT // 2, 10, COUNT - 10):
            await page.locator("input[type=range]").fill(str(place))
            await page.locator("[aria-current]", has_text=f"word {place - 2} ").wait_for()
            assert await rows.count() < ROWS
        devtools = await page.context.new_cdp_session(page)
        await devtools.send("Performance.enable")
        await devtools.send("HeapProfiler.collectGarbage")
        metrics = await devtools.send("Performance.getMetrics")
        used = {each["name"]: each["value"] for each in metrics["metrics"]}
        assert used["JSHeapUsedSize"] < HEAP_BYTES
        assert used["Nodes"] < 20_000


async def test_sessions_of_langgraph(browser: Browser, store: foldlog.Store) -> None:
    graph = pytest.importorskip("langgraph.graph")
    from foldlog.integrations.langgraph import FoldlogSaver

    builder = graph.StateGraph(dict)
    builder.add_node("answer", lambda state: {"said": "forty-two"})
    builder.add_edge(graph.START, "answer")
    compiled = builder.compile(checkpointer=FoldlogSaver(store))
    await compiled.ainvoke({"asked": "what"}, {"configurable": {"thread_id": "thread"}})
    async with looking(browser, store) as page:
        await open_run(page, "thread", "timeline")
        await page.locator(".event", has_text="checkpoint").first.wait_for()
        await page.locator(".panes h3", has_text="Checkpoints").wait_for()
