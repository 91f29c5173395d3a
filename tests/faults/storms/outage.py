"""A server that is away for minutes, while callers go on: some whose saves raise, some that spool.

The callers remember little and pause between saves, and views may not grow, so that what the
process holds more of in the end is what the outage has left behind.
"""

from __future__ import annotations

import asyncio
import functools
import random
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import foldlog
from tests.faults.actor import Actor, content
from tests.faults.checker import Violation
from tests.faults.history import AnyOp, Entry, History, Save, Timing, Watch, log_of
from tests.faults.storms.figures import Figures
from tests.faults.storms.memory import resident
from tests.faults.storms.patience import PATIENCE, answered
from tests.support.build import update
from tests.support.degrading import spool_of
from tests.support.server import LocalServer

_NAMESPACE: Final = "outage"
_STORES: Final = 2
"""Of either kind."""

_RAISED: Final = ("updates/raised", "steering/raised", "events/raised")
_SPOOLED: Final = tuple(f"updates/spooled-{number}" for number in range(_STORES))
_GAPS: Final = 0.01, 1.0
"""Seconds between two saves of a caller, on average: in the first outage, and from then on."""

_SAVES: Final = 30
"""What is saved between two outages."""

_FIRST: Final = 6.0
"""Seconds that the server is away once before, and as much is spooled as later in minutes: until
everything has its size. A save waits five."""

_HOT_BYTES: Final = 64 * 1024
_ALLOWED: Final = 1.05


async def outage(directory: Path, seconds: float, seed: int = 1) -> Figures:
    """Have the server away for so long, and see what has become of everything when it is back."""
    figures = Figures(f"a server away for {seconds:g} s")
    async with LocalServer(directory / "server") as server:
        async with _Callers(server.url, directory, random.Random(seed)) as callers:
            await _away(server, callers, min(seconds, _FIRST))
            callers.gap = _GAPS[1]
            before, tasks = resident(), callers.tasks
            figures.counts["KiB at its end"], took = await _away(server, callers, seconds)
            for what, long in took.items():
                figures.took(what, long)
            await callers.ended()
            after, left = resident(), callers.tasks
            figures.counts["saves spooled"] = callers.spooled
            history = await callers.told()
        history.problems += _left(directory)
    figures.counts["KiB before"], figures.counts["KiB after"] = before, after
    if after > before * _ALLOWED:
        figures.broken.append(Violation("memory", f"{before} KiB became {after}"))
    if left > tasks:
        figures.broken.append(Violation("memory", f"{tasks} tasks became {left}"))
    figures.judge(history, _NAMESPACE)
    return figures


async def _away(
    server: LocalServer, callers: _Callers, seconds: float
) -> tuple[int, dict[str, float]]:
    """Take the server away for so long. Return the memory at the end, and what took how long."""
    await callers.acked(_SAVES)
    await server.kill()
    await asyncio.sleep(seconds)  # an outage is a time
    held = resident()
    await server.start()
    back = time.monotonic()
    await callers.acked(1)
    took = {"from the server's return to the next ack": time.monotonic() - back}
    await callers.drained()
    took["from the server's return to empty spools"] = time.monotonic() - back
    return held, took


def _left(directory: Path) -> list[str]:
    """Spools that are still there, though nothing waits in them."""
    return [f"{path} was left" for path in directory.glob("spool-*/*.spool")]


def out_of_order(entries: Sequence[Entry], tokens: Sequence[str]) -> str | None:
    """How what came out of a spool differs from what went in: the same, once each and in order."""
    found = [entry.token for entry in entries]
    if found == list(tokens):
        return None
    place = next(
        (n for n, (token, due) in enumerate(zip(found, tokens, strict=False)) if token != due),
        min(len(found), len(tokens)),
    )
    return f"{len(found)} entries for {len(tokens)} saves, and not the same from {place} on"


