"""What an input item must look like, and what is left of it once it passed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Message = Mapping[str, Any]
"""One OpenAI-style message, exactly as the input has it. It has a `role`; the rest is open."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One item of the input, made by `read_conversations`.

    Attributes:
        source: the file.
        number: the line of a JSONL file, or the place in a JSON array, counted from 1.
        index: its place among the items of the whole run, from 0, broken ones included.
        size: its share of the file, in bytes.
        messages: the messages.
        task_id, trial: what the item calls itself.
        reward: how it was rated.
        info: whatever else the item says.
    """

    source: str
    number: int
    index: int
    size: int
    messages: list[Message]
    task_id: str | int | None = None
    trial: str | int | None = None
    reward: float | None = None
    info: Any = None

    @property
    def name(self) -> str:
        """`<task_id>-<trial>`, or the index where the item lacks either."""
        if self.task_id is None or self.trial is None:
            return str(self.index)
        return f"{self.task_id}-{self.trial}"


@dataclass(frozen=True, slots=True)
class BrokenLine:
    """An item that was left out, and why.

    Attributes:
        source: the file.
        number: the line of a JSONL file, or the place in a JSON array; 0 is the whole file.
        size: its share of the file, in bytes.
        reason: what is wrong with it.
    """

    source: str
    number: int
    size: int
    reason: str

    def __str__(self) -> str:
        place = f":{self.number}" if self.number else ""
        return f"{self.source}{place}: {self.reason}"


class ShapeError(ValueError):
    """An item that is no conversation. Never leaves the importer: it becomes a `BrokenLine`."""


def parse_item(item: object, *, source: str, number: int, index: int, size: int) -> Conversation:
    """A conversation from one decoded item: a list of messages, or an object that holds one.

    Raises `ShapeError`, which says what is wrong.
    """
    fields = item if isinstance(item, dict) else {"messages": item}
    messages = fields.get("traj") if fields.get("traj") is not None else fields.get("messages")
    if messages is None and isinstance(item, dict):
        raise ShapeError("an object with neither 'traj' nor 'messages'")
    return Conversation(
        source=source,
        number=number,
        index=index,
        size=size,
        messages=_messages(messages),
        task_id=_identifier(fields, "task_id"),
        trial=_identifier(fields, "trial"),
        reward=_reward(fields.get("reward")),
        info=fields.get("info"),
    )


def _messages(value: object) -> list[Message]:
    if not isinstance(value, list):
        raise ShapeError(f"expected a list of messages, found {_kind(value)}")
    if not value:
        raise ShapeError("a conversation without messages")
    for place, message in enumerate(value, start=1):
        if (flaw := _flaw(message)) is not None:
            raise ShapeError(f"message {place} {flaw}")
    return value


def _flaw(message: object) -> str | None:
    if not isinstance(message, dict):
        return f"is {_kind(message)}, not an object"
    role = message.get("role")
    if not isinstance(role, str) or not role:
        return "has no role"
    calls = message.get("tool_calls")
    if calls is not None and not (
        isinstance(calls, list) and all(isinstance(call, dict) for call in calls)
    ):
        return "has tool_calls that are not a list of objects"
    return None


def _identifier(fields: Mapping[str, Any], name: str) -> str | int | None:
    value = fields.get(name)
    if value is None or (isinstance(value, str) and value):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ShapeError(f"{name!r} must be a non-empty string or an integer")


def _reward(value: object) -> float | None:
    if value is None or isinstance(value, int | float):
        return value
    raise ShapeError(f"'reward' must be a number, found {_kind(value)}")


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    return "null" if value is None else kinds.get(type(value), "a number")
