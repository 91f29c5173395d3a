"""Contexts as values: their hash, their divergence, and what a patch makes of one. Pure.

The canonical form of the hash, the divergence rules and the strategies are those of the StateStore
specification 2.11, sections "Context Versioning & Divergence Detection" and "Merge Strategies".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from foldlog import codec
from foldlog.sessions.errors import MergeRefused
from foldlog.sessions.models import ContextPatch, MergeStrategy, SessionContext
from foldlog_projections.delta import difference
from foldlog_projections.session import ContextChanged, State

RESULTS: Final = "background_results"
RESULT: Final = "background_result"

_EMPTY: Final[Mapping[str, Any]] = {
    "llm_context": {},
    "tool_context": {},
    "memory": {},
    "artifacts": [],
}
_native: Final = msgspec.msgpack.Decoder()
_encode: Final = msgspec.msgpack.Encoder().encode


def context_hash(llm_context: dict[str, Any]) -> str | None:
    """Return the SHA-256 of a context in its canonical form, or None where JSON cannot hold it."""
    try:
        text = json.dumps(llm_context, ensure_ascii=False, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return None
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def context_of(state: State) -> SessionContext:
    """Return a session's context: new objects."""
    if state.context is None:
        return SessionContext()
    parts = codec.decode(_encode(state.context))
    return SessionContext(**parts, version=state.version, context_hash=state.hash)


def changed(state: State, parts: Mapping[str, Any]) -> ContextChanged:
    """Return the record that puts these parts in place of what a session's context has.

    The other parts are neither copied nor compared.

    Raises:
        PayloadError: a part cannot be held.
    """
    native = {name: _native.decode(codec.encode(part, name)) for name, part in parts.items()}
    hash = state.hash
    if "llm_context" in parts or state.context is None:
        hash = context_hash(parts.get("llm_context", {}))
    if state.context is None:
        return ContextChanged([0, {**_EMPTY, **native}], state.version + 1, hash)
    deltas = {name: difference(state.context[name], part) for name, part in native.items()}
    delta = [1, {name: each for name, each in deltas.items() if each is not None}, []]
    return ContextChanged(delta, state.version + 1, hash)


def has_diverged(state: State, patch: ContextPatch) -> bool:
    """Whether the context has moved on since the patch's task was spawned."""
    version, hash = patch.source_context_version, patch.source_context_hash
    return (version is not None and version != state.version) or (bool(hash) and hash != state.hash)


def merged(state: State, patch: ContextPatch, strategy: MergeStrategy) -> dict[str, Any]:
    """Return the `llm_context` that a patch makes of a session's, which is left as it is.

    Raises:
        MergeRefused: there is something else where patches are appended to.
    """
    content = patch.model_dump(mode="json")
    llm_context: dict[str, Any] = {}
    if state.context is not None:
        llm_context = codec.decode(_encode(state.context["llm_context"]))
    if strategy is MergeStrategy.REPLACE:
        llm_context[RESULT] = content
    else:
        results = llm_context.get(RESULTS, [])
        if not isinstance(results, list):
            raise MergeRefused(RESULTS, results)
        llm_context[RESULTS] = [*results, content]
    return llm_context
