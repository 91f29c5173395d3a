"""The Store: every capability over one log, joined. Reads like a table of contents.

A new capability is a kind in `projections/` and a class in a module of this package.
"""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from foldlog.log.blobs import Blobs
from foldlog.log.embedded import EmbeddedServer
from foldlog.log.moments import head
from foldlog.log.port import Log
from foldlog.log.snapshots import SnapshotStore
from foldlog.position import LogPosition
from foldlog.store.artifacts import Artifacts
from foldlog.store.bindings import Bindings
from foldlog.store.blobs import BlobStore
from foldlog.store.erasure import Erasure
from foldlog.store.events import Events
from foldlog.store.feedback import Feedbacks
from foldlog.store.forks import Forks
from foldlog.store.health import HealthCheck
from foldlog.store.memory import Memory
from foldlog.store.moments import When
from foldlog.store.operation import operation
from foldlog.store.options import StoreOptions
from foldlog.store.pauses import Pauses
from foldlog.store.rebuild import Rebuild, RebuildReport
from foldlog.store.refolds import OnProgress
from foldlog.store.scopes import Scopes
from foldlog.store.spool import Outbox, SpoolHealth
from foldlog.store.steering import Steering
from foldlog.store.tasks import Tasks
from foldlog.store.trajectories import Trajectories
from foldlog.store.updates import Updates
from foldlog.store.verify import Verify, VerifyReport

if TYPE_CHECKING:
    from foldlog.agents import StoreAgents
    from foldlog.recovery import StateBackend
    from foldlog.scoped import ScopedStore
    from foldlog.sessions import Session, TaskTelemetrySink
    from foldlog.store.past import Past
    from foldlog.store.standby import Standby


