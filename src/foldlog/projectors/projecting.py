"""Running projectors: each record once into the tables, over crashes of either side."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Final, Self, TypeVar
from weakref import WeakKeyDictionary

from foldlog.errors import FoldlogError, LogTimeout, Misuse, NotFound
from foldlog.position import LogPosition
from foldlog.projectors.database import Connect, Database, InTransaction, Pool
from foldlog.projectors.declared import Projector
from foldlog.projectors.errors import ProjectorFailed
from foldlog.store.core import Core, core_of
from foldlog.store.store import BaseStore
from foldlog.store.subscribing import LogItem, Subscription

T = TypeVar("T")

OnProgress = Callable[[str, LogPosition], None]

_log: Final = logging.getLogger("foldlog")

_SILENCE: Final = 10.0
"""Seconds without a write after which another process may write in place of the one that did."""

_PAUSES: Final = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds before a record that was refused, or a database that is away, is tried again."""

_GATHER: Final = 0.1
"""Seconds for which it lets records come together, so that saves beside it are not slowed."""

_TRIES: Final = 3
"""How often something is tried again, in a row, that a database refuses which answers."""

_running: Final[WeakKeyDictionary[Core, dict[str, _Following]]] = WeakKeyDictionary()


class Projecting:
    """Runs projectors into a database. `await projecting.run()` goes on until `stop`.

        async with foldlog.Projecting(store, [calls], to="sqlite:///calls.db"):
            ...

    Rows, and how far they are, are stored in one transaction; of two processes with one projector
    one writes, and the other waits. A record that is refused is tried again, and left out
    only by `park`. Where the database is away, it waits.

    Args:
        store: an open store.
        projectors: the projectors.
        to: `sqlite:///path`, `duckdb:///path`, `postgresql://...`; a `psycopg_pool.ConnectionPool`:
            each projector holds one of its connections; or a function that returns a new
            connection of sqlite3, psycopg or duckdb.
        parks: projectors that leave out the first record that they refuse.

    Raises:
        Misuse: there is no projector, or two of one name; `to` is no database.
        ConfigurationError: the driver is not installed. NotFound: the store has no such kind.
    """

    def __init__(
        self,
        store: BaseStore,
        projectors: Iterable[Projector],
        *,
        to: str | Connect | Pool,
        parks: Iterable[str] = (),
    ) -> None:
        found = list(projectors)
        names = {each.name for each in found}
        if not found or len(names) < len(found):
            raise Misuse("give projectors, each with a name of its own")
        for each in found:
            store.subscribe(each.kinds)
        self._core = core_of(store)
        self._all = {each.name: _Following(store, each, Database(to)) for each in found}
        for name in parks:
            if name not in self._all:
                raise NotFound("projector", name, f"there are {', '.join(self._all)}")
            self._all[name].parks.set()
        self._leaving = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self.run(), name="foldlog projecting")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._running is not None
        self.stop()
        await self._running

    def stop(self) -> None:
        """Stop behind what is being written."""
        self._leaving.set()

    async def run(self, *, once: bool = False, on_progress: OnProgress | None = None) -> None:
        """Project until `stop`.

        Args:
            once: end when all is projected that is in the log by then; a record that is refused
                then raises ProjectorFailed.
            on_progress: called with a projector's name and how far it is, now and then.

        Raises:
            UnknownMoment: the log is not the one that the tables are of: it was replaced.
            LogCorrupt, StoreClosed: the log cannot be read, or the store is closed.
        """
        running = _running.setdefault(self._core, {})
        if taken := running.keys() & self._all.keys():
            raise Misuse(f"projector {min(taken)} runs on this store")
        running |= self._all
        tasks = [
            asyncio.create_task(each.follow(once, on_progress), name=f"foldlog projector {name}")
            for name, each in self._all.items()
        ]
        leaving = asyncio.create_task(self._leaving.wait())
        try:
            left = {*tasks}
            while left and not leaving.done():
                ended, _ = await asyncio.wait({*left, leaving}, return_when=asyncio.FIRST_COMPLETED)
                for each in ended & left:
                    each.result()
                left -= ended
        finally:
            for each in (*tasks, leaving):
                each.cancel()
            await asyncio.wait([*tasks, leaving])
            for name, following in self._all.items():
                running.pop(name, None)
                await following.database.close()

    async def caught_up(self, *, timeout: float | None = None) -> None:
        """Return when all is in the tables that is in the log by now.

        Args:
            timeout: seconds to wait. None: as long as it takes.

        Raises:
            LogTimeout: it is not in time. ProjectorFailed: a record is refused.
            LogUnavailable, StoreClosed: no answer, or a closed store.
        """
        store = next(iter(self._all.values())).store
        at = await store.position()
        await asyncio.gather(*(each.reached(at, timeout) for each in self._all.values()))

    def park(self, name: str) -> None:
        """Have the record left out that a projector refuses; the table `foldlog_parked` notes it.

        Args:
            name: the projector's name.

        Raises:
            NotFound: there is no such projector, or it refuses none.
        """
        found = self._all.get(name)
        if found is None or found.failed is None:
            raise NotFound("refused record", name, "only what a projector refuses is parked")
        found.failed = None
        found.parks.set()


