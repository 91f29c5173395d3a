"""The page goes on when what it shows goes: cleared, erased, or with its server."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

import foldlog
from tests.ui.conftest import looking, serving
from tests.ui.pages import moment, open_run
from tests.ui.support import said

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.long


@pytest.mark.parametrize("how", ["clear_session", "erase_session"])
async def test_a_session_that_is_removed_leaves_the_page(
    browser: Browser, store: foldlog.Store, how: str
) -> None:
    for number in range(3):
        await store.save_update(said("s", number, trace_id="trace"))
    await store.append_messages("s", [foldlog.Message("m", "x", "a secret")])
    async with looking(browser, store) as page:
        await open_run(page, "s")
        await page.get_by_text("a secret").first.wait_for()
        await getattr(store, how)("s")
        await page.get_by_text("Nothing is on record under this id").wait_for()
        assert await page.get_by_text("a secret").count() == 0
        await store.save_update(said("s", 10))
        await moment(page, 1, 1)


async def test_a_run_that_begins_while_the_page_is_open_is_shown(
    browser: Browser, store: foldlog.Store
) -> None:
    await store.save_update(said("s", 1))
    async with looking(browser, store) as page:
        await open_run(page, "s")
        async with store.run("book", session_id="s") as run:
            await run.step("search", len, "Oslo")
        await page.get_by_text("step search started").first.wait_for()


async def test_a_server_that_was_away_is_found_again(
    browser: Browser, store: foldlog.Store
) -> None:
    await store.append_messages("s", [foldlog.Message("m", "x", "before")])
    await store.save_update(said("gone", 1))
    context = await browser.new_context()
    page, other = await context.new_page(), await context.new_page()
    async with serving(store, token="token") as served:
        port = urlsplit(served.url).port
        assert port
        for each, session in ((page, "s"), (other, "gone")):
            await each.goto(f"{served.url}/?token=token")
            await open_run(each, session)
    await page.get_by_text("Reconnecting").wait_for()
    await store.append_messages("s", [foldlog.Message("n", "x", "meanwhile")])
    await store.clear_session("gone")
    async with serving(store, port=port, token="another"):
        await page.get_by_text("it has the token").first.wait_for()
    async with serving(store, port=port, token="token"):
        await page.get_by_text("meanwhile").first.wait_for()
        await page.wait_for_selector(".live[data-state=live]")
        await moment(page, 2, 2)
        assert await page.locator("[role=alert]:not(:empty)").count() == 0
        await other.get_by_text("Nothing is on record under this id").wait_for()
    await context.close()


async def test_a_log_that_is_away_is_told_and_found_again(
    browser: Browser, store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away() -> None:
        raise foldlog.LogUnavailable("the log is away")

    monkeypatch.setattr("foldlog.ui.streaming.HEARTBEAT_SECONDS", 0.05)
    await store.append_messages("s", [foldlog.Message("m", "x", "before")])
    async with looking(browser, store) as page:
        await open_run(page, "s")
        with monkeypatch.context() as broken:
            broken.setattr(store, "position", away)
            await page.locator("[role=alert]", has_text="the log is away").wait_for()
            await page.get_by_text("Reconnecting").wait_for()
            assert await page.get_by_text("before").count() >= 1, "what was read stays"
        await page.wait_for_selector(".live[data-state=live]")
        assert await page.locator("[role=alert]:not(:empty)").count() == 0
