"""Hostile content is text, and the page keeps nobody out, by axe's rules."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import foldlog
from foldlog.cli.demo import scene
from foldlog.importer import demo_transcript, import_conversations
from tests.ui.conftest import looking
from tests.ui.pages import go, moment, open_run, where
from tests.ui.support import event, said

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.long


HOSTILE = {
    "html": "<img src=x onerror=alert(1)><script>alert(2)</script>",
    "svg": "<svg onload=alert(3)><a href='javascript:alert(4)'>x</a></svg>",
    "markdown": "[click](javascript:alert(5)) ![x](http://evil.example/x.png) <b>bold</b> **ok**",
    "ansi": "\x1b[31mred\x1b[0m \x07 bell",
    "bidi": "abc \u202etxet desrever\u202c \u2066isolate\u2069 \u200fend",
    "wide": "w" * 5_000,
    "template": "${alert(6)} {{constructor.constructor('alert(7)')()}} \u0001",
}


async def test_hostile_content_is_text(browser: Browser, store: foldlog.Store) -> None:
    deep: Any = "end"
    for _ in range(95):
        deep = {"in": [deep]} if isinstance(deep, str) else {"in": deep}
    for number, (name, text) in enumerate(HOSTILE.items()):
        await store.save_update(said("s", number, {"text": text}, task_id=text[:200]))
        await store.append_messages(
            "s", [foldlog.Message(name, "x", {"role": "user", "content": text}, author=text)]
        )
        await store.save_event(event(f"session:{'s'}", number, **{text[:50]: text}))
    await store.save_update(said("s", 97, {"__proto__": {"polluted": 1}, "constructor": 1}))
    await store.save_update(said("s", 98, deep))
    await store.save_update(said("s", 99, {"text": "x" * 8_000_000}))
    evil = "<img src=x onerror=alert(1)>/../?#%"
    await store.save_update(said(evil, 1))
    async with looking(browser, store) as page:
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        await page.wait_for_selector(".sessions li")
        await page.locator(".sessions a").first.click()
        await page.wait_for_selector("fl-run h1")
        assert await page.inner_text("fl-run h1") == evil
        await open_run(page, "s")
        await page.wait_for_selector(".turn")
        await page.evaluate("document.querySelector('fl-conversation fl-list').scrollTop = 0")
        await page.get_by_text("⟨202e⟩txet desrever⟨202c⟩").first.wait_for()
        await page.get_by_text("⟨001b⟩[31mred").first.wait_for()
        for tab in ("timeline", "conversation"):
            await page.click(f"[data-tab={tab}]")
            total = (await where(page))[1]
            for place in range(0, total, 3):
                await page.locator("input[type=range]").fill(str(place))
                await moment(page, place, total)
                for summary in await page.locator(".now details.raw:not([open]) > summary").all():
                    await summary.click()
        for selector in (
            "main script",
            "main svg",
            "main b:not(.totals b)",
            "main img",
            "main iframe",
        ):
            assert await page.locator(selector).count() == 0, selector
        links = await page.eval_on_selector_all("main a", "all => all.map(a => a.href)")
        assert not [each for each in links if "javascript" in each or "evil" in each]
        assert await page.evaluate("({}).polluted === undefined")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_a_page_that_may_not_write_offers_nothing_to_write(
    browser: Browser, store: foldlog.Store
) -> None:
    await scene.play(store)
    async with looking(browser, store, options={"read_only": True}) as page:
        await open_run(page, scene.SESSION)
        for name in ("Steer", "Fork", "Feedback"):
            assert await page.get_by_role("button", name=name, exact=True).count() == 0
        await go(page, "#/waiting")
        await page.get_by_text("This page is read-only").first.wait_for()


def axe() -> str:
    """The source of axe-core, where the package that brings it is there."""
    package = pytest.importorskip("axe_playwright_python")
    return next(Path(os.path.dirname(package.__file__)).rglob("axe.min.js")).read_text("utf-8")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
async def test_axe_finds_no_violation(
    browser: Browser, store: foldlog.Store, scheme: str, width: int
) -> None:
    source = axe()
    await scene.play(store)
    await import_conversations(store, [demo_transcript()])
    await store.fork(scene.SESSION, to="fork")
    screen = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    async with looking(browser, store, **screen) as page:

        async def check(what: str) -> None:
            await page.evaluate(source)
            found = await page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
            told = [
                (
                    v["id"],
                    [(n["target"], n["any"][0]["message"] if n["any"] else "") for n in v["nodes"]][
                        :4
                    ],
                )
                for v in found["violations"]
            ]
            assert not told, f"{what}: {json.dumps(told, indent=1)}"

        await page.wait_for_selector(".sessions li")
        await check("sessions")
        await open_run(page, scene.SESSION)
        await page.wait_for_selector(".turn")
        await check("conversation")
        for tab in ("timeline", "state") if width < 901 else ("timeline",):
            await page.click(f"[data-tab={tab}]")
            await page.wait_for_selector(".event, .side")
            await check(tab)
        await page.get_by_role("button", name="Steer", exact=True).first.click()
        await check("steer")
        await page.keyboard.press("Escape")
        await go(page, "#/waiting")
        await page.wait_for_selector(".waits")
        await check("waiting")
        await go(page, f"#/compare?a={scene.SESSION}&b=bike-repair-0")
        await page.wait_for_selector(".differences li")
        await check("compare")
