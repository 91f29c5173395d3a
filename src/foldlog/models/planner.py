"""What a planner did: its events as they happened, and the trajectory it leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self


@dataclass(slots=True)
class PlannerEvent:
    """One planner or tool event, such as "tool_call", "llm_call" or "stream_chunk".

    Shape: StateStore specification 2.11, section "Database Schema Recommendations".

    Attributes:
        event_type: what happened.
        ts: Unix time in seconds.
        trajectory_step: the step it belongs to, counted from 0.
        thought: what the planner thought.
        node_name: the tool or node.
        latency_ms: how long it took, in milliseconds.
        token_estimate: tokens used, estimated.
        error: what failed.
        extra: whatever else there is.
    """

    event_type: str
    ts: float
    trajectory_step: int = 0
    thought: str | None = None
    node_name: str | None = None
    latency_ms: float | None = None
    token_estimate: int | None = None
    error: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class TrajectoryStep:
    """One action and what came of it.

    Attributes:
        action: what was done, as `{"thought", "next_node", "args", ...}`.
        observation: what came of it.
        llm_observation: what the model was shown in place of `observation`.
        error: what failed, as text.
        failure: structured details beside `error`.
        streams: the chunks of each stream, in order, by the stream's id.
    """

    action: dict[str, Any]
    observation: Any = None
    llm_observation: Any = None
    error: str | None = None
    failure: dict[str, Any] | None = None
    streams: dict[str, list[dict[str, Any]]] | None = None

    def dump(self) -> dict[str, Any]:
        """Return the step as a dict of its fields. Values are shared with the step, not copied."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(slots=True)
class Trajectory:
    """A planner's whole run: the query, its context, every step, and what was gathered.

    It holds plain dicts and lists, so that `serialise` and `from_serialised` lose nothing.

    Attributes:
        query: what the user asked.
        llm_context: what the model may see.
        tool_context: what only tools may see.
        input_parts: the parts of a multimodal query.
        artifacts: references to artifacts, by name.
        sources: what the answer rests on.
        metadata: whatever else the planner needs.
        steps: the steps, in order.
        summary: a summary of older steps.
        hint_state: the planner's hints.
        resume_user_input: what the user said on resuming.
        steering_inputs: what people injected while it ran.
        background_results: the results of background tasks, by task id.
    """

    query: str
    llm_context: dict[str, Any] | None = None
    tool_context: dict[str, Any] | None = None
    input_parts: list[dict[str, Any]] = field(default_factory=list)
    artifacts: dict[str, Any] = field(default_factory=dict)
    sources: list[dict[str, Any]] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    steps: list[TrajectoryStep] = field(default_factory=list)
    summary: dict[str, Any] | None = None
    hint_state: dict[str, Any] = field(default_factory=dict)
    resume_user_input: str | None = None
    steering_inputs: list[str] = field(default_factory=list)
    background_results: dict[str, dict[str, Any]] = field(default_factory=dict)

    def to_history(self) -> list[dict[str, Any]]:
        """Return every step, dumped, in order."""
        return [step.dump() for step in self.steps]

    def serialise(self) -> dict[str, Any]:
        """Return the trajectory as a dict of its fields. Values are shared with it, not copied."""
        payload = {each.name: getattr(self, each.name) for each in fields(self)}
        payload["steps"] = self.to_history()
        return payload

    @classmethod
    def from_serialised(cls, payload: Mapping[str, Any]) -> Self:
        """Return the trajectory that `serialise` made a dict of.

        Args:
            payload: the dict. Unknown keys are ignored; missing ones take their default.

        Raises:
            KeyError: the trajectory lacks its query, or a step its action.
        """
        known = {each.name: payload[each.name] for each in fields(cls) if each.name in payload}
        known["query"] = payload["query"]
        known["steps"] = [_step(step) for step in payload.get("steps", ())]
        return cls(**known)


def _step(payload: Mapping[str, Any]) -> TrajectoryStep:
    optional = {
        each.name: payload.get(each.name)
        for each in fields(TrajectoryStep)
        if each.name != "action"
    }
    return TrajectoryStep(action=payload["action"], **optional)
