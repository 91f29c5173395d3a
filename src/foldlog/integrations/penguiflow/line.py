"""How an adapter reaches its store: opened on first use, reads after the writes begun before.

PenguiFlow makes stores where no event loop runs, starts saves that nobody waits for, reads
straight after them, and may ask from several event loops in turn (its playground behind a test
client has one a request). Its own in-memory store allows all that, so these do too: `Line` for
the callers of one event loop, `Worker` for those of any.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future
from typing import Any, Final, Protocol, TypeVar

from foldlog.errors import FoldlogError, StoreClosed
from foldlog.store import Store

_log: Final = logging.getLogger("foldlog")

T = TypeVar("T")
Call = Callable[[Store], Awaitable[T]]
"""What to do with the store once it is open."""

_EXIT_PATIENCE: Final = 10.0
"""Seconds that the end of the process waits for stores that nobody closed."""


class Reach(Protocol):
    """The way to a store."""

    @property
    def store(self) -> Store | None:
        """The store, if it is open. Its methods are for its own event loop only."""
        ...

    async def read(self, call: Call[T]) -> T:
        """Do what reads, when the writes begun before it have ended."""
        ...

    async def write(self, call: Call[T]) -> T:
        """Do what writes, in the order in which writes were begun, even if the caller is
        cancelled meanwhile.
        """
        ...

    def begin(self, call: Call[None]) -> None:
        """Begin a write that nobody waits for; if it fails, that is logged."""
        ...

    def at_once(self, call: Call[None]) -> Awaitable[None]:
        """Do what must be done before the caller goes on, whether or not it awaits."""
        ...

    async def close(self) -> None:
        """Let go of the store. Idempotent; every later call raises StoreClosed."""
        ...


class Line:
    """A store of the running event loop, which `opening` opens when it is first needed.

    `at_once` has to be awaited here. `owned=False`: closing leaves the store open.
    """

    def __init__(self, opening: Callable[[], Awaitable[Store]], *, owned: bool = True) -> None:
        self.store: Store | None = None
        self._opening = opening
        self._turn = asyncio.Lock()
        self._owned = owned
        self._closed = False
        self._reading: set[asyncio.Task[Any]] = set()
        self._writing: set[asyncio.Task[Any]] = set()

    async def read(self, call: Call[T]) -> T:
        return await self._begun(self._read(call, set(self._writing)), self._reading)

    async def write(self, call: Call[T]) -> T:
        # Shielded: what PenguiFlow begins to save and cancels, as it does when a flow is stopped,
        # its in-memory store has saved by then.
        return await asyncio.shield(self._begun(self._write(call), self._writing))

    def begin(self, call: Call[None]) -> None:
        self._begun(self._write(call), self._writing).add_done_callback(_log_failure)

    def at_once(self, call: Call[None]) -> Awaitable[None]:
        return self.write(call)

    async def close(self) -> None:
        self._closed = True
        if under_way := self._reading | self._writing:
            await asyncio.wait(under_way)
        store, self.store = self.store, None
        if store is not None and self._owned:
            await store.close()

    async def _read(self, call: Call[T], begun_before: set[asyncio.Task[Any]]) -> T:
        if begun_before:
            await asyncio.wait(begun_before)
        return await call(await self._open())

    async def _write(self, call: Call[T]) -> T:
        return await call(await self._open())

    def _begun(
        self, work: Coroutine[Any, Any, T], among: set[asyncio.Task[Any]]
    ) -> asyncio.Task[T]:
        """Start the work, which is one of `among` until it ends."""
        if self._closed:
            work.close()
            raise StoreClosed
        task = asyncio.ensure_future(work)
        among.add(task)
        task.add_done_callback(among.discard)
        return task

    async def _open(self) -> Store:
        # A fair lock: writes keep their order also while the first of them connects.
        async with self._turn:
            if self.store is None:
                self.store = await self._opening()
            return self.store


class Worker:
    """A store on an event loop and thread of its own, for callers on any thread and loop.

    The thread starts with the first call. It ends with `close` or `stop`, and with the process:
    PenguiFlow itself never closes a store.
    """

    def __init__(self, opening: Callable[[], Awaitable[Store]]) -> None:
        self._line = Line(opening)
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ending = asyncio.Event()
        self._closed = False
        self._failure: FoldlogError | None = None

    @property
    def store(self) -> Store | None:
        return self._line.store

    async def read(self, call: Call[T]) -> T:
        return await asyncio.wrap_future(self._submit(lambda: self._line.read(call)))

    async def write(self, call: Call[T]) -> T:
        return await asyncio.wrap_future(self._submit(lambda: self._line.write(call)))

    def begin(self, call: Call[None]) -> None:
        self._submit(lambda: self._line.write(call)).add_done_callback(_log_failure)

    def at_once(self, call: Call[None]) -> Awaitable[None]:
        self._submit(lambda: self._line.write(call)).result()
        return _Done()

    async def close(self) -> None:
        self.stop()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def stop(self, patience: float = 0.0) -> None:
        """Have the thread close the store and end; wait for it up to `patience` seconds."""
        with self._guard:
            if not self._closed and self._loop is not None:
                self._loop.call_soon_threadsafe(self._ending.set)
            self._closed = True
        if self._thread is not None and patience > 0:
            self._thread.join(patience)

    def _submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        with self._guard:
            if self._closed:
                raise StoreClosed
            if self._loop is None:
                self._loop = self._start()
            return asyncio.run_coroutine_threadsafe(work(), self._loop)

    def _start(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._run, args=(loop,), name="foldlog-penguiflow", daemon=True
        )
        self._thread.start()
        _workers.add(self)
        return loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        await self._ending.wait()
        try:
            await self._line.close()
        except FoldlogError as error:
            self._failure = error  # for `close`; where nobody closes, there is only the log
            event = "statestore_close_failed"
            _log.error(event, extra={"event": event, "exception": repr(error)})


def _log_failure(ended: asyncio.Task[None] | Future[None]) -> None:
    error = None if ended.cancelled() else ended.exception()
    if error is not None:
        event = "statestore_save_failed"
        _log.error(event, extra={"event": event, "exception": repr(error)})


class _Done:
    """What has been done already, for those who await it all the same."""

    def __await__(self) -> Generator[None]:
        yield from ()


_workers: weakref.WeakSet[Worker] = weakref.WeakSet()


@atexit.register
def _stop_workers() -> None:
    workers = list(_workers)
    for worker in workers:
        worker.stop()
    for worker in workers:
        worker.stop(_EXIT_PATIENCE)
