"""How an adapter reaches its store: opened on first use, reads after the writes begun before.

PenguiFlow makes stores where no event loop runs, starts saves that nobody waits for, reads
straight after them, and may ask from several event loops in turn (its playground behind a test
client has one a request). Its own in-memory store allows all that, so these do too: `Line` for
the callers of one event loop, `Worker` for those of any.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from foldlog.errors import FoldlogError, StoreClosed
from foldlog.integrations.penguiflow.failures import Report
from foldlog.integrations.penguiflow.opening import Opening, opened
from foldlog.opening import Store

T = TypeVar("T")
Call = Callable[[Store], Awaitable[T]]
"""What to do with the store once it is open."""


class Reach(Protocol):
    """The way to a store."""

    @property
    def degraded(self) -> Counter[str]:
        """What the store itself has counted, also when it is closed."""

    async def read(self, call: Call[T]) -> T:
        """Do what reads, when the writes begun before it have ended."""

    async def write(self, call: Call[T], report: Report) -> T:
        """Do what writes, in the order in which writes were begun, even if the caller is
        cancelled meanwhile. `report` hears of a failure then.
        """

    def begin(self, call: Call[None], report: Report) -> None:
        """Begin a write that nobody waits for; `report` hears of its failure."""

    def at_once(self, call: Call[None], report: Report) -> Awaitable[None]:
        """Do what must be done before the caller goes on, whether or not it awaits.

        Raises what `report` does not swallow.
        """

    async def close(self) -> None:
        """Let go of the store. Idempotent; every later call raises StoreClosed.

        Writes come to their end first, and so does an attempt to open the store that they wait
        for. Where only reads wait for it, it is given up, and they raise StoreClosed.
        """


class Line:
    """A store of the running event loop, which `open_` opens when it is first needed.

    Await `at_once` here. `owned=False`: `close` leaves it open.
    """

    def __init__(self, open_: Callable[[], Awaitable[Store]], *, owned: bool = True) -> None:
        self._opening = Opening(open_)
        self._turn = asyncio.Lock()
        self._owned = owned
        self._closed = False
        self._counted: Counter[str] = Counter()
        self._reading: set[asyncio.Task[Any]] = set()
        self._writing: set[asyncio.Task[Any]] = set()

    @property
    def degraded(self) -> Counter[str]:
        return self._counted + self._opening.degraded

    async def read(self, call: Call[T]) -> T:
        attempt, before = self._attempt(), set(self._writing)
        return await _begun(_read(call, attempt, before), self._reading)

    async def write(self, call: Call[T], report: Report) -> T:
        # Shielded: what PenguiFlow begins to save and cancels, as it does when a flow is stopped,
        # its in-memory store has saved by then.
        task = self.start(call)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(report.unheard)
            raise

    def begin(self, call: Call[None], report: Report) -> None:
        self.start(call).add_done_callback(report.unheard)

    async def at_once(self, call: Call[None], report: Report) -> None:
        try:
            await self.write(call, report)
        except FoldlogError as error:
            if not report.swallows(error):
                raise

    def start(self, call: Call[T]) -> asyncio.Task[T]:
        """Begin a write; `close` waits for it."""
        return _begun(self._write(call, self._attempt()), self._writing)

    async def close(self) -> None:
        self._closed = True
        if self._writing:
            await asyncio.wait(self._writing)
        await self._opening.give_up()
        if self._reading:
            await asyncio.wait(self._reading)
        self._counted += self._opening.degraded
        store = self._opening.release()
        if store is not None and self._owned:
            await store.close()

    def _attempt(self) -> asyncio.Task[Store]:
        if self._closed:
            raise StoreClosed
        return self._opening.attempt()

    async def _write(self, call: Call[T], attempt: asyncio.Task[Store]) -> T:
        # A fair lock: writes keep their order also while the first of them connects.
        async with self._turn:
            store = await opened(attempt)
        return await call(store)


async def _read(
    call: Call[T], attempt: asyncio.Task[Store], begun_before: set[asyncio.Task[Any]]
) -> T:
    if begun_before:
        await asyncio.wait(begun_before)
    return await call(await opened(attempt))


def _begun(work: Coroutine[Any, Any, T], among: set[asyncio.Task[Any]]) -> asyncio.Task[T]:
    """Start the work, which is one of `among` until it ends."""
    task = asyncio.ensure_future(work)
    among.add(task)
    task.add_done_callback(among.discard)
    return task
