"""A store whose log has not been reached yet: what it saves waits in the spool.

For an owner who cannot wait for the log, and whose degrading store must keep what it is given from
the first call on.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from foldlog.errors import FoldlogError, LogUnavailable
from foldlog.log.blobs import Blobs
from foldlog.log.port import Log
from foldlog.log.snapshots import SnapshotStore
from foldlog.store.absent import AbsentBlobs, AbsentLog, AbsentSnapshots, Nothing
from foldlog.store.failures import log_failure
from foldlog.store.options import StoreOptions
from foldlog.store.reaching import Reach, Reached
from foldlog.store.spool import Outbox, Place, Spool
from foldlog.store.store import Store
from foldlog.subjects import Namespace

CONNECT_FAILED: Final = "statestore_connect_failed"
"""The `event` of a store that opens, or stays, without its log."""

_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 1.0
"""Seconds until the log is reached for again: doubled each time."""


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
        self._nothing = Nothing(reason, namespace)
        self._log = AbsentLog(self._nothing)
        self._blobs = AbsentBlobs(self._nothing)
        self._snapshots = AbsentSnapshots(self._nothing, self._log)
        self._outbox = Outbox(self._log, Spool(place, limit))
        self._told: str | None = None
        self._reaching: asyncio.Task[None] | None = None
        self.store = Store(
            self._log,
            self._blobs,
            options,
            snapshots=self._snapshots,
            outbox=self._outbox,
            standby=self,
            loop=loop,
        )

    async def reach_for(self, reach: Reach) -> None:
        """Reach for the log again and again, until it is there or the store is closed.

        What processes that have ended left in the spool is appended first.
        """
        self._note(self._nothing.reason)
        await self._outbox.recover()
        self._reaching = asyncio.create_task(self._reach(reach), name="foldlog-reaching")

    async def hand_over(self, store: Store) -> None:
        """Append to the log of `store` what waits, and from now on what is still saved here.

        Raises:
            LogUnavailable: it is away again; what waits still waits here, and the log is let go of.
        """
        views = store.hot_views
        snapshots = views.snapshots.store if views.snapshots is not None else None
        self._become(store.log, store._blobs, snapshots, owned=False)
        try:
            await self._outbox.settle()
        except BaseException:
            self._log.lost()
            raise

    async def close(self) -> None:
        """Give up reaching for the log. Idempotent."""
        if self._reaching is not None:
            self._reaching.cancel()
            await asyncio.wait({self._reaching})

    async def _reach(self, reach: Reach) -> None:
        found = await self._found(reach)
        # No await since it was there: from now on it is closed with the store.
        self._become(found.log, found.blobs, found.snapshots, owned=True)
        self._outbox.knowledge.seen(found.streams or ())
        await self._outbox.recover()

    async def _found(self, reach: Reach) -> Reached:
        pause = _FIRST_PAUSE
        while True:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            try:
                return await reach()
            except FoldlogError as error:
                self._note(error)
            except Exception as error:  # noqa: BLE001 - told, and tried again: nobody else hears it
                self._note(FoldlogError(f"the log cannot be opened: {error!r}"))

    def _become(
        self, log: Log, blobs: Blobs, snapshots: SnapshotStore | None, *, owned: bool
    ) -> None:
        self._blobs.reached(blobs)
        if snapshots is not None:
            self._snapshots.reached(snapshots)
        self._log.reached(log, owned=owned)

    def _note(self, error: FoldlogError) -> None:
        """Have an operator know why the log is away: one line and one count for each reason."""
        self._nothing.reason = error
        heals = isinstance(error, LogUnavailable)
        told = "" if heals else str(error)  # why a server does not answer may vary
        if told != self._told:
            self._told = told
            self.store.degraded["connect"] += 1
            level = logging.WARNING if heals else logging.ERROR
            log_failure(CONNECT_FAILED, "connect", None, error, level=level)
