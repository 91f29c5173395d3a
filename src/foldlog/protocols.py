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
        """Save `event`, a runtime event. Saving it again changes nothing."""

    async def load_history(self, trace_id: str) -> Sequence[StoredEvent]:
        """Return the events of `trace_id` by ascending `ts`; empty for an unknown trace."""

    async def save_remote_binding(self, binding: RemoteBinding) -> None:
        """Save `binding`, in place of an earlier one of the same trace, context and task."""


@runtime_checkable
class SupportsPlannerState(Protocol):
    """Pause here, resume in any process."""

    async def save_planner_state(self, token: str, payload: dict[str, Any]) -> None:
        """Save `payload`, which a resume needs, under the pause's `token`."""

    async def load_planner_state(self, token: str) -> dict[str, Any] | None:
        """Consume `token` and return its payload; None if it is unknown, expired or consumed."""


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
        """Return the binding that is not terminal and has exactly these values, or None.

        Args:
            router_session_id: the session of the router.
            agent_url: where the remote agent is.
            remote_skill: which of its skills.
            tenant_id: for whom it was made; None only matches None.
            user_id: for whom it was made; None only matches None.
        """

    async def list_bindings(self, *, router_session_id: str) -> Sequence[RemoteBinding]:
        """Return every binding of the router session `router_session_id`, terminal ones too."""

    async def mark_binding_terminal(
        self, *, trace_id: str, context_id: str | None, task_id: str
    ) -> None:
        """End the binding of `trace_id`, `context_id` and `task_id`. It stays readable."""


@runtime_checkable
class SupportsMemoryState(Protocol):
    """Short-term memory that outlives its process."""

    async def save_memory_state(self, key: str, state: dict[str, Any]) -> None:
        """Save `state`, in place of an earlier one of this `key`."""

    async def load_memory_state(self, key: str) -> dict[str, Any] | None:
        """Return the last state of `key`, or None."""


@runtime_checkable
class SupportsTasks(Protocol):
    """Tasks of a session and the updates they stream."""

    async def save_task(self, state: TaskState) -> None:
        """Save `state`, a task's whole state, in place of an earlier one."""

    async def list_tasks(self, session_id: str) -> Sequence[TaskState]:
        """Return every task of the session `session_id`."""

    async def save_update(self, update: StateUpdate) -> None:
        """Append `update`. Saving the same one again changes nothing."""

    async def list_updates(
        self,
        session_id: str,
        *,
        task_id: str | None = None,
        since_id: str | None = None,
        limit: int = 500,
    ) -> Sequence[StateUpdate]:
        """Return a page of a session's updates, oldest first.

        Args:
            session_id: whose updates.
            task_id: only those of this task.
            since_id: the page begins after this one. An unknown one counts as none.
            limit: how many at most.
        """


@runtime_checkable
class SupportsSteering(Protocol):
    """The record of who intervened, how and when."""

    async def save_steering(self, event: SteeringEvent) -> None:
        """Append `event`, sanitised. Saving the same one again changes nothing."""

    async def list_steering(
        self,
        session_id: str,
        *,
        task_id: str | None = None,
        since_id: str | None = None,
        limit: int = 500,
    ) -> Sequence[SteeringEvent]:
        """Return a page of a session's steering events, oldest first.

        Args:
            session_id: whose events.
            task_id: only those of this task.
            since_id: the page begins after this one. An unknown one counts as none.
            limit: how many at most.
        """


@runtime_checkable
class SupportsTrajectories(Protocol):
    """What a planner did, per trace."""

    async def save_trajectory(self, trace_id: str, session_id: str, trajectory: Trajectory) -> None:
        """Save `trajectory` of `trace_id` in `session_id`, in place of an earlier one."""

    async def get_trajectory(self, trace_id: str, session_id: str) -> Trajectory | None:
        """Return the trajectory of `trace_id`; None if it is unknown or not of `session_id`."""

    async def list_traces(self, session_id: str, limit: int = 50) -> list[str]:
        """Return up to `limit` traces of `session_id`, the latest saved trajectory first."""


@runtime_checkable
class SupportsPlannerEvents(Protocol):
    """Planner and tool events, per trace."""

    async def save_planner_event(self, trace_id: str, event: PlannerEvent) -> None:
        """Append `event` to the trace `trace_id`."""

    async def list_planner_events(self, trace_id: str) -> list[PlannerEvent]:
        """Return the events of the trace `trace_id` in the order of their saves."""


@runtime_checkable
class ArtifactStore(Protocol):
    """Bytes and large texts, which a model never sees."""

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
        """Store bytes and return their reference.

        Args:
            data: the bytes.
            mime_type: what they are.
            filename: a name for a download.
            namespace: what made them.
            scope: whom they belong to.
            meta: becomes the reference's `source`.
        """

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
        """Store a text as UTF-8 and return its reference.

        Args:
            text: the text.
            mime_type: what it is.
            filename: a name for a download.
            namespace: what made it.
            scope: whom it belongs to.
            meta: becomes the reference's `source`.
        """

    async def get(self, artifact_id: str) -> bytes | None:
        """Return the bytes of `artifact_id`; None if it is unknown or expired."""

    async def get_ref(self, artifact_id: str) -> ArtifactRef | None:
        """Return the reference of `artifact_id`; None if it is unknown or expired."""

    async def delete(self, artifact_id: str) -> bool:
        """Remove the artifact `artifact_id`; return whether there was one."""

    async def exists(self, artifact_id: str) -> bool:
        """Return whether `get` would return bytes for `artifact_id`."""


@runtime_checkable
class SupportsArtifacts(Protocol):
    """A store that has an artifact store beside it."""

    @property
    def artifact_store(self) -> ArtifactStore | None:
        """The artifact store, or None."""


def missing_capabilities(store: object, methods: Iterable[str]) -> list[str]:
    """Return those of the named methods that a store lacks, in the order given.

    Args:
        store: the store.
        methods: names of methods.
    """
    return [method for method in methods if not hasattr(store, method)]


def require_capabilities(store: object, *, feature: str, methods: Iterable[str]) -> None:
    """Raise MissingCapability if a store lacks a method that a feature needs.

    Args:
        store: the store.
        feature: what needs the methods; the error names it.
        methods: names of methods.

    Raises:
        MissingCapability: the store lacks one of them. It is a TypeError.
    """
    missing = missing_capabilities(store, methods)
    if missing:
        raise MissingCapability(feature, missing)
