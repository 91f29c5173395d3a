"""Queues on the page, in a browser, beside a worker that works."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import foldlog
from foldlog.runs import Run
from tests.ui.conftest import looking
from tests.ui.pages import go, number, shows
from tests.ui.test_page_is_safe import HOSTILE, axe
from tests.workers.working import queues_are, reached, working

if TYPE_CHECKING:
    from playwright.async_api import Browser, Locator, Page

pytestmark = pytest.mark.long


@foldlog.durable(attempts=1)
async def failing(run: Run, why: str) -> None:
    raise ValueError(why)


@foldlog.durable(queue="long")
async def endless(run: Run) -> None:
    await run.step("wait", asyncio.Event().wait)


def row(page: Page, section: str, text: str) -> Locator:
    return page.get_by_label(section, exact=True).locator("tbody tr").filter(has_text=text)


async def press(inside: Locator | Page, name: str) -> None:
    await inside.get_by_role("button", name=name, exact=True).click()


async def test_what_works_is_seen_and_acted_on(browser: Browser, store: foldlog.Store) -> None:
    async with looking(browser, store, options={"user": "ann"}) as page:
        await go(page, "#/queues")
        await page.get_by_text("Nothing waits for a worker").wait_for()
        await press(page, "Start a run")
        await page.get_by_label("Function").fill("report")
        await page.get_by_label("Arguments by name").fill("{")
        await press(page.locator("dialog"), "Start")
        await shows(page.locator("dialog .problem"), "Arguments by name is no JSON")
        await page.get_by_label("Arguments by name").fill('{"day": "Monday"}')
        await page.get_by_label("Session").fill("reports")
        await press(page.locator("dialog"), "Start")
        await page.wait_for_selector("dialog", state="detached")
        [report] = await store.list_tasks("reports")
        assert (report.status.value, report.description) == ("PENDING", "report")
        await store.queues.handle(report.task_id, session_id="reports").cancel()
        await store.queues.schedule("daily", "30 9 * * *", failing, "no", zone="Europe/Oslo")
        waits = await store.start(failing, "no such city", id="x", session_id="trip")
        queue = row(page, "Queues", "default")
        await shows(queue.locator(".status"), "no worker for failing")
        await press(queue, "Pause")
        await shows(queue.locator(".status"), "paused")
        async with working(store, failing, endless, slots=3):
            run = await store.start(endless, id="y")
            await row(page, "Workers", "1 of 3").wait_for()
            await row(page, "Running", "endless").wait_for()
            assert (await waits.status()).value == "PENDING"
            resume = queue.get_by_role("button", name="Resume")
            await resume.focus()
            await page.keyboard.press("Enter")
            await row(page, "Failed", "ValueError: no such city").wait_for()
            await press(row(page, "Failed", "trip"), "Send again")
            await page.get_by_text("It goes on from its first step not done").wait_for()
            await press(row(page, "Running", "y"), "Cancel")
            await press(page.locator("dialog"), "At once")
            await page.wait_for_selector("dialog", state="detached")
            await reached(store, run, "CANCELLED")
            await number(row(page, "Running", "y"), 0)
            await press(row(page, "Schedules", "daily"), "Remove")
            await press(page.locator("dialog"), "Remove")
            await number(row(page, "Schedules", "daily"), 0)
            await row(page, "Failed", "trip").get_by_role("link", name="x").click()
            await page.wait_for_selector("fl-run h1:text-is('trip')")
    assert await store.queues.schedules() == []
    [order] = await store.list_steering("y")
    assert order.payload["by"] == "ann"


async def test_a_button_keeps_its_focus_while_figures_change(
    browser: Browser, store: foldlog.Store
) -> None:
    await store.start("report", id="0")
    async with looking(browser, store) as page:
        await go(page, "#/queues")
        queue = row(page, "Queues", "default")
        await queue.get_by_role("button", name="Pause").focus()
        await store.start("report", id="1")
        await shows(queue.locator("td").nth(2), "2")
        assert await page.evaluate("document.activeElement.textContent") == "Pause"


async def test_a_page_that_may_not_write_offers_no_action(
    browser: Browser, store: foldlog.Store
) -> None:
    await store.queues.schedule("daily", "30 9 * * *", "report")
    await store.start("report", id="x")
    async with looking(browser, store, options={"read_only": True}) as page:
        await go(page, "#/queues")
        await row(page, "Schedules", "daily").wait_for()
        await row(page, "Queues", "default").wait_for()
        assert await page.locator("main button").count() == 0


@pytest.mark.parametrize("width", [1440, 390])
async def test_names_and_errors_are_text_and_axe_finds_no_violation(
    browser: Browser, store: foldlog.Store, width: int
) -> None:
    names = [f"{name} {text[:200]}" for name, text in HOSTILE.items()]
    async with working(store, failing, endless):
        for text in names:
            await store.start(failing, text, id=text, session_id="s", queue=text)
            await store.queues.schedule(text, "30 9 * * *", "report", queue=text)
        await store.start(endless, id="y")
        await queues_are(store, lambda all: (len(all.failed), len(all.held)) == (len(names), 1))
        screen = {"viewport": {"width": width, "height": 900}}
        async with looking(browser, store, **screen) as page:
            page.on("dialog", lambda dialog: pytest.fail(dialog.message))
            await go(page, "#/queues")
            await number(page.get_by_label("Failed", exact=True).locator("tbody tr"), len(names))
            await page.get_by_text("⟨001b⟩[31mred").first.wait_for()
            for inside in ("script", "img", "iframe", "b b"):
                assert await page.locator(f"main {inside}").count() == 0, inside
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert await page.evaluate(
                "() => { const { scrollWidth, clientWidth } ="
                " document.querySelector('main'); return scrollWidth <= clientWidth; }"
            )
            await page.evaluate(axe())
            found = await page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
            assert [(v["id"], v["nodes"][0]["target"]) for v in found["violations"]] == []