class Store(
    Events,
    Bindings,
    Pauses,
    Memory,
    Tasks,
    Updates,
    Steering,
    Trajectories,
    Feedbacks,
    Forks,
    Erasure,
    HealthCheck,
):
    """Agent state over one log: the StateStore of PenguiFlow's specification 2.11, and more.

    Made by `foldlog.connect` or `foldlog.memory_store`; lives until `close` or the end of its
    `async with`. Safe to share between tasks of one event loop; on another one every call is a
    ConfigurationError. (A memory store serves any.) Files are kept by `artifact_store`.
    """

    def __init__(
        self,
        log: Log,
        blobs: Blobs,
        options: StoreOptions,
        *,
        snapshots: SnapshotStore | None = None,
        outbox: Outbox | None = None,
        server: EmbeddedServer | None = None,
        standby: Standby | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(
            log, blobs, options, snapshots=snapshots, outbox=outbox, server=server, loop=loop
        )
        self._standby = standby
        self._blobs = BlobStore(self, blobs)
        self._artifacts = Artifacts(self, self._blobs, options.retention)
        self._scopes = Scopes(self, self._blobs, self._forget_scoped)

    @property
    def artifact_store(self) -> Artifacts:
        """Bytes and large texts, kept apart from what a model sees."""
        return self._artifacts

    @functools.cached_property
    def agents(self) -> StoreAgents:
        """State that agents manage by turns: see `foldlog.agents`."""
        from foldlog.agents.opening import agents  # a floor above: only who asks needs it

        return agents(self)

    @functools.cached_property
    def recovery(self) -> StateBackend:
        """Executions that can be stopped anywhere and resumed: see `foldlog.recovery`."""
        from foldlog.recovery.opening import recovery  # a floor above: only who asks needs it

        return recovery(self, self._blobs)

    @functools.cached_property
    def scoped(self) -> ScopedStore:
        """Keys in scopes, with search, links and lifetimes: see `foldlog.scoped`."""
        from foldlog.scoped.opening import scoped  # a floor above: only who asks needs it

        return scoped(
            self,
            self._blobs,
            max_bytes=self._options.max_hot_bytes,
            directory=self._server.path if self._server is not None else None,
        )

    async def _forget_scoped(self, session_id: str | None) -> None:
        """Have what `scoped` keeps beside the log forgotten; None: of all scopes."""
        if "scoped" in vars(self) or self._server is not None:
            from foldlog.scoped import Scope

            await self.scoped.forget(None if session_id is None else Scope.session(session_id))

    async def session(
        self, session_id: str, *, telemetry: TaskTelemetrySink | None = None
    ) -> Session:
        """Open a session, as it stands now: see `foldlog.sessions`. An unknown one is empty.

        Args:
            telemetry: hears of the tasks that begin and end by this object. None: nobody does.

        Raises:
            InvalidId: the id is empty. LogUnavailable, LogCorrupt: it could not be read.
        """
        from foldlog.sessions.opening import session  # a floor above: only who asks needs it

        return await session(self, session_id, telemetry)

    @operation()
    async def position(self) -> LogPosition:
        """Return where the log ends now; what was acked to anybody before is at or before it.

        Raises:
            LogUnavailable, LogCorrupt: the log could not be read.
        """
        return await head(self.forked_log)

    def at(self, when: When) -> Past:
        """Return this store as it was at a moment, read-only: see `foldlog.store.past.Past`.

        Args:
            when: a position; a datetime with a time zone, by the log's clock: all that was stored
                by then; or right after an event was recorded, named by its id (`update_id`,
                `event_id`) or as the object that was saved. By id alone the whole log is looked
                through.

        Raises:
            UnknownMoment, InvalidId, PayloadError: `when` cannot name a moment. Whether there is
                such a moment turns out when something is read.
            StoreClosed: this store is closed.
        """
        from foldlog.store.past import Past  # which is a Store

        self.hot_views.check()
        return Past(self.log, self._raw_blobs, self._options, when, loop=self._loop)

    @operation(writes=True)
    async def rebuild(
        self, projection: str | None = None, *, on_progress: OnProgress | None = None
    ) -> RebuildReport:
        """Fold every view again from the log's first record, or those of one kind by name.

        Meanwhile reads are answered as before. Each new fold is compared with what is served;
        then reads are answered from the log anew, whatever the comparison gave: the log is the
        truth. It also accepts a log that lost something.

        Raises:
            ConfigurationError: there is no such kind.
            LogUnavailable, LogCorrupt: the log could not be read whole. What is in memory stays.
        """
        return await Rebuild(self, self._options.kinds).rebuild(projection, on_progress=on_progress)

    @operation()
    async def verify(
        self, projection: str | None = None, *, on_progress: OnProgress | None = None
    ) -> VerifyReport:
        """Fold every view anew and compare it with what is served; look through the log as well.

        Nothing is changed.

        Args:
            projection: only the kind of that name. None: all.

        Raises:
            ConfigurationError: there is no such kind. LogUnavailable: the log does not answer.
        """
        return await Verify(self, self._options.kinds).verify(projection, on_progress=on_progress)

    @property
    def degraded(self) -> Counter[str]:
        """With `on_error="degrade"`: how many calls failed or were spooled, by method.

        Grows only.
        """
        return self.calls.failures

    @property
    def spool(self) -> SpoolHealth | None:
        """What waits for the log on the local disk; None for a store that has no spool."""
        return self._outbox.health if self._outbox else None

    async def close(self) -> None:
        """Let what is in flight end, then let go of everything. Idempotent.

        Raises:
            ConfigurationError: another event loop runs than the store's. Nothing was closed.
        """
        self.hot_views.check_loop()
        async with AsyncExitStack() as ending:  # from the last to the first, whatever one raises
            if self._server is not None:
                ending.push_async_callback(self._server.leave)
            ending.push_async_callback(self.log.close)
            if self._outbox is not None:
                ending.push_async_callback(self._outbox.close)
            ending.push_async_callback(self.hot_views.close)
            if "scoped" in vars(self):
                ending.push_async_callback(self.scoped.close)
            if self._standby is not None:
                ending.push_async_callback(self._standby.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
