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
from typing import Any, Final

from foldlog.importer.conversation import Conversation, Message
from foldlog.models import (
    StateUpdate,
    SteeringEvent,
    SteeringEventType,
    TaskContextSnapshot,
    TaskState,
    TaskStatus,
    TaskType,
    Trajectory,
    TrajectoryStep,
    UpdateType,
)
from foldlog_projections.messages import Message as StoredMessage

FORMAT: Final = "openai"
"""Of whose shape a message's body is."""

_DESCRIPTION: Final = 200

MESSAGES: Final = "messages"
TASKS: Final = "tasks"


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """Everything that one conversation becomes.

    Attributes:
        trace_id: the trace, and the session.
        started: the task before its first message.
        objects: what is saved, by sort, each in the order of its saves: `messages`, `steering`,
            `updates`, `tasks` (the task after its last message) and `trajectories`.
    """

    trace_id: str
    started: TaskState
    objects: dict[str, list[Any]]


def plan(conversation: Conversation, *, prefix: str = "") -> ImportPlan:
    """Return what a conversation becomes.

    Args:
        conversation: the conversation.
        prefix: the session's and the trace's id is this and the conversation's name.
    """
    planner = _Planner(conversation, prefix + conversation.name)
    for place, message in enumerate(conversation.messages):
        planner.add(place, message)
    return planner.plan()


class _Planner:
    """Collects a plan in one pass over the messages."""

    def __init__(self, conversation: Conversation, trace_id: str) -> None:
        self._conversation = conversation
        self._trace_id = trace_id
        self._of: dict[str, Any] = {
            "session_id": trace_id,
            "task_id": f"{trace_id}:foreground",
            "trace_id": trace_id,
        }
        self._observations = _observations(conversation.messages)
        self._user_texts = list[str]()
        self._steps = list[TrajectoryStep]()
        self._messages = list[StoredMessage]()
        self._steering = list[SteeringEvent]()
        self._updates = list[StateUpdate]()

    def add(self, place: int, message: Message) -> None:
        """Take in the next message."""
        role, text = message["role"], text_of(message)
        self._messages.append(StoredMessage(f"{place}", FORMAT, message, role))
        if role == "user":
            self._user_texts.append(text)
            steering = SteeringEvent(
                **self._of,
                event_id=f"{self._trace_id}:{place}",
                event_type=SteeringEventType.USER_MESSAGE,
                payload={"text": text},
                created_at=_time(place),
            )
            self._steering.append(steering)
        elif role == "assistant":
            calls = list(_tool_calls(message))
            if text:
                self._update(place, "result", UpdateType.RESULT, {"text": text})
            if text and not calls:
                self._step(None, "final_response", {"answer": text})
            for number, call in enumerate(calls):
                self._update(place, f"call:{number}", UpdateType.TOOL_CALL, call)
                self._tool_call(text or None, call)

    def plan(self) -> ImportPlan:
        """Return the plan of all that was taken in."""
        started, ended = self._task()
        objects: dict[str, list[Any]] = {
            MESSAGES: self._messages,
            "steering": self._steering,
            "updates": self._updates,
            TASKS: [ended],
            "trajectories": [self._trajectory()],
        }
        return ImportPlan(self._trace_id, started, objects)

    def _tool_call(self, thought: str | None, call: dict[str, Any]) -> None:
        id = call["tool_call_id"]
        waiting = self._observations[id]
        observation = waiting.popleft() if waiting else None
        self._step(thought, call["name"], call["arguments"], observation, tool_call_id=id)

    def _step(
        self, thought: str | None, node: str | None, args: Any, seen: Any = None, **more: Any
    ) -> None:
        action = {"thought": thought, "next_node": node, "args": args, **more}
        self._steps.append(TrajectoryStep(action=action, observation=seen))

    def _update(self, place: int, what: str, update_type: UpdateType, content: object) -> None:
        update = StateUpdate(
            **self._of,
            update_id=f"{self._trace_id}:{place}:{what}",
            update_type=update_type,
            content=content,
            step_index=len(self._steps),
            created_at=_time(place),
        )
        self._updates.append(update)

    def _task(self) -> tuple[TaskState, TaskState]:
        reward = self._conversation.reward
        query = self._user_texts[0] if self._user_texts else None
        started = TaskState(
            **self._of,
            status=TaskStatus.RUNNING,
            task_type=TaskType.FOREGROUND,
            priority=0,
            context_snapshot=TaskContextSnapshot(
                **self._of, spawned_at=_time(0), spawn_reason="import", query=query
            ),
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
        names = ("task_id", "trial", "reward", "info")
        about = ((name, getattr(self._conversation, name)) for name in names)
        query, *later = self._user_texts or [""]
        return Trajectory(
            query=query,
            metadata={name: value for name, value in about if value is not None},
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


def _tool_calls(message: Message) -> Iterator[dict[str, Any]]:
    """The calls of an assistant's message, also the single `function_call` of older models."""
    calls = message.get("tool_calls") or []
    if not calls and isinstance(message.get("function_call"), dict):
        calls = [{"function": message["function_call"]}]
    for call in calls:
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        yield {
            "tool_call_id": _text_or_none(call.get("id")),
            "name": _text_or_none(function.get("name")),
            "arguments": _arguments(function.get("arguments")),
        }


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
