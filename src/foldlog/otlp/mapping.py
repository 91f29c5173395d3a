"""The mapping `genai-1`: from a span to an event of its trace.

Pure; the table is in `docs/reference/otlp-mapping.md`.

It reads OpenTelemetry's conventions for generative AI, the current ones and those before, and
those of OpenLLMetry and OpenInference. A change of what is made of a span gets the mapping's next
name: each event says which one made it.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from foldlog.errors import InvalidId
from foldlog.models import StoredEvent
from foldlog.otlp.contents import Taker, conversation, message, parsed, plain_events
from foldlog.otlp.spans import CLIENT, ERROR, KINDS, Attributes, Span, SpanEvent
from foldlog.subjects import checked_id

MAPPING: Final = "genai-1"
"""The name of this mapping."""

_OPERATIONS: Final = {
    "openinference.span.kind": {
        "LLM": "chat",
        "EMBEDDING": "embeddings",
        "TOOL": "execute_tool",
        "AGENT": "invoke_agent",
        "CHAIN": "invoke_workflow",
        "RETRIEVER": "retrieval",
        "RERANKER": "rerank",
        "GUARDRAIL": "guardrail",
        "EVALUATOR": "evaluate",
        "PROMPT": "prompt",
    },
    "traceloop.span.kind": {
        "workflow": "invoke_workflow",
        "agent": "invoke_agent",
        "tool": "execute_tool",
        "task": "task",
    },
    "llm.request.type": {
        "chat": "chat",
        "completion": "text_completion",
        "embedding": "embeddings",
        "rerank": "rerank",
    },
}
"""What other conventions call operations, by the attribute that says so."""

_WHOLES: Final = frozenset({"invoke_agent", "invoke_workflow", "create_agent", "task", "plan"})
"""What other spans are inside of. A remote agent's (client) span is not: nothing else says so."""

_SESSIONS: Final = (
    "gen_ai.conversation.id",
    "session.id",
    "traceloop.association.properties.session_id",
)
_NAMES: Final = {
    "provider": ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system"),
    "model": (
        "gen_ai.request.model",
        "llm.request.model_name",
        "llm.model_name",
        "embedding.model_name",
        "reranker.model_name",
    ),
    "response_model": ("gen_ai.response.model", "llm.response.model_name"),
    "response_id": ("gen_ai.response.id",),
    "agent": ("gen_ai.agent.name", "agent.name", "gen_ai.workflow.name"),
    "agent_id": ("gen_ai.agent.id",),
}
_USAGE: Final = {
    "input_tokens": (
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.prompt_tokens",
        "gen_ai.aggregated_usage.input_tokens",
        "llm.token_count.prompt",
    ),
    "output_tokens": (
        "gen_ai.usage.output_tokens",
        "gen_ai.usage.completion_tokens",
        "gen_ai.aggregated_usage.output_tokens",
        "llm.token_count.completion",
    ),
    "total_tokens": ("llm.usage.total_tokens", "llm.token_count.total"),
    "cache_read_input_tokens": (
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_read_input_tokens",
        "llm.token_count.prompt_details.cache_read",
    ),
    "cache_creation_input_tokens": (
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
        "llm.token_count.prompt_details.cache_write",
    ),
    "reasoning_output_tokens": (
        "gen_ai.usage.reasoning.output_tokens",
        "llm.token_count.completion_details.reasoning",
    ),
}
_OPERATION: Final = re.compile(r"[^a-z0-9_]+")
_TRACE_ID: Final = re.compile("(?!0{32})[0-9a-f]{32}")
_SPAN_ID: Final = re.compile("(?!0{16})[0-9a-f]{16}")
_RESOURCE: Final = ("service.", "deployment.")


class Mapped(NamedTuple):
    """What a span became. `session_id`: whose it says that it is; None where it does not say."""

    id: str
    session_id: str | None
    event: StoredEvent


def refusal(span: Span) -> str | None:
    """Why a span cannot be saved; None if it can."""
    if not _TRACE_ID.fullmatch(span.trace_id):
        return "a span's trace id is 16 bytes, not all zero"
    if not _SPAN_ID.fullmatch(span.span_id):
        return "a span's id is 8 bytes, not all zero"
    return None


def operation(attributes: Attributes) -> str | None:
    """What a span of generative AI does, as `chat` or `execute_tool`; None of any other span."""
    named = attributes.get("gen_ai.operation.name")
    if isinstance(named, str) and named:
        return _OPERATION.sub("_", named.lower())[:64]
    for name, known in _OPERATIONS.items():
        if (found := known.get(str(attributes.get(name)))) is not None:
            return found
    if "gen_ai.tool.name" in attributes:
        return "execute_tool"
    if "gen_ai.request.model" in attributes or "gen_ai.prompt.0.content" in attributes:
        return "chat"
    is_of_ai = any(name.startswith(("gen_ai.", "openinference.", "llm.")) for name in attributes)
    return "span" if is_of_ai else None


