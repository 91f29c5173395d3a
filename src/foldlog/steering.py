"""Steering payloads are untrusted: how they are cut to size, and what each event type needs.

Pure functions. Limits, process and the table of fields: StateStore specification 2.11, section
"Steering Payload Sanitization".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time
from itertools import count, islice
from typing import Any, Final

from foldlog.errors import SteeringValidationError
from foldlog.models import SteeringEvent, SteeringEventType

MAX_STEERING_PAYLOAD_BYTES = 16_384
"""The payload as JSON, in UTF-8 bytes."""
MAX_STEERING_DEPTH = 6
"""Levels of values: the payload itself is the first."""
MAX_STEERING_KEYS = 64
"""Keys of one dict, the marker of dropped ones not counted."""
MAX_STEERING_LIST_ITEMS = 50
"""Items of one list, the marker of dropped ones not counted."""
MAX_STEERING_STRING = 4_096
"""Characters of one string."""

_MAX_KEY = 64
_CUT = "<truncated>"
_CUT_KEYS = "__truncated_keys__"
# Any process can print an integer of this size: 640 digits is the lowest limit Python accepts.
_MAX_INT_BITS = 2048


def sanitize_steering_event(event: SteeringEvent) -> SteeringEvent:
    """Return a copy of an event with its payload sanitised.

    Args:
        event: the event; it is left as it is.
    """
    return event.model_copy(update={"payload": sanitize_payload(event.payload)})


def sanitize_payload(payload: object) -> dict[str, Any]:
    """The payload as valid JSON of at most `MAX_STEERING_PAYLOAD_BYTES`, as fresh objects.

    What was dropped leaves a mark: `"<truncated>"` for a value too deep and after the last item
    of a list, `"__truncated_keys__": true` in a dict. A payload that is still too large becomes
    `{"truncated": true, "summary": <the beginning of its JSON>}`. What JSON lacks becomes text.
    Never raises, and sanitizing the result changes nothing.
    """
    root = payload if isinstance(payload, dict) else {"value": payload}
    sanitized = _Sanitizer().mapping(root, depth=MAX_STEERING_DEPTH)
    encoded = _json(sanitized)
    return sanitized if _excess(encoded) <= 0 else _summary(encoded)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _excess(encoded: str) -> int:
    return len(encoded.encode()) - MAX_STEERING_PAYLOAD_BYTES


def _summary(encoded: str) -> dict[str, Any]:
    summary = {"truncated": True, "summary": encoded[:MAX_STEERING_STRING]}
    excess = _excess(_json(summary))
    if excess > 0:
        # Four bytes a character: the text alone can fill the limit. Each one dropped frees a byte
        # or more, and only the few bytes around the text are in excess.
        summary["summary"] = encoded[: MAX_STEERING_STRING - excess]
    return summary


class _Sanitizer:
    """One walk over one payload.

    `_room` is what the walk may still spend, in characters of the resulting JSON, counted low.
    Once it is spent the result is too large for certain, and the walk ends: a small payload that
    shares or contains itself would otherwise unfold without bound.
    """

    def __init__(self) -> None:
        self._room = MAX_STEERING_PAYLOAD_BYTES

    def value(self, value: object, *, depth: int) -> Any:
        if depth == 0 or self._room < 0:
            return _CUT
        clean: Any
        if isinstance(value, dict):
            return self.mapping(value, depth=depth)
        if isinstance(value, list | tuple):
            return self.sequence(value, depth=depth)
        if isinstance(value, set | frozenset):
            # A set's own order differs from process to process.
            return self.sequence(sorted(value, key=_text), depth=depth)
        if value is None or isinstance(value, bool):
            clean = value
        elif isinstance(value, int) and value.bit_length() <= _MAX_INT_BITS:
            clean = int(value)
        elif isinstance(value, float) and abs(value) < float("inf"):
            clean = float(value)
        else:
            clean = _text(value)
        self._room -= len(clean) + 2 if isinstance(clean, str) else 1
        return clean

    def sequence(self, items: Iterable[object], *, depth: int) -> list[Any]:
        self._room -= 2
        # One more than allowed shows whether something was left out.
        taken = list(islice(items, MAX_STEERING_LIST_ITEMS + 1))
        clean = [self.value(item, depth=depth - 1) for item in taken[:MAX_STEERING_LIST_ITEMS]]
        return [*clean, _CUT] if len(taken) > MAX_STEERING_LIST_ITEMS else clean

    def mapping(self, items: Mapping[Any, object], *, depth: int) -> dict[str, Any]:
        self._room -= 2
        clean: dict[str, Any] = {}
        cut = False
        for key, item in items.items():
            name = _text(key)[:_MAX_KEY]
            if name == _CUT_KEYS:
                # The mark of an earlier pass, so that a second one changes nothing.
                cut = True
                continue
            if len(clean) == MAX_STEERING_KEYS:
                cut = True
                break
            name = _unused(name, clean)
            self._room -= len(name) + 3
            clean[name] = self.value(item, depth=depth - 1)
        if cut:
            clean[_CUT_KEYS] = True
        return clean


def _unused(name: str, taken: Mapping[str, Any]) -> str:
    """`name`, or where cutting made two keys equal, one with a number at its end."""
    if name not in taken:
        return name
    numbered = (f"~{number}" for number in count(2))
    candidates = (name[: _MAX_KEY - len(end)] + end for end in numbered)
    return next(each for each in candidates if each not in taken)


def _text(value: object) -> str:
    """Text of at most `MAX_STEERING_STRING` characters that UTF-8 can hold."""
    if isinstance(value, str):
        # A subclass, such as a member of a string enumeration, gives its plain text.
        text = str.__str__(value)
    elif isinstance(value, bytes | bytearray):
        text = value[:MAX_STEERING_STRING].decode("utf-8", "replace")
    elif isinstance(value, int) and value.bit_length() > _MAX_INT_BITS:
        text = hex(value)
    else:
        text = _foreign_text(value)
    return text[:MAX_STEERING_STRING].encode("utf-8", "replace").decode()


def _foreign_text(value: object) -> str:
    try:
        return value.isoformat() if isinstance(value, datetime | date | time) else str(value)
    except Exception:  # noqa: BLE001 - a foreign __str__ or tzinfo may raise whatever it likes
        return f"<{type(value).__name__}>"


# --- validation -------------------------------------------------------------------------------


def validate_steering_event(event: SteeringEvent) -> None:
    """Check that a payload holds what its event type needs. Unknown fields are allowed.

    Args:
        event: the event.

    Raises:
        SteeringValidationError: the payload breaks a rule; `errors` lists each breach.
    """
    check_payload(event.event_type, event.payload)


def check_payload(event_type: SteeringEventType, payload: object) -> None:
    """As `validate_steering_event`, of an event's type and payload."""
    if not isinstance(payload, dict):
        raise SteeringValidationError([f"{event_type} requires an object as payload"])
    found = [f"{event_type} {rule}" for rule in _RULES[event_type] if not rule.allows(payload)]
    if found:
        raise SteeringValidationError(found)


