"""Opening a session that this process has not read before, in logs of several sizes."""

from __future__ import annotations

import statistics
from contextlib import AsyncExitStack
from functools import partial

from benchmarks import workload
from benchmarks.bench import Bench
from benchmarks.contenders.contender import Loads
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.contenders.postgres import Postgres
from benchmarks.contenders.sqlite import Sqlite
from benchmarks.measuring import Measure, Ref
from benchmarks.scenarios.timing import one_by_one

CONTENDERS: tuple[type[Loads], ...] = (Foldlog, Postgres, Sqlite)
UPDATES = 50
"""Of each session."""


async def run(bench: Bench) -> None:
    """Compare the sizes, and then a session that is long itself."""
    await _by_log_size(bench)
    await _long_session(bench)


async def _by_log_size(bench: Bench) -> None:
    sizes = bench.size((10_000, 100_000, 1_000_000), (1_000, 10_000))
    opens = bench.size(20, 4)
    bench.begin(
        "cold-open",
        f"Opening a cold session of {UPDATES} updates",
        f"The median of {opens} sessions a round. This process has never read them, and their "
        "updates lie among those of all the others. The caches of database and server are warm.",
    )
    async with AsyncExitStack() as stack:
        opened: list[tuple[int, Loads]] = []
        for size in sizes:
            for contender in await stack.enter_async_context(bench.opened(CONTENDERS)):
                sessions = size // UPDATES
                updates = (workload.update(number % sessions) for number in range(size))
                # So few at a time that no two of a session meet: each has a record of its own.
                await contender.load(updates, together=min(sessions // 2, 512))
                opened.append((size, contender))
                bench.say(f"  {contender.name} holds {_case(size)}")
        unread = {(size, each.name): iter(range(size // UPDATES)) for size, each in opened}
        for size, contender in opened:
            await _read(contender, workload.session_id(next(unread[size, contender.name])))
        for size, contender in bench.turns(opened):
            fresh = unread[size, contender.name]
            asked = [workload.session_id(next(fresh)) for _ in range(opens)]
            timing = await one_by_one(partial(_read, contender), asked)
            value = statistics.median(timing.calls)
            bench.record(_case(size), contender.name, Measure.TIME, value)

    def time(size: int, contender: str) -> Ref:
        return Ref(_case(size), contender, Measure.TIME)

    smallest, largest = sizes[0], sizes[-1]
    bench.expect(
        f"a cold session in a log of {largest:,}, over the same in {smallest:,}",
        time(largest, Foldlog.name),
        time(smallest, Foldlog.name),
        at_most=1.3,
    )
    bench.expect(
        f"a cold session in a log of {largest:,}, over PostgreSQL",
        time(largest, Foldlog.name),
        time(largest, Postgres.name),
        at_most=2,
    )


def _case(size: int) -> str:
    return f"{size:,} updates"


async def _read(contender: Loads, session: str) -> None:
    assert len(await contender.list_updates(session)) == UPDATES


async def _poll(contender: Loads, since: str) -> None:
    assert not await contender.list_updates(workload.session_id(0), since)


async def _long_session(bench: Bench) -> None:
    length = bench.size(100_000, 2_000)
    case = f"{length:,} updates in the session"
    bench.begin(
        "long-session",
        "Opening one long session, cold",
        "A process that has just connected asks for what follows the session's last update. 512 "
        "writers have saved the session, so that its updates share records.",
    )
    async with bench.opened((Foldlog,)) as opened:
        for contender in opened:
            last = workload.update(0)
            await contender.load((workload.update(0) for _ in range(length - 1)), together=512)
            await contender.save(last)
            bench.say(f"  {contender.name} holds {case}")
        for contender in bench.turns(opened):
            await contender.reopen()
            timing = await one_by_one(partial(_poll, contender), [last.update_id])
            bench.record(case, contender.name, Measure.TIME, timing.seconds)
    bench.expect(
        f"a session of {length:,} updates, cold",
        Ref(case, Foldlog.name, Measure.TIME),
        at_most=0.1,
    )
