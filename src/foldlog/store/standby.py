"""A store whose log has not been reached yet: what it saves waits in the spool.

For a program that cannot wait for the log, and whose degrading store takes saves from the first
call on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from foldlog.errors import ConfigurationError, FoldlogError, LogUnavailable
from foldlog.log.blobs import Blobs
from foldlog.log.port import Log, LogInfo
from foldlog.log.relay import Relay
from foldlog.store.backend import Backend, Connect
from foldlog.store.failures import log_failure
from foldlog.store.options import StoreOptions
from foldlog.store.spool import Outbox, Place, Spool
from foldlog.store.store import Store
from foldlog.subjects import Namespace

CONNECT_FAILED: Final = "statestore_connect_failed"
"""The `event` of a store that opens, or stays, without its log."""

_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 1.0
"""Seconds until the next attempt to connect: doubled each time."""


class StandbyLog(Relay):
    """A log that raises LogUnavailable because of `reason`, until it has one to relay to."""

    def __init__(self, namespace: Namespace, reason: FoldlogError) -> None:
        self.reason = reason
        self.owned: Log | None = None  # is closed with this one
        self._namespace = namespace
        self._reached: Log | None = None
        self._notify: list[Callable[[], None]] = []

    @property
    def below(self) -> Log:
        """The log that was reached. Raises LogUnavailable until then."""
        if self._reached is None:
            raise LogUnavailable(str(self.reason)) from self.reason
        return self._reached

    @below.setter
    def below(self, log: Log) -> None:
        self._reached = log

    def reach(self, log: Log) -> None:
        """Relay to that log from now on.

        Raises:
            ConfigurationError: it has another number of shards: what was named before would be
                looked for on the wrong one.
        """
        if log.namespace.shards != self._namespace.shards:
            raise ConfigurationError(
                f"namespace {log.namespace.name!r} was made with {log.namespace.shards} shard(s), "
                f"and not {self._namespace.shards}: give `shards` to connect"
            )
        self.below = log
        for notify in self._notify:
            log.on_epoch(notify)
            notify()

    def lose(self) -> None:
        """Raise LogUnavailable again."""
        self._reached = None

    @property
    def namespace(self) -> Namespace:
        return self._namespace

    @property
    def epoch(self) -> int:
        """Grows when the log is reached."""
        return -2 if self._reached is None else self._reached.epoch

    def known(self, shard: int) -> int:
        return 0 if self._reached is None else self._reached.known(shard)

    async def info(self) -> LogInfo:
        """Raises what keeps the log from being reached."""
        if self._reached is None:
            # Without what it gathered before: else it would grow with every caller.
            raise self.reason.with_traceback(None)
        return await self._reached.info()

    def on_epoch(self, notify: Callable[[], None]) -> None:
        self._notify.append(notify)
        if self._reached is not None:
            self._reached.on_epoch(notify)

    async def close(self) -> None:
        """Close the log that is owned, if there is one."""
        if self.owned is not None:
            await self.owned.close()


class StandbyBlobs:
    """The blobs next to a log that may not be reached yet: then they raise LogUnavailable."""

    def __init__(self, log: StandbyLog) -> None:
        self._log = log
        self.reached: Blobs | None = None

    async def put(self, name: str, data: bytes, *, ttl: int | None = None) -> None:
        await self._below().put(name, data, ttl=ttl)

    async def get(self, name: str) -> bytes | None:
        return await self._below().get(name)

    async def delete(self, name: str) -> None:
        await self._below().delete(name)

    def _below(self) -> Blobs:
        if self.reached is None:
            raise LogUnavailable(str(self._log.reason)) from self._log.reason
        return self.reached


class Standby:
    """`store` spools because of `reason`, until the log is reached or handed over.

    Lives until its store is closed.
    """

    def __init__(
        self,
        reason: FoldlogError,
        place: Place,
        limit: int,
        namespace: Namespace,
        options: StoreOptions,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._log = StandbyLog(namespace, reason)
        self._blobs = StandbyBlobs(self._log)
        self._outbox = Outbox(self._log, Spool(place, limit))
        self._logged: str | None = None
        self._connecting: asyncio.Task[None] | None = None
        self.store = Store(
            self._log, self._blobs, options, outbox=self._outbox, standby=self, loop=loop
        )

    async def reach_for(self, connect: Connect) -> None:
        """Connect in the background, until that succeeds or the store is closed.

        What processes that have ended left in the spool is adopted first.
        """
        self._note(self._log.reason)
        await self._outbox.recover()
        self._connecting = asyncio.create_task(self._reach(connect), name="foldlog-connecting")

    async def hand_over(self, store: Store) -> None:
        """Append to the log of `store` what waits, and from now on what is still saved here.

        Raises:
            LogUnavailable: it is away again; what waits still waits here.
            ConfigurationError: it has another number of shards than was given to `connect`.
        """
        snapshots = store.hot_views.snapshots
        self._use(Backend(store.log, store._raw_blobs, snapshots.store if snapshots else None))
        try:
            await self._outbox.settle()
        except BaseException:
            self._log.lose()
            raise

    async def close(self) -> None:
        """Give up connecting. Idempotent."""
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait({self._connecting})

    async def _reach(self, connect: Connect) -> None:
        pause = _FIRST_PAUSE
        while True:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            try:
                await self._own(await connect())
            except FoldlogError as error:
                self._note(error)
            except Exception as error:  # noqa: BLE001 - noted, and tried again: nobody else hears it
                self._note(FoldlogError(f"the log cannot be opened: {error!r}"))
            else:
                break
        await self._outbox.recover()

    async def _own(self, backend: Backend) -> None:
        # No await before it is in use: from then on it is closed with the store.
        try:
            self._use(backend)
        except ConfigurationError:
            await backend.log.close()
            raise
        self._log.owned = backend.log

    def _use(self, backend: Backend) -> None:
        self._log.reach(backend.log)
        self._blobs.reached = backend.blobs
        if backend.snapshots is not None:
            self.store.hot_views.use_snapshots(backend.snapshots)

    def _note(self, error: FoldlogError) -> None:
        """Have an operator know why the log is away: one line and one count for each reason."""
        self._log.reason = error
        heals = isinstance(error, LogUnavailable)
        logged = "" if heals else str(error)  # why a server does not answer may vary
        if logged != self._logged:
            self._logged = logged
            self.store.degraded["connect"] += 1
            level = logging.WARNING if heals else logging.ERROR
            log_failure(CONNECT_FAILED, "connect", None, error, level=level)
