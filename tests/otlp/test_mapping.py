"""What the mapping makes of spans of each convention: plain values, no server."""

from __future__ import annotations

import dataclasses
import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given, strategies as st

from foldlog.otlp.contents import MAX_DEPTH, Taker, message, parsed
from foldlog.otlp.mapping import (
    _NAMES,
    _OPERATIONS,
    _SESSIONS,
    _USAGE,
    MAPPING,
    mapped,
    operation,
    refusal,
)
from foldlog.otlp.spans import CLIENT, ERROR, INTERNAL, Span, SpanEvent
from foldlog.store.payloads import encode
from foldlog_projections import events
from foldlog_projections.events import EventSaved

TRACE, ID = "a" * 32, "b" * 16
HI = {"role": "user", "parts": [{"type": "text", "content": "hi"}]}
HELLO = {"role": "assistant", "parts": [{"type": "text", "content": "hello"}]}
CALL = {
    "role": "assistant",
    "parts": [{"type": "tool_call", "id": "c1", "name": "f", "arguments": {"a": 1}}],
}
RESULT = {
    "role": "tool",
    "parts": [{"type": "tool_call_response", "id": "c1", "response": "done"}],
}


def span(attributes: dict[str, Any], **fields: Any) -> Span:
    given: dict[str, Any] = {"name": "a span", "start": 2_000_000_000, "end": 2_250_000_000}
    return Span(trace_id=TRACE, span_id=ID, attributes=attributes, **given | fields)


def payload(attributes: dict[str, Any], **fields: Any) -> Any:
    return mapped(span(attributes, **fields)).event.payload


CONVENTIONS: dict[str, tuple[dict[str, Any], list[Any], list[Any]]] = {
    "current, as JSON": (
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps([HI, CALL, RESULT]),
            "gen_ai.output.messages": json.dumps([HELLO]),
        },
        [HI, CALL, RESULT],
        [HELLO],
    ),
    "current, as values": (
        {"gen_ai.input.messages": [HI], "gen_ai.output.messages": [HELLO]},
        [HI],
        [HELLO],
    ),
    "numbered, of OpenLLMetry": (
        {
            "llm.request.type": "chat",
            "gen_ai.prompt.0.role": "user",
            "gen_ai.prompt.0.content": "hi",
            "gen_ai.prompt.1.role": "assistant",
            "gen_ai.prompt.1.tool_calls.0.id": "c1",
            "gen_ai.prompt.1.tool_calls.0.name": "f",
            "gen_ai.prompt.1.tool_calls.0.arguments": '{"a": 1}',
            "gen_ai.prompt.2.role": "tool",
            "gen_ai.prompt.2.tool_call_id": "c1",
            "gen_ai.prompt.2.content": "done",
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.content": "hello",
        },
        [HI, CALL, RESULT],
        [HELLO],
    ),
    "OpenInference": (
        {
            "openinference.span.kind": "LLM",
            "input.value": '{"messages": "all of it, once more"}',
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.contents.0.message_content.type": "text",
            "llm.input_messages.0.message.contents.0.message_content.text": "hi",
            "llm.input_messages.1.message.role": "assistant",
            "llm.input_messages.1.message.tool_calls.0.tool_call.id": "c1",
            "llm.input_messages.1.message.tool_calls.0.tool_call.function.name": "f",
            "llm.input_messages.1.message.tool_calls.0.tool_call.function.arguments": '{"a": 1}',
            "llm.input_messages.2.message.role": "tool",
            "llm.input_messages.2.message.tool_call_id": "c1",
            "llm.input_messages.2.message.content": "done",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "hello",
        },
        [HI, CALL, RESULT],
        [HELLO],
    ),
    "OpenInference, of completions": (
        {
            "openinference.span.kind": "LLM",
            "llm.prompts.0.prompt.text": "hi",
            "llm.choices.0.completion.text": "hello",
        },
        [HI],
        [HELLO],
    ),
}


@pytest.mark.parametrize("name", CONVENTIONS)
def test_a_conversation_reads_alike_in_every_convention(name: str) -> None:
    attributes, told, answered = CONVENTIONS[name]
    found = payload(attributes)
    assert (found["input"], found["output"]) == (told, answered)
    assert found["mapping"] == MAPPING == "genai-1"
    assert "attributes" not in found, "what was read is not kept a second time"


