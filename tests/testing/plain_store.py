"""A store of nothing but dicts and lists that keeps the whole contract.

`Data` is what a disk would hold: stores opened on the same one see the same, as processes do.
Everything that leaves or enters is copied.
"""

from __future__ import annotations

import hashlib
import pickle
from collections import defaultdict
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from foldlog import codec
from foldlog.models import (
    ArtifactRef,
    ArtifactScope,
    PlannerEvent,
    RemoteBinding,
    StateUpdate,
    SteeringEvent,
    StoredEvent,
    TaskState,
    Trajectory,
)
from foldlog.steering import sanitize_steering_event

T = TypeVar("T")
Key = tuple[str, str | None, str]
TTL = 3600.0


@dataclass
class Data:
    """What outlives a store."""

    events: dict[str, list[StoredEvent]] = field(default_factory=lambda: defaultdict(list))
    bindings: dict[Key, RemoteBinding] = field(default_factory=dict)
    pauses: dict[str, tuple[float, dict[str, Any]]] = field(default_factory=dict)
    taken: set[tuple[str, str]] = field(default_factory=set)
    memory: dict[str, dict[str, Any]] = field(default_factory=dict)
    tasks: dict[tuple[str, str], TaskState] = field(default_factory=dict)
    updates: dict[str, dict[str, StateUpdate]] = field(default_factory=lambda: defaultdict(dict))
    steering: dict[str, dict[str, SteeringEvent]] = field(default_factory=lambda: defaultdict(dict))
    trajectories: dict[tuple[str, str], Trajectory] = field(default_factory=dict)
    planner: dict[str, list[PlannerEvent]] = field(default_factory=lambda: defaultdict(list))
    artifacts: dict[str, tuple[ArtifactRef, bytes, float]] = field(default_factory=dict)
    fingerprints: set[Any] = field(default_factory=set)
    now: float = 0.0


