"""Streams over HTTP: appends, a thousand readers, catching up, and how soon a reader has it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from typing import Final

from benchmarks import workload
from benchmarks.bench import Bench
from benchmarks.client import SECONDS, Connection, following
from benchmarks.contenders.streams import (
    FoldlogStreams,
    RedisStreams,
    ReferenceServer,
    Streams,
    append,
    catch_up,
    create,
)
from benchmarks.measuring import Measure, Ref, percentile
from benchmarks.scenarios.timing import one_by_one, side_by_side

CONTENDERS: Final[tuple[type[Streams], ...]] = (FoldlogStreams, ReferenceServer, RedisStreams)
OURS: Final = FoldlogStreams.name
WRITERS: Final = 64

KEPT: Final = "/kept"
"""The stream that is caught up with."""

ALONE: Final = "appends, one writer"
TOGETHER: Final = f"appends, {WRITERS} writers of one stream"
APART: Final = f"appends, {WRITERS} writers of a stream each"
READER: Final = "from an append to a reader"
SAVED: Final = "from a save to a reader of its session's feed"
COLD: Final = "first byte of a catch-up, the first time"
WARM: Final = "first byte of a catch-up, again"
ALL_COLD: Final = "the whole catch-up, the first time"
ALL_WARM: Final = "the whole catch-up, again"
TEXT: Final = "The ferry to Nesodden leaves from Aker Brygge at nine, and the museum opens at ten."

_numbers: Final = count()


async def run(bench: Bench) -> None:
    """Compare what appends and reads cost."""
    events, readers = bench.size(10_000, 500), bench.size(1_000, 50)
    bench.begin(
        "streams",
        "Streams over HTTP",
        f"Each contender serves in its own process, over sockets of this machine, and the same "
        f"client asks all of them from another process. An event is a JSON object of "
        f"{len(_event(0))} bytes; an append has one, and is answered once it is synced. Catch-up: "
        f"a stream of {events:,} events is read from its beginning, by a process that has just "
        f"started, and again. foldlog answers with 127 events and then 500, Redis with 1,000, the "
        f"reference server with all. The events were appended one by one, at the reference server "
        f"100 at a time. Readers follow by server-sent events; the next event is written when all "
        f"have this one. A save is `store.save_update` in another process than what serves.",
        ours=OURS,
    )
    async with bench.opened(CONTENDERS) as opened:
        for contender in opened:
            async with contender.connections(1) as [connection]:
                await _fill(connection, KEPT, events, contender.loads_by)
            bench.say(f"  {contender.name} has {events:,} events to catch up with")
        for contender in bench.turns(opened):
            await _appends(bench, contender)
            await _readers(bench, contender, readers)
            if isinstance(contender, FoldlogStreams):
                await _feed(bench, contender)
            await _catch_up(bench, contender, events)
    _expect(bench, [each.name for each in opened])


async def _fill(connection: Connection, path: str, events: int, by: int = 1) -> None:
    """Append so many events to a new stream, by one or more in an append."""
    await create(connection, path)
    for start in range(0, events, by):
        some = b",".join(map(_event, range(start, start + by)))
        await append(connection, path, some if by == 1 else b"[%s]" % some)


async def _appends(bench: Bench, contender: Streams) -> None:
    async with contender.connections(WRITERS) as connections:
        [path, *paths] = [_path() for _ in range(WRITERS + 1)]
        for each in (path, *paths):
            await create(connections[0], each)

        async def write(to: tuple[Connection, str]) -> None:
            await append(*to, _event(0))

        alone = await one_by_one(write, [(connections[0], path)] * bench.size(200, 50))
        bench.record(ALONE, contender.name, Measure.RATE, alone.rate)
        bench.record(ALONE, contender.name, Measure.P50, percentile(alone.calls, 50))
        times = bench.size(20, 5)
        for case, targets in ((TOGETHER, [path] * WRITERS), (APART, paths)):
            work = [[to] * times for to in zip(connections, targets, strict=True)]
            timing = await side_by_side(write, work)
            bench.record(case, contender.name, Measure.RATE, timing.rate)
            bench.record(case, contender.name, Measure.P50, percentile(timing.calls, 50))


async def _readers(bench: Bench, contender: Streams, readers: int) -> None:
    async with contender.connections(1) as [connection]:
        for many, events in ((1, bench.size(200, 20)), (readers, bench.size(5, 3))):
            await _fill(connection, path := _path(), 1)
            write = partial(append, connection, path)
            try:
                took, lasts = await _delivered(contender, path, many, events, write)
            except TimeoutError:
                bench.missing[f"{contender.name}, {_case(many)}"] = f"more than {SECONDS:.0f} s"
                continue
            bench.record(_case(many), contender.name, Measure.P50, percentile(took, 50))
            bench.record(_case(many), contender.name, Measure.P99, percentile(took, 99))
            if many > 1:
                last = percentile(lasts, 50)
                bench.record(_last(many), contender.name, Measure.P50, last)


async def _feed(bench: Bench, contender: FoldlogStreams) -> None:
    """As `_readers`, of updates that a store of this process saves."""
    session = _path().strip("/")

    async def save(event: bytes) -> None:
        fields = {"session_id": session, "content": json.loads(event)}
        await contender.store.save_update(workload.update(0).model_copy(update=fields))

    await save(_event(0))
    path, events = f"/feeds/sessions/{session}", bench.size(200, 20)
    took, _ = await _delivered(contender, path, 1, events, save)
    bench.record(SAVED, contender.name, Measure.P50, percentile(took, 50))
    bench.record(SAVED, contender.name, Measure.P99, percentile(took, 99))


async def _delivered(
    contender: Streams,
    path: str,
    readers: int,
    events: int,
    write: Callable[[bytes], Awaitable[object]],
) -> tuple[list[float], list[float]]:
    """Write one event after another; when each reader had it, and when the last one had."""
    took, lasts, began = list[float](), list[float](), 0.0
    coming, numbers, all_have_it = 0, count(1), asyncio.Event()

    def came(number: int, at: float) -> None:
        nonlocal coming
        if number == wanted:
            took.append(at - began)
            coming -= 1
            if not coming:
                lasts.append(at - began)
                all_have_it.set()

    wanted = -1
    target = f"{path}?offset=now&live=sse"
    async with following(contender.port, target, readers, came):
        for _ in range(events):
            wanted, coming = next(numbers), readers
            all_have_it.clear()
            began = time.perf_counter()
            async with asyncio.timeout(SECONDS):
                await write(_event(wanted))
                await all_have_it.wait()
    assert len(took) == readers * events, "nobody had an event twice"
    return took, lasts


async def _catch_up(bench: Bench, contender: Streams, events: int) -> None:
    await contender.restart()
    async with contender.connections(1) as [connection]:
        await _fill(connection, small := _path(), 1)  # what a process does once is not the stream's
        await catch_up(connection, small)
        firsts, wholes = list[float](), list[float]()
        for _ in range(6):
            began = time.perf_counter()
            first, found = await catch_up(connection, KEPT)
            wholes.append(time.perf_counter() - began)
            firsts.append(first)
            assert found == events, f"{contender.name} has {found} of {events}"
    for (cold, warm), times in (((COLD, WARM), firsts), ((ALL_COLD, ALL_WARM), wholes)):
        bench.record(cold, contender.name, Measure.P50, times[0])
        bench.record(warm, contender.name, Measure.P50, percentile(times[1:], 50))


def _expect(bench: Bench, contenders: list[str]) -> None:
    for what in (ALONE, TOGETHER, APART):
        of = Ref(what, OURS, Measure.RATE)
        for other in contenders:
            if other != OURS:
                against = of._replace(contender=other)
                bench.expect(f"{what}, over {other}", of, against, at_least=1.0)
    for what in (COLD, WARM, _case(1), SAVED):
        bench.expect(what, Ref(what, OURS, Measure.P50), at_most=0.02)


def _case(readers: int) -> str:
    return f"from an append to each of {readers:,} readers" if readers > 1 else READER


def _last(readers: int) -> str:
    return f"from an append to the last of {readers:,} readers"


def _path() -> str:
    return f"/stream-{next(_numbers)}"


def _event(number: int) -> bytes:
    return json.dumps({"nth": number, "text": TEXT}, separators=(",", ":")).encode()