def test_what_a_tool_answered_is_the_tools() -> None:
    """Also where the user is said to have said it, and by an older name."""
    part = {"type": "tool_call_response", "id": "c1", "result": "done"}
    told = [{"role": "user", "parts": [part]}]
    found = payload({"gen_ai.operation.name": "chat", "gen_ai.input.messages": told})
    assert found["input"] == [RESULT]


def at(name: str, attributes: dict[str, Any]) -> SpanEvent:
    return SpanEvent(name, 2_001_000_000, attributes)


EVENTS: dict[str, tuple[SpanEvent, ...]] = {
    "one event with all": (
        at(
            "gen_ai.client.inference.operation.details",
            {"gen_ai.input.messages": [HI], "gen_ai.output.messages": json.dumps([HELLO])},
        ),
    ),
    "an event each": (
        at("gen_ai.user.message", {"content": "hi"}),
        at("gen_ai.choice", {"index": 0, "message": '{"role": "assistant", "content": "hello"}'}),
    ),
    "prompt and completion": (
        at("gen_ai.content.prompt", {"gen_ai.prompt": '[{"role": "user", "content": "hi"}]'}),
        at("gen_ai.content.completion", {"gen_ai.completion": '[{"content": "hello"}]'}),
    ),
}


@pytest.mark.parametrize("name", EVENTS)
def test_a_conversation_in_the_events_of_a_span(name: str) -> None:
    other = at("cache.miss", {"key": 1})
    found = payload({"gen_ai.operation.name": "chat"}, events=(*EVENTS[name], other))
    assert (found["input"], found["output"]) == ([HI], [HELLO])
    assert found["events"] == [{"name": "cache.miss", "after_ms": 1.0, "attributes": {"key": 1}}]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"gen_ai.operation.name": "Invoke-Agent"}, "invoke_agent"),
        ({"gen_ai.operation.name": "something_new"}, "something_new"),
        ({"openinference.span.kind": "RETRIEVER"}, "retrieval"),
        ({"traceloop.span.kind": "workflow"}, "invoke_workflow"),
        ({"llm.request.type": "completion"}, "text_completion"),
        ({"gen_ai.request.model": "m"}, "chat"),
        ({"gen_ai.tool.name": "f"}, "execute_tool"),
        ({"gen_ai.system": "openai"}, "span"),
        ({"traceloop.association.properties.session_id": "s"}, None),
        ({"http.request.method": "GET"}, None),
        ({"openinference.span.kind": ["LLM"]}, "span"),
        ({}, None),
    ],
)
def test_what_a_span_does(attributes: dict[str, Any], expected: str | None) -> None:
    assert operation(attributes) == expected


@pytest.mark.parametrize(
    ("does", "where"),
    [
        ("chat", "m"),
        ("invoke_agent", "a"),
        ("execute_tool", "f"),
        ("plan", "a"),
        ("retrieval", "m"),
    ],
)
def test_where_it_was(does: str, where: str) -> None:
    """Of a call of a model the model, though current conventions name the agent there, too."""
    names = {"gen_ai.agent.name": "a", "gen_ai.request.model": "m"}
    names |= {"gen_ai.tool.name": "f"} if does == "execute_tool" else {}
    event = mapped(span(names | {"gen_ai.operation.name": does})).event
    assert (event.node_name, event.payload["agent"]) == (where, "a")


def test_a_call_of_a_model() -> None:
    event = mapped(
        span(
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.system": "openai",
                "gen_ai.request.model": "gpt-4o",
                "gen_ai.response.model": "gpt-4o-2024",
                "gen_ai.usage.prompt_tokens": 7,
                "gen_ai.usage.completion_tokens": 2,
                "llm.usage.total_tokens": 9,
                "gen_ai.response.finish_reasons": ["stop"],
                "gen_ai.request.temperature": 0.5,
                "llm.cost.total": 0.01,
            },
            kind=CLIENT,
            parent_id="c" * 16,
            scope="instrumentation",
            resource={"service.name": "trips", "process.command_args": ["--secret"]},
            links=((TRACE, "d" * 16),),
        )
    ).event
    assert (event.trace_id, event.ts, event.kind) == (TRACE, 2.0, "gen_ai.chat")
    assert (event.node_name, event.node_id) == ("gpt-4o", ID)
    assert event.payload == {
        "mapping": "genai-1",
        "name": "a span",
        "operation": "chat",
        "parent_span_id": "c" * 16,
        "span_kind": "client",
        "scope": "instrumentation",
        "resource": {"service.name": "trips"},
        "links": [{"trace_id": TRACE, "span_id": "d" * 16}],
        "latency_ms": 250.0,
        "provider": "openai",
        "model": "gpt-4o",
        "response_model": "gpt-4o-2024",
        "finish_reasons": ["stop"],
        "usage": {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9},
        "cost_usd": 0.01,
        "attributes": {"gen_ai.request.temperature": 0.5},
    }