class _Callers:
    """Stores that raise, stores that spool, and one that watches; all at work while entered."""

    def __init__(self, url: str, directory: Path, rng: random.Random) -> None:
        self._connect = functools.partial(
            foldlog.connect, url, namespace=_NAMESPACE, max_hot_bytes=_HOT_BYTES
        )
        self._directory = directory
        self._rng = rng
        self._open = AsyncExitStack()
        self._ops: list[AnyOp] = []
        self._changed = asyncio.Event()
        self._acked = 0
        self._stopping = False
        self.gap = _GAPS[0]
        self._saved = dict.fromkeys(_SPOOLED, 0)
        self._spooling: list[foldlog.Store] = []
        self._raising: list[Actor] = []
        self._watcher: Actor | None = None
        self._callers: list[asyncio.Task[None]] = []
        self._watchers: list[tuple[Watch, asyncio.Task[None]]] = []
        self._problems: list[str] = []
        self._began = time.monotonic_ns()

    async def __aenter__(self) -> Self:
        try:
            watcher = self._watcher = await self._actor("watcher")
            for subject in (*_RAISED[:2], *_SPOOLED):
                watch = Watch(client="watcher", subject=subject)
                watching = asyncio.create_task(watcher.watch(subject, None, watch))
                self._watchers.append((watch, watching))
            for number, subject in enumerate(_SPOOLED):
                spool = self._directory / f"spool-{number}"
                store = await self._open.enter_async_context(
                    self._connect(on_error="degrade", spool=spool)
                )
                self._spooling.append(store)
                self._callers.append(asyncio.create_task(self._spool(store, subject)))
            for number in range(_STORES):
                actor = await self._actor(f"raising-{number}")
                self._raising.append(actor)
                for subject in _RAISED:
                    name = f"{number}.{subject}"
                    self._callers.append(asyncio.create_task(self._raise(actor, subject, name)))
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        tasks = [*self._callers, *(watching for _, watching in self._watchers)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._open.aclose()

    @property
    def tasks(self) -> int:
        """How many there are, but for those that call and watch."""
        own = [*self._callers, *(watching for _, watching in self._watchers)]
        return len(asyncio.all_tasks()) - sum(not task.done() for task in own)

    @property
    def spooled(self) -> int:
        """How many saves have waited in a spool."""
        return sum(spool_of(store).spooled for store in self._spooling)

    async def acked(self, saves: int) -> None:
        """Wait until so many more saves of stores that raise are acked."""
        wanted = self._acked + saves
        await self._until(lambda: self._acked >= wanted)

    async def drained(self) -> None:
        """Wait until nothing waits in a spool any more."""
        await self._until(lambda: not any(spool_of(store).waiting for store in self._spooling))

    async def ended(self) -> None:
        """Stop calling; let watchers come to the end, and stop them too."""
        self._stopping = True
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*self._callers)
        assert self._watcher is not None
        store = self._watcher.store
        log = await answered(lambda: log_of(store))
        due = {subject: len({entry.id for entry in log[subject]}) for subject in log}
        for watch, watching in self._watchers:
            await self._finish(watch, watching, due.get(watch.subject, 0))
        await self._watcher.read(_RAISED[0], "strong")  # makes room, now that nobody watches

    async def told(self) -> History:
        """What there is to judge, once all has ended."""
        for actor in self._raising:
            for subject in _RAISED:
                await actor.read(subject, "strong")
        async with self._connect() as auditor:
            log = await answered(lambda: log_of(auditor))
        for subject, count in self._saved.items():
            tokens = [_token(subject, number) for number in range(count)]
            self._ops.append(
                Save(
                    client=subject,
                    writes=[(subject, token) for token in tokens],
                    start=self._began,
                    end=time.monotonic_ns(),
                    outcome="ok",
                )
            )
            effects = dict[str, Entry]()  # each where it stands first; a record holds many
            for entry in log.get(subject, []):
                effects.setdefault(entry.id, entry)
            if (wrong := out_of_order(list(effects.values()), tokens)) is not None:
                self._problems.append(f"the spool of {subject}: {wrong}")
        return History(self._ops, log, self._problems)

    async def _actor(self, name: str) -> Actor:
        store = await self._open.enter_async_context(self._connect())
        return Actor(store, Timing(name, self._ops, self._note))

    async def _raise(self, actor: Actor, subject: str, name: str) -> None:
        number = 0
        while not self._stopping:
            # What is not known is settled under the same id. What was told not to be committed is
            # not tried again: it may never come.
            if await actor.save(subject, f"{name}.{number}") != "unknown":
                number += 1
            await self._pause()

    async def _spool(self, store: foldlog.Store, subject: str) -> None:
        session = subject.split("/")[1]
        while not self._stopping:
            token = _token(subject, self._saved[subject])
            self._saved[subject] += 1
            await store.save_update(update(token, session, content=content(token)))
            await self._pause()

    async def _finish(self, watch: Watch, watching: asyncio.Task[None], due: int) -> None:
        await self._until(lambda: len(watch.got) >= due or watching.done())
        watch.whole = True
        if watching.done():
            self._problems.append(f"a watcher ended: {watch.error}")
        watching.cancel()
        await asyncio.wait([watching])

    async def _pause(self) -> None:
        await asyncio.sleep(self._rng.random() * 2 * self.gap)

    def _note(self, op: AnyOp) -> None:
        self._acked += isinstance(op, Save) and op.outcome == "ok"
        self._changed.set()

    async def _until(self, happened: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not happened():
                self._changed.clear()
                await self._changed.wait()
                for caller in self._callers:
                    if caller.done():
                        caller.result()


def _token(subject: str, number: int) -> str:
    return f"{subject}.{number}"
