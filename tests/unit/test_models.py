from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import ValidationError

import foldlog.models as models
from foldlog.models import (
    ArtifactRef,
    ArtifactRetentionConfig,
    ArtifactScope,
    PlannerEvent,
    RemoteBinding,
    StateUpdate,
    SteeringEvent,
    SteeringEventType,
    StoredEvent,
    TaskContextSnapshot,
    TaskState,
    TaskStatus,
    TaskType,
    Trajectory,
    TrajectoryStep,
    UpdateType,
)


@dataclass(frozen=True, slots=True)
class FlowEvent:
    event_type: str = "node_success"
    ts: float = 1702857600.123
    node_name: str | None = "llm_node"
    node_id: str | None = "llm_node_1"
    trace_id: str | None = "trace_xyz"
    attempt: int = 1
    latency_ms: float | None = 1523.45
    queue_depth_in: int = 1
    queue_depth_out: int = 2
    outgoing_edges: int = 3
    queue_maxsize: int = 1000
    trace_pending: int | None = None
    trace_inflight: int = 5
    trace_cancelled: bool = False
    extra: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class FlowEventWithPayload(FlowEvent):
    def to_payload(self) -> dict[str, Any]:
        return {"mine": self.event_type}


def test_all_is_what_the_package_holds() -> None:
    public = {name for name, value in vars(models).items() if isinstance(value, type)}
    assert public == set(models.__all__)


def test_a_flow_event_becomes_the_specified_payload() -> None:
    stored = StoredEvent.from_flow_event(FlowEvent())
    assert stored == StoredEvent(
        trace_id="trace_xyz",
        ts=1702857600.123,
        kind="node_success",
        node_name="llm_node",
        node_id="llm_node_1",
        payload={
            "ts": 1702857600.123,
            "event": "node_success",
            "node_name": "llm_node",
            "node_id": "llm_node_1",
            "trace_id": "trace_xyz",
            "latency_ms": 1523.45,
            "q_depth_in": 1,
            "q_depth_out": 2,
            "q_depth_total": 3,
            "outgoing": 3,
            "queue_maxsize": 1000,
            "attempt": 1,
            "trace_inflight": 5,
            "trace_cancelled": False,
        },
    )


def test_extension_fields_and_pending_traces_join_the_payload() -> None:
    error = {"code": "TOOL_EXECUTION_FAILED", "message": "API returned 500"}
    stored = StoredEvent.from_flow_event(
        FlowEvent(trace_pending=4, extra={"flow_error": error, "latency_ms": 7.0})
    )
    assert stored.payload["trace_pending"] == 4
    assert stored.payload["flow_error"] == error
    assert stored.payload["latency_ms"] == 7.0


def test_a_flow_event_that_renders_itself_is_believed() -> None:
    assert StoredEvent.from_flow_event(FlowEventWithPayload()).payload == {"mine": "node_success"}


def test_a_binding_needs_only_the_four_specified_fields() -> None:
    binding = RemoteBinding("trace", None, "task", "http://worker")
    assert (binding.is_terminal, binding.metadata, binding.remote_skill) == (False, {}, None)


@pytest.mark.parametrize("enum", [TaskStatus, TaskType, UpdateType, SteeringEventType])
def test_enum_members_are_their_names(enum: type[TaskStatus]) -> None:
    assert [str(member) for member in enum] == [member.name for member in enum]
    assert json.dumps(list(enum)) == json.dumps([member.name for member in enum])


def test_updating_a_status_touches_the_task() -> None:
    earlier = datetime(2024, 1, 1, tzinfo=UTC)
    task = TaskState(
        task_id="t",
        session_id="s",
        status=TaskStatus.RUNNING,
        task_type=TaskType.FOREGROUND,
        priority=0,
        context_snapshot=TaskContextSnapshot(session_id="s", task_id="t"),
        created_at=earlier,
        updated_at=earlier,
    )
    task.update_status(TaskStatus.COMPLETE)
    assert task.status is TaskStatus.COMPLETE
    assert task.created_at == earlier
    assert task.updated_at > earlier
    assert task.updated_at.tzinfo is UTC


def test_snapshot_defaults_follow_the_specification() -> None:
    snapshot = TaskContextSnapshot(session_id="s", task_id="t")
    assert snapshot.spawned_from_task_id == "foreground"
    assert snapshot.propagate_on_cancel == "cascade"
    assert snapshot.notify_on_complete is True
    assert (snapshot.context_version, snapshot.context_hash) == (None, None)


