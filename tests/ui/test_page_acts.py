"""What a person does on the page, in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import foldlog
from foldlog import kinds
from foldlog.cli.demo import scene
from foldlog.runs import RunPaused
from tests.ui.conftest import looking, serving
from tests.ui.pages import go, moment, number, open_run, where
from tests.ui.support import said

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.long


async def test_what_waits_is_answered(browser: Browser, store: foldlog.Store) -> None:
    await scene.play(store)
    schema = {
        "type": "object",
        "required": ["seats"],
        "properties": {"seats": {"type": "integer"}, "note": {"type": "string"}},
    }

    async def ask() -> Any:
        async with store.run("seats", session_id="other") as run:
            question = {"question": "How many seats?", "schema": schema}
            return await run.ask("how many", question, wait=0)

    with pytest.raises(RunPaused):
        await ask()
    async with looking(browser, store, options={"user": "ann"}) as page:
        await go(page, "#/waiting")
        cards = page.locator(".waits")
        await number(cards, 4)
        await cards.filter(has_text="Group ticket").get_by_role("button", name="Approve").click()
        await page.get_by_text("patch applied").wait_for()
        await cards.filter(has_text="Pay €143").get_by_role("button", name="Resume").click()
        await page.get_by_text("task resumed").wait_for()
        await (
            cards.filter(has_text="Where do we eat").locator("select").select_option(label="Picnic")
        )
        await store.save_planner_state("meanwhile", {"reason": "Another one"})
        await number(cards, 3)
        await cards.filter(has_text="Where do we eat").get_by_role("button", name="Answer").click()
        await number(cards, 2)
        await cards.filter(has_text="Another one").get_by_role("button", name="Resume").click()
        await number(cards, 1)
        last = cards.filter(has_text="How many seats")
        await last.get_by_role("button", name="Answer").click()
        await last.get_by_text("seats is missing").wait_for()
        await last.locator("input[type=number]").fill("4")
        await last.get_by_role("button", name="Answer").click()
        await page.get_by_text("Nothing waits").wait_for()
        await go(page, f"#/session/{scene.SESSION}")
        await page.wait_for_selector("fl-run .status[data-status=RUNNING]")
    assert await ask() == {"seats": 4}
    async with store.run("outing-lunch", session_id=scene.SESSION) as run:
        assert (
            await run.ask(
                "lunch", {"question": "Where do we eat?", "options": ["Harbour café", "Picnic"]}
            )
            == "Picnic"
        )


async def test_a_task_is_steered(browser: Browser, store: foldlog.Store) -> None:
    async with store.session("s") as session:
        await session.spawn_task(task_id="work")
        await session.start_task("work")
    given = [
        ("USER_MESSAGE", {"Message": "hello"}),
        ("INJECT_CONTEXT", {"Context": "it rains"}),
        ("REDIRECT", {"Instruction": "go home"}),
        ("PRIORITIZE", {"Priority": "7"}),
        ("PAUSE", {"Reason (optional)": "lunch"}),
        ("RESUME", {}),
        ("CANCEL", {"Reason (optional)": "enough"}),
    ]
    async with looking(browser, store, options={"user": "ann"}) as page:
        await open_run(page, "s")
        for type_, fields in given:
            await page.get_by_role("button", name="Steer", exact=True).first.click()
            form = page.locator("dialog form")
            await form.get_by_label("What").select_option(label=type_)
            if type_ == "REDIRECT":
                await form.get_by_role("button", name="Steer").click()
                await form.get_by_text("Instruction is missing").wait_for()
            for label, value in fields.items():
                await form.get_by_label(label).fill(value)
            await form.get_by_role("button", name="Steer").click()
            await page.wait_for_selector("dialog", state="detached")
        await page.wait_for_selector("fl-run .status[data-status=CANCELLED]")
    events = await store.list_steering("s")
    assert [str(each.event_type) for each in events] == [type_ for type_, _ in given]
    assert {each.payload["by"] for each in events} == {"ann"}


async def test_a_fork_goes_on_and_is_compared(browser: Browser, store: foldlog.Store) -> None:
    for at in range(6):
        await store.save_update(said("s", at))
    await store.save_memory_state("acme:ann:s", {"plan": "one"})
    async with looking(browser, store) as page:
        await open_run(page, "s", "timeline")
        await page.locator("input[type=range]").fill("3")
        await page.get_by_role("button", name="Fork", exact=True).first.click()
        await page.get_by_label("Id of the new session").fill("s-again")
        await page.locator("dialog form").get_by_role("button", name="Fork").click()
        await page.wait_for_selector("fl-run h1:text-is('s-again')")
        await page.get_by_text("forked from").wait_for()
        await store.save_update(said("s-again", 9, {"text": "another way"}))
        await page.get_by_role("button", name="Compare", exact=True).first.click()
        await page.locator("dialog select").select_option(label="s · update 0")
        await page.locator("dialog form").get_by_role("button", name="Compare").click()
        await page.wait_for_selector(".differences li[data-how=removed]")
        assert "another way" in await page.inner_text(".differences li[data-how=removed]")
        assert await page.locator(".differences li[data-how=added]").count() >= 3
    shared = [item.record.content["text"] for item in await store.items(kinds.updates("s-again"))]
    assert shared == ["update 0", "update 1", "update 2", "another way"]


async def test_a_saved_file_works_offline_and_scrubs(
    browser: Browser, store: foldlog.Store, tmp_path: Path
) -> None:
    await scene.play(store)
    await store.save_update(said(scene.SESSION, 1, {"text": "</script><script>alert(1)</script>"}))
    wrong: list[str] = []
    async with serving(store) as served:
        file = await served.client.get(f"/api/share?session={scene.SESSION}")
        assert "attachment" in file.headers["content-disposition"]
    path = tmp_path / "run.html"
    path.write_text(file.text, "utf-8")
    context = await browser.new_context(offline=True)
    page = await context.new_page()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda m: wrong.append(m.text) if m.type == "error" else None)
    page.on("request", lambda r: wrong.append(r.url) if r.url.startswith("http") else None)
    await page.goto(path.as_uri())
    await page.wait_for_selector(".turn")
    total = (await where(page))[1]
    await page.keyboard.press("Home")
    await moment(page, 0, total)
    await page.keyboard.press("End")
    await moment(page, total, total)
    picture = page.locator("fl-conversation img.picture")
    await picture.scroll_into_view_if_needed()
    assert await picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 180
    assert await page.get_by_role("button", name="Steer").count() == 0
    await context.close()
    assert wrong == []
