"""The page: how soon a long session is seen, what a browser holds, and what followers cost."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from benchmarks import workload
from benchmarks.bench import Bench
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.measuring import Measure, Ref, percentile
from benchmarks.unavailable import Unavailable
from foldlog import Message

LONG = "session-long"
BUSY, FOLLOWERS, A_SECOND, WRITERS = 1, 50, 1_000, 16
TABS = {"timeline": ".event", "conversation": ".turn"}
SCREEN, WHOLE, HEAP = "first screen", "all of it", "browser's memory"
SEEN = "from a save to the screen"
ALONE, FOLLOWED = "nobody follows", f"{FOLLOWERS} follow"

_OBSERVE = """window.firstScreen = new Promise((done) => new MutationObserver((_, observer) => {
  if (!document.querySelector(".event, .turn")) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => done(performance.now() / 1000)));
}).observe(document, { subtree: true, childList: true }))"""
_EXPECT = """(text) => void (window.isShown = new Promise((shown) => {
  const list = document.querySelector("fl-list");
  new MutationObserver(() => list.textContent.includes(text) && shown())
    .observe(list, { subtree: true, childList: true, characterData: true });
}))"""


async def run(bench: Bench) -> None:
    """Record what a browser shows and holds, and how fast writers are while others follow."""
    records, seconds = bench.size((100_000, 10), (3_000, 2))
    bench.begin(
        "page",
        "The page",
        f"A session of {records:,} messages opened in Chromium, from the address to what is on "
        f"screen. A session of {A_SECOND:,} updates a second by {WRITERS} writers for {seconds} s, "
        f"with nobody and with {FOLLOWERS} who follow it. `foldlog ui` is a process of its own.",
    )
    async with bench.opened([Foldlog]) as opened:
        for contender in opened:
            await _fill(contender, records)
            async with _served(contender) as url:
                try:
                    async with _browser() as browser:
                        for _ in range(bench.rounds):
                            await _looked_at(bench, browser, url, contender)
                except Unavailable as reason:
                    bench.missing["the page in a browser"] = str(reason)
                bench.say("  seen")
                for _ in range(bench.rounds):
                    await _written(bench, contender, ALONE, seconds)
                    async with _followers(url):
                        await _written(bench, contender, FOLLOWED, seconds)
    for tab in TABS:
        first = Ref(f"{tab}: {SCREEN}", Foldlog.name, Measure.TIME)
        bench.expect(f"the first screen of the {tab}", first, at_most=1.0)
        heap = Ref(f"{tab}: {HEAP}", Foldlog.name, Measure.BYTES)
        bench.expect(f"the browser's memory, {tab}", heap, at_most=300e6)
    bench.expect("from a save to the screen", Ref(SEEN, Foldlog.name, Measure.P50), at_most=0.1)
    bench.expect(
        f"updates a second that {FOLLOWERS} pages follow, over nobody following",
        Ref(FOLLOWED, Foldlog.name, Measure.RATE),
        Ref(ALONE, Foldlog.name, Measure.RATE),
        at_least=0.9,
    )


async def _fill(contender: Foldlog, records: int) -> None:
    for start in range(0, records, 1_000):
        some = [
            Message(f"m{n}", "benchmark", {"content": f"{n} {workload.TEXT}"}, role="assistant")
            for n in range(start, start + 1_000)
        ]
        await contender.store.append_messages(LONG, some)


async def _looked_at(bench: Bench, browser: Any, url: str, contender: Foldlog) -> None:
    context = await browser.new_context(viewport={"width": 1440, "height": 900})
    page = await context.new_page()
    await page.add_init_script(_OBSERVE)
    await page.goto(url)  # its token lets the next ones in
    address, name = url.partition("?")[0], contender.name
    for tab, item in TABS.items():
        await page.goto("about:blank")
        await page.goto(f"{address}#/session/{LONG}?tab={tab}")
        bench.record(f"{tab}: {SCREEN}", name, Measure.TIME, await page.evaluate("firstScreen"))
        await page.wait_for_selector(".live[data-state=live]", timeout=300_000)
        whole = await page.evaluate("performance.now() / 1000")
        bench.record(f"{tab}: {WHOLE}", name, Measure.TIME, whole)
        await page.wait_for_selector(item)
        devtools = await context.new_cdp_session(page)
        await devtools.send("HeapProfiler.collectGarbage")
        used = (await devtools.send("Runtime.getHeapUsage"))["usedSize"]
        bench.record(f"{tab}: {HEAP}", name, Measure.BYTES, used)
    shown = [await _until_shown(page, address, contender, number) for number in range(20)]
    bench.record(SEEN, name, Measure.P50, percentile(shown, 50))
    await context.close()


async def _until_shown(page: Any, address: str, contender: Foldlog, number: int) -> float:
    """How long after the call of a save its text is on the page."""
    session = workload.session_id(2)
    if not number:
        await contender.save(workload.update(2))
        await page.goto(f"{address}#/session/{session}?tab=timeline")
        await page.wait_for_selector(".live[data-state=live]")
        await page.wait_for_selector(".event")
    update = workload.update(2)
    update.content = {"text": f"it is {update.update_id}"}
    await page.evaluate(_EXPECT, update.content["text"])
    began = time.perf_counter()
    await contender.save(update)
    await page.evaluate("isShown")
    return time.perf_counter() - began


async def _written(bench: Bench, contender: Foldlog, case: str, seconds: int) -> None:
    """Save updates of the busy session at the asked rate, and record what it came to."""
    numbers = iter(range(A_SECOND * seconds))
    updates = [workload.update(BUSY) for _ in range(A_SECOND * seconds)]
    calls: list[float] = []
    began = time.perf_counter()

    async def writer() -> None:
        for number in numbers:
            await asyncio.sleep(began + number / A_SECOND - time.perf_counter())
            called = time.perf_counter()
            await contender.save(updates[number])
            calls.append(time.perf_counter() - called)

    async with asyncio.TaskGroup() as group:
        for _ in range(WRITERS):
            group.create_task(writer())
    rate = len(calls) / (time.perf_counter() - began)
    bench.record(case, contender.name, Measure.RATE, rate)
    bench.record(case, contender.name, Measure.P50, percentile(calls, 50))


@asynccontextmanager
async def _process(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A program that ends with its standard input, or with this context."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdin=pipe, stdout=pipe
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@asynccontextmanager
async def _served(contender: Foldlog) -> AsyncIterator[str]:
    """The address of the page, served by another process."""
    command = "from foldlog.cli import main; main()"
    options = ("ui", "--path", str(contender.path), "--no-browser", "--json")
    async with _process("-c", command, *options) as process:
        assert process.stdout is not None
        yield json.loads(await process.stdout.readline())["url"]


@asynccontextmanager
async def _followers(url: str) -> AsyncIterator[None]:
    """Programs of another process that follow the busy session."""
    session = workload.session_id(BUSY)
    async with _process("-m", "benchmarks.followers", url, session, str(FOLLOWERS)) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        await process.stdout.readline()
        yield
        process.stdin.close()
        assert int(await process.stdout.readline()) > 0


@asynccontextmanager
async def _browser() -> AsyncIterator[Any]:
    """A browser without a window. Raises Unavailable."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), "")
    if not chromium:
        raise Unavailable("there is no chromium")
    try:
        from playwright.async_api import async_playwright
    except ImportError as error:
        raise Unavailable("Playwright for Python is not installed") from error
    arguments: Sequence[str] = ["--no-sandbox"]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=arguments)
        try:
            yield browser
        finally:
            await browser.close()
