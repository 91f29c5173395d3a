"""Callers of one server, who go on whatever happens to it, until they are told to stop."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

import foldlog
from tests.faults.actor import Actor, Script
from tests.faults.history import AnyOp, Entry, History, Save, Timing, Watch, log_of
from tests.faults.storms.patience import PATIENCE, answered


class Crowd:
    """Stores on `url`, several callers each, and a watcher; all started when entered.

    `acked` counts the saves that were acked.
    """

    def __init__(
        self,
        url: str,
        namespace: str,
        seed: int,
        *,
        stores: int = 2,
        callers: int = 3,
        keys: int = 3,
        **options: Any,
    ) -> None:
        self._url, self._options = url, {"namespace": namespace, **options}
        self._rng = random.Random(seed)
        self._sizes = stores, callers, keys
        self._open = AsyncExitStack()
        self._callers: list[asyncio.Task[None]] = []
        self._watchers: list[tuple[Watch, asyncio.Task[None]]] = []
        self._changed = asyncio.Event()
        self._stopping = False
        self.ops: list[AnyOp] = []
        self.acked = 0
        self._latest_acked = 0

    async def __aenter__(self) -> Self:
        stores, callers, keys = self._sizes
        try:
            for number in range(stores):
                store = await self._open.enter_async_context(
                    foldlog.connect(self._url, **self._options)
                )
                name = f"s{number}"
                actor = Actor(store, Timing(name, self.ops, self._note))
                watch = Watch(client=name, subject=f"updates/{self._rng.randrange(keys)}")
                watching = asyncio.create_task(actor.watch(watch.subject, None, watch))
                self._watchers.append((watch, watching))
                for caller in range(callers):
                    rng = random.Random(self._rng.random())
                    script = Script(actor, rng, f"{name}.{caller}", keys)
                    self._callers.append(asyncio.create_task(self._call(script, rng)))
        except BaseException:
            await self._open.aclose()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._end([*self._callers, *(watching for _, watching in self._watchers)])
        await self._open.aclose()

    def joined(self, name: str, store: foldlog.Store) -> Actor:
        """One more caller, on a store of its own: judged with the others, and never waited for."""
        return Actor(store, Timing(name, self.ops, lambda op: None))

    async def progressed(self, acks: int = 1) -> float:
        """Wait for as many more acks; return how many seconds that took."""
        began, wanted = time.monotonic(), self.acked + acks
        async with asyncio.timeout(PATIENCE):
            while self.acked < wanted:
                self._changed.clear()
                await self._changed.wait()
                for caller in self._callers:
                    if caller.done():
                        caller.result()
        return time.monotonic() - began

    async def recovered(self, since: int) -> float:
        """Wait until a save is acked that began at `since` or later; return the seconds from then.

        `since` is of `time.monotonic_ns()`.
        """
        async with asyncio.timeout(PATIENCE):
            while self._latest_acked < since:
                await self.progressed()
        return (time.monotonic_ns() - since) / 1e9

    async def told(self) -> History:
        """Stop calling; once watchers have come to the end, return what there is to judge."""
        self._stopping = True
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*self._callers)
        async with foldlog.connect(self._url, **self._options) as auditor:
            actor = Actor(auditor, Timing("auditor", self.ops, self._note))
            log = await answered(lambda: log_of(auditor))
            problems = [p for watch in self._watchers for p in await self._finish(*watch, log)]
            log = await answered(lambda: log_of(auditor))
            for subject in log:
                if not subject.startswith(("pauses/", "updates/swap")):
                    await actor.read(subject, "strong")
        return History(self.ops, log, problems)

    @property
    def outcomes(self) -> Counter[str]:
        """How the saves ended."""
        return Counter(op.outcome for op in self.ops if isinstance(op, Save))

    async def _finish(
        self, watch: Watch, watching: asyncio.Task[None], log: dict[str, list[Entry]]
    ) -> list[str]:
        due = len({entry.id for entry in log.get(watch.subject, [])})
        try:
            async with asyncio.timeout(PATIENCE):
                while len(watch.got) < due and not watching.done():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return [f"a watcher was given {len(watch.got)} of {due} in {PATIENCE:g} s"]
        watch.whole = True
        return [] if not watching.done() else [f"a watcher ended: {watch.error}"]

    async def _call(self, script: Script, rng: random.Random) -> None:
        while not self._stopping:
            await script.step()
            await asyncio.sleep(rng.random() ** 4 * 0.02)  # gaps of all sizes between calls

    def _note(self, op: AnyOp) -> None:
        if isinstance(op, Save) and op.outcome == "ok":
            self.acked += 1
            self._latest_acked = max(self._latest_acked, op.start)
        self._changed.set()

    @staticmethod
    async def _end(tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
