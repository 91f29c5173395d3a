"""PenguiFlow's StateStore on a foldlog Store."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Literal, Self, TypeVar
from weakref import finalize

from foldlog.errors import ConfigurationError, PayloadError
from foldlog.integrations.penguiflow.artifacts import PenguiFlowArtifactStore
from foldlog.integrations.penguiflow.classes import Pair, installed
from foldlog.integrations.penguiflow.degrading import (
    at_once,
    flushing,
    or_empty,
    or_nothing,
    saving,
)
from foldlog.integrations.penguiflow.failures import Failures
from foldlog.integrations.penguiflow.line import Call, Line, Reach
from foldlog.integrations.penguiflow.plain import plain
from foldlog.integrations.penguiflow.worker import Worker
from foldlog.models import ArtifactRetentionConfig, Trajectory
from foldlog.opening import Store, connect
from foldlog.store.core import core_of

T = TypeVar("T")


class PenguiFlowStateStore:
    """A StateStore for PenguiFlow 2.11 to 3, with every optional capability.

    It takes and returns the classes of the PenguiFlow that is installed; its methods are those of
    `foldlog.Store`. What payloads hold is saved as plain data, as it is at the call: models and
    dataclasses come back as dicts.

    Nothing connects before the first call; concurrent first calls share one connection, and one
    that fails is tried again by the next call. A read sees every write that was begun before it on
    this object, whether or not somebody awaits that write. Any thread and any event loop may call,
    for the store lives on a separate event loop; a forked child connects for itself.

    Lives until `close` or the end of its `async with`; one that nobody closes, until it is garbage
    or the process ends.

    Args:
        source: a URL, None for `$FOLDLOG_URL` or the embedded server, both as in `foldlog.connect`;
            or an open Store, which its owner closes. Then all calls come from that store's event
            loop, and `clear` and `clear_session` are awaited.
        on_error: "degrade": log, count, and go on with what an empty store would give, also where
            the log cannot be reached at all; saves wait in the spool then. "raise": typed errors.
        retention: what the artifact store holds: PenguiFlow's configuration or foldlog's.
        options: the other options of `foldlog.connect`: `path`, `namespace`, `pause_ttl` ...

    Raises:
        ConfigurationError: PenguiFlow is not installed or too old, or options do not fit.
    """

    def __init__(
        self,
        source: str | Store | None = None,
        *,
        on_error: Literal["raise", "degrade"] = "degrade",
        retention: Any | None = None,
        **options: Any,
    ) -> None:
        installed()
        if on_error not in ("raise", "degrade"):
            raise ConfigurationError(f'on_error is "raise" or "degrade", not {on_error!r}')
        self._failures = Failures(degrade=on_error == "degrade")
        self._reach: Reach
        if isinstance(source, Store):
            if retention is not None or options:
                raise ConfigurationError("an open store has its options already")
            self._reach = Line(_given(source), owned=False)
        else:
            connecting = connect(source, on_error=on_error, retention=_kept(retention), **options)
            worker = self._reach = Worker(connecting.open_or_spool)
            finalize(self, worker.stop).atexit = False  # at exit, all stop together
        self.artifact_store: PenguiFlowArtifactStore = PenguiFlowArtifactStore(self)

    # --- the audit log ---------------------------------------------------------------------------

    @saving
    def save_event(self, event: Any, planner_event: Any | None = None) -> Call[None]:
        """Append a `StoredEvent`; `save_event(trace_id, event)` is `save_planner_event`."""
        if isinstance(event, str):
            if planner_event is None:
                raise PayloadError("event", "save_event(trace_id, event) needs the event")
            return _planner_event(event, planner_event)
        saved = installed().event.to_ours(event)
        return lambda store: store.save_event(saved)

    @or_empty
    async def load_history(self, trace_id: str) -> list[Any]:
        """Return a trace's `StoredEvent`s in ascending `ts`."""
        return await self._theirs(installed().event, lambda store: store.load_history(trace_id))

    # --- remote bindings -------------------------------------------------------------------------

    @saving
    def save_remote_binding(self, binding: Any) -> Call[None]:
        """Save a `RemoteBinding`."""
        saved = installed().binding.to_ours(binding)
        return lambda store: store.save_remote_binding(saved)

    @or_nothing
    async def find_binding(
        self,
        *,
        router_session_id: str,
        agent_url: str,
        remote_skill: str,
        tenant_id: str | None = None,
        user_id: str | None = None,
    ) -> Any | None:
        """Return the `RemoteBinding` saved last that fits and has not ended, or None."""
        found = await self._reach.read(
            lambda store: store.find_binding(
                router_session_id=router_session_id,
                agent_url=agent_url,
                remote_skill=remote_skill,
                tenant_id=tenant_id,
                user_id=user_id,
            )
        )
        return None if found is None else installed().binding.to_theirs(found)

    @or_empty
    async def list_bindings(self, *, router_session_id: str) -> list[Any]:
        """Return the `RemoteBinding`s that a router session made."""
        id, wanted = router_session_id, installed().binding
        return await self._theirs(wanted, lambda store: store.list_bindings(router_session_id=id))

    @saving
    def mark_binding_terminal(
        self, *, trace_id: str, context_id: str | None, task_id: str
    ) -> Call[None]:
        """End a binding, so that `find_binding` passes it over."""
        return lambda store: store.mark_binding_terminal(
            trace_id=trace_id, context_id=context_id, task_id=task_id
        )

    # --- pauses and memory -----------------------------------------------------------------------

    @saving
    def save_planner_state(self, token: str, payload: dict[str, Any]) -> Call[None]:
        """Save what a resume with `token` needs."""
        saved = plain(payload)
        return lambda store: store.save_planner_state(token, saved)

    @or_nothing
    async def load_planner_state(self, token: str) -> dict[str, Any] | None:
        """Consume the state of `token`; None if missing, expired or consumed."""
        return await self._reach.read(lambda store: store.load_planner_state(token))

    @saving
    def save_memory_state(self, key: str, state: dict[str, Any]) -> Call[None]:
        """Save the state of `key`; the last save stands."""
        saved = plain(state)
        return lambda store: store.save_memory_state(key, saved)

    @or_nothing
    async def load_memory_state(self, key: str) -> dict[str, Any] | None:
        """Return the last state of `key`, or None.

        Strongly consistent: PenguiFlow's key-value facade reads, changes and saves such states.
        """
        return await self._reach.read(
            lambda store: store.load_memory_state(key, consistency="strong")
        )

    # --- tasks, updates and steering -------------------------------------------------------------

    @saving
    def save_task(self, state: Any) -> Call[None]:
        """Save a `TaskState`; the last save of a task stands."""
        saved = installed().task.to_ours(state)
        return lambda store: store.save_task(saved)

    @or_empty
    async def list_tasks(self, session_id: str) -> list[Any]:
        """Return a session's `TaskState`s in the order of their first save."""
        return await self._theirs(installed().task, lambda store: store.list_tasks(session_id))

    @saving
    def save_update(self, update: Any) -> Call[None]:
        """Append a `StateUpdate`."""
        saved = installed().update.to_ours(update)
        return lambda store: store.save_update(saved)

    @or_empty
    async def list_updates(
        self,
        session_id: str,
        *,
        task_id: str | None = None,
        since_id: str | None = None,
        limit: int = 500,
    ) -> list[Any]:
        """Return a page of `StateUpdate`s, ascending."""
        page: Any = {"task_id": task_id, "since_id": since_id, "limit": limit}
        return await self._theirs(installed().update, lambda s: s.list_updates(session_id, **page))

    save_task_update = save_update
    list_task_updates = list_updates

    @saving
    def save_steering(self, event: Any) -> Call[None]:
        """Append a `SteeringEvent`, its payload sanitised as PenguiFlow does it."""
        saved = installed().steering.to_ours(_sanitised(event))
        return lambda store: store.save_steering(saved)

    @or_empty
    async def list_steering(
        self,
        session_id: str,
        *,
        task_id: str | None = None,
        since_id: str | None = None,
        limit: int = 500,
    ) -> list[Any]:
        """Return a page of `SteeringEvent`s, ascending."""
        page: Any = {"task_id": task_id, "since_id": since_id, "limit": limit}
        wanted = installed().steering
        return await self._theirs(wanted, lambda s: s.list_steering(session_id, **page))

    # --- trajectories and planner events ---------------------------------------------------------

    @saving
    def save_trajectory(self, trace_id: str, session_id: str, trajectory: Any) -> Call[None]:
        """Save a `Trajectory`: what its own `serialise` keeps of it."""
        saved = Trajectory.from_serialised(plain(trajectory.serialise()))
        return lambda store: store.save_trajectory(trace_id, session_id, saved)

    @or_nothing
    async def get_trajectory(self, trace_id: str, session_id: str) -> Any | None:
        """Return a trace's `Trajectory`, or None if it is unknown or of another session."""
        found = await self._reach.read(lambda store: store.get_trajectory(trace_id, session_id))
        return None if found is None else installed().trajectory.from_serialised(found.serialise())

    @or_empty
    async def list_traces(self, session_id: str, limit: int = 50) -> list[str]:
        """Return trace ids, the one whose trajectory was saved last first."""
        return await self._reach.read(lambda store: store.list_traces(session_id, limit))

    @flushing
    def save_planner_event(self, trace_id: str, event: Any) -> Call[None]:
        """Append a `PlannerEvent`."""
        return _planner_event(trace_id, event)

    @or_empty
    async def list_planner_events(self, trace_id: str) -> list[Any]:
        """Return a trace's `PlannerEvent`s in the order in which they were saved."""
        wanted = installed().planner_event
        return await self._theirs(wanted, lambda store: store.list_planner_events(trace_id))

    get_events = list_planner_events

    # --- the rest --------------------------------------------------------------------------------

    async def _theirs(self, pair: Pair[T], call: Call[list[T]]) -> list[Any]:
        """What a call returns, as PenguiFlow's."""
        return [pair.to_theirs(each) for each in await self._reach.read(call)]

    @at_once
    def clear_session(self, session_id: str) -> Call[None]:
        """Remove a session before returning, as PenguiFlow's own store does; may be awaited."""
        return lambda store: store.clear_session(session_id)

    @at_once
    def clear(self) -> Call[None]:
        """Remove everything in the namespace before returning; may be awaited."""
        return lambda store: store.clear(store.log.namespace.name)

    @property
    def degraded(self) -> Counter[str]:
        """How many calls failed without an error to anybody, by method; also when closed.

        With `on_error="degrade"` all that failed, else the saves that failed after their callers
        had gone.
        """
        # Copied first, at one stroke: other threads go on counting.
        return self._failures.counts.copy() + self._reach.degraded.copy()

    def connect(self) -> Awaitable[None]:
        """Connect now, before returning, rather than on first use; may be awaited.

        Raises, also where the store degrades:
            ConfigurationError, LogUnavailable, UnsupportedServer, ServerStartFailed: see
                `foldlog.connect`.
        """
        return self._reach.at_once(_connected, Failures(degrade=False).of("connect"))

    async def close(self) -> None:
        """Let what is under way end, then let go of everything. Idempotent."""
        await asyncio.sleep(0)  # sessions save by tasks: those that are started get to begin
        await self._reach.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()