@pytest.mark.parametrize(
    "attributes",
    [
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "f",
            "gen_ai.tool.call.id": "c1",
            "gen_ai.tool.call.arguments": {"a": 1},
            "gen_ai.tool.call.result": "done",
        },
        {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": "f",
            "traceloop.entity.input": '{"a": 1}',
            "traceloop.entity.output": "done",
            "tool_call.id": "c1",
        },
        {
            "openinference.span.kind": "TOOL",
            "tool.name": "f",
            "tool.id": "c1",
            "input.value": '{"a": 1}',
            "output.value": "done",
        },
    ],
)
def test_a_tool_call(attributes: dict[str, Any]) -> None:
    event = mapped(span(attributes)).event
    assert (event.kind, event.node_name) == ("gen_ai.execute_tool", "f")
    names = ("tool", "tool_call_id", "arguments", "result")
    assert [event.payload[name] for name in names] == ["f", "c1", {"a": 1}, "done"]


@pytest.mark.parametrize(
    ("attributes", "kind", "whole"),
    [
        ({"gen_ai.operation.name": "invoke_agent"}, INTERNAL, True),
        ({"gen_ai.operation.name": "invoke_agent"}, CLIENT, False),
        ({"traceloop.span.kind": "workflow"}, INTERNAL, True),
        ({"gen_ai.operation.name": "chat"}, INTERNAL, False),
        ({"http.route": "/"}, CLIENT, True),
    ],
)
def test_what_is_around_others_says_so(attributes: dict[str, Any], kind: int, whole: bool) -> None:
    """Its tokens and times are those of the spans inside, which are counted by themselves."""
    assert payload(attributes, kind=kind).get("whole", False) is whole


@pytest.mark.parametrize(
    ("attributes", "session"),
    [
        ({"gen_ai.conversation.id": "c", "session.id": "s"}, "c"),
        ({"session.id": "s"}, "s"),
        ({"traceloop.association.properties.session_id": "t"}, "t"),
        ({"gen_ai.conversation.id": 7}, "7"),
        ({"gen_ai.conversation.id": ""}, None),
        ({"gen_ai.conversation.id": ["c"]}, None),
        ({"gen_ai.conversation.id": "x" * 513}, None),
        ({}, None),
    ],
)
def test_whose_a_span_is(attributes: dict[str, Any], session: str | None) -> None:
    assert mapped(span(attributes)).session_id == session


def test_an_error_is_named() -> None:
    raised = at("exception", {"exception.type": "ValueError", "exception.message": "boom"})
    ai = {"gen_ai.operation.name": "chat"}
    assert payload(ai, status=ERROR, events=(raised,))["error"] == {
        "type": "ValueError",
        "message": "boom",
    }
    assert payload(ai | {"error.type": "timeout"})["error"] == {"type": "timeout", "message": ""}
    assert payload(ai, status=ERROR)["error"] == {"type": "error", "message": ""}
    assert "error" not in payload(ai, events=(raised,)), "it was handled"


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        ({}, None),
        ({"trace_id": "0" * 32}, "a span's trace id is 16 bytes, not all zero"),
        ({"trace_id": "../.."}, "a span's trace id is 16 bytes, not all zero"),
        ({"span_id": ""}, "a span's id is 8 bytes, not all zero"),
    ],
)
def test_a_span_needs_its_ids(ids: dict[str, str], reason: str | None) -> None:
    given = {"trace_id": TRACE, "span_id": ID, "name": "", "start": 0, "end": 0} | ids
    assert refusal(Span(attributes={}, **given)) == reason  # type: ignore[arg-type]


