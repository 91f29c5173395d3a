"""What is saved: the same for every contender, made before the clock starts."""

from __future__ import annotations

import random
import secrets
import time

from foldlog import StateUpdate, SteeringEvent, SteeringEventType, StoredEvent, UpdateType

TEXT = (
    "Looked up reservation 4WQ150 for the passenger: two travellers, basic economy, booked with a "
    "certificate and a credit card. The outbound flight leaves tomorrow at 11:00; a change to the "
    "later one is possible for 89 dollars, and the policy asks for the user's confirmation before "
    "anything is charged."
)
"""What an agent reports of one step: some 300 bytes."""

BODY = b"." * 500
"""A message of the size of one update's envelope, for those that store bytes as they come."""


_random = random.Random(21)
_WORDS = ["".join(_random.choices("etaoinshrdlu", k=_random.randint(2, 9))) for _ in range(4_096)]


def another_text() -> str:
    """A text as long as TEXT, of words that follow each other by chance: zlib saves 60% of it."""
    return " ".join(_random.choices(_WORDS, k=len(TEXT) // 6))


def update(session: int, text: str = TEXT) -> StateUpdate:
    """A progress report of some 500 bytes, with an id of its own."""
    return StateUpdate(
        session_id=session_id(session),
        task_id="task-1",
        trace_id=f"trace-{session}",
        update_id=secrets.token_hex(16),
        update_type=UpdateType.PROGRESS,
        content={"text": text, "tool": "get_reservation", "elapsed_ms": 182.25, "ok": True},
        step_index=3,
        total_steps=12,
    )


def updates(count: int, sessions: int) -> list[StateUpdate]:
    """`count` updates, dealt out among the sessions."""
    return [update(number % sessions) for number in range(count)]


def event(trace: int, text: str = TEXT) -> StoredEvent:
    """A runtime event with the payload that the specification lists for one."""
    return StoredEvent(
        trace_id=trace_id(trace),
        ts=time.time(),
        kind="node_success",
        node_name="llm_node",
        node_id=f"llm_node_{secrets.token_hex(4)}",
        payload={
            "event": "node_success",
            "latency_ms": 1523.45,
            "q_depth_in": 0,
            "q_depth_out": 2,
            "q_depth_total": 2,
            "outgoing": 3,
            "queue_maxsize": 1000,
            "attempt": 1,
            "trace_inflight": 5,
            "trace_cancelled": False,
            "text": text,
        },
    )


def steering(session: int) -> SteeringEvent:
    """A user's message to a running task."""
    return SteeringEvent(
        session_id=session_id(session),
        task_id="task-1",
        event_type=SteeringEventType.USER_MESSAGE,
        payload={"text": "Please keep the aisle seat."},
    )


def memory_state(*texts: str) -> dict[str, object]:
    """A conversation's short-term memory: a summary and three turns, of four texts."""
    summary, *turns = texts or [TEXT] * 4
    return {
        "version": 1,
        "health": "healthy",
        "summary": summary,
        "turns": [
            {"user_message": turn[:80], "assistant_response": turn, "ts": 1702857600.0}
            for turn in turns
        ],
    }


def session_id(number: int) -> str:
    """The name of a session."""
    return f"session-{number}"


def trace_id(number: int) -> str:
    """The name of a trace."""
    return f"trace-{number}"
