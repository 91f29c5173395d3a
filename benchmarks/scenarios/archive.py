"""The first read of a session that is spread over a long log, while others save."""

from __future__ import annotations

import asyncio
import shutil
import statistics
import time
from contextlib import AsyncExitStack
from itertools import islice
from typing import Final, NamedTuple

from benchmarks import workload
from benchmarks.bench import Bench
from benchmarks.contenders.archived import Archived
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.contenders.postgres import Postgres
from benchmarks.first_read import Attaches, Reader
from benchmarks.loading import as_saved, load, spread_session, with_spread
from benchmarks.measuring import Measure, Ref
from benchmarks.scenarios import archiving

CONTENDERS: Final[tuple[type[Attaches], ...]] = (Archived, Foldlog, Postgres)
UPDATES: Final = 50
"""Of each session."""

BLOCK: Final = 8_000
"""Among so many updates there is one of a spread session: no block of the server is without."""

SPREAD: Final = 3
_BEFORE: Final = 0.5  # seconds of saves before each read
_COPY: Final = 400_000
"""Rows that PostgreSQL is given in one command."""


class Case(NamedTuple):
    """Sessions of one log: how many updates each has, and their numbers."""

    name: str
    updates: int
    numbers: range


class Seen(NamedTuple):
    """A first read in seconds, and by how much the longest save during it was longer than most.

    `before`: the same of a time as long before the read.
    """

    read: float
    delay: float
    before: float


async def run(bench: Bench) -> None:
    """First reads; then what archiving costs, and what it spares the server."""
    await _first_reads(bench)
    await archiving.run(bench)


async def _first_reads(bench: Bench) -> None:
    sizes = bench.size((400_000, 4_000_000), (40_000, 120_000))
    found: list[tuple[Case, str, Seen]] = []
    async with AsyncExitStack() as stack:
        turns: list[tuple[Case, Attaches]] = []
        for size in sizes:
            opened = await stack.enter_async_context(bench.opened(CONTENDERS))
            await _load(bench, opened, size)
            turns += [(case, contender) for case in _cases(size) for contender in opened]
        for case, contender in bench.turns(turns):
            reads = [await first_read(contender, case, number) for number in case.numbers]
            bench.say(f"  {contender.name}, {case.name}: {reads[0].read * 1e3:.0f} ms")
            found.append((case, contender.name, _of_all(reads)))
    bench.begin(
        "archive",
        "The first read of a spread session",
        f"Sessions of {UPDATES} updates, one after the other, and {SPREAD} whose updates are "
        f"spread over the whole log: {UPDATES} of each, or one in every block. A process that has "
        "just connected reads one, while another process saves. The server starts anew before each "
        "read; files are in the system's cache. Each round: the median of the three.",
        ours=Archived.name,
    )
    for case, name, seen in found:
        bench.record(case.name, name, Measure.TIME, seen.read)
    _expect_reads(bench, sizes)
    bench.begin(
        "archive-saves",
        "What that read delays a save by",
        "The longest save during the read less the median of those before it: the longest of the "
        "three sessions. *Before the read*: the same of a time as long before it, in which nobody "
        "reads.",
        ours=Archived.name,
    )
    for case, name, seen in found:
        bench.record(case.name, name, Measure.TIME, seen.delay)
        bench.record(case.name, f"{name}, before the read", Measure.TIME, seen.before)
    for case in (case for size in sizes for case in _cases(size)):
        bench.expect(
            f"a save is delayed by the first read of a spread session, {case.name}",
            Ref(case.name, Archived.name, Measure.TIME),
            at_most=0.02,
        )


def _cases(size: int) -> list[Case]:
    cases = [Case(f"{size:,} updates", UPDATES, range(SPREAD))]
    if size // BLOCK > UPDATES:
        name = f"{size:,} updates, {size // BLOCK:,} of the session"
        cases.append(Case(name, size // BLOCK, range(SPREAD, 2 * SPREAD)))
    return cases


def _expect_reads(bench: Bench, sizes: tuple[int, ...]) -> None:
    first, last = (
        Ref(_cases(size)[0].name, Archived.name, Measure.TIME) for size in (sizes[0], sizes[-1])
    )
    for ref in (first, last):
        bench.expect(f"the first read of a spread session, {ref.case}", ref, at_most=0.05)
    what = f"the first read of a spread session in {sizes[-1]:,} updates, over that in {sizes[0]:,}"
    bench.expect(what, last, first, at_most=1.1)


async def _load(bench: Bench, opened: list[Attaches], size: int) -> None:
    """Have all hold the same; the log is loaded once, copied, and then archived."""
    spread = [case.updates for case in _cases(size) for _ in case.numbers]
    among = [size // updates for updates in spread]
    source = None
    for contender in sorted(opened, key=lambda each: isinstance(each, Archived)):
        began = time.monotonic()
        if isinstance(contender, Archived):
            await contender.store.close()
            if source is not None:
                await source.store.close()
                shutil.rmtree(contender.path)
                shutil.copytree(source.path, contender.path)
                await source.open()
            await contender.open()
            await contender.store.archive()
        else:
            updates = with_spread(size, each=UPDATES, spread=among)
            if isinstance(contender, Foldlog):
                await load(contender.store, as_saved(updates))
                source = contender
            elif isinstance(contender, Postgres):
                while some := list(islice(updates, _COPY)):
                    await contender.load(some, together=1)
        took = time.monotonic() - began
        bench.say(f"  {contender.name} holds {size:,} updates after {took:.0f} s")


async def first_read(contender: Attaches, case: Case, number: int) -> Seen:
    """Have a new process read a spread session while this one saves."""
    if isinstance(contender, Foldlog):
        await contender.reopen()
    saves: list[tuple[float, float]] = []

    async def save() -> None:
        while True:
            began = time.monotonic()
            await contender.save(workload.update(1_000_000_000))
            saves.append((began, time.monotonic()))

    async with Reader(contender) as reader:
        saving = asyncio.create_task(save())
        try:
            await asyncio.sleep(_BEFORE)
            read = await reader.read(workload.session_id(spread_session(number)))
            await asyncio.sleep(_BEFORE / 10)
        finally:
            saving.cancel()
            await asyncio.gather(saving, return_exceptions=True)
    assert read.updates == min(case.updates, 500)
    took = read.ended - read.began
    usual = statistics.median(end - began for began, end in saves if end < read.began)

    def longest(since: float, until: float) -> float:
        return max(end - began for began, end in saves if end > since and began < until) - usual

    before = longest(read.began - min(took, _BEFORE / 2), read.began)
    return Seen(took, longest(read.began, read.ended), before)


def _of_all(reads: list[Seen]) -> Seen:
    return Seen(
        statistics.median(each.read for each in reads),
        max(each.delay for each in reads),
        max(each.before for each in reads),
    )
