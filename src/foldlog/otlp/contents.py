"""What models were asked and answered, in one form, whichever convention a span follows.

The form is that of OpenTelemetry's current conventions: a message is `{"role", "parts"}`, a part
`{"type": "text", "content"}`, `{"type": "tool_call", "id", "name", "arguments"}` or
`{"type": "tool_call_response", "id", "response"}`. Parts of other types stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from foldlog.otlp.spans import Attributes, Span, SpanEvent

MAX_DEPTH: Final = 40
"""JSON text that nests deeper stays text: readers of the log follow no further than 100 levels."""

_MAX_DOTS: Final = 12

Message = dict[str, Any]


def parsed(value: Any) -> Any:
    """JSON text as what it says; any other value, and text that is not JSON, as it is."""
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return value
    try:
        found = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value
    return found if _is_shallow(found, MAX_DEPTH) else value


def _is_shallow(value: Any, depth: int) -> bool:
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(_is_shallow(each, depth - 1) for each in inner)


class Taker:
    """Takes attributes out of a span. `rest` are those that nobody has asked for."""

    def __init__(self, attributes: Attributes) -> None:
        self.rest: dict[str, Any] = dict(attributes)

    def first(self, *names: str) -> Any:
        """Take all of these; return the first that is there, or None."""
        return next(self._taken(names), None)

    def text(self, *names: str) -> str | None:
        """As `first`, of texts that say something."""
        return next((each for each in self._taken(names) if isinstance(each, str) and each), None)

    def number(self, *names: str) -> float | None:
        """As `first`, of numbers."""
        return next((n for n in self._taken(names) if type(n) in (int, float)), None)

    def _taken(self, names: Iterable[str]) -> Iterator[Any]:
        found = [self.rest.pop(name, None) for name in names]
        return (value for value in found if value is not None)

    def items(self, prefix: str) -> list[Any]:
        """Take a list that is flattened into names, as in `llm.prompts.0.prompt.text`."""
        root: dict[str, Any] = {}
        for name in [each for each in self.rest if each.startswith(prefix)]:
            path = name.removeprefix(prefix).split(".", _MAX_DOTS)
            if not (path[0].isascii() and path[0].isdigit()):
                continue
            at, value = root, self.rest.pop(name)
            for part in path[:-1]:
                inner = at.setdefault(part, {})
                if not isinstance(inner, dict):
                    break
                at = inner
            else:
                at[path[-1]] = value
        return _listed(root) if root else []


def _listed(value: Any) -> Any:
    """Nested names as values: those that are numbers make a list, in order."""
    if not isinstance(value, dict):
        return value
    if value and all(name.isascii() and name.isdigit() for name in value):
        order = sorted(value, key=lambda name: (len(name.lstrip("0")), name))
        return [_listed(value[name]) for name in order]
    return {name: _listed(each) for name, each in value.items()}


def conversation(
    taker: Taker, events: tuple[SpanEvent, ...]
) -> tuple[list[Message], list[Message], tuple[SpanEvent, ...]]:
    """Return what a model was asked, what it answered, and the events that tell of neither.

    The first convention that tells anything counts; what the others repeat is left out.
    """
    inputs = [
        _messages(taker.first("gen_ai.input.messages")),
        [
            *map(message, taker.items("gen_ai.prompt.")),
            *map(_of_openinference, taker.items("llm.input_messages.")),
            *(_as_text("user", each, "prompt") for each in taker.items("llm.prompts.")),
        ],
        _messages(taker.first("gen_ai.prompt")),
    ]
    answered = [
        _messages(taker.first("gen_ai.output.messages"), "assistant"),
        [
            *(message(each, "assistant") for each in taker.items("gen_ai.completion.")),
            *map(_of_openinference, taker.items("llm.output_messages.")),
            *(_as_text("assistant", each, "completion") for each in taker.items("llm.choices.")),
        ],
        _messages(taker.first("gen_ai.completion"), "assistant"),
    ]
    rest = list[SpanEvent]()
    of_events = list[Message](), list[Message]()
    for each in events:
        found = _of_event(each)
        if found is None:
            rest.append(each)
        else:
            of_events[0].extend(found[0])
            of_events[1].extend(found[1])
    first = next(filter(None, (*inputs, of_events[0])), [])
    return first, next(filter(None, (*answered, of_events[1])), []), tuple(rest)


def _of_event(event: SpanEvent) -> tuple[list[Message], list[Message]] | None:
    """What an event of a span tells of the conversation, in the forms that there have been."""
    given = event.attributes
    match event.name:
        case "gen_ai.client.inference.operation.details":
            inputs = _messages(given.get("gen_ai.input.messages"))
            return inputs, _messages(given.get("gen_ai.output.messages"), "assistant")
        case "gen_ai.content.prompt":
            return _messages(given.get("gen_ai.prompt")), []
        case "gen_ai.content.completion":
            return [], _messages(given.get("gen_ai.completion"), "assistant")
        case "gen_ai.choice":
            inner = parsed(given.get("message"))
            return [], [message(inner if isinstance(inner, dict) else given, "assistant")]
        case "gen_ai.system.message" | "gen_ai.user.message" | "gen_ai.tool.message":
            return [message(given, event.name.split(".")[1])], []
        case "gen_ai.assistant.message":
            return [message(given, "assistant")], []
    return None


def _messages(value: Any, role: str = "user") -> list[Message]:
    found = parsed(value)
    if found is None or found == "":
        return []
    return [message(each, role) for each in (found if isinstance(found, list) else [found])]


def message(given: Any, role: str = "user") -> Message:
    """Return a message in the one form. `role` is whose it is unless it says so itself."""
    if not isinstance(given, dict):
        return {"role": role, "parts": [] if given is None else [_part(given)]}
    said = given.get("role")
    made: Message = {"role": said if isinstance(said, str) and said else role}
    made |= {name: given[name] for name in ("name", "finish_reason") if given.get(name)}
    made["parts"] = parts = list(_parts(given, made["role"]))
    if parts and all(_type_of(each) == "tool_call_response" for each in parts):
        made["role"] = "tool"  # some have the user say what tools answered
    return made


def _parts(given: dict[str, Any], role: str) -> Iterator[Any]:
    if isinstance(parts := parsed(given.get("parts")), list):
        yield from map(_part, parts)
        return
    answers = given.get("tool_call_id") or (given.get("id") if role == "tool" else None)
    content = parsed(given.get("content"))
    if role == "tool" and answers is not None:
        yield {"type": "tool_call_response", "id": answers, "response": content}
    elif isinstance(content, list):
        yield from map(_part, content)
    elif content is not None and content != "":
        yield _part(given["content"])
    calls = parsed(given.get("tool_calls"))
    for call in calls if isinstance(calls, list) else ():
        yield _call(call)
    if isinstance(call := parsed(given.get("function_call")), dict):
        yield _call(call)


def _part(given: Any) -> Any:
    if isinstance(given, str):
        return {"type": "text", "content": given}
    if not isinstance(given, dict):
        return {"type": "value", "content": given}
    match _type_of(given):
        case "text" | "input_text" | "output_text" if isinstance(given.get("text"), str):
            return {"type": "text", "content": given["text"]}
        case "tool_use":
            return _call(given | {"arguments": given.get("input")})
        case "tool_result":
            id, response = given.get("tool_use_id"), given.get("content")
            return {"type": "tool_call_response", "id": id, "response": response}
        case "tool_call_response" if "response" not in given and "result" in given:
            return {("response" if k == "result" else k): v for k, v in given.items()}
    return given


def _type_of(part: Any) -> Any:
    return part.get("type") if isinstance(part, dict) else None


def _call(given: Any) -> Any:
    if not isinstance(given, dict):
        return {"type": "tool_call", "name": None, "arguments": given}
    inner = given.get("function")
    about = inner if isinstance(inner, dict) else given
    arguments = parsed(about.get("arguments"))
    return {
        "type": "tool_call",
        "id": given.get("id"),
        "name": about.get("name"),
        "arguments": arguments,
    }


def _of_openinference(given: Any) -> Message:
    """A message of OpenInference, whose names say at each level what they are of."""
    about = given.get("message") if isinstance(given, dict) else None
    if not isinstance(about, dict):
        return message(given)
    about = dict(about)
    contents, calls = about.pop("contents", None), about.pop("tool_calls", None)
    if isinstance(contents, list):
        about["content"] = [_content(each) for each in contents]
    if isinstance(calls, list):
        about["tool_calls"] = [
            each["tool_call"] if isinstance(each, dict) and "tool_call" in each else each
            for each in calls
        ]
    return message(about)


def _content(given: Any) -> Any:
    inner = given.get("message_content") if isinstance(given, dict) else None
    return inner if isinstance(inner, dict) else given


def _as_text(role: str, given: Any, name: str) -> Message:
    inner = given.get(name) if isinstance(given, dict) else None
    text = inner.get("text") if isinstance(inner, dict) else inner
    return message(text, role)


def plain_events(span: Span, events: tuple[SpanEvent, ...]) -> list[dict[str, Any]]:
    """Return events with the milliseconds after the span's start at which they happened."""
    return [
        {
            "name": each.name,
            "after_ms": round((each.time - span.start) / 1e6, 3),
            "attributes": each.attributes,
        }
        for each in events
    ]