# --- what nobody should send ----------------------------------------------------------------------


def test_text_that_nests_too_deep_stays_text() -> None:
    shallow = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert parsed(shallow) != shallow
    for deep in ("[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2), "[" * 100_000, "{no JSON"):
        assert parsed(deep) == deep


def test_names_that_claim_places_far_away_take_no_more_room_than_they_need() -> None:
    taker = Taker({f"p.{10**30}.a": 2, "p.7.a": 1, "p.x.a": 3, "p.30": {"odd": 1}, "p.": 0})
    assert taker.items("p.") == [{"a": 1}, {"odd": 1}, {"a": 2}]
    assert taker.rest == {"p.x.a": 3, "p.": 0}


@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        "",
        [],
        {},
        [None],
        [[]],
        {"role": 5, "parts": 5},
        [{"tool_calls": "x"}],
        b"bytes",
        {"role": "tool", "tool_call_id": {}, "content": {}},
        {"tool_calls": 5},
        [{"tool_calls": [{"function": [1]}]}],
        {"tool_calls": [5]},
        "[1, {}]",
    ],
)
def test_messages_of_no_shape_are_kept_as_they_can(value: Any) -> None:
    names = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.prompt", "input.value")
    found = payload(dict.fromkeys(names, value) | {"gen_ai.operation.name": "chat"})
    for each in [*found.get("input", []), *found.get("output", [])]:
        assert isinstance(each["role"], str)
        assert isinstance(each["parts"], list)
    assert isinstance(message(value)["parts"], list)


@pytest.mark.parametrize("name", sorted({n for a, _, _ in CONVENTIONS.values() for n in a}))
def test_every_attribute_may_be_of_any_type(name: str) -> None:
    values: list[Any] = [None, 7, float("nan"), ["x"], {"a": {"b": []}}, b"x", True]
    for kind, value in product(("chat", "execute_tool", "invoke_agent"), values):
        mapped(span({"gen_ai.operation.name": kind, name: value}))


NAMES = sorted(
    {n for a, _, _ in CONVENTIONS.values() for n in a}
    | {n for names in (*_NAMES.values(), *_USAGE.values(), _SESSIONS, _OPERATIONS) for n in names}
    | {"gen_ai.tool.call.arguments", "gen_ai.prompt", "gen_ai.completion", "error.type"}
    | {"llm.tools.0", "gen_ai.prompt.0", "gen_ai.prompt.0.parts.1.type", "gen_ai.prompt.1.1.1"}
)
KEYS = (
    "role",
    "parts",
    "type",
    "content",
    "text",
    "tool_calls",
    "function",
    "name",
    "id",
    "result",
)
WORDS = ("", "text", "tool", "tool_use", "tool_result", "tool_call_response", "user", "[1]", "x")
plain = st.one_of(
    *(st.sampled_from(WORDS), st.none(), st.booleans(), st.integers(), st.floats(), st.binary())
)
values = st.recursive(
    plain,
    lambda inner: st.one_of(
        *(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=4))
    ),
    max_leaves=12,
)
TELLING = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.prompt")
odd_messages = st.lists(st.dictionaries(st.sampled_from(KEYS), values, min_size=2), max_size=3)
given_values = st.one_of(values, odd_messages)
texts = given_values.map(lambda value: json.dumps(value, default=str))
attributes = st.dictionaries(
    st.sampled_from(NAMES) | st.sampled_from(TELLING), st.one_of(given_values, texts), max_size=8
)
happened = st.sampled_from(
    ("gen_ai.choice", "gen_ai.tool.message", "gen_ai.content.prompt", "exception", "other")
)


@given(attributes, happened, attributes, st.integers(0, 5), st.integers(0, 3))
def test_no_attributes_can_make_it_fail(
    of_span: dict[str, Any], event: str, of_event: dict[str, Any], kind: int, status: int
) -> None:
    """What comes out can be held, and is the same each time."""
    one = span(of_span, events=(at(event, of_event),), kind=kind, status=status)
    found = mapped(one)
    record = EventSaved(*dataclasses.astuple(found.event))
    encode(events.kind, record, id=found.id)
    assert repr(mapped(one)) == repr(found)
