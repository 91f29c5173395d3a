"""What a conversation becomes in a store. Pure and without a clock.

The same conversation gives the same objects with the same ids and times on every run, which is
what lets a second import find that there is nothing to do. A message's place, counted from 0, is
its time in seconds after 1970-01-01 UTC: the input does not say when it was sent.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from foldlog.importer.conversation import Conversation, Message
from foldlog.models import (
    PlannerEvent,
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

_DESCRIPTION = 200


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """Everything that one conversation becomes, each list in the order of its saves.

    Attributes:
        trace_id: the trace, and the session.
        events, steering, updates, planner_events: what is saved.
        started: the task before its first message.
        ended: the task after its last message.
        trajectory: the trajectory.
    """

    trace_id: str
    events: list[StoredEvent]
    steering: list[SteeringEvent]
    updates: list[StateUpdate]
    planner_events: list[PlannerEvent]
    started: TaskState
    ended: TaskState
    trajectory: Trajectory


@dataclass(frozen=True, slots=True)
class _ToolCall:
    place: int
    id: str | None
    name: str | None
    arguments: Any


def plan(conversation: Conversation, *, prefix: str = "") -> ImportPlan:
    """Return what a conversation becomes.

    Args:
        conversation: the conversation.
        prefix: the session's and the trace's id is this and the conversation's name.
    """
    return _Planner(conversation, prefix + conversation.name).plan()


class _Planner:
    """Collects a plan in one pass over the messages."""

    def __init__(self, conversation: Conversation, trace_id: str) -> None:
        self._conversation = conversation
        self._trace_id = trace_id
        self._task_id = f"{trace_id}:foreground"
        self._observations = _observations(conversation.messages)
        self._user_texts: list[str] = []
        self._events: list[StoredEvent] = []
        self._steering: list[SteeringEvent] = []
        self._updates: list[StateUpdate] = []
        self._planner_events: list[PlannerEvent] = []
        self._steps: list[TrajectoryStep] = []

    def plan(self) -> ImportPlan:
        for place, message in enumerate(self._conversation.messages):
            self._event(place, message)
            if message["role"] == "user":
                self._user_message(place, message)
            elif message["role"] == "assistant":
                self._assistant_message(place, message)
        started, ended = self._task()
        return ImportPlan(
            trace_id=self._trace_id,
            events=self._events,
            steering=self._steering,
            updates=self._updates,
            planner_events=self._planner_events,
            started=started,
            ended=ended,
            trajectory=self._trajectory(),
        )

    def _event(self, place: int, message: Message) -> None:
        self._events.append(
            StoredEvent(
                trace_id=self._trace_id,
                ts=float(place),
                kind=f"message.{message['role']}",
                node_name=None,
                node_id=None,
                payload=message,
            )
        )

    def _user_message(self, place: int, message: Message) -> None:
        text = text_of(message)
        self._user_texts.append(text)
        self._steering.append(
            SteeringEvent(
                session_id=self._trace_id,
                task_id=self._task_id,
                event_id=f"{self._trace_id}:{place}",
                event_type=SteeringEventType.USER_MESSAGE,
                payload={"text": text},
                trace_id=self._trace_id,
                created_at=_time(place),
            )
        )

    def _assistant_message(self, place: int, message: Message) -> None:
        text = text_of(message)
        calls = list(_tool_calls(message))
        if text:
            self._update(place, "result", UpdateType.RESULT, {"text": text})
        if text and not calls:
            answer = {"thought": None, "next_node": "final_response", "args": {"answer": text}}
            self._steps.append(TrajectoryStep(action=answer))
        for call in calls:
            self._tool_call(place, text, call)

    def _tool_call(self, place: int, thought: str, call: _ToolCall) -> None:
        content = {"tool_call_id": call.id, "name": call.name, "arguments": call.arguments}
        self._update(place, f"call:{call.place}", UpdateType.TOOL_CALL, content)
        self._planner_events.append(
            PlannerEvent(
                event_type="tool_call",
                ts=float(place),
                trajectory_step=len(self._steps),
                thought=thought or None,
                node_name=call.name,
                extra={**content, "message": place, "call": call.place},
            )
        )
        waiting = self._observations[call.id]
        self._steps.append(
            TrajectoryStep(
                action={
                    "thought": thought or None,
                    "next_node": call.name,
                    "args": call.arguments,
                    "tool_call_id": call.id,
                },
                observation=waiting.popleft() if waiting else None,
            )
        )

    def _update(self, place: int, what: str, update_type: UpdateType, content: object) -> None:
        self._updates.append(
            StateUpdate(
                session_id=self._trace_id,
                task_id=self._task_id,
                trace_id=self._trace_id,
                update_id=f"{self._trace_id}:{place}:{what}",
                update_type=update_type,
                content=content,
                step_index=len(self._steps),
                created_at=_time(place),
            )
        )

    def _task(self) -> tuple[TaskState, TaskState]:
        reward = self._conversation.reward
        query = self._user_texts[0] if self._user_texts else None
        started = TaskState(
            task_id=self._task_id,
            session_id=self._trace_id,
            status=TaskStatus.RUNNING,
            task_type=TaskType.FOREGROUND,
            priority=0,
            context_snapshot=TaskContextSnapshot(
                session_id=self._trace_id,
                task_id=self._task_id,
                trace_id=self._trace_id,
                spawned_at=_time(0),
                spawn_reason="import",
                query=query,
            ),
            trace_id=self._trace_id,
            description=query[:_DESCRIPTION] if query else None,
            created_at=_time(0),
            updated_at=_time(0),
        )
        # An evaluation's full mark is 1; partial marks are failures. Nobody judged: no failure.
        failed = reward is not None and not reward >= 1
        ended = replace(
            started,
            status=TaskStatus.FAILED if failed else TaskStatus.COMPLETE,
            result=None if reward is None else {"reward": reward},
            error=f"reward {reward}" if failed else None,
            updated_at=_time(len(self._conversation.messages) - 1),
        )
        return started, ended

    def _trajectory(self) -> Trajectory:
        item = self._conversation
        about = {
            "task_id": item.task_id,
            "trial": item.trial,
            "reward": item.reward,
            "info": item.info,
        }
        query, *later = self._user_texts or [""]
        return Trajectory(
            query=query,
            metadata={name: value for name, value in about.items() if value is not None},
            steps=self._steps,
            steering_inputs=later,
        )


def text_of(message: Message) -> str:
    """The text of a message whose content is None, a string or a list of parts.

    A part without text stands as its type in brackets; parts are joined by line breaks.
    """
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(_part_text(part) for part in content) if isinstance(content, list) else ""


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    text = part.get("text")
    return text if isinstance(text, str) else f"[{part.get('type', 'part')}]"


def _tool_calls(message: Message) -> Iterator[_ToolCall]:
    """The calls of an assistant's message, also the single `function_call` of older models."""
    calls = message.get("tool_calls") or []
    if not calls and isinstance(message.get("function_call"), dict):
        calls = [{"function": message["function_call"]}]
    for place, call in enumerate(calls):
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        yield _ToolCall(
            place=place,
            id=_text_or_none(call.get("id")),
            name=_text_or_none(function.get("name")),
            arguments=_arguments(function.get("arguments")),
        )


def _arguments(value: object) -> Any:
    """Arguments come as JSON text; what a model wrote that is not JSON stays text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _observations(messages: list[Message]) -> dict[str | None, deque[Any]]:
    """What tools answered, in order, by the id of the call they answer (None: they do not say)."""
    answers: dict[str | None, deque[Any]] = defaultdict(deque)
    for message in messages:
        if message["role"] in {"tool", "function"}:
            answers[_text_or_none(message.get("tool_call_id"))].append(message.get("content"))
    return answers


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _time(place: int) -> datetime:
    return datetime.fromtimestamp(place, UTC)
