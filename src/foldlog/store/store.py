"""The Store: every capability over one log, joined. Reads like a table of contents.

A new capability is a module beside this one and a line in `Store.__init__`.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Self, TypeVar

from foldlog.errors import ConfigurationError, PayloadError
from foldlog.log.blobs import Blobs
from foldlog.log.embedded import EmbeddedServer
from foldlog.log.forks import ForkedLog
from foldlog.log.moments import head
from foldlog.log.past import PastLog
from foldlog.log.port import Log
from foldlog.log.snapshots import SnapshotStore
from foldlog.models import ArtifactRetentionConfig, PlannerEvent, StoredEvent
from foldlog.position import LogPosition
from foldlog.store.artifacts import Artifacts
from foldlog.store.bindings import Bindings
from foldlog.store.blobs import BlobStore
from foldlog.store.clearing import Clearing
from foldlog.store.degrade import Degrade
from foldlog.store.erasure import Erasure
from foldlog.store.events import Events
from foldlog.store.forks import Forks
from foldlog.store.health import HealthCheck
from foldlog.store.journal import Journal
from foldlog.store.memory import Memory
from foldlog.store.moments import When
from foldlog.store.own import OwnViews
from foldlog.store.pauses import Pauses
from foldlog.store.planner import PlannerEvents
from foldlog.store.rebuild import Rebuild
from foldlog.store.redacted import RedactedJournal
from foldlog.store.redaction import Redact, Redaction
from foldlog.store.saves import guarded, guarded_artifacts
from foldlog.store.scopes import Scopes
from foldlog.store.session_history import SessionHistory
from foldlog.store.spool import Outbox, SpoolHealth
from foldlog.store.steering import Steering
from foldlog.store.tasks import Tasks
from foldlog.store.trajectories import Trajectories
from foldlog.store.updates import Updates
from foldlog.store.validation import Validation
from foldlog.store.verify import Verify
from foldlog.views import DEFAULT_MAX_HOT_BYTES, Views
from foldlog_projections.own import OwnProjection

if TYPE_CHECKING:
    from foldlog.agents import StoreAgents
    from foldlog.recovery import StateBackend
    from foldlog.scoped import ScopedStore
    from foldlog.sessions import Session, TaskTelemetrySink
    from foldlog.store.past import Past
    from foldlog.store.standby import Standby

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """How a store behaves, whatever its log. `pause_ttl` in seconds, `max_hot_bytes` in bytes."""

    on_error: Literal["raise", "degrade"] = "raise"
    pause_ttl: float = 3600.0
    strict_steering: bool = False
    retention: ArtifactRetentionConfig = field(default_factory=ArtifactRetentionConfig)
    validation: Validation = field(default_factory=Validation)
    max_hot_bytes: int = DEFAULT_MAX_HOT_BYTES
    redact: Redact | None = None
    projections: tuple[OwnProjection[Any], ...] = ()

    def __post_init__(self) -> None:
        if self.on_error not in ("raise", "degrade"):
            raise ConfigurationError(f'on_error is "raise" or "degrade", not {self.on_error!r}')
        if isinstance(self.pause_ttl, bool) or not isinstance(self.pause_ttl, int | float):
            raise ConfigurationError(f"pause_ttl is a number of seconds, not {self.pause_ttl!r}")
        size = self.max_hot_bytes
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise ConfigurationError(f"max_hot_bytes is a number of bytes, not {size!r:.80}")


class Store:
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
        self.log = log
        self._blobs = blobs
        self._options = options
        self._loop = loop
        self._views = Views(
            ForkedLog(log),
            snapshots,
            loop=loop,
            max_hot_bytes=options.max_hot_bytes,
            live=not isinstance(log, PastLog),
            own=options.projections,
        )
        self._outbox = outbox
        self._server = server
        self._standby = standby
        self._degrade = Degrade() if options.on_error == "degrade" else None
        self._redaction = Redaction(options.redact)
        log.on_epoch(self._views.wake)
        kind = RedactedJournal if self._redaction else Journal
        journal = self._journal = kind(log, self._views, outbox, self._redaction)
        read, write = self._reading, self._writing

        events = Events(journal, options.validation)
        self.save_events = self.save_events_bulk = write(events.save_events)
        self.load_history = read(SessionHistory(journal, events).load_history, list)
        self.watch_events = events.watch_events

        bindings = Bindings(journal)
        self.save_remote_binding = write(bindings.save_remote_binding)
        self.list_trace_bindings = read(bindings.list_trace_bindings, list)
        self.list_bindings = read(bindings.list_bindings, list)
        self.find_binding = read(bindings.find_binding, _nothing)
        self.mark_binding_terminal = write(bindings.mark_binding_terminal)

        pauses = Pauses(journal, ttl=options.pause_ttl)
        self.save_planner_state = write(pauses.save_planner_state)
        self.load_planner_state = read(pauses.load_planner_state, _nothing)

        memory = Memory(journal)
        self.save_memory_state = write(memory.save_memory_state)
        self.load_memory_state = read(memory.load_memory_state, _nothing)

        tasks = Tasks(journal)
        self.save_task = write(tasks.save_task)
        self.list_tasks = read(tasks.list_tasks, list)

        updates = Updates(journal)
        self.save_update = self.save_task_update = write(updates.save_update)
        self.list_updates = self.list_task_updates = read(updates.list_updates, list)
        self.watch_updates = updates.watch_updates

        steering = Steering(journal, strict=options.strict_steering)
        self.save_steering = write(steering.save_steering)
        self.list_steering = read(steering.list_steering, list)
        self.watch_steering = steering.watch_steering

        trajectories = Trajectories(journal)
        self.save_trajectory = write(trajectories.save_trajectory)
        self.get_trajectory = read(trajectories.get_trajectory, _nothing)
        self.list_traces = read(trajectories.list_traces, list)

        planner = PlannerEvents(journal)
        self.save_planner_event = write(planner.save_planner_event)
        self.list_planner_events = read(planner.list_planner_events, list)
        self.get_events = self.list_planner_events

        self._blob_store = BlobStore(journal, blobs)
        artifacts = Artifacts(journal, self._blob_store, options.retention)
        artifacts = guarded_artifacts(self._redaction, artifacts)
        self.artifact_store = self._degrade.artifacts(artifacts) if self._degrade else artifacts

        scopes = Scopes(journal, self._blob_store, self._forget_scoped)
        clearing = Clearing(journal, artifacts, self._blob_store, scopes)
        self.clear_session = write(clearing.clear_session)
        self.clear = write(clearing.clear)
        self.sessions = read(clearing.sessions, list)
        self.erase_session = Erasure(
            journal, clearing, self._blob_store, snapshots, server
        ).erase_session

        self.fork = Forks(journal).fork

        own = options.projections
        self.view = OwnViews(journal, own).view
        self.rebuild = Rebuild(journal, own).rebuild
        self.verify = Verify(journal, own).verify
        self.health = HealthCheck(journal, server, outbox).health

        self._save_event = write(events.save_event)

    async def save_event(
        self, event: StoredEvent | str, planner_event: PlannerEvent | None = None
    ) -> None:
        """Append a runtime event (`Events.save_event`).

        `save_event(trace_id, event)`, as older playgrounds call it, is `save_planner_event`.
        """
        if isinstance(event, str):
            if planner_event is None:
                raise PayloadError("event", "save_event(trace_id, event) needs the event")
            await self.save_planner_event(event, planner_event)
        else:
            await self._save_event(event)

    @functools.cached_property
    def agents(self) -> StoreAgents:
        """State that agents manage by turns: see `foldlog.agents`."""
        from foldlog.agents.opening import agents  # a floor above: only who asks needs it

        return agents(self._journal)

    @functools.cached_property
    def recovery(self) -> StateBackend:
        """Executions that can be stopped anywhere and resumed: see `foldlog.recovery`."""
        from foldlog.recovery.opening import recovery  # a floor above: only who asks needs it

        return recovery(self._journal, self._blob_store)

    @functools.cached_property
    def scoped(self) -> ScopedStore:
        """Keys in scopes, with search, links and lifetimes: see `foldlog.scoped`."""
        from foldlog.scoped.opening import scoped  # a floor above: only who asks needs it

        return scoped(
            self._journal,
            self._blob_store,
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

        return await session(self._journal, session_id, telemetry)

    async def position(self) -> LogPosition:
        """Return where the log ends now; what was acked to anybody before is at or before it.

        Raises:
            LogUnavailable, LogCorrupt: the log could not be read.
        """
        return await head(self._journal.log)

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

        self._views.check()
        return Past(self.log, self._blobs, self._options, when, loop=self._loop)

    def atomic(self) -> AbstractAsyncContextManager[None]:
        """Make the saves inside `async with store.atomic():` one append (`Journal.atomic`)."""
        block = self._journal.atomic()
        return self._degrade.block(block) if self._degrade else block

    @property
    def degraded(self) -> Counter[str]:
        """With `on_error="degrade"`: how many calls failed or were spooled, by method.

        Grows only.
        """
        return self._degrade.failures if self._degrade else Counter()

    @property
    def spool(self) -> SpoolHealth | None:
        """What waits for the log on the local disk; None for a store that has no spool."""
        return self._outbox.health if self._outbox else None

    async def close(self) -> None:
        """Let what is in flight end, then let go of everything. Idempotent.

        Raises:
            ConfigurationError: another event loop runs than the store's. Nothing was closed.
        """
        self._views.check_loop()
        async with AsyncExitStack() as ending:  # from the last to the first, whatever one raises
            if self._server is not None:
                ending.push_async_callback(self._server.leave)
            ending.push_async_callback(self.log.close)
            if self._outbox is not None:
                ending.push_async_callback(self._outbox.close)
            ending.push_async_callback(self._views.close)
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

    def _reading(
        self, method: Callable[P, Coroutine[Any, Any, T]], default: Callable[[], T]
    ) -> Callable[P, Coroutine[Any, Any, T]]:
        return self._degrade.guard(method, default) if self._degrade else method

    def _writing(
        self, method: Callable[P, Coroutine[Any, Any, None]]
    ) -> Callable[P, Coroutine[Any, Any, None]]:
        method = guarded(self._redaction, method)
        return self._degrade.guard(method, _nothing) if self._degrade else method


def _nothing() -> None:
    return None


def _shown(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Store, *args: Any, **kwargs: Any) -> Any:
        return vars(self)[name](*args, **kwargs)

    @functools.wraps(method)
    async def call_async(self: Store, *args: Any, **kwargs: Any) -> Any:
        return await vars(self)[name](*args, **kwargs)

    return call_async if inspect.iscoroutinefunction(method) else call


def _show(*capabilities: type, **aliases: str) -> None:
    """Have the class tell what its instances are given: for `help`, `dir` and mocks."""
    methods = {
        name: _shown(name, method)
        for capability in capabilities
        for name, method in inspect.getmembers(capability, inspect.isfunction)
        if not name.startswith("_") and name not in vars(Store)
    }
    for name, method in [*methods.items(), *((a, methods[n]) for a, n in aliases.items())]:
        setattr(Store, name, method)


_show(
    Events,
    SessionHistory,
    Bindings,
    Pauses,
    Memory,
    Tasks,
    Updates,
    Steering,
    Trajectories,
    PlannerEvents,
    Clearing,
    Forks,
    Erasure,
    OwnViews,
    Rebuild,
    Verify,
    HealthCheck,
    save_events_bulk="save_events",
    save_task_update="save_update",
    list_task_updates="list_updates",
    get_events="list_planner_events",
)