_FORMS: Final[Mapping[str, Callable[[object], bool]]] = {
    "a string": lambda value: isinstance(value, str),
    "a non-empty string": lambda value: isinstance(value, str) and bool(value.strip()),
    "an integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "a boolean": lambda value: isinstance(value, bool),
    "an object": lambda value: isinstance(value, dict),
    "a list of task ids": lambda value: (
        isinstance(value, list) and all(isinstance(item, str) for item in value)
    ),
    "'foreground' or 'task_only'": lambda value: (
        isinstance(value, str) and value in ("foreground", "task_only")
    ),
    "'note' or 'correction'": lambda value: (
        isinstance(value, str) and value in ("note", "correction")
    ),
}


class _Needs:
    """At least one of the fields is there and has the form."""

    def __init__(self, form: str, *names: str) -> None:
        self._form = form
        self._names = names

    def __str__(self) -> str:
        return f"requires {' or '.join(map(repr, self._names))} as {self._form}"

    def allows(self, payload: Mapping[str, Any]) -> bool:
        return any(_FORMS[self._form](payload.get(name)) for name in self._names)


class _Allows(_Needs):
    """The field is missing, None, or has the form."""

    def __str__(self) -> str:
        return f"{self._names[0]!r} must be {self._form}"

    def allows(self, payload: Mapping[str, Any]) -> bool:
        return payload.get(self._names[0]) is None or super().allows(payload)


_TEXT = _Needs("a non-empty string", "text")
_REASON = _Allows("a string", "reason")
_DECISION = (
    _Needs("a non-empty string", "resume_token", "patch_id", "event_id"),
    _Allows("a string", "decision"),
)

_RULES: Final[Mapping[SteeringEventType, tuple[_Needs, ...]]] = {
    SteeringEventType.INJECT_CONTEXT: (
        _TEXT,
        _Allows("'foreground' or 'task_only'", "scope"),
        _Allows("'note' or 'correction'", "severity"),
    ),
    SteeringEventType.REDIRECT: (
        _Needs("a non-empty string", "instruction", "goal", "query"),
        _Allows("an object", "constraints"),
    ),
    SteeringEventType.CANCEL: (_REASON, _Allows("a boolean", "hard")),
    SteeringEventType.PRIORITIZE: (_Needs("an integer", "priority"),),
    SteeringEventType.PAUSE: (_REASON,),
    SteeringEventType.RESUME: (_REASON,),
    SteeringEventType.APPROVE: _DECISION,
    SteeringEventType.REJECT: _DECISION,
    SteeringEventType.USER_MESSAGE: (_TEXT, _Allows("a list of task ids", "active_tasks")),
}
