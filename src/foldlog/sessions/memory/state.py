"""A memory as it is saved: the format that PenguiFlow reads and writes, too.

StateStore specification 2.11, section 6 of its optional methods. What PenguiFlow does not know, the
attempts under way, is saved only while there are any.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from foldlog.sessions.memory.health import MemoryHealth

Summarizer = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Given `{"previous_summary": text, "turns": [...]}`, returns `{"summary": text}`. Turns are as
`ConversationTurn.for_model` gives them. What it raises counts as a failure.
"""

VERSION: Final = 1

_KNOWN: Final = frozenset(
    {"version", "health", "summary", "turns", "pending", "backlog", "config_snapshot"}
)
_ATTEMPTS: Final = "attempts"
_DUE_AT: Final = "due_at"


@dataclass(frozen=True, slots=True)
class TrajectoryDigest:
    """What an agent did in a turn, in short."""

    tools_invoked: list[str]
    observations_summary: str
    reasoning_summary: str | None = None
    artifacts_refs: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class ConversationTurn:
    """What a user said and what the agent answered. `ts` in Unix seconds.

    Two turns are the same only if they are the same object: people repeat themselves.
    """

    user_message: str
    assistant_response: str
    trajectory_digest: TrajectoryDigest | None = None
    artifacts_shown: dict[str, Any] = field(default_factory=dict)
    artifacts_hidden_refs: list[str] = field(default_factory=list)
    ts: float = 0.0

    def for_model(self, *, include_digest: bool) -> dict[str, Any]:
        """The turn as a model's prompt has it."""
        shown: dict[str, Any] = {"user": self.user_message, "assistant": self.assistant_response}
        if include_digest and self.trajectory_digest is not None:
            shown["trajectory_digest"] = asdict(self.trajectory_digest)
        return shown


@dataclass(frozen=True, slots=True)
class MemoryState:
    """A memory. `turns` are recent, `pending` wait to be summarised, `backlog` wait for a recovery.

    `attempts` counts those that have failed since the last that has not, `due_at` is when the next
    may be made, in Unix seconds. `other` is what else somebody saved, kept as it is.
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
        """The state as it is saved: new objects."""
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
            state[_ATTEMPTS] = self.attempts
        if self.due_at:
            state[_DUE_AT] = self.due_at
        return state

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> MemoryState:
        """The state of which `to_dict` made that, or PenguiFlow.

        Raises:
            ValueError, TypeError: it is of another version, or no such thing.
        """
        if saved.get("version") != VERSION:
            raise ValueError(f"a memory of version {saved.get('version')!r:.40}, not {VERSION}")
        known = _KNOWN | {_ATTEMPTS, _DUE_AT}
        return cls(
            health=MemoryHealth(_text(saved.get("health"))),
            summary=_text(saved.get("summary")),
            turns=_turns(saved.get("turns")),
            pending=_turns(saved.get("pending")),
            backlog=_turns(saved.get("backlog")),
            config_snapshot=dict(saved.get("config_snapshot") or {}),
            attempts=int(saved.get(_ATTEMPTS) or 0),
            due_at=float(saved.get(_DUE_AT) or 0.0),
            other={key: value for key, value in saved.items() if key not in known},
        )


def _turns(saved: Any) -> tuple[ConversationTurn, ...]:
    if not isinstance(saved or [], list | tuple):
        raise TypeError(f"{saved!r:.80} are no turns")
    return tuple(_turn(each) for each in saved or ())


def _turn(saved: Any) -> ConversationTurn:
    if not isinstance(saved, Mapping):
        raise TypeError(f"{saved!r:.80} is no turn")
    digest = saved.get("trajectory_digest")
    return ConversationTurn(
        user_message=_text(saved.get("user_message")),
        assistant_response=_text(saved.get("assistant_response")),
        trajectory_digest=None if digest is None else _digest(digest),
        artifacts_shown=dict(saved.get("artifacts_shown") or {}),
        artifacts_hidden_refs=list(saved.get("artifacts_hidden_refs") or []),
        ts=saved.get("ts") or 0.0,
    )


def _digest(saved: Any) -> TrajectoryDigest:
    if not isinstance(saved, Mapping):
        raise TypeError(f"{saved!r:.80} is no digest of a trajectory")
    reasoning = saved.get("reasoning_summary")
    return TrajectoryDigest(
        tools_invoked=list(saved.get("tools_invoked") or []),
        observations_summary=_text(saved.get("observations_summary")),
        reasoning_summary=None if reasoning is None else _text(reasoning),
        artifacts_refs=list(saved.get("artifacts_refs") or []),
    )


def _text(value: Any) -> str:
    if not isinstance(value or "", str):
        raise TypeError(f"{value!r:.80} is no text")
    return value or ""
