"""The waterfall of runs, what the first tab tells of them, and doubtful steps on the page."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

import foldlog
from foldlog import kinds
from foldlog.models import SteeringEvent, SteeringEventType
from foldlog_projections.runs import runs
from tests.ui.conftest import looking
from tests.ui.pages import go, number, open_run

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.long


async def booked(store: foldlog.Store) -> None:
    """A run with a step in a step, a model's cost, a failure, and a question that waits."""
    with suppress(foldlog.RunPaused):
        async with store.run("book", session_id="s", description="a flight") as run:

            def think(about: str) -> str:
                run.usage(model="m1", input_tokens=20, output_tokens=5, cost_usd=0.002)
                return f"look for {about}"

            async def plan(city: str) -> str:
                return await run.step("think", think, city, kind="model")

            await run.step("plan", plan, "Oslo")
            with pytest.raises(ValueError, match="no seat"):
                await run.step("pay", int, "no seat", kind="tool")
            await run.ask("buy?", "Buy for 80 euros?", wait=0)


async def test_a_run_is_a_waterfall_that_moves_with_the_moment(
    browser: Browser, store: foldlog.Store
) -> None:
    await booked(store)
    async with looking(browser, store) as page:
        await open_run(page, "s", "waterfall")
        bars = page.locator(".span")
        await number(bars, 5)
        names = await bars.locator("summary .name").all_inner_texts()
        assert names == ["book", "plan", "think", "pay", "buy?"]
        depths = "all => all.map(each => Number(each.style.getPropertyValue('--depth')))"
        assert await bars.evaluate_all(depths) == [0, 1, 2, 1, 1]
        states = await bars.locator("summary .status").all_inner_texts()
        assert states == ["waiting", "done", "done", "failed", "waiting"]
        think = bars.filter(has_text="think")
        assert "25 tok" in await think.locator("summary").inner_text()
        # By keyboard: input, output, and what went wrong.
        await think.locator("summary").focus()
        await page.keyboard.press("Enter")
        await think.get_by_text("look for Oslo").wait_for()
        await bars.filter(has_text="pay").locator("summary").click()
        await bars.filter(has_text="pay").get_by_text("ValueError: invalid literal").wait_for()
        # At an earlier moment less had begun.
        items = await store.items(kinds.runs("s", "book"))
        begun = next(item for item in items if item.type == runs.STARTED)
        await go(page, f"#/session/s?tab=waterfall&at={begun.position}")
        await number(bars, 2)
        assert (await bars.locator("summary .status").all_inner_texts())[1] == "running"
        # Now, what happens appears.
        await page.keyboard.press("End")
        await number(bars, 5)
        async with store.run("book", session_id="s", restart=True) as run:
            await run.step("look", str)
        await number(bars, 2)
        await bars.filter(has_text="look").locator(".status[data-status=done]").wait_for()


async def test_the_first_tab_tells_the_story(browser: Browser, store: foldlog.Store) -> None:
    await booked(store)
    async with store.session("s") as session:
        await session.steer(
            SteeringEvent(
                session_id="s",
                task_id="book",
                event_type=SteeringEventType.CANCEL,
                payload={"by": "mira", "reason": "too late"},
            )
        )
    async with looking(browser, store) as page:
        await page.locator(".sessions .status[data-status=cancelled]").wait_for()
        await open_run(page, "s")
        turns = page.locator(".turn")
        step = turns.filter(has_text="step think started (model)")
        await step.get_by_text("done in").wait_for()
        assert "look for Oslo" in await step.inner_text()
        assert "used 25 tokens and $0.0020 of m1" in await step.inner_text()
        assert await step.evaluate("each => each.style.getPropertyValue('--depth')") == "2"
        failed = turns.filter(has_text="step pay started").locator(".more[data-tone=failed]")
        assert "ValueError" in await failed.inner_text()
        asked = turns.filter(has_text="Buy for 80 euros?").first
        await asked.locator("a", has_text="waits").wait_for()
        await turns.filter(has_text="mira cancelled task book").get_by_text("too late").wait_for()
        shown = await page.inner_text("fl-conversation")
        assert "run.step" not in shown
        await page.locator("fl-run h1 + .quiet", has_text="a flight").wait_for()


async def test_a_doubtful_step_is_settled_by_a_button(
    browser: Browser, store: foldlog.Store
) -> None:
    async def die() -> None:
        raise asyncio.CancelledError

    with suppress(asyncio.CancelledError):
        async with store.run("book", session_id="s") as run:
            await run.step("buy", die)
    with pytest.raises(foldlog.StepUnknown):
        async with store.run("book", session_id="s") as run:
            await run.step("buy", die)
    async with looking(browser, store) as page:
        await go(page, "#/waiting")
        card = page.locator(".waits")
        await card.filter(has_text="did buy happen?").wait_for()
        await card.get_by_role("button", name="It did not").click()
        await page.get_by_text("step retracted").wait_for()
        await number(card, 0)
    view = await store.view(kinds.runs("s", "book"))
    assert view.steps["buy"].phase == "retracted"
