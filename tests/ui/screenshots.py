"""Take the pictures of the docs: `python -m tests.ui.screenshots`; into a DIRECTORY: all views.

They show the demo's data. Needs the system's Chromium, and Playwright for Python.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from playwright.async_api import Page, async_playwright

import foldlog
from foldlog import kinds
from foldlog.cli.demo import scene
from foldlog.importer import demo_transcript, import_conversations
from tests.ui.conftest import CHROMIUM, serving

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs/images/page"
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
SHOWN = "".join(page.read_text("utf-8") for page in PAGES)
SIZES = {"wide": (1440, 900), "middle": (900, 900), "phone": (390, 844)}


async def take(directory: Path) -> None:
    """Take every picture."""
    async with foldlog.memory_store() as store:
        await import_conversations(store, [demo_transcript()])
        await scene.play(store)
        at = (await store.items(kinds.messages(scene.SESSION)))[1].position
        await store.fork(scene.SESSION, at=at, to="club-outing-by-bus")
        async with store.session("club-outing-by-bus") as session:
            await session.update_context(
                llm_context={"goal": "an outing by bus", "budget_eur": 300}
            )
        async with serving(store, user="mira") as served, async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=CHROMIUM, args=["--no-sandbox"]
            )
            for scheme in ("light", "dark"):
                for size, (width, height) in SIZES.items():
                    page = await browser.new_page(
                        viewport={"width": width, "height": height},
                        color_scheme=scheme,
                        reduced_motion="reduce",
                    )
                    await page.goto(f"{served.url}/?token={served.token}")
                    await views(page, directory, f"{size}-{scheme}", str(at))
                    await page.close()
            await browser.close()


async def views(page: Page, directory: Path, end: str, at: str) -> None:
    """Take the pictures of one size and scheme."""

    async def shoot(name: str, address: str, wait: str) -> None:
        path = directory / f"{name}-{end}.png"
        if directory == DOCS and f"page/{path.name}" not in SHOWN:
            return
        await page.evaluate("address => { location.hash = address }", address)
        await page.wait_for_selector(wait)
        if "session/" in address:
            await page.wait_for_selector(".live[data-state=live]")
        await page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
        )
        await page.screenshot(path=path)

    run = f"#/session/{scene.SESSION}"
    await shoot("sessions", "#/", ".sessions li")
    await shoot("conversation", run, ".turn img, .turn")
    await shoot("timeline", f"{run}?tab=timeline", ".event")
    await shoot("moment", f"{run}?tab=timeline&at={at}", ".event[aria-current]")
    if "wide" not in end:
        await shoot("state", f"{run}?tab=state&at={at}", ".now h2")
    await shoot("waiting", "#/waiting", ".waits")
    await shoot("compare", f"#/compare?a={scene.SESSION}&b=club-outing-by-bus", ".differences li")


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS
    target.mkdir(parents=True, exist_ok=True)
    asyncio.run(take(target))
