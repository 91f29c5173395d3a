"""Reads of what is hot: polls at the tip of a session, and a trace's history."""

from __future__ import annotations

import asyncio
from functools import partial

from benchmarks import workload
from benchmarks.bench import Bench
from benchmarks.contenders.contender import KeepsEvents, Lists
from benchmarks.contenders.foldlog_store import Foldlog, StrongReads
from benchmarks.contenders.hybrid import Hybrid
from benchmarks.contenders.jetstream import Request
from benchmarks.contenders.penguiflow import InMemory
from benchmarks.contenders.postgres import Postgres
from benchmarks.contenders.sqlite import Sqlite
from benchmarks.measuring import Measure, Ref
from benchmarks.scenarios.timing import one_by_one

POLLED: tuple[type[Lists], ...] = (Foldlog, StrongReads, Request, Postgres, Sqlite, InMemory)
HISTORIES: tuple[type[KeepsEvents], ...] = (Foldlog, Postgres, Hybrid, Sqlite, InMemory)
POLL = "nothing new"
HISTORY = "100 events"


async def run(bench: Bench) -> None:
    """Measure both."""
    await _polls(bench)
    await _histories(bench)


async def _polls(bench: Bench) -> None:
    polls, stored = bench.size((1_000, 1_000), (100, 200))
    bench.begin(
        "polls",
        "Cursor polls at the tip of a session, with nothing new",
        f"A session of {stored:,} updates that was read before. A poll asks for updates after the "
        f"last one, {polls:,} times a round. foldlog answers from its view, foldlog strong asks "
        "the log first. JetStream request is the lower bound of asking.",
    )
    async with bench.opened(POLLED) as opened:
        updates = workload.updates(stored, 1)
        tip = updates[-1].update_id
        for contender in opened:
            # Side by side is quick, but leaves the last one wherever it happens to come.
            await asyncio.gather(*map(contender.save, updates[:-1]))
            await contender.save(updates[-1])
            await contender.list_updates(workload.session_id(0))
        for contender in bench.turns(opened):
            timing = await one_by_one(partial(_poll, contender), [tip] * polls)
            bench.record(POLL, contender.name, Measure.TIME, timing.seconds / polls)

    def time(contender: str) -> Ref:
        return Ref(POLL, contender, Measure.TIME)

    bench.expect(
        "cursor poll at the tip, PostgreSQL's time over foldlog's",
        time(Postgres.name),
        time(Foldlog.name),
        at_least=30,
    )
    bench.expect("cursor poll at the tip", time(Foldlog.name), at_most=15e-6)
    bench.expect(
        "strong read, nothing new, over one raw request",
        time(StrongReads.name),
        time(Request.name),
        at_most=1.3,
    )


async def _poll(contender: Lists, since: str) -> None:
    assert not await contender.list_updates(workload.session_id(0), since)


async def _histories(bench: Bench) -> None:
    reads = bench.size(200, 30)
    bench.begin(
        "history",
        "load_history of a trace, hot",
        f"A trace of 100 events, read {reads} times a round; every read parses the payloads anew. "
        "PenguiFlow's store returns the very objects that were saved.",
    )
    async with bench.opened(HISTORIES) as opened:
        events = [workload.event(0) for _ in range(100)]
        for contender in opened:
            await contender.save_events(events)
            assert len(await contender.load_history(workload.trace_id(0))) == len(events)
        for contender in bench.turns(opened):
            timing = await one_by_one(contender.load_history, [workload.trace_id(0)] * reads)
            bench.record(HISTORY, contender.name, Measure.TIME, timing.seconds / reads)
    bench.expect(
        "load_history of 100 events, PostgreSQL's time over foldlog's",
        Ref(HISTORY, Postgres.name, Measure.TIME),
        Ref(HISTORY, Foldlog.name, Measure.TIME),
        at_least=5,
    )
