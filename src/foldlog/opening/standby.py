"""A store whose log has not been reached yet: what it saves waits in the spool (ADR 0017)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from foldlog.errors import ConfigurationError, FoldlogError, LogUnavailable
from foldlog.log.blobs import Blobs
from foldlog.log.port import Log, LogInfo
from foldlog.log.relay import Relay
from foldlog.log.side import Side
from foldlog.opening.store import Store
from foldlog.store.core import Backend
from foldlog.store.failures import log_failure
from foldlog.store.options import StoreOptions
from foldlog.store.spool import Outbox, Place, Spool
from foldlog.subjects import Namespace

_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 1.0
"""Seconds until the next attempt to connect: doubled each time."""

_MISTAKE_PAUSE: Final = 60.0
"""Seconds until the next attempt after a ConfigurationError, which no waiting heals."""

Connect = Callable[[], Awaitable[Backend]]


class StandbyLog(Relay):
    """A log that raises LogUnavailable because of `reason` until it is reached.

    Closing it closes the log that it reached only if it `owns` that.
    """

    def __init__(self, namespace: Namespace, reason: FoldlogError) -> None:
        self.reason = reason
        self.backend: Backend | None = None
        self.owns = False
        self._namespace = namespace
        self._notify: list[Callable[[], None]] = []

    def reach(self, backend: Backend) -> None:
        """Be that log from now on.

        Raises:
            ConfigurationError: views that were opened before would look on the wrong shards.
        """
        namespace = backend.log.namespace
        if namespace.shards != self._namespace.shards:
            raise ConfigurationError(
                f"namespace {namespace.name!r} was made with {namespace.shards} shard(s), "
                f"and not {self._namespace.shards}: give `shards` to connect"
            )
        self.backend = backend
        for notify in self._notify:
            backend.log.on_epoch(notify)
            notify()

    @property
    def below(self) -> Log:  # type: ignore[override]
        """The log. Raises LogUnavailable until it is reached."""
        return self.reached.log

    @property
    def namespace(self) -> Namespace:
        return self._namespace

    @property
    def epoch(self) -> int:
        return -2 if self.backend is None else self.backend.log.epoch

    def known(self, shard: int) -> int:
        return 0 if self.backend is None else self.backend.log.known(shard)

    async def info(self) -> LogInfo:
        if self.backend is None:
            # Without the traceback of earlier callers: else it would grow with each.
            raise self.reason.with_traceback(None)
        return await self.backend.log.info()

    def on_epoch(self, notify: Callable[[], None]) -> None:
        self._notify.append(notify)
        if self.backend is not None:
            self.backend.log.on_epoch(notify)

    async def close(self) -> None:
        if self.backend is not None and self.owns:
            await self.backend.log.close()

    @property
    def reached(self) -> Backend:
        """The backend. Raises LogUnavailable until it is reached."""
        if self.backend is None:
            raise LogUnavailable(str(self.reason)) from self.reason
        return self.backend


class StandbyBlobs(Blobs):
    """The blobs next to a log that may not be reached yet."""

    def __init__(self, log: StandbyLog) -> None:
        self._log = log
        self._namespace = log.namespace

    @property
    def _side(self) -> Side:  # type: ignore[override]
        return self._log.reached.blobs._side


class Standby:
    """Has a `store` that spools because of `reason`, until the log is reached or handed over."""

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
        self._log = log = StandbyLog(namespace, reason)
        self._outbox = Outbox(log, Spool(place, limit))
        self._logged: str | None = None
        self._connecting: asyncio.Task[None] | None = None
        backend = Backend(log, StandbyBlobs(log), outbox=self._outbox, place=place, loop=loop)
        self.store: Store = Store(backend, options)
        self.store.on_close(self.close)

    async def reach_for(self, connect: Connect) -> None:
        """Connect in the background, until that succeeds or the store is closed."""
        self._note(self._log.reason)
        await self._outbox.recover()  # what processes that have ended left there comes first
        self._connecting = asyncio.create_task(self._reach(connect), name="foldlog-connecting")

    async def hand_over(self, store: Store) -> None:
        """Append to the log of `store` what waits, and from now on what is still saved here.

        Raises:
            LogUnavailable: it is away again; what waits still waits here.
        """
        self._use(store.backend)
        try:
            await self._outbox.settle()
        except BaseException:
            self._log.backend = None
            raise

    async def close(self) -> None:
        """Give up connecting. Idempotent."""
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait({self._connecting})

    async def _reach(self, connect: Connect) -> None:
        pause = _FIRST_PAUSE
        while self._log.backend is None:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            try:
                backend = await connect()
                try:
                    self._use(backend)
                except ConfigurationError:
                    await backend.log.close()
                    raise
                self._log.owns = True
            except FoldlogError as error:
                self._note(error)
                if isinstance(error, ConfigurationError):
                    pause = _MISTAKE_PAUSE
            except Exception as error:  # noqa: BLE001 - noted, and tried again: it has no caller
                self._note(FoldlogError(f"the log cannot be opened: {error!r}"))
        await self._outbox.recover()

    def _use(self, backend: Backend) -> None:
        self._log.reach(backend)
        if backend.snapshots is not None:
            self.store.hot_views.use_snapshots(backend.snapshots)

    def _note(self, error: FoldlogError) -> None:
        """Log and count each reason for which the log is away once."""
        self._log.reason = error
        heals = isinstance(error, LogUnavailable)
        logged = "" if heals else str(error)  # why a server does not answer may vary
        if logged != self._logged:
            self._logged = logged
            self.store.degraded["connect"] += 1
            level = logging.WARNING if heals else logging.ERROR
            log_failure("statestore_connect_failed", "connect", None, error, level=level)
