"""Workers on three servers, of whom some cannot reach all of these, or none.

Each run ends, each effect is there once, and only who has a run writes to it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, suppress
from functools import partial
from typing import Any

import nats
import pytest

import foldlog
from foldlog import (
    AlreadyAnswered,
    AppendUnknown,
    LogUnavailable,
    NotWaiting,
    Worker,
    durable,
    kinds,
)
from foldlog.models import WaitingKind
from foldlog.runs import Handle, Run
from foldlog.runs.process import process_of
from foldlog.store.core import core_of
from foldlog_projections.runs import queues
from foldlog_projections.runs.runs import Opened
from tests.faults.proxy import Proxy
from tests.faults.storms.cluster import leader
from tests.faults.storms.patience import answered
from tests.support.binary import nats_server
from tests.support.cluster import LocalCluster
from tests.workers.working import PATIENCE

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(nats_server() is None, reason="no nats-server is installed here"),
]

LEASE = 1.0
_LONG = 6 * PATIENCE
_STEPS = ("one", "two", "three")

Effects = Counter[tuple[str, str]]


class Parted:
    """Three servers, stores behind proxies, and what their runs have done.

    `go_on` lets the runs go on behind their first step.
    """

    def __init__(self, cluster: LocalCluster, routes: list[tuple[tuple[int, int], Proxy]]) -> None:
        self.cluster = cluster
        self.routes = routes
        self.open = AsyncExitStack()
        self.effects = Effects()
        self.go_on = asyncio.Event()

        @durable(attempts=1_000)
        async def job(run: Run) -> str:
            for step in _STEPS:
                await run.step(step, self._did, run.name, step)
                await self.go_on.wait()
            return run.name

        self.job = job

    async def _did(self, run: str, step: str) -> None:
        self.effects[run, step] += 1

    async def store(self, *nodes: int, url: str = "") -> foldlog.Store:
        """A store that reaches these nodes, each of whose calls takes two seconds at most."""
        urls = url or ",".join(self.cluster.urls[node] for node in nodes)
        found = await answered(lambda: foldlog.connect(urls, namespace="parted", timeout=2))
        return await self.open.enter_async_context(found)

    async def behind_proxies(self) -> tuple[foldlog.Store, list[Proxy]]:
        """A store that reaches all nodes, each by a proxy."""
        proxies = [await self.open.enter_async_context(Proxy(each)) for each in self.cluster.urls]
        return await self.store(url=",".join(each.url for each in proxies)), proxies

    async def works(self, store: foldlog.Store) -> None:
        """Have a worker work on a store."""
        working = asyncio.create_task(Worker(store, [self.job], slots=64, lease=LEASE).run())

        async def end() -> None:
            working.cancel()
            await asyncio.wait([working])

        self.open.push_async_callback(end)

    async def queues_are(self, store: foldlog.Store, which: Callable[[queues.State], bool]) -> None:
        """Return when the queues are so, as a store sees them."""
        key = queues.kind(core_of(store).namespace.key_on(0, queues.kind.name))
        async with asyncio.timeout(_LONG):
            async with aclosing(core_of(store).advances(key)) as advances:
                async for _ in advances:
                    with suppress(LogUnavailable):
                        if await store.view(key, which, consistency="session"):
                            return

    async def be_asked(self, store: foldlog.Store) -> None:
        """Say of steps with an unknown outcome whether they have happened."""
        async for item in store.watch_waiting():
            assert item.kind is WaitingKind.STEP
            assert item.step is not None
            with suppress(AlreadyAnswered, NotWaiting):
                if self.effects[str(item.task_id), item.step]:
                    await answered(partial(store.confirm, item.id, None))
                else:
                    await answered(partial(store.retract, item.id))

    async def ended(self, store: foldlog.Store, runs: list[Handle[Any]]) -> None:
        """See each run end, with each effect once, and only its owners write to it."""
        for run in runs:
            async with asyncio.timeout(_LONG):
                assert await answered(run.result) == run.id
            assert [self.effects[run.id, step] for step in _STEPS] == [1, 1, 1], run.id
            writer = ""
            key = kinds.runs(run.session_id, run.id)
            for each in await answered(partial(store.items, key, limit=1_000)):
                if isinstance(each.record, Opened):
                    writer = each.writer
                elif each.type.startswith("step."):
                    assert each.writer == writer, each


@pytest.fixture
async def parted() -> AsyncIterator[Parted]:
    cluster, routes = LocalCluster(), []
    async with AsyncExitStack() as open_:
        for of, to in itertools.permutations(range(3), 2):
            proxy = Proxy(f"nats-route://127.0.0.1:{cluster.route_ports[to]}")
            routes.append(((of, to), await open_.enter_async_context(proxy)))
            cluster.detours[of, to] = proxy.port
        await open_.enter_async_context(cluster)
        found = Parted(cluster, routes)
        async with found.open:
            yield found


async def test_a_worker_that_reaches_no_server_lets_go_and_goes_on_when_it_does(
    parted: Parted, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "foldlog")
    store, (cut, proxies) = await parted.store(0, 1, 2), await parted.behind_proxies()
    others = [store, *[await parted.store(0, 1, 2) for _ in range(2)]]
    for each in (cut, *others):
        await parted.works(each)
    await parted.queues_are(store, lambda state: len(state.workers) == 4)
    asked = asyncio.create_task(parted.be_asked(store))
    parted.open.callback(asked.cancel)
    process = process_of(cut).id
    runs = [await store.start(parted.job, id=f"r{n}") for n in range(16)]
    await parted.queues_are(store, lambda state: len(state.of(process)) == 4)
    while len(parted.effects) < 16:  # noqa: ASYNC110 - nobody tells us
        await asyncio.sleep(0.01)
    for proxy in proxies:
        proxy.hole()
    parted.go_on.set()  # the one that is cut off comes to its next steps, too
    await parted.ended(store, runs)
    await parted.queues_are(store, lambda state: process not in state.processes())
    async with asyncio.timeout(PATIENCE):
        while "waits for the log" not in caplog.text:  # noqa: ASYNC110 - nobody tells us
            await asyncio.sleep(0.01)
    for proxy in proxies:
        proxy.heal()
        proxy.cut()
    await parted.queues_are(store, lambda state: process in state.workers)
    parted.go_on.clear()
    more = [await store.start(parted.job, id=f"more{n}") for n in range(16)]
    await parted.queues_are(store, lambda state: len(state.of(process)) == 4)
    parted.go_on.set()
    await parted.ended(store, more)
    await parted.queues_are(cut, lambda state: not state.held)


async def test_a_worker_on_a_server_without_the_others_has_no_run_and_then_has_some(
    parted: Parted,
) -> None:
    async with foldlog.connect(parted.cluster.urls[0], namespace="parted") as first:
        await first.load_memory_state("key")  # the stream is there
    lonely = await leader(parted.cluster, "parted")
    majority = [node for node in range(3) if node != lonely]
    store, cut = await parted.store(*majority), await parted.store(lonely)
    for each in (cut, store, await parted.store(*majority), await parted.store(*majority)):
        await parted.works(each)
    await parted.queues_are(store, lambda state: len(state.workers) == 4)
    asked = asyncio.create_task(parted.be_asked(store))
    parted.open.callback(asked.cancel)
    process = process_of(cut).id
    runs = [await store.start(parted.job, id=f"r{n}") for n in range(16)]
    await parted.queues_are(store, lambda state: len(state.of(process)) == 4)
    for ends, proxy in parted.routes:
        if lonely in ends:
            proxy.hole()
    parted.go_on.set()
    await parted.ended(store, runs)
    await parted.queues_are(store, lambda state: process not in state.processes())
    for _, proxy in parted.routes:
        proxy.heal()
        proxy.cut()
    await parted.queues_are(store, lambda state: process in state.workers)
    parted.go_on.clear()
    more = [await answered(partial(store.start, parted.job, id=f"m{n}")) for n in range(16)]
    await parted.queues_are(store, lambda state: len(state.of(process)) == 4)
    parted.go_on.set()
    await parted.ended(store, more)
    await parted.queues_are(cut, lambda state: not state.held)


@pytest.mark.parametrize("works", [False, True])
async def test_a_start_whose_answer_is_lost_is_one_run(parted: Parted, works: bool) -> None:
    store, (cut, proxies) = await parted.store(0, 1, 2), await parted.behind_proxies()
    await parted.works(store)
    if works:
        await parted.works(cut)
    await parted.queues_are(store, lambda state: len(state.workers) == 1 + works)
    await (await cut.start(parted.job, id="warm")).status()
    asked = asyncio.create_task(parted.be_asked(store))
    parted.open.callback(asked.cancel)

    def last(data: bytes) -> bytes:
        if b"queue.added" in data:
            for each in proxies:
                each.hole()
        return data

    for proxy in proxies:
        proxy.to_server = last
    with pytest.raises(AppendUnknown):
        await cut.start(parted.job, id="r0")
    parted.go_on.set()
    await parted.ended(store, [store.queues.handle("r0")])
    for proxy in proxies:
        proxy.heal()
        proxy.cut()
    again = await answered(lambda: cut.start(parted.job, id="r0"))
    await parted.ended(cut, [again])
    await parted.queues_are(cut, lambda state: not state.held)


async def test_leaders_that_step_down_while_runs_begin(parted: Parted) -> None:
    stores = [await parted.store(0, 1, 2) for _ in range(3)]
    for each in stores:
        await parted.works(each)
    parted.go_on.set()
    asked = asyncio.create_task(parted.be_asked(stores[0]))
    parted.open.callback(asked.cancel)

    async def start(n: int) -> Handle[Any]:
        return await answered(lambda: stores[n % 3].start(parted.job, id=f"r{n}"))

    runs = list[Handle[Any]]()
    stream = core_of(stores[0]).namespace.stream(0)
    async with await nats.connect(list(parted.cluster.urls)) as client:
        for first in range(0, 60, 20):
            starting = [asyncio.create_task(start(n)) for n in range(first, first + 20)]
            await asyncio.wait(starting, return_when=asyncio.FIRST_COMPLETED)
            await client.request(f"$JS.API.STREAM.LEADER.STEPDOWN.{stream}", timeout=5)
            runs += await asyncio.gather(*starting)
    await parted.ended(stores[0], runs)
    await parted.queues_are(stores[0], lambda state: not state.held)
