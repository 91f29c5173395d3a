"""Everything on the page by keyboard alone: the pointer is never used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import foldlog
from foldlog import TaskStatus
from tests.ui.conftest import looking
from tests.ui.pages import moment, number, shows, where
from tests.ui.support import said

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

pytestmark = pytest.mark.long

AT = "selector => document.activeElement.matches(selector)"


async def tab_to(page: Page, selector: str) -> None:
    """Press Tab until an element has the focus, which can be seen."""
    for _ in range(80):
        await page.keyboard.press("Tab")
        if await page.evaluate(AT, selector):
            outline = "getComputedStyle(document.activeElement).outlineStyle"
            assert await page.evaluate(outline) != "none", selector
            return
    pytest.fail(f"no way to {selector}")


async def test_everything_is_done_by_keyboard(browser: Browser, store: foldlog.Store) -> None:
    async with store.session("work") as session:
        await session.spawn_task(task_id="t")
        await session.start_task("t")
    for n in range(6):
        await store.save_update(said("work", n, trace_id="trace"))
    await store.save_planner_state("token", {"reason": "May I?"}, session_id="work")
    await store.save_update(said("other", 1))
    async with looking(browser, store, options={"user": "ann"}) as page:
        press = page.keyboard.press
        await page.wait_for_selector(".sessions li")
        # Find and open a session.
        await press("/")
        await page.keyboard.type("work")
        await number(page.locator(".sessions li"), 1)
        await tab_to(page, ".sessions a")
        await press("Enter")
        await page.wait_for_selector(".live[data-state=live]")
        # Tabs, records, and filters.
        await press("3")
        await page.wait_for_selector(".event")
        await tab_to(page, ".chip[data-group=updates]")
        await press("Space")
        await page.wait_for_selector(".chip[data-group=updates][aria-pressed=false]")
        await press("Space")
        total = (await where(page))[1]
        await tab_to(page, ".event")
        await press("Enter")
        await moment(page, 1, total)
        # The scrubber, by its own keys and by those of the page.
        await press("ArrowRight")
        await moment(page, 2, total)
        await tab_to(page, "input[type=range]")
        await press("End")
        await moment(page, total, total)
        await press("Home")
        await moment(page, 0, total)
        await tab_to(page, ".live")
        await press("Enter")
        await page.wait_for_selector(".live[aria-pressed=true]")
        # Panes of the state.
        await tab_to(page, ".pane summary")
        was_open = "document.activeElement.parentNode.open"
        before = await page.evaluate(was_open)
        await press("Enter")
        assert await page.evaluate(was_open) is not before
        # Steer, with a dialog that gives the focus back.
        await tab_to(page, ".head .buttons button")
        await press("Enter")
        await page.wait_for_selector("dialog[open]")
        await press("Escape")
        await page.wait_for_selector("dialog", state="detached")
        assert await page.evaluate(AT, ".head .buttons button")
        await press("Enter")
        await tab_to(page, "dialog .field:nth-of-type(2) select")
        await page.keyboard.type("PAUSE")
        await tab_to(page, "dialog textarea")
        await page.keyboard.type("lunch")
        await tab_to(page, "dialog button.primary")
        await press("Enter")
        await page.wait_for_selector("dialog", state="detached")
        await page.wait_for_selector(".status[data-status=PAUSED]")
        # The inbox.
        await press("g")
        await press("w")
        await number(page.locator(".waits"), 2)
        for left in (1, 0):
            await tab_to(page, ".waits button.primary")
            await press("Enter")
            await number(page.locator(".waits"), left)
        # Keys, the theme, and back to the sessions.
        await press("?")
        await page.wait_for_selector("dialog[open] .keys")
        await press("Escape")
        await tab_to(page, "[aria-label='Light or dark']")
        await press("Enter")
        assert await page.evaluate("document.documentElement.dataset.theme") == "dark"
        await press("g")
        await press("s")
        await shows(page.locator("h1"), "Sessions")
        moving = "document.getAnimations().length"
        assert await page.evaluate(moving) == 0, "the reader asked for less motion"
    states = await store.list_tasks("work")
    assert [each.status for each in states] == [TaskStatus.RUNNING]