class PlainStore:
    """The correct store from which the broken ones are made by overriding one method."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self.artifact_store = PlainArtifacts(data)

    # --- required ---------------------------------------------------------------------------------

    async def save_event(
        self, event: StoredEvent | str, planner_event: PlannerEvent | None = None
    ) -> None:
        if isinstance(event, str):
            assert planner_event is not None
            return await self.save_planner_event(event, planner_event)
        trace_id = "__global__" if event.trace_id is None else event.trace_id
        event = replace(event, payload=copied(dict(event.payload)))
        if self.is_new(trace_id, fingerprint(event)):
            self.data.events[trace_id].append(event)
        return None

    async def load_history(self, trace_id: str) -> list[StoredEvent]:
        events = sorted(self.data.events.get(trace_id, []), key=lambda event: event.ts)
        return copied(events)

    async def save_remote_binding(self, binding: RemoteBinding) -> None:
        key = (binding.trace_id, binding.context_id, binding.task_id)
        self.data.bindings.pop(key, None)
        self.data.bindings[key] = copied(binding)

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
            found = (
                binding.router_session_id,
                binding.agent_url,
                binding.remote_skill,
                binding.tenant_id,
                binding.user_id,
            )
            if found == wanted and not binding.is_terminal:
                return copied(binding)
        return None

    async def list_bindings(self, *, router_session_id: str) -> list[RemoteBinding]:
        bindings = self.data.bindings.values()
        return copied([b for b in bindings if b.router_session_id == router_session_id])

    async def mark_binding_terminal(
        self, *, trace_id: str, context_id: str | None, task_id: str
    ) -> None:
        binding = self.data.bindings.get((trace_id, context_id, task_id))
        if binding is not None:
            binding.is_terminal = True

    # --- pauses and memory ------------------------------------------------------------------------

    async def save_planner_state(self, token: str, payload: dict[str, Any]) -> None:
        if (token, fingerprint(payload)) not in self.data.taken:
            self.data.pauses[token] = (self.data.now + TTL, copied(payload))

    async def load_planner_state(self, token: str) -> dict[str, Any] | None:
        expiry, payload = self.data.pauses.pop(token, (0.0, None))
        if payload is None or self.data.now >= expiry:
            return None
        self.data.taken.add((token, fingerprint(payload)))
        return payload

    async def save_memory_state(self, key: str, state: dict[str, Any]) -> None:
        self.data.memory[key] = copied(state)

    async def load_memory_state(self, key: str) -> dict[str, Any] | None:
        return copied(self.data.memory.get(key))

    # --- sessions ---------------------------------------------------------------------------------

    async def save_task(self, state: TaskState) -> None:
        self.data.tasks[state.session_id, state.task_id] = copied(state)

    async def list_tasks(self, session_id: str) -> list[TaskState]:
        return copied([t for (of, _), t in self.data.tasks.items() if of == session_id])

    async def save_update(self, update: StateUpdate) -> None:
        self.data.updates[update.session_id].setdefault(update.update_id, copied(update))

    async def list_updates(
        self,
        session_id: str,
        *,
        task_id: str | None = None,
        since_id: str | None = None,
        limit: int = 500,
    ) -> list[StateUpdate]:
        return page(self.data.updates.get(session_id, {}), task_id, since_id, limit)

    async def save_task_update(self, update: StateUpdate) -> None:
        await self.save_update(update)

    async def list_task_updates(self, session_id: str, **query: Any) -> list[StateUpdate]:
        return await self.list_updates(session_id, **query)

    async def save_steering(self, event: SteeringEvent) -> None:
        sanitised = copied(sanitize_steering_event(event))
        self.data.steering[event.session_id].setdefault(event.event_id, sanitised)

    async def list_steering(
        self,
        session_id: str,
        *,
        task_id: str | None = None,
        since_id: str | None = None,
        limit: int = 500,
    ) -> list[SteeringEvent]:
        return page(self.data.steering.get(session_id, {}), task_id, since_id, limit)

    # --- traces -----------------------------------------------------------------------------------

    async def save_trajectory(self, trace_id: str, session_id: str, trajectory: Trajectory) -> None:
        self.data.trajectories.pop((session_id, trace_id), None)
        self.data.trajectories[session_id, trace_id] = copied(trajectory)

    async def get_trajectory(self, trace_id: str, session_id: str) -> Trajectory | None:
        return copied(self.data.trajectories.get((session_id, trace_id)))

    async def list_traces(self, session_id: str, limit: int = 50) -> list[str]:
        traces = [trace for of, trace in reversed(self.data.trajectories) if of == session_id]
        return traces[: max(limit, 0)]

    async def save_planner_event(self, trace_id: str, event: PlannerEvent) -> None:
        if self.is_new(("planner", trace_id), fingerprint(event)):
            self.data.planner[trace_id].append(copied(event))

    async def list_planner_events(self, trace_id: str) -> list[PlannerEvent]:
        return copied(self.data.planner.get(trace_id, []))

    async def get_events(self, trace_id: str) -> list[PlannerEvent]:
        return await self.list_planner_events(trace_id)

    def is_new(self, place: Any, content: str) -> bool:
        """Whether this content was never saved there; from now on it was."""
        known = (place, content) in self.data.fingerprints
        self.data.fingerprints.add((place, content))
        return not known


class PlainArtifacts:
    """Artifacts in a dict."""

    def __init__(self, data: Data) -> None:
        self.data = data

    @property
    def held(self) -> dict[str, tuple[ArtifactRef, bytes, float]]:
        """What has not expired."""
        held = self.data.artifacts
        for artifact_id in [each for each in held if self.data.now >= held[each][2]]:
            del held[artifact_id]
        return held

    async def put_bytes(
        self,
        data: bytes,
        *,
        mime_type: str | None = None,
        filename: str | None = None,
        namespace: str | None = None,
        scope: ArtifactScope | None = None,
        meta: dict[str, Any] | None = None,
    ) -> ArtifactRef:
        sha256 = hashlib.sha256(data).hexdigest()
        owner = None if scope is None else scope.model_dump()
        ref = ArtifactRef(
            id=fingerprint([sha256, namespace, owner]),
            mime_type=mime_type,
            size_bytes=len(data),
            filename=filename,
            sha256=sha256,
            scope=copied(scope),
            namespace=namespace,
            source=copied(meta or {}),
        )
        kept = self.held.setdefault(ref.id, (ref, bytes(data), self.data.now + TTL))
        return copied(kept[0])

    async def put_text(
        self, text: str, *, mime_type: str = "text/plain", **described: Any
    ) -> ArtifactRef:
        return await self.put_bytes(text.encode(), mime_type=mime_type, **described)

    async def get(self, artifact_id: str) -> bytes | None:
        return self.held[artifact_id][1] if artifact_id in self.held else None

    async def get_ref(self, artifact_id: str) -> ArtifactRef | None:
        return copied(self.held[artifact_id][0]) if artifact_id in self.held else None

    async def delete(self, artifact_id: str) -> bool:
        return self.held.pop(artifact_id, None) is not None

    async def exists(self, artifact_id: str) -> bool:
        return artifact_id in self.held

    async def list(self, *, scope: ArtifactScope | None = None) -> list[ArtifactRef]:
        wanted = {} if scope is None else scope.model_dump(exclude_none=True)
        refs = [ref for ref, _, _ in self.held.values()]
        owned = [(ref, {} if ref.scope is None else ref.scope.model_dump()) for ref in refs]
        return [copied(ref) for ref, owner in owned if wanted.items() <= owner.items()]

    async def get_with_session_check(self, artifact_id: str, session_id: str) -> bytes | None:
        ref, data, _ = self.held.get(artifact_id, (None, None, 0.0))
        owner = None if ref is None or ref.scope is None else ref.scope.session_id
        return data if owner == session_id else None


def page(items: dict[str, Any], task_id: str | None, since_id: str | None, limit: int) -> list[Any]:
    """The page that a cursor asks for; without one, the end of the list."""
    listed = list(items.values())
    known = since_id in items
    if known:
        listed = listed[list(items).index(str(since_id)) + 1 :]
    if task_id is not None:
        listed = [item for item in listed if item.task_id == task_id]
    limit = max(limit, 0)
    return copied(listed[:limit] if known else listed[len(listed) - min(limit, len(listed)) :])


def copied(value: T) -> T:
    """A deep copy; several times faster than `copy.deepcopy`, of which the kit asks many."""
    copy: T = pickle.loads(pickle.dumps(value))
    return copy


def fingerprint(value: Any) -> str:
    """What tells a saved thing from all others."""
    if isinstance(value, StoredEvent | PlannerEvent):
        value = {each.name: getattr(value, each.name) for each in fields(value)}
    return codec.encode_with_fingerprint(value)[1]