def mapped(span: Span) -> Mapped:
    """Return the event of a span that `refusal` lets pass."""
    does = operation(span.attributes)
    taker = Taker(span.attributes)
    session_id = _session(taker)
    payload: dict[str, Any] = {
        "mapping": MAPPING,
        "name": span.name,
        "session_id": session_id,
        "parent_span_id": span.parent_id or None,
        "span_kind": KINDS[span.kind] if 0 < span.kind < len(KINDS) else None,
        "scope": span.scope or None,
        "latency_ms": round((span.end - span.start) / 1e6, 3) if span.end > span.start else None,
        # The page counts tokens and times of what is inside, and not again of what is around it.
        "whole": (does in _WHOLES and span.kind != CLIENT) or does is None,
        "error": _error(span, taker),
        "resource": {k: v for k, v in span.resource.items() if k.startswith(_RESOURCE)},
        "links": [{"trace_id": trace, "span_id": id} for trace, id in span.links],
    }
    rest = span.events
    if does is None:
        kind, where = "otel.span", span.name
    else:
        details, rest = _details(does, taker, span.events)
        payload |= {"operation": does} | details
        kind = f"gen_ai.{does}"
        names = ("tool", "agent", "model") if does in _WHOLES else ("tool", "model", "agent")
        where = next(filter(None, map(details.get, names)), span.name)
    payload["events"] = plain_events(span, rest)
    payload["attributes"] = taker.rest
    event = StoredEvent(
        trace_id=span.trace_id,
        ts=(span.start or span.end) / 1e9,
        kind=kind,
        node_name=where or None,
        node_id=span.span_id,
        payload={name: value for name, value in payload.items() if _says_something(value)},
    )
    return Mapped(f"{span.trace_id}:{span.span_id}", session_id, event)


def _says_something(value: Any) -> bool:
    return value is not None and value is not False and value != [] and value != {}


def _session(taker: Taker) -> str | None:
    found = taker.first(*_SESSIONS)
    text = str(found) if isinstance(found, str | int) else ""
    try:
        return checked_id(text) if len(text) <= 512 else None
    except InvalidId:
        return None


def _error(span: Span, taker: Taker) -> dict[str, Any] | None:
    raised: Attributes = next((e.attributes for e in span.events if e.name == "exception"), {})
    type_ = taker.text("error.type", "error_type")
    if span.status != ERROR and type_ is None:
        return None
    said = span.status_message or raised.get("exception.message") or ""
    return {"type": type_ or raised.get("exception.type") or "error", "message": said}


def _details(
    does: str, taker: Taker, events: tuple[SpanEvent, ...]
) -> tuple[dict[str, Any], tuple[SpanEvent, ...]]:
    """What the attributes of a span of generative AI say, and the events that are left."""
    taker.first("gen_ai.operation.name", *_OPERATIONS)
    entity = taker.text("traceloop.entity.name")
    inputs, answered, rest = conversation(taker, events)
    given = parsed(taker.first("traceloop.entity.input", "input.value"))
    made = parsed(taker.first("traceloop.entity.output", "output.value"))
    found: dict[str, Any] = {name: taker.text(*names) for name, names in _NAMES.items()}
    found |= {
        "finish_reasons": taker.first("gen_ai.response.finish_reasons", "llm.finish_reason"),
        "system_instructions": parsed(taker.first("gen_ai.system_instructions")),
        "tool_definitions": parsed(taker.first("gen_ai.tool.definitions", "llm.request.functions"))
        or [parsed(each) for each in taker.items("llm.tools.")],
        "usage": _usage(taker),
        "cost_usd": taker.number("llm.cost.total", "gen_ai.usage.cost", "operation.cost"),
    }
    if does == "execute_tool":
        arguments = parsed(taker.first("gen_ai.tool.call.arguments", "tool.parameters"))
        result = parsed(taker.first("gen_ai.tool.call.result"))
        found |= {
            "tool": taker.text("gen_ai.tool.name", "tool.name") or entity,
            "tool_call_id": taker.text("gen_ai.tool.call.id", "tool_call.id", "tool.id"),
            "arguments": given if arguments is None else arguments,
            "result": made if result is None else result,
        }
    elif does in _WHOLES:
        found["agent"] = found["agent"] or entity
        inputs = inputs or ([message(given)] if given is not None else [])
        answered = answered or ([message(made, "assistant")] if made is not None else [])
    elif not inputs and not answered:
        found |= {"arguments": given, "result": made}
    return found | {"input": inputs, "output": answered}, rest


def _usage(taker: Taker) -> dict[str, float]:
    found = {name: taker.number(*names) for name, names in _USAGE.items()}
    return {name: value for name, value in found.items() if value is not None}
