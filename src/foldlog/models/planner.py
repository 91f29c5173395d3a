"""What a planner did: its events as they happened, and the trajectory it leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self


@dataclass(slots=True)
class PlannerEvent:
    """One planner or tool event, such as "tool_call", "llm_call" or "stream_chunk".

    `ts` is Unix time in seconds, `trajectory_step` the step it belongs to, counted from 0.
    Shape: StateStore specification 2.11, section "Database Schema Recommendations".
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

    `action` names what was done, as `{"thought", "next_node", "args", ...}`. `llm_observation`
    is what the model was shown in place of `observation`. `failure` holds structured details
    beside the text in `error`. `streams` maps a stream's id to its chunks in order.
    """

    action: dict[str, Any]
    observation: Any = None
    llm_observation: Any = None
    error: str | None = None
    failure: dict[str, Any] | None = None
    streams: dict[str, list[dict[str, Any]]] | None = None

    def dump(self) -> dict[str, Any]:
        """The step as a dict of its fields. Values are shared with the step, not copied."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(slots=True)
class Trajectory:
    """A planner's whole run: the query, its context, every step, and what was gathered.

    Plain dicts and lists throughout, so that `serialise` and `from_serialised` lose nothing.
    `background_results` maps a background task's id to its result.
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
        """Every step, dumped, in order."""
        return [step.dump() for step in self.steps]

    def serialise(self) -> dict[str, Any]:
        """The trajectory as a dict of its fields. Values are shared with it, not copied."""
        payload = {each.name: getattr(self, each.name) for each in fields(self)}
        payload["steps"] = self.to_history()
        return payload

    @classmethod
    def from_serialised(cls, payload: Mapping[str, Any]) -> Self:
        """The inverse of `serialise`. Unknown keys are ignored, absent ones take their default.

        Raises `KeyError` where a trajectory lacks its query or a step its action.
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
