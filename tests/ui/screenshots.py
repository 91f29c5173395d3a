"""Take the pictures of the docs: `python -m tests.ui.screenshots`; into a DIRECTORY: all views.

They show the demo's data. Needs the system's Chromium, and Playwright for Python.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from playwright.async_api import Page

import foldlog
from foldlog import Message, kinds
from foldlog.cli.demo import scene
from foldlog.importer import demo_transcript, import_conversations
from foldlog.models import SteeringEvent, SteeringEventType
from foldlog.runs import Run
from tests.support.browser import chromium
from tests.ui.conftest import Served, serving
from tests.workers.working import queues_are, working

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs/images/page"
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
SHOWN = "".join(page.read_text("utf-8") for page in PAGES)
BOOKED = "trip-to-oslo"
SIZES = {"wide": (1440, 900), "middle": (900, 900), "phone": (390, 844)}


async def take(directory: Path) -> None:
    """Take every picture."""
    async with foldlog.memory_store() as store:
        await import_conversations(store, [demo_transcript()])
        await scene.play(store)
        await book(store)
        at = (await store.items(kinds.messages(scene.SESSION)))[1].position
        await store.fork(scene.SESSION, at=at, to="club-outing-by-bus")
        async with store.session("club-outing-by-bus") as session:
            await session.update_context(
                llm_context={"goal": "an outing by bus", "budget_eur": 300}
            )
        async with serving(store, user="mira") as served:
            await in_all_sizes(served, lambda page, end: views(page, directory, end, str(at)))
    async with (
        foldlog.memory_store() as store,
        at_work(store),
        serving(store, user="mira") as served,
    ):
        await in_all_sizes(served, lambda page, end: shoot(page, directory, end, *QUEUES))


async def in_all_sizes(served: Served, take: Callable[[Page, str], Awaitable[None]]) -> None:
    """Show the page in each size, light and dark."""
    async with chromium() as browser:
        for scheme in ("light", "dark"):
            for size, (width, height) in SIZES.items():
                page = await browser.new_page(
                    viewport={"width": width, "height": height},
                    color_scheme=scheme,
                    reduced_motion="reduce",
                )
                await page.goto(f"{served.url}/?token={served.token}")
                await take(page, f"{size}-{scheme}")
                await page.close()


async def book(store: foldlog.Store) -> None:
    """A run as people have them: a plan with a model's call and a search, a question, a failure."""

    async def think(about: str) -> str:
        run.usage(model="gpt-5", input_tokens=420, output_tokens=64, cost_usd=0.0021)
        await asyncio.sleep(0.25)
        return "search Oslo, take the cheapest"

    async def search(city: str) -> list[dict[str, Any]]:
        await asyncio.sleep(0.12)
        return [{"flight": 7, "to": city, "eur": 80}, {"flight": 9, "to": city, "eur": 95}]

    async def plan(about: str) -> list[dict[str, Any]]:
        await run.step("think", think, about, kind="model")
        return await run.step("search", search, "Oslo", kind="tool")

    async def buy(flight: int, seat: str) -> None:
        await asyncio.sleep(0.06)
        raise ConnectionError("the airline does not answer")

    async def answer() -> None:
        async for item in store.watch_waiting(session_id=BOOKED):
            await asyncio.sleep(0.15)
            await store.answer(item.id, True)
            return

    body = {"role": "user", "content": "Book me a flight to Oslo for Friday, below 100 euros"}
    await store.append_messages(BOOKED, [Message("1", "openai", body, role="user", author="ann")])
    with suppress(ConnectionError):
        async with store.run("book-oslo", session_id=BOOKED, description="a flight to Oslo") as run:
            await run.step("plan", plan, "a flight to Oslo")
            answering = asyncio.create_task(answer())
            await run.ask("buy?", "Buy flight 7 for 80 euros?")
            await answering
            async with store.session(BOOKED) as session:
                await session.steer(
                    SteeringEvent(
                        session_id=BOOKED,
                        task_id="book-oslo",
                        event_type=SteeringEventType.INJECT_CONTEXT,
                        payload={"text": "A window seat, please", "by": "ann"},
                    )
                )
            await run.inbox()
            await run.step("buy", buy, 7, "window", kind="tool", retries=1, pause=0.05)


@asynccontextmanager
async def at_work(store: foldlog.Store) -> AsyncIterator[None]:
    """Workers with runs under way, runs that wait, one that sleeps, and two that have failed."""

    @foldlog.durable(queue="research", attempts=1)
    async def research(run: Run, topic: str) -> None:
        if topic.startswith("sleep"):
            await run.sleep(hours=2)
        if topic.startswith("fail"):
            raise ConnectionError("the library does not answer: 503 Service Unavailable")
        await run.step("read", asyncio.Event().wait, repeatable=True)

    @foldlog.durable(queue="mail")
    async def remind(run: Run, text: str) -> None:
        """Begins by a schedule only."""

    for name, topic in [
        ("hotels-in-oslo", "fail"),
        ("trains-to-bergen", "fail"),
        ("fjords", "sleep"),
        ("museums", "work"),
        ("restaurants-with-a-view", "work"),
        ("weather-on-friday", "work"),
    ]:
        await store.start(research, topic, id=name)
    for number in range(3):
        await store.start(remind, "stretch", id=f"mail-{number}", session_id="newsletter")
    await store.queues.limit("research", at_once=2, per_key=1)
    await store.queues.pause("mail")
    await store.queues.schedule("daily", "30 9 * * 1-5", remind, "stand up", zone="Europe/Oslo")
    async with working(store, research, remind, slots=8):
        await queues_are(store, lambda state: (len(state.failed), len(state.held)) == (2, 2))
        yield


async def views(page: Page, directory: Path, end: str, at: str) -> None:
    """Take the pictures of one size and scheme."""
    run = f"#/session/{scene.SESSION}"
    for shown in (
        ("sessions", "#/", ".sessions li"),
        ("conversation", run, ".turn img, .turn"),
        ("timeline", f"{run}?tab=timeline", ".event"),
        ("moment", f"{run}?tab=timeline&at={at}", ".event[aria-current]"),
        *([("state", f"{run}?tab=state&at={at}", ".now h2")] if "wide" not in end else []),
        ("story", f"#/session/{BOOKED}", ".turn .more"),
        ("waterfall", f"#/session/{BOOKED}?tab=waterfall", ".span"),
        ("waiting", "#/waiting", ".waits"),
        ("compare", f"#/compare?a={scene.SESSION}&b=club-outing-by-bus", ".differences li"),
    ):
        await shoot(page, directory, end, *shown)


QUEUES = "queues", "#/queues", ".queues td"


async def shoot(page: Page, directory: Path, end: str, name: str, address: str, wait: str) -> None:
    """Take one picture."""
    path = directory / f"{name}-{end}.png"
    if directory == DOCS and f"page/{path.name}" not in SHOWN:
        return
    await page.evaluate("address => { location.hash = address }", address)
    await page.wait_for_selector(wait)
    if "session/" in address:
        await page.wait_for_selector(".live[data-state=live]")
    await page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    await page.screenshot(path=path)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS
    target.mkdir(parents=True, exist_ok=True)
    asyncio.run(take(target))
