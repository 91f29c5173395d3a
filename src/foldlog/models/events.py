"""Runtime events of a trace, and the remote workers bound to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


class FlowEventLike(Protocol):
    """What a runtime emits. An object that also has `to_payload()` is asked for its payload.

    Field for field the `FlowEvent` of the StateStore specification 2.11, section "Data Types",
    so that a runtime's own class needs no adapter.
    """

    @property
    def event_type(self) -> str: ...
    @property
    def ts(self) -> float: ...
    @property
    def node_name(self) -> str | None: ...
    @property
    def node_id(self) -> str | None: ...
    @property
    def trace_id(self) -> str | None: ...
    @property
    def attempt(self) -> int: ...
    @property
    def latency_ms(self) -> float | None: ...
    @property
    def queue_depth_in(self) -> int: ...
    @property
    def queue_depth_out(self) -> int: ...
    @property
    def outgoing_edges(self) -> int: ...
    @property
    def queue_maxsize(self) -> int: ...
    @property
    def trace_pending(self) -> int | None: ...
    @property
    def trace_inflight(self) -> int: ...
    @property
    def trace_cancelled(self) -> bool: ...
    @property
    def extra(self) -> Mapping[str, Any]: ...


@dataclass(slots=True)
class StoredEvent:
    """One event of a trace's audit log.

    Attributes:
        trace_id: the trace; None for a global event.
        ts: Unix time in seconds.
        kind: what happened, an open set: an unknown kind is stored like any other.
        node_name: the node's name, or None.
        node_id: the node's id, or None.
        payload: what belongs to the event; it is read exactly as it was saved.
    """

    trace_id: str | None
    ts: float
    kind: str
    node_name: str | None
    node_id: str | None
    payload: Mapping[str, Any]

    @classmethod
    def from_flow_event(cls, event: FlowEventLike) -> StoredEvent:
        """Return the stored form of a runtime event, whatever class it has.

        Args:
            event: an object with the attributes of PenguiFlow's `FlowEvent`. If it has
                `to_payload()`, that makes the payload.
        """
        to_payload = getattr(event, "to_payload", None)
        return cls(
            trace_id=event.trace_id,
            ts=event.ts,
            kind=event.event_type,
            node_name=event.node_name,
            node_id=event.node_id,
            payload=_flow_payload(event) if to_payload is None else to_payload(),
        )


def _flow_payload(event: FlowEventLike) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "ts": event.ts,
        "event": event.event_type,
        "node_name": event.node_name,
        "node_id": event.node_id,
        "trace_id": event.trace_id,
        "latency_ms": event.latency_ms,
        "q_depth_in": event.queue_depth_in,
        "q_depth_out": event.queue_depth_out,
        "q_depth_total": event.queue_depth_in + event.queue_depth_out,
        "outgoing": event.outgoing_edges,
        "queue_maxsize": event.queue_maxsize,
        "attempt": event.attempt,
        "trace_inflight": event.trace_inflight,
        "trace_cancelled": event.trace_cancelled,
    }
    if event.trace_pending is not None:
        payload["trace_pending"] = event.trace_pending
    # Last, because the runtime's own extension fields may refine a common one.
    payload.update(event.extra)
    return payload


@dataclass(slots=True)
class RemoteBinding:
    """The remote worker that handles a trace, or part of it. Its key: trace, context and task id.

    Attributes:
        trace_id, context_id, task_id: the key; a binding without a context has None.
        agent_url: where the remote agent is.
        router_session_id: the session of the router that made it.
        remote_skill: which of the agent's skills.
        tenant_id, user_id: for whom it was made; None: nobody in particular.
        last_remote_task_id: the remote task that the next turn continues.
        is_terminal: the binding takes no further turns.
        metadata: whatever else the router needs.
    """

    trace_id: str
    context_id: str | None
    task_id: str
    agent_url: str
    router_session_id: str | None = None
    remote_skill: str | None = None
    tenant_id: str | None = None
    user_id: str | None = None
    last_remote_task_id: str | None = None
    is_terminal: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)