def test_updates_get_distinct_ids() -> None:
    first, second = (
        StateUpdate(session_id="s", task_id="t", update_type=UpdateType.PROGRESS, content=None)
        for _ in range(2)
    )
    assert first.update_id != second.update_id


def test_steering_events_get_distinct_ids_and_a_user_as_source() -> None:
    first, second = (
        SteeringEvent(session_id="s", task_id="t", event_type=SteeringEventType.PAUSE)
        for _ in range(2)
    )
    assert first.event_id != second.event_id
    assert first.source == "user"


def test_an_injection_is_json_whatever_the_payload_holds() -> None:
    created = datetime(2024, 5, 1, 12, tzinfo=UTC)
    event = SteeringEvent(
        session_id="s",
        task_id="t",
        event_id="e",
        event_type=SteeringEventType.USER_MESSAGE,
        payload={"text": "grüße", "at": created, "raw": b"x"},
        created_at=created,
    )
    text = event.to_injection()
    assert "grüße" in text
    assert json.loads(text) == {
        "steering": {
            "event_id": "e",
            "task_id": "t",
            "event_type": "USER_MESSAGE",
            "payload": {"text": "grüße", "at": str(created), "raw": "b'x'"},
            "created_at": "2024-05-01T12:00:00+00:00",
        }
    }


def test_planner_events_need_a_type_and_a_time() -> None:
    event = PlannerEvent("tool_call", 1.5)
    assert (event.trajectory_step, event.thought, event.extra) == (0, None, {})


def test_retention_defaults_follow_the_specification() -> None:
    assert ArtifactRetentionConfig().model_dump() == {
        "ttl_seconds": 3600,
        "max_artifact_bytes": 50_000_000,
        "max_session_bytes": 500_000_000,
        "max_trace_bytes": 100_000_000,
        "max_artifacts_per_trace": 100,
        "max_artifacts_per_session": 1000,
        "cleanup_strategy": "lru",
    }
    with pytest.raises(ValidationError, match="cleanup_strategy"):
        ArtifactRetentionConfig(cleanup_strategy="random")  # type: ignore[arg-type]


def test_an_artifact_reference_survives_json() -> None:
    ref = ArtifactRef(id="chart_1", size_bytes=3, scope=ArtifactScope(session_id="s"))
    assert ArtifactRef.model_validate_json(ref.model_dump_json()) == ref


# --- trajectories -----------------------------------------------------------------------------

texts = st.text(max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, values, max_size=3)
steps = st.builds(
    TrajectoryStep,
    action=objects,
    observation=values,
    llm_observation=values,
    error=st.none() | texts,
    failure=st.none() | objects,
    streams=st.none() | st.dictionaries(texts, st.lists(objects, max_size=2), max_size=2),
)
trajectories = st.builds(
    Trajectory,
    query=texts,
    llm_context=st.none() | objects,
    tool_context=st.none() | objects,
    input_parts=st.lists(objects, max_size=2),
    artifacts=objects,
    sources=st.lists(objects, max_size=2),
    metadata=objects,
    steps=st.lists(steps, max_size=3),
    summary=st.none() | objects,
    hint_state=objects,
    resume_user_input=st.none() | texts,
    steering_inputs=st.lists(texts, max_size=2),
    background_results=st.dictionaries(texts, objects, max_size=2),
)


@given(trajectories)
def test_serialising_a_trajectory_loses_nothing(trajectory: Trajectory) -> None:
    payload = trajectory.serialise()
    assert set(payload) == {each.name for each in dataclasses.fields(Trajectory)}
    assert Trajectory.from_serialised(json.loads(json.dumps(payload))) == trajectory


def test_a_foreign_trajectory_is_read_with_defaults_and_without_unknown_keys() -> None:
    payload = {"query": "q", "version": 1, "steps": [{"action": {"next_node": "a"}, "odd": 1}]}
    assert Trajectory.from_serialised(payload) == Trajectory(
        query="q", steps=[TrajectoryStep(action={"next_node": "a"})]
    )


@pytest.mark.parametrize(
    ("payload", "missing"), [({}, "query"), ({"query": "q", "steps": [{}]}, "action")]
)
def test_a_trajectory_without_its_essentials_is_refused(
    payload: dict[str, Any], missing: str
) -> None:
    with pytest.raises(KeyError, match=missing):
        Trajectory.from_serialised(payload)
