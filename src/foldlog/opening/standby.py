"""The log of a store that was opened during an outage, until it is reached (decision 17)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from foldlog.errors import ConfigurationError, FoldlogError, LogUnavailable
from foldlog.log.port import Log, LogInfo
from foldlog.log.relay import Relay
from foldlog.opening.store import Store
from foldlog.store.core import Backend, core_of
from foldlog.store.failures import log_failure
from foldlog.store.store import complete
from foldlog.subjects import Namespace

_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 1.0
"""Seconds until the next attempt to connect: doubled each time."""

_MISTAKE_PAUSE: Final = 60.0
"""Seconds until the next attempt after a ConfigurationError, which no waiting heals."""


Connect = Callable[[], Awaitable[Backend]]


class StandbyLog(Relay):
    """Raises LogUnavailable because of `reason` until it is reached, and is that log from then on.

    Closing it closes what it reached.
    """

    def __init__(self, namespace: Namespace, reason: FoldlogError) -> None:
        self.reason = reason
        self._counts_epochs: Log = self
        self._backend: Backend | None = None
        self._namespace = namespace
        self._notify: list[Callable[[], None]] = []

    async def reach(self, backend: Backend) -> None:
        """Be that log from now on.

        Raises:
            ConfigurationError: views that were opened before would look on the wrong shards. The
                log is closed.
        """
        namespace = backend.log.namespace
        if namespace.shards != self._namespace.shards:
            await backend.close()
            raise ConfigurationError(
                f"namespace {namespace.name!r} was made with {namespace.shards} shard(s), "
                f"and not {self._namespace.shards}: give `shards` to connect"
            )
        self._backend = backend
        for notify in self._notify:
            backend.log.on_epoch(notify)
            notify()

    @property
    def reached(self) -> Backend:
        """What was reached. Raises LogUnavailable until then."""
        if self._backend is None:
            raise LogUnavailable(str(self.reason)) from self.reason
        return self._backend

    @property
    def below(self) -> Log:  # type: ignore[override]
        """The log. Raises LogUnavailable until it is reached."""
        return self.reached.log

    @property
    def namespace(self) -> Namespace:
        return self._namespace

    @property
    def epoch(self) -> int:
        return -2 if self._backend is None else self._backend.log.epoch

    def known(self, shard: int) -> int:
        return 0 if self._backend is None else self._backend.log.known(shard)

    async def info(self) -> LogInfo:
        if self._backend is None:
            # Without the traceback of earlier callers: else it would grow with each.
            raise self.reason.with_traceback(None)
        return await self._backend.log.info()

    def on_epoch(self, notify: Callable[[], None]) -> None:
        self._notify.append(notify)
        if self._backend is not None:
            self._backend.log.on_epoch(notify)

    async def close(self) -> None:
        if self._backend is not None:
            await self._backend.close()


class Standby:
    """What comes beside a log that may not be reached yet: until then any use of it raises
    LogUnavailable.
    """

    def __init__(self, find: Callable[[], Any]) -> None:
        self._find = find

    def __getattr__(self, name: str) -> Any:
        return getattr(self._find(), name)


def reach_for(store: Store, log: StandbyLog, connect: Connect) -> None:
    """Connect in the background, until the store is complete or closed."""
    _note(store, log.reason)
    reaching = asyncio.create_task(_reach(store, log, connect), name="foldlog-connecting")

    async def give_up() -> None:
        reaching.cancel()
        await asyncio.wait({reaching})

    core_of(store).on_close(give_up)


async def _reach(store: Store, log: StandbyLog, connect: Connect) -> None:
    pause, noted = _FIRST_PAUSE, _difference(log.reason)
    while True:
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
        try:
            backend = await connect()
            await log.reach(backend)
            break
        except FoldlogError as error:
            log.reason = error
        except Exception as error:  # noqa: BLE001 - noted, and tried again: it has no caller
            log.reason = FoldlogError(f"the log cannot be opened: {error!r}")
        if isinstance(log.reason, ConfigurationError):
            pause = _MISTAKE_PAUSE
        if _difference(log.reason) != noted:
            noted = _difference(log.reason)
            _note(store, log.reason)
    complete(store, backend)
    if (outbox := core_of(store).backend.outbox) is not None:
        await outbox.recover()


def _difference(reason: FoldlogError) -> str:
    """What tells one reason from another. Why a server does not answer may vary."""
    return "" if isinstance(reason, LogUnavailable) else str(reason)


def _note(store: Store, reason: FoldlogError) -> None:
    core_of(store).calls.failures["connect"] += 1
    level = logging.WARNING if isinstance(reason, LogUnavailable) else logging.ERROR
    log_failure("statestore_connect_failed", "connect", None, reason, level=level)
