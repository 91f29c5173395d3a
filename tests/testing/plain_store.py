"""A store of nothing but dicts and lists that keeps the whole contract.

`Data` is what a disk would hold: stores opened on the same one see the same, as processes do.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from foldlog.models import (
    ArtifactRetentionConfig,
    PlannerEvent,
    RemoteBinding,
    StateUpdate,
    SteeringEvent,
    StoredEvent,
    TaskState,
    Trajectory,
)
from foldlog.steering import sanitize_steering_event
from tests.testing.copying import copied, fingerprint
from tests.testing.plain_artifacts import Artifact, PlainArtifacts

TTL = 3600.0


@dataclass
class Clock:
    """The time, in seconds, that is the same for everybody."""

    now: float = 0.0


@dataclass
class Pause:
    """What waits for its resume. `content` tells it from others of its token."""

    payload: dict[str, Any]
    content: str
    expiry: float


@dataclass
class Data:
    """What outlives a store. A place is what `PlainStore.place` makes of ids."""

    clock: Clock = field(default_factory=Clock)
    events: dict[Any, list[StoredEvent]] = field(default_factory=lambda: defaultdict(list))
    bindings: dict[Any, RemoteBinding] = field(default_factory=dict)
    pauses: dict[Any, Pause] = field(default_factory=dict)
    taken: set[Any] = field(default_factory=set)
    memory: dict[Any, dict[str, Any]] = field(default_factory=dict)
    tasks: dict[Any, dict[str, TaskState]] = field(default_factory=lambda: defaultdict(dict))
    updates: dict[Any, dict[str, StateUpdate]] = field(default_factory=lambda: defaultdict(dict))
    steering: dict[Any, dict[str, SteeringEvent]] = field(default_factory=lambda: defaultdict(dict))
    trajectories: dict[Any, Trajectory] = field(default_factory=dict)
    traces: dict[Any, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    planner: dict[Any, list[PlannerEvent]] = field(default_factory=lambda: defaultdict(list))
    artifacts: dict[str, Artifact] = field(default_factory=dict)
    reads: int = 0
    fingerprints: set[Any] = field(default_factory=set)


class PlainStore:
    """The correct store from which the broken ones are made by overriding one method."""

    Artifacts: ClassVar[type[PlainArtifacts]] = PlainArtifacts

    def __init__(self, data: Data, retention: ArtifactRetentionConfig | None = None) -> None:
        self.data = data
        self.artifact_store = self.Artifacts(data, retention or ArtifactRetentionConfig())

    # --- how it is kept: what the broken ones override --------------------------------------------

    def place(self, *ids: str | None) -> Any:
        """Where it is kept what belongs to these ids."""
        return ids

    def find(self, table: dict[Any, Any], place: Any, otherwise: Any = None) -> Any:
        """What is kept there."""
        return table.get(place, otherwise)

    def taken(self, value: Any) -> Any:
        """What is kept of what a caller saves."""
        return copied(value)

    def given(self, value: Any) -> Any:
        """What a caller gets of what is kept."""
        return copied(value)

    def is_new(self, place: Any, content: str) -> bool:
        """Whether this content was never saved there; from now on it was."""
        known = (place, content) in self.data.fingerprints
        self.data.fingerprints.add((place, content))
        return not known

    def page(
        self, items: dict[str, Any], task_id: str | None, since_id: str | None, limit: int
    ) -> list[Any]:
        """The page that a cursor asks for; without one, the end of the list."""
        listed = list(items.values())
        known = since_id in items
        if known:
            listed = listed[list(items).index(str(since_id)) + 1 :]
        if task_id is not None:
            listed = [item for item in listed if item.task_id == task_id]
        limit = max(limit, 0)
        return listed[:limit] if known else listed[len(listed) - min(limit, len(listed)) :]

    # --- required ---------------------------------------------------------------------------------

    async def save_event(
        self, event: StoredEvent | str, planner_event: PlannerEvent | None = None
    ) -> None:
        if isinstance(event, str):
            assert planner_event is not None
            await self.save_planner_event(event, planner_event)
        else:
            await self.save_runtime_event(event)

    async def save_runtime_event(self, event: StoredEvent) -> None:
        place = self.place("__global__" if event.trace_id is None else event.trace_id)
        event = self.taken(event)
        if self.is_new(place, fingerprint(event)):
            self.data.events[place].append(event)

    async def load_history(self, trace_id: str) -> list[StoredEvent]:
        events = self.find(self.data.events, self.place(trace_id), [])
        return self.given(sorted(events, key=lambda event: event.ts))

    async def save_remote_binding(self, binding: RemoteBinding) -> None:
        place = self.place(binding.trace_id, binding.context_id, binding.task_id)
        self.data.bindings.pop(place, None)
        self.data.bindings[place] = self.taken(binding)

    # --- conversation bindings --------------------------------------------------------------------

    async def find_binding(
        self,
        *,
        router_session_id: str,
        agent_url: str,
        remote_skill: str,
        tenant_id: str | None = None,
        user_id: str | None = None,
    ) -> RemoteBinding | None:
        wanted = (router_session_id, agent_url, remote_skill, tenant_id, user_id)
        for binding in reversed(self.data.bindings.values()):
            if not binding.is_terminal and self.route(binding) == wanted:
                return self.given(binding)
        return None

    def route(self, binding: RemoteBinding) -> tuple[str | None, ...]:
        """What a look-up has to name, in its order."""
        return (
            binding.router_session_id,
            binding.agent_url,
            binding.remote_skill,
            binding.tenant_id,
            binding.user_id,
        )

    async def list_bindings(self, *, router_session_id: str) -> list[RemoteBinding]:
        bindings = self.data.bindings.values()
        return self.given([b for b in bindings if b.router_session_id == router_session_id])

    async def mark_binding_terminal(
        self, *, trace_id: str, context_id: str | None, task_id: str
    ) -> None:
        place = self.place(trace_id, context_id, task_id)
        if place in self.data.bindings:
            ended = replace(self.data.bindings[place], is_terminal=True)
            self.data.bindings[place] = ended

    # --- pauses and memory ------------------------------------------------------------------------

    async def save_planner_state(self, token: str, payload: dict[str, Any]) -> None:
        place, content = self.place(token), fingerprint(payload)
        if (place, content) not in self.data.taken:
            expiry = self.data.clock.now + TTL
            self.data.pauses[place] = Pause(self.taken(payload), content, expiry)

    async def load_planner_state(self, token: str) -> dict[str, Any] | None:
        place = self.place(token)
        pause: Pause | None = self.find(self.data.pauses, place)
        if pause is None or self.data.clock.now >= pause.expiry:
            return None
        del self.data.pauses[place]
        self.data.taken.add((place, pause.content))
        return self.given(pause.payload)

    async def save_memory_state(self, key: str, state: dict[str, Any]) -> None:
        self.data.memory[self.place(key)] = self.taken(state)

    async def load_memory_state(self, key: str) -> dict[str, Any] | None:
        return self.given(self.find(self.data.memory, self.place(key)))

    # --- sessions ---------------------------------------------------------------------------------

    async def save_task(self, state: TaskState) -> None:
        self.data.tasks[self.place(state.session_id)][state.task_id] = self.taken(state)

    async def list_tasks(self, session_id: str) -> list[TaskState]:
        tasks = self.find(self.data.tasks, self.place(session_id), {})
        return self.given(list(tasks.values()))

    async def save_update(self, update: StateUpdate) -> None:
        updates = self.data.updates[self.place(update.session_id)]
        updates.setdefault(update.update_id, self.taken(update))

    async def list_updates(
        self,
        session_id: str,
        *,
        task_id: str | None = None,
        since_id: str | None = None,
        limit: int = 500,
    ) -> list[StateUpdate]:
        updates = self.find(self.data.updates, self.place(session_id), {})
        return self.given(self.page(updates, task_id, since_id, limit))

    async def save_task_update(self, update: StateUpdate) -> None:
        await self.save_update(update)

    async def list_task_updates(self, session_id: str, **query: Any) -> list[StateUpdate]:
        return await self.list_updates(session_id, **query)

    async def save_steering(self, event: SteeringEvent) -> None:
        events = self.data.steering[self.place(event.session_id)]
        events.setdefault(event.event_id, self.taken(self.sanitised(event)))

    def sanitised(self, event: SteeringEvent) -> SteeringEvent:
        """The event with what its user sent cut to size."""
        return sanitize_steering_event(event)

    async def list_steering(
        self,
        session_id: str,
        *,
        task_id: str | None = None,
        since_id: str | None = None,
        limit: int = 500,
    ) -> list[SteeringEvent]:
        events = self.find(self.data.steering, self.place(session_id), {})
        return self.given(self.page(events, task_id, since_id, limit))

    # --- traces -----------------------------------------------------------------------------------

    async def save_trajectory(self, trace_id: str, session_id: str, trajectory: Trajectory) -> None:
        traces = self.data.traces[self.place(session_id)]
        traces.pop(trace_id, None)
        traces[trace_id] = None
        self.data.trajectories[self.place(session_id, trace_id)] = self.taken(trajectory)

    async def get_trajectory(self, trace_id: str, session_id: str) -> Trajectory | None:
        return self.given(self.find(self.data.trajectories, self.place(session_id, trace_id)))

    async def list_traces(self, session_id: str, limit: int = 50) -> list[str]:
        traces = self.find(self.data.traces, self.place(session_id), {})
        return list(reversed(traces))[: max(limit, 0)]

    async def save_planner_event(self, trace_id: str, event: PlannerEvent) -> None:
        place, event = self.place(trace_id), self.taken(event)
        if self.is_new(("planner", place), fingerprint(event)):
            self.data.planner[place].append(event)

    async def list_planner_events(self, trace_id: str) -> list[PlannerEvent]:
        return self.given(list(self.find(self.data.planner, self.place(trace_id), [])))

    async def get_events(self, trace_id: str) -> list[PlannerEvent]:
        return await self.list_planner_events(trace_id)
