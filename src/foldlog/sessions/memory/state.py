"""A memory in the format that PenguiFlow saves: specification 2.11, optional method 6.

PenguiFlow does not know the attempts under way; they are saved only while there are any.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

import msgspec

Summarizer = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Given `{"previous_summary": text, "turns": [...]}`, returns `{"summary": text}`. Turns are as
`ConversationTurn.for_model` gives them. What it raises counts as a failure.
"""

VERSION: Final = 1


class MemoryHealth(StrEnum):
    """How summaries fare. StateStore specification 2.11, "Memory Health States & Recovery".

    HEALTHY: they are made. RETRY: an attempt failed and is repeated. DEGRADED: it failed too often,
    and turns are only stored. RECOVERING: the stored turns are being summarised.
    """

    HEALTHY = "healthy"
    RETRY = "retry"
    DEGRADED = "degraded"
    RECOVERING = "recovering"


@dataclass(frozen=True, slots=True)
class TrajectoryDigest:
    """What an agent did in a turn, in short.

    Attributes:
        tools_invoked: names of tools.
        observations_summary: what came of them.
        reasoning_summary: why it did so.
        artifacts_refs: artifacts that it made.
    """

    tools_invoked: list[str]
    observations_summary: str
    reasoning_summary: str | None = None
    artifacts_refs: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class ConversationTurn:
    """What a user said and what the agent answered.

    Two turns are the same only if they are the same object: people repeat themselves.

    Attributes:
        user_message: what the user said.
        assistant_response: what the agent answered.
        trajectory_digest: what the agent did.
        artifacts_shown: artifacts that the model sees, by name.
        artifacts_hidden_refs: artifacts that it does not see.
        ts: when, in Unix seconds.
    """

    user_message: str
    assistant_response: str
    trajectory_digest: TrajectoryDigest | None = None
    artifacts_shown: dict[str, Any] = field(default_factory=dict)
    artifacts_hidden_refs: list[str] = field(default_factory=list)
    ts: float = 0.0

    def for_model(self, *, include_digest: bool) -> dict[str, Any]:
        """Return the turn as a model's prompt has it.

        Args:
            include_digest: whether it shows what the agent did.
        """
        shown: dict[str, Any] = {"user": self.user_message, "assistant": self.assistant_response}
        if include_digest and self.trajectory_digest is not None:
            shown["trajectory_digest"] = asdict(self.trajectory_digest)
        return shown


@dataclass(frozen=True, slots=True)
class MemoryState:
    """A memory as it is saved.

    Attributes:
        health: how summaries fare.
        summary: the summary of older turns.
        turns: recent turns.
        pending: turns that wait to be summarised.
        backlog: turns that wait for a recovery.
        config_snapshot: the config, for readers.
        attempts: failures since the last success.
        due_at: when the next attempt may be made, in Unix seconds.
        other: what another program saved in the memory; it stays as it is.
    """

    health: MemoryHealth = MemoryHealth.HEALTHY
    summary: str = ""
    turns: tuple[ConversationTurn, ...] = ()
    pending: tuple[ConversationTurn, ...] = ()
    backlog: tuple[ConversationTurn, ...] = ()
    config_snapshot: Mapping[str, Any] = field(default_factory=dict)
    attempts: int = 0
    due_at: float = 0.0
    other: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the state as it is saved, as new objects."""
        state = {
            "version": VERSION,
            "health": self.health.value,
            "summary": self.summary,
            "turns": [asdict(turn) for turn in self.turns],
            "pending": [asdict(turn) for turn in self.pending],
            "backlog": [asdict(turn) for turn in self.backlog],
            "config_snapshot": dict(self.config_snapshot),
            **self.other,
        }
        if self.attempts:
            state["attempts"] = self.attempts
        if self.due_at:
            state["due_at"] = self.due_at
        return state

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> MemoryState:
        """Return the state that `to_dict`, or PenguiFlow, has saved.

        Args:
            saved: the dict.

        Raises:
            ValueError, TypeError: it is of another version, or no such state.
        """
        if saved.get("version") != VERSION:
            raise ValueError(f"a memory of version {saved.get('version')!r:.40}, not {VERSION}")
        known = cls.__dataclass_fields__.keys() - {"other"}
        fields = {name: value for name, value in _given(saved).items() if name in known}
        for name in {"turns", "pending", "backlog"} & fields.keys():
            fields[name] = [_turn(each) for each in fields[name]]
        other = {name: saved[name] for name in saved.keys() - known - {"version"}}
        try:
            return msgspec.convert({"health": None, **fields, "other": other}, cls)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from error


def _given(saved: Any) -> dict[str, Any]:
    """Saved fields by name; null counts as missing."""
    if not isinstance(saved, Mapping):
        raise TypeError(f"{saved!r:.80} is no mapping")
    return {name: value for name, value in saved.items() if value is not None}


def _turn(saved: Any) -> dict[str, Any]:
    turn = {"user_message": "", "assistant_response": "", **_given(saved)}
    if "trajectory_digest" in turn:
        digest = _given(turn["trajectory_digest"])
        turn["trajectory_digest"] = {"tools_invoked": [], "observations_summary": "", **digest}
    return turn
