"""What tests do with a page that a browser shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.async_api import Locator, Page


async def go(page: Page, address: str) -> None:
    """Show another view."""
    await page.evaluate("address => { location.hash = address }", address)


async def open_run(page: Page, session: str, tab: str = "conversation") -> None:
    """Show a session, once all of it is there."""
    await go(page, f"#/session/{session}")
    await page.wait_for_selector("fl-run .live[data-state=live]")
    if tab != "conversation":
        await page.click(f"[data-tab={tab}]")


async def shows(locator: Locator, text: str) -> None:
    """Wait until an element says this, and nothing else."""
    from playwright.async_api import expect

    await expect(locator).to_have_text(text)


async def moment(page: Page, shown: int, total: int) -> None:
    """Wait until so many records are shown of so many."""
    await shows(page.locator(".where .n"), f"{shown:,} / {total:,}")


async def number(locator: Locator, count: int) -> None:
    """Wait until there are so many."""
    from playwright.async_api import expect

    await expect(locator).to_have_count(count)


async def where(page: Page) -> tuple[int, int]:
    """How many records are shown, and how many there are."""
    text = await page.inner_text(".where .n")
    shown, _, total = text.replace(",", "").partition(" / ")
    return int(shown), int(total)
