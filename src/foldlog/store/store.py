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
from foldlog.log.port import Log
from foldlog.log.snapshots import SnapshotStore
from foldlog.models import ArtifactRetentionConfig, PlannerEvent, StoredEvent
from foldlog.store.artifacts import Artifacts
from foldlog.store.bindings import Bindings
from foldlog.store.clearing import Clearing
from foldlog.store.contents import Contents
from foldlog.store.degrade import Degrade
from foldlog.store.events import Events
from foldlog.store.health import HealthCheck
from foldlog.store.journal import Journal
from foldlog.store.memory import Memory
from foldlog.store.pauses import Pauses
from foldlog.store.planner import PlannerEvents
from foldlog.store.rebuild import Rebuild
from foldlog.store.session_history import SessionHistory
from foldlog.store.spool import Outbox, SpoolHealth
from foldlog.store.steering import Steering
from foldlog.store.tasks import Tasks
from foldlog.store.trajectories import Trajectories
from foldlog.store.updates import Updates
from foldlog.store.validation import Validation
from foldlog.views import DEFAULT_MAX_HOT_BYTES, Views

if TYPE_CHECKING:
    from foldlog.recovery import StateBackend

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
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.log = log
        self._views = Views(log, snapshots, loop=loop, max_hot_bytes=options.max_hot_bytes)
        self._outbox = outbox
        self._server = server
        self._degrade = Degrade() if options.on_error == "degrade" else None
        log.on_epoch(self._views.wake)
        journal = self._journal = Journal(log, self._views, outbox)
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

        artifacts = Artifacts(journal, blobs, options.retention)
        self.artifact_store = self._degrade.artifacts(artifacts) if self._degrade else artifacts

        self._contents = Contents(journal, blobs)
        clearing = Clearing(journal, artifacts, self._contents)
        self.clear_session = write(clearing.clear_session)
        self.clear = write(clearing.clear)
        self.sessions = read(clearing.sessions, list)

        self.rebuild = Rebuild(journal).rebuild
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
    def recovery(self) -> StateBackend:
        """Executions that can be stopped anywhere and resumed: see `foldlog.recovery`."""
        from foldlog.recovery.opening import recovery  # a floor above: only who asks needs it

        return recovery(self._journal, self._contents)

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
    Rebuild,
    HealthCheck,
    save_events_bulk="save_events",
    save_task_update="save_update",
    list_task_updates="list_updates",
    get_events="list_planner_events",
)