async def projected(store: BaseStore, name: str, at: LogPosition, timeout: float | None) -> None:
    """See `Store.projected`."""
    found = _running.get(core_of(store), {}).get(name)
    if found is None:
        raise NotFound("projector", name, "foldlog.Projecting runs it on this store")
    await found.reached(at, timeout)


def behind(store: BaseStore) -> dict[str, int]:
    """Return how many records each projector that runs on a store is behind what that has seen."""
    core = core_of(store)
    return {name: each.behind() for name, each in _running.get(core, {}).items()}


class _Moved(Exception):
    """Another process has written: what it wrote is where to go on."""


class _Following:
    """One projector as it follows the log."""

    def __init__(self, store: BaseStore, projector: Projector, database: Database) -> None:
        self.store = store
        self.failed: ProjectorFailed | None = None
        self.parks = asyncio.Event()
        self.database = database
        self._projector = projector
        self._at = ""
        self._is_shown = False
        self._shows_at = LogPosition(())
        self._on_progress: OnProgress | None = None
        self._position: LogPosition | None = None
        self._subscription: Subscription | None = None
        self._failures = 0
        self._ended: Exception | None = None
        self._moved = asyncio.Event()
        self._awaited = asyncio.Event()

    def behind(self) -> int:
        """How many records of the log that this process has seen it has not read."""
        log, position = core_of(self.store).log, self._position
        shards = range(log.namespace.shards)
        reached = [0 for _ in shards] if position is None else [e.seq for e in position.shards]
        return sum(max(log.known(shard) - reached[shard], 0) for shard in shards)

    async def reached(self, at: LogPosition, timeout: float | None) -> None:
        """Return when all up to a position is in the tables."""
        try:
            async with asyncio.timeout(timeout):
                while self._position is None or not at <= self._position:
                    error = self._ended or self.failed
                    if error is not None:
                        raise error
                    self._moved.clear()
                    self._awaited.set()
                    if self._subscription is not None:
                        self._subscription.look()
                    await self._moved.wait()
        except TimeoutError:
            what = f"projector {self._projector.name} to come to {at}"
            raise LogTimeout(what, timeout or 0.0) from None

    async def follow(self, once: bool, on_progress: OnProgress | None) -> None:
        """Project. Errors as `Projecting.run`."""
        self._on_progress, self._ended = on_progress, None
        is_second = False
        try:
            while True:
                try:
                    await self._do(lambda: self.database.make(self._projector))
                    await self._look()
                    if is_second:
                        await self._stand_by()
                    is_second = False
                    await self._go_on(once=once)
                    return
                except _Moved:
                    _log.info("projector %s: another process writes", self._projector.name)
                    is_second = True
                    continue
                except FoldlogError:
                    raise
                except Exception as error:
                    is_there = await self.database.do(self.database.is_there)
                    if is_there and self._failures >= _TRIES:
                        raise
                    _log.warning("projector %s waits: %s", self._projector.name, error)
                await asyncio.sleep(self._pause())
        except Exception as error:
            self._ended = error
            raise
        finally:
            self._ended = self._ended or Misuse(f"projector {self._projector.name} has stopped")
            self._moved.set()

    async def _look(self) -> bool:
        """Know how far the projector is; return whether another process has written meanwhile."""
        held = await self._do(lambda: self.database.held(self._projector))
        has_moved = held.position != self._at
        self._at, self._is_shown = held
        self._position = LogPosition.parse(held.position) if held.position else None
        self._moved.set()
        return has_moved

    async def _stand_by(self) -> None:
        """Return when no other process has written for a while."""
        since = time.monotonic()
        while time.monotonic() < since + _SILENCE:
            await self._awaited_for(_SILENCE)
            await asyncio.sleep(_GATHER)
            if await self._look():
                since = time.monotonic()

    async def _awaited_for(self, seconds: float) -> None:
        """Return once somebody waits for rows, or after some seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._awaited.wait()
        self._awaited.clear()

    def _pause(self) -> float:
        """Seconds until it tries again: longer each time that it comes to nothing."""
        self._failures += 1
        return _PAUSES[min(self._failures, len(_PAUSES)) - 1]

    async def _go_on(self, *, once: bool) -> None:
        """Write what follows, page by page."""
        self._shows_at = await self.store.position()
        found = self.store.subscribe(self._projector.kinds, after=self._position, live=not once)
        self._subscription = found
        if self._position is not None:
            self._progress(self._position)
        async with aclosing(found.pages()) as pages:
            async for page in pages:
                if page.items or page.position != self._position:
                    await self._write(page.items, page.position, once=once)
                if not page.items:  # that was all for now
                    await self._awaited_for(0 if once else _GATHER)
        if not self._is_shown:  # there was nothing to write
            await self._write([], self._position or self._shows_at, once=once)

    async def _write(self, items: Sequence[LogItem], position: LogPosition, *, once: bool) -> None:
        """Write a page: all at once; or where that is refused, one by one to the one that is."""
        error = await self._refusal(items, position)
        if error is None:
            return
        if not items:
            raise error
        for each in items:
            while (error := await self._refusal([each], each.position)) is not None:
                if await self._is_parked(each, error, once=once):
                    parked = each, f"{type(error).__name__}: {error}"
                    await self._apply([], each.position, parked)
                    break
            self.failed = None
        if position != items[-1].position:
            await self._apply([], position)

    async def _is_parked(self, item: LogItem, error: Exception, *, once: bool) -> bool:
        """Say that a record is refused; return whether somebody parks it before the next try."""
        if not self.parks.is_set():
            self.failed = ProjectorFailed(self._projector.name, item, error)
            self.failed.__cause__ = error
            self._moved.set()
            if once:
                raise self.failed
            _log.error("%s", self.failed)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self.parks.wait()
        is_parked = self.parks.is_set()
        self.parks.clear()
        return is_parked

    async def _refusal(self, items: Sequence[LogItem], position: LogPosition) -> Exception | None:
        """Write; return the error where the function or the database refuses it."""
        try:
            await self._apply(items, position)
        except (_Moved, FoldlogError):
            raise
        except Exception as error:
            if not await self.database.do(self.database.is_there):
                raise
            return error
        return None

    async def _apply(
        self,
        items: Sequence[LogItem],
        position: LogPosition,
        parked: tuple[LogItem, str] | None = None,
    ) -> None:
        """Write rows and position in one transaction, if nobody else has written since."""
        projector, database = self._projector, self.database
        shows = not self._is_shown and self._shows_at <= position
        tx = InTransaction(database, projector)

        def begin() -> None:
            database.begin()
            if database.held(projector).position != self._at:
                raise _Moved

        def end() -> None:
            tx.flush()
            if parked is not None:
                database.park(projector, *parked)
            if shows:
                database.show(projector)
            database.hold(projector, str(position))
            database.execute("commit")

        async with self._or_nothing():
            await database.do(begin)
            await projector.write(tx, items)
            await database.do(end)
        self._at, self._position, self._failures = str(position), position, 0
        self._is_shown |= shows
        self._progress(position)

    def _progress(self, position: LogPosition) -> None:
        """Say how far it is."""
        if self._on_progress is not None:
            self._on_progress(self._projector.name, position)
        self._moved.set()

    async def _do(self, work: Callable[[], T]) -> T:
        """Do something in a transaction of its own."""

        def whole() -> T:
            self.database.begin()
            found = work()
            self.database.execute("commit")
            return found

        async with self._or_nothing():
            return await self.database.do(whole)

    @asynccontextmanager
    async def _or_nothing(self) -> AsyncIterator[None]:
        """Have the transaction of the block stored, or nothing of it."""
        try:
            yield
        except BaseException:
            await self.database.do(self._roll_back)
            raise

    def _roll_back(self) -> None:
        try:
            self.database.execute("rollback")
        except Exception:  # noqa: BLE001 - there was no transaction, or the database is away
            self.database.is_there()