def create_store(**options: Any) -> PenguiFlowStateStore:
    """Return a store that is connected already: the factory for `penguiflow-admin`.

        penguiflow-admin history --state-store foldlog.integrations.penguiflow:create_store TRACE

    `$FOLDLOG_URL` or `$FOLDLOG_PATH` says where the log is. It raises where there is no log, even
    though the store degrades afterwards.

    Args:
        options: the options of `PenguiFlowStateStore`.

    Raises:
        ConfigurationError: an option cannot work, or the server refuses the credentials.
        LogUnavailable, UnsupportedServer, ServerStartFailed: there is no usable server.
    """
    store = PenguiFlowStateStore(**options)
    store.connect()
    return store


def _planner_event(trace_id: str, event: Any) -> Call[None]:
    saved = installed().planner_event.to_ours(event)
    return lambda store: store.save_planner_event(trace_id, saved)


def _sanitised(event: Any) -> Any:
    classes = installed()
    try:
        return classes.sanitize_steering_event(event)
    except UnicodeError:
        return event  # a lone surrogate, which the Store's own sanitiser makes harmless


async def _connected(store: Store) -> None:
    """Raise the reason why the log cannot be reached, if the store only spools for it."""
    await core_of(store).log.info()


def _given(store: Store) -> Callable[[], Awaitable[Store]]:
    async def opening() -> Store:
        return store

    return opening


def _kept(retention: Any | None) -> ArtifactRetentionConfig | None:
    if retention is None or isinstance(retention, ArtifactRetentionConfig):
        return retention
    return ArtifactRetentionConfig(**retention.model_dump())
