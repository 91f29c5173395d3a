"""What the tests of workers have done, and wait for."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import foldlog
from foldlog import durable
from foldlog.runs import Handle, Run
from foldlog.store.core import core_of
from foldlog_projections import tasks
from foldlog_projections.runs import queues
from foldlog_projections.runs.queues import Added, id_of

PATIENCE = 20.0


async def double(number: int) -> int:
    return 2 * number


@durable
async def doubled(run: Run, number: int, *, again: bool = False) -> int:
    once = await run.step("once", double, number)
    return await run.step("twice", double, once) if again else once


async def reached(store: foldlog.Store, run: Handle[Any], status: str) -> None:
    """Return when a run stands there."""
    async with asyncio.timeout(PATIENCE):
        async with aclosing(core_of(store).advances(tasks.kind(run.session_id))) as advances:
            async for _ in advances:
                if (await run.status()).value == status:
                    return


async def queues_are(store: foldlog.Store, which: Callable[[queues.State], bool]) -> None:
    """Return when the queues of the only shard are so."""
    key = queues.kind(core_of(store).namespace.key_on(0, queues.kind.name))
    async with asyncio.timeout(PATIENCE):
        async with aclosing(core_of(store).advances(key)) as advances:
            async for _ in advances:
                if await store.view(key, which, consistency="strong"):
                    return


async def handed_out(store: foldlog.Store, queue: str) -> list[tuple[float, str]]:
    """When each run of a queue was given to a worker, by the log's clock, as the log has it."""
    core = core_of(store)
    key = queues.kind(core.namespace.key_on(0, queues.kind.name))
    pages = [page async for page in core.forked_log.read(core.subject_of(key))]
    state, found, had = queues.State(), list[tuple[float, str]](), dict[str, str]()
    for envelope in (each for page in pages for record in page for each in record.envelopes):
        state = queues.kind.apply(state, envelope)
        has = {id: each.process for id, each in state.held.items() if each.queue == queue}
        new = {id for id, process in has.items() if process != had.get(id)}
        record = queues.kind.decode(envelope)
        if isinstance(record, Added) and record.process:  # its opener has it: no queue gave it
            new.discard(id_of(record.session_id, record.run))
        found += [(envelope.recorded_at, id) for id in new]
        had = has
    return found


def most_within(times: Iterable[float], seconds: float) -> int:
    """How many of some times lie within so many seconds, at most."""
    times = sorted(times)
    return max(bisect_left(times, each + seconds) - n for n, each in enumerate(times))


@asynccontextmanager
async def working(
    store: foldlog.Store, *functions: foldlog.Durable[..., Any], slots: int = 64
) -> AsyncIterator[None]:
    """Have a worker work beside the block, and then cancel it with what it has."""
    work = foldlog.Worker(store, functions, slots=slots).run()
    task = asyncio.create_task(work, name="worker")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
