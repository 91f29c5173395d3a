"""From a steering event's save to those who watch the session."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager

from benchmarks import workload
from benchmarks.bench import Bench
from benchmarks.contenders.contender import Steers
from benchmarks.contenders.foldlog_store import Watched
from benchmarks.contenders.hybrid import Hybrid
from benchmarks.contenders.jetstream import Republished
from benchmarks.measuring import Measure, Ref

ONE: tuple[type[Steers], ...] = (Watched, Republished, Hybrid)
MANY: tuple[type[Steers], ...] = (Watched, Republished)
ACK = "ack"
SEEN = "seen by the watcher"


async def run(bench: Bench) -> None:
    """Record when the save returned, and when the last watcher of the session had seen it."""
    events, crowd = bench.size((100, 1_000), (10, 50))
    bench.begin(
        "steering",
        "From a steering event's save to its watchers",
        "The watchers are on another connection than the writer. Times count from the call of the "
        "save. Redis + PostgreSQL inserts the event and then adds it to a Redis stream.",
    )
    await _measure(bench, ONE, "one watcher", [0], events)
    elsewhere = f"{crowd:,} watchers, a session each"
    await _measure(bench, MANY, elsewhere, range(crowd), events)
    together = f"{crowd:,} watchers of the session"
    await _measure(bench, MANY, together, [0] * crowd, max(events // 10, 3))
    for case in ("one watcher", elsewhere):
        bench.expect(
            f"steering, {case}: seen over the save's own ack",
            Ref(f"{case}: {SEEN}", Watched.name, Measure.TIME),
            Ref(f"{case}: {ACK}", Watched.name, Measure.TIME),
            at_most=1.3,
        )


async def _measure(
    bench: Bench, kinds: Sequence[type[Steers]], case: str, sessions: Sequence[int], events: int
) -> None:
    async with bench.opened(kinds) as opened:
        for contender in bench.turns(opened):
            async with _watching(contender, sessions) as crowd:
                acks, sights = list[float](), list[float]()
                for number in range(events):
                    ack, seen = await _timed(
                        contender, crowd, sessions[-1 - number % len(sessions)]
                    )
                    acks.append(ack)
                    sights.append(seen)
            for what, values in ((ACK, acks), (SEEN, sights)):
                value = statistics.median(values)
                bench.record(f"{case}: {what}", contender.name, Measure.TIME, value)
    bench.say(f"  {case}")


async def _timed(contender: Steers, crowd: _Crowd, session: int) -> tuple[float, float]:
    event = workload.steering(session)
    seen = crowd.expect(event.event_id, session)
    began = time.perf_counter()
    await contender.steer(event)
    ack = time.perf_counter() - began
    return ack, await seen - began


class _Crowd:
    """Watchers that tell when all of them who watch a session have seen an event."""

    def __init__(self, sessions: Sequence[int]) -> None:
        self._sessions = sessions
        self._left = 0
        self._event_id = ""
        self._all_saw: asyncio.Future[float]

    def expect(self, event_id: str, session: int) -> asyncio.Future[float]:
        """The moment at which the last of the session's watchers sees the event."""
        self._left = self._sessions.count(session)
        self._event_id = event_id
        self._all_saw = asyncio.get_running_loop().create_future()
        return self._all_saw

    def saw(self, event_id: str) -> None:
        """One of them has seen it."""
        if event_id == self._event_id:
            self._left -= 1
            if not self._left:
                self._all_saw.set_result(time.perf_counter())


@asynccontextmanager
async def _watching(contender: Steers, sessions: Sequence[int]) -> AsyncIterator[_Crowd]:
    """Have one watcher for each of `sessions`; they are up when this is entered."""
    crowd, up = _Crowd(sessions), asyncio.Queue[None]()

    async def watcher(session: int) -> None:
        async with aclosing(contender.watch(workload.session_id(session))) as seen:
            async for event_id in seen:
                if event_id is None:
                    up.put_nowait(None)
                else:
                    crowd.saw(event_id)

    async with asyncio.TaskGroup() as group:
        watchers = [group.create_task(watcher(session)) for session in sessions]
        for _ in watchers:
            await up.get()
        yield crowd
        for each in watchers:
            each.cancel()
