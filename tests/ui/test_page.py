"""What a person does on the page, in a browser."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import foldlog
from foldlog import TaskStatus, kinds
from foldlog.cli.demo import scene
from foldlog.importer import demo_transcript, import_conversations
from foldlog.importer.planning import text_of
from tests.ui.conftest import looking, serving
from tests.ui.support import event, said, task

if TYPE_CHECKING:
    from playwright.async_api import Browser, Locator, Page

TAU = Path(__file__).parents[3] / "shared" / "data" / "tau-bench-airline.jsonl"

pytestmark = pytest.mark.long


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
    messages = await store.load_history(session)
    async with looking(browser, store) as page:
        await open_run(page, session)
        await page.wait_for_selector(".turn")
        await page.evaluate("document.querySelector('fl-list').scrollTop = 0")
        await page.wait_for_selector(".row[data-place='0'] .turn[data-role=system]")
        first = next(text_of(e.payload) for e in messages if e.kind == "message.user")
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
        row = page.locator(".event", has_text="task running").first
        await page.evaluate("document.querySelector('fl-timeline fl-list').scrollTop = 0")
        await row.click()
        shown, _ = await where(page)
        assert shown < total
        await page.wait_for_selector(".live[aria-pressed=false]")
        changes = page.locator(".now .changes")
        assert "PENDING" in await changes.locator("del").first.inner_text()
        assert "RUNNING" in await changes.locator("ins").first.inner_text()
        # Steps by keyboard; the slider is one control among others.
        await page.keyboard.press("ArrowRight")
        assert (await where(page))[0] == shown + 1
        await page.keyboard.press("k")
        assert (await where(page))[0] == shown
        slider = page.locator("input[type=range]")
        await slider.focus()
        await page.keyboard.press("Home")
        assert (await where(page))[0] == 0
        await page.get_by_text("Before the first record").wait_for()
        # A link names the moment: it shows the same in another page.
        await slider.fill(str(shown))
        address = await page.evaluate("location.hash")
        assert "at=%40" in address
        gist = await page.inner_text(".now h2")
        await page.evaluate("location.reload()")
        await moment(page, shown, total)
        assert await page.inner_text(".now h2") == gist
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
            "Executions",
            "Artifacts",
            "Feedback",
        ):
            await panes.locator("h3", has_text=title).wait_for()
        assert "an outing to the coast" in await panes.inner_text()
        await page.locator("input[type=range]").fill("2")
        await number(panes.locator("h3", has_text="Artifacts"), 0)
        picture = page.locator("fl-conversation img.picture")
        await page.keyboard.press("End")
        await picture.scroll_into_view_if_needed()
        assert (
            await picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 360
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


async def test_what_waits_is_answered(browser: Browser, store: foldlog.Store) -> None:
    await scene.play(store)
    schema = {
        "type": "object",
        "required": ["seats"],
        "properties": {"seats": {"type": "integer"}, "note": {"type": "string"}},
    }

    async def ask() -> Any:
        async with store.recovery.execution("seats", session_id="other") as run:
            return await run.ask("how many", {"question": "How many seats?", "schema": schema})

    with pytest.raises(foldlog.recovery.ExecutionPaused):
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
    async with store.recovery.execution("outing-lunch") as run:
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
    for number in range(6):
        await store.save_update(said("s", number))
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
        await page.locator("dialog textarea").fill("s")
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
    assert (await where(page))[0] == 0
    await page.keyboard.press("End")
    assert (await where(page)) == (total, total)
    picture = page.locator("fl-conversation img.picture")
    await picture.scroll_into_view_if_needed()
    assert await picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 360
    assert await page.get_by_role("button", name="Steer").count() == 0
    await context.close()
    assert wrong == []


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


@pytest.mark.parametrize("count", [3_000, pytest.param(100_000, marks=pytest.mark.long)])
async def test_long_sessions_scroll_and_scrub(
    browser: Browser, store: foldlog.Store, count: int
) -> None:
    await task(store, "s", "t", TaskStatus.RUNNING)
    for start in range(0, count, 1000):
        async with store.atomic():
            for number in range(start, start + 1000):
                await store.save_update(said("s", number))
    async with looking(browser, store) as page:
        await go(page, "#/session/s?tab=timeline")
        await page.wait_for_selector(".event")  # the first page is shown while others come
        await page.wait_for_selector(".live[data-state=live]", timeout=120_000)
        assert (await where(page))[1] == count + 1
        assert await page.locator(".event").count() < 200
        await page.evaluate("document.querySelector('fl-timeline fl-list').scrollTop = 1e9 / 2")
        await page.evaluate("document.querySelector('fl-timeline fl-list').scrollTop = 3000")
        await page.locator(".event", has_text="update 100").first.wait_for()
        await page.locator("input[type=range]").fill(str(count // 2))
        text = f"update {count // 2 - 2}"
        await page.locator(".event[aria-current]", has_text=text).wait_for()
        heap = await page.evaluate("performance.memory.usedJSHeapSize")
        assert heap < 300_000_000


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
    await store.fork(scene.SESSION, into="fork")
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
