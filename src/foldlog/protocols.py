"""What a store can do, one protocol per capability, and how to ask for it.

The StateStore specification 2.11, section "Protocol Definition": three methods are required, every
other capability is optional and found by its method names. `isinstance` on a protocol checks the
names only, never the signatures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from foldlog.errors import MissingCapability

if TYPE_CHECKING:
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


@runtime_checkable
class StateStore(Protocol):
    """The three methods that every store has."""

    async def save_event(self, event: StoredEvent) -> None:
        """Keep a runtime event. Saving it again changes nothing."""

    async def load_history(self, trace_id: str) -> Sequence[StoredEvent]:
        """The events of a trace by ascending `ts`; empty for an unknown trace."""

    async def save_remote_binding(self, binding: RemoteBinding) -> None:
        """Keep a binding, in place of an earlier one of the same trace, context and task."""


@runtime_checkable
class SupportsPlannerState(Protocol):
    """Pause here, resume in any process."""

    async def save_planner_state(self, token: str, payload: dict[str, Any]) -> None:
        """Keep what a resume needs under the pause's token."""

    async def load_planner_state(self, token: str) -> dict[str, Any] | None:
        """Take the payload: a token is good once. None if unknown, expired or taken."""


@runtime_checkable
class SupportsConversationBindings(Protocol):
    """Route the follow-up turns of a conversation to the remote task that has it."""

    async def find_binding(
        self,
        *,
        router_session_id: str,
        agent_url: str,
        remote_skill: str,
        tenant_id: str | None = None,
        user_id: str | None = None,
    ) -> RemoteBinding | None:
        """The binding with exactly these values that is not terminal, or None."""

    async def list_bindings(self, *, router_session_id: str) -> Sequence[RemoteBinding]:
        """Every binding of a router session, terminal ones too."""

    async def mark_binding_terminal(
        self, *, trace_id: str, context_id: str | None, task_id: str
    ) -> None:
        """Take the binding out of use. It stays readable."""


@runtime_checkable
class SupportsMemoryState(Protocol):
    """Short-term memory that outlives its process."""

    async def save_memory_state(self, key: str, state: dict[str, Any]) -> None:
        """Keep the state, in place of an earlier one of this key."""

    async def load_memory_state(self, key: str) -> dict[str, Any] | None:
        """The state last saved, or None."""


@runtime_checkable
class SupportsTasks(Protocol):
    """Tasks of a session and the updates they stream."""

    async def save_task(self, state: TaskState) -> None:
        """Keep the task's state, in place of an earlier one."""

    async def list_tasks(self, session_id: str) -> Sequence[TaskState]:
        """Every task of the session."""

    async def save_update(self, update: StateUpdate) -> None:
        """Append an update. Saving the same `update_id` again changes nothing."""

    async def list_updates(
        self,
        session_id: str,
        *,
        task_id: str | None = None,
        since_id: str | None = None,
        limit: int = 500,
    ) -> Sequence[StateUpdate]:
        """Updates, oldest first, after (not with) `since_id`. An unknown cursor counts as none."""


@runtime_checkable
class SupportsSteering(Protocol):
    """The record of who intervened, how and when."""

    async def save_steering(self, event: SteeringEvent) -> None:
        """Append the sanitized event. Saving the same `event_id` again changes nothing."""

    async def list_steering(
        self,
        session_id: str,
        *,
        task_id: str | None = None,
        since_id: str | None = None,
        limit: int = 500,
    ) -> Sequence[SteeringEvent]:
        """Events, oldest first, after (not with) `since_id`. An unknown cursor counts as none."""


@runtime_checkable
class SupportsTrajectories(Protocol):
    """What a planner did, per trace."""

    async def save_trajectory(self, trace_id: str, session_id: str, trajectory: Trajectory) -> None:
        """Keep the trajectory, in place of an earlier one of this trace."""

    async def get_trajectory(self, trace_id: str, session_id: str) -> Trajectory | None:
        """The trajectory; None if there is none, or it belongs to another session."""

    async def list_traces(self, session_id: str, limit: int = 50) -> list[str]:
        """Traces of the session by their last saved trajectory, newest first."""


@runtime_checkable
class SupportsPlannerEvents(Protocol):
    """Planner and tool events, per trace."""

    async def save_planner_event(self, trace_id: str, event: PlannerEvent) -> None:
        """Append an event."""

    async def list_planner_events(self, trace_id: str) -> list[PlannerEvent]:
        """The events of the trace in the order they were saved."""


@runtime_checkable
class ArtifactStore(Protocol):
    """Bytes and large texts, kept apart from what a model sees."""

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
        """Keep the bytes and return their reference."""

    async def put_text(
        self,
        text: str,
        *,
        mime_type: str = "text/plain",
        filename: str | None = None,
        namespace: str | None = None,
        scope: ArtifactScope | None = None,
        meta: dict[str, Any] | None = None,
    ) -> ArtifactRef:
        """Keep the text as UTF-8 and return its reference."""

    async def get(self, artifact_id: str) -> bytes | None:
        """The bytes, or None if unknown or expired."""

    async def get_ref(self, artifact_id: str) -> ArtifactRef | None:
        """The reference, or None if unknown or expired."""

    async def delete(self, artifact_id: str) -> bool:
        """Remove the artifact; whether there was one."""

    async def exists(self, artifact_id: str) -> bool:
        """Whether `get` would return bytes."""


@runtime_checkable
class SupportsArtifacts(Protocol):
    """A store that has an artifact store beside it."""

    @property
    def artifact_store(self) -> ArtifactStore | None:
        """The artifact store, or None."""


def missing_capabilities(store: object, methods: Iterable[str]) -> list[str]:
    """Those of the named methods that the store lacks, in the order given."""
    return [method for method in methods if not hasattr(store, method)]


def require_capabilities(store: object, *, feature: str, methods: Iterable[str]) -> None:
    """Fail at start rather than on first use: raises `MissingCapability`, a `TypeError`."""
    missing = missing_capabilities(store, methods)
    if missing:
        raise MissingCapability(feature, missing)
