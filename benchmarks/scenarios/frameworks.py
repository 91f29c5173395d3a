"""An item of each agent framework: on foldlog, and on what its users have otherwise."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from contextlib import aclosing
from importlib import import_module
from itertools import count as counting
from typing import Any, Final

from benchmarks import workload
from benchmarks.bench import Bench
from benchmarks.contenders.framework_peers import PEERS, PolledTasks
from benchmarks.contenders.frameworks import A2A, Adapters, Begin, FollowedTasks, make_task
from benchmarks.measuring import Measure, Ref, percentile
from benchmarks.scenarios.timing import one_by_one, side_by_side
from benchmarks.unavailable import Unavailable

SESSIONS: Final = 64
FOLLOW: Final = f"{A2A}: a subscriber behind a save"
FROM_CALL: Final = f"{A2A}: from the call of a save to a subscriber"
POLL_SECONDS: Final = 0.5

_ids = counting(1)


async def run(bench: Bench) -> None:
    """Record the time of a lone append, the rate of many sessions, and how long followers wait."""
    bench.begin(
        "frameworks",
        "Items of agent frameworks",
        f"One item of some 300 characters, appended by the framework's own call, one after another "
        f"to one session, then to {SESSIONS} sessions side by side. The Claude Agent SDK and "
        f"Pydantic AI install no store that lasts, so that ours stand for what their users have: "
        f"on PostgreSQL, the Claude Agent SDK's does what the example in its repository does, and "
        f"Pydantic AI's saves with one statement; on SQLite, both are as small as the contract "
        f"lets them be. A2A's subscriber is on another connection: how long after "
        f"the save has returned it has the event, and how long after the save was called.",
    )
    for framework in PEERS:
        await _append(bench, framework)
    await _follow(bench)


async def _append(bench: Bench, framework: str) -> None:
    alone, together = f"{framework}: one session", f"{framework}: {SESSIONS} sessions"
    items, each = bench.size((300, 20), (40, 5))
    async with bench.opened([Adapters]) as ours, bench.opened(PEERS[framework]) as theirs:
        try:
            begins = {ours[0].name: ours[0].drive(framework)}
        except Unavailable as reason:
            bench.missing[f"{framework} on foldlog"] = str(reason)
            return
        begins |= {each.name: each.begin for each in theirs}
        for name, begin in bench.turns(list(begins.items())):
            append = await begin(_session())
            await append(_text())
            timing = await one_by_one(append, [_text() for _ in range(items)])
            bench.record(alone, name, Measure.P50, percentile(timing.calls, 50))
            bench.record(together, name, Measure.RATE, await _rate(begin, each))
    for peer in PEERS[framework]:
        one, many = Ref(alone, peer.name, Measure.P50), Ref(together, peer.name, Measure.RATE)
        our_one, our_many = (ref._replace(contender=Adapters.name) for ref in (one, many))
        bench.expect(f"{alone}, over {peer.name}", our_one, one, at_most=1.2)
        bench.expect(f"{together}, over {peer.name}", our_many, many, at_least=3.0)
    bench.say(f"  {framework}")


async def _rate(begin: Begin, each: int) -> float:
    """Items a second of many sessions, each of which appends one after another."""
    appends = [await begin(_session()) for _ in range(SESSIONS)]
    for append in appends:
        await append(_text())  # connections and tables are there from now on
    timing = await side_by_side(lambda append: append(_text()), [[one] * each for one in appends])
    return timing.rate


def _session() -> str:
    return f"session-{next(_ids)}"


def _text() -> str:
    """No two are the same: some stores leave out what a session ends with already."""
    return f"{next(_ids)}: {workload.TEXT}"


async def _follow(bench: Bench) -> None:
    events = bench.size(40, 8)
    async with bench.opened([FollowedTasks]) as ours, bench.opened([PolledTasks]) as theirs:
        both: list[FollowedTasks | PolledTasks] = [*ours, *theirs]
        for contender in bench.turns(both):
            behind, from_call = await _latency(contender.tasks, contender.stream, events)
            bench.record(FOLLOW, contender.name, Measure.TIME, behind)
            bench.record(FROM_CALL, contender.name, Measure.TIME, from_call)
    polled = Ref(FOLLOW, PolledTasks.name, Measure.TIME)
    bench.expect(
        f"{FOLLOW}, over {PolledTasks.name}",
        polled._replace(contender=FollowedTasks.name),
        polled,
        at_most=0.01,
    )


async def _latency(tasks: Any, stream: Any, events: int) -> tuple[float, float]:
    """Median seconds until a subscriber has an event, from the save's return and from its call."""
    context = import_module("a2a.server.context").ServerCallContext()
    event_class = import_module("a2a.types.a2a_pb2").TaskStatusUpdateEvent
    missing = import_module("a2a.server.cluster.version").TaskVersion.MISSING
    task = make_task(_session(), workload.TEXT)
    event = event_class(task_id=task.id, context_id=task.id, status=task.status)
    version = await tasks.save(task, event=None, prev=None, prev_version=missing, context=context)
    behind, from_call = [], []
    async with aclosing(stream.subscribe(task.id, after=version)) as seen:
        for _ in range(events):
            waiting = asyncio.ensure_future(anext(seen))
            await asyncio.sleep(random.uniform(0.1, 0.1 + POLL_SECONDS))  # at any point of a poll
            began = time.perf_counter()
            version = await tasks.save(
                task, event=event, prev=None, prev_version=version, context=context
            )
            saved = time.perf_counter()
            await waiting
            arrived = time.perf_counter()
            behind.append(arrived - saved)
            from_call.append(arrived - began)
    return statistics.median(behind), statistics.median(from_call)
