"""A session's context and the patches to it, merged at once or left for a person. Pure.

Hash, divergence and strategies are those of the StateStore specification 2.11, "Context Versioning
& Divergence Detection" and "Merge Strategies".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from foldlog import codec
from foldlog.models import UpdateType, WaitingKind
from foldlog.sessions.decision import Decision, now
from foldlog.sessions.errors import MergeRefused
from foldlog.sessions.models import ContextPatch, MergeStrategy, PendingContextPatch
from foldlog.store.payloads import drafting
from foldlog.store.waiting import Ref, began, ended
from foldlog_projections.delta import difference
from foldlog_projections.sessions.session import (
    APPLIED,
    REJECTED,
    ContextChanged,
    PatchDecided,
    PatchQueued,
    State,
)

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
    """Return the SHA-256 of a context in its canonical form, or None where JSON cannot hold it.

    Args:
        llm_context: the context that a model sees.
    """
    try:
        text = json.dumps(llm_context, ensure_ascii=False, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return None
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def change(made: Decision, parts: Mapping[str, Any]) -> None:
    """Replace these parts of the context. The other parts are neither copied nor compared."""
    state = made.state.folded
    native = {name: _native.decode(codec.encode(part, name)) for name, part in parts.items()}
    hash = state.hash
    if "llm_context" in parts or state.context is None:
        hash = context_hash(parts.get("llm_context", {}))
    if state.context is None:
        delta: list[Any] = [0, {**_EMPTY, **native}]
    else:
        deltas = {name: difference(state.context[name], part) for name, part in native.items()}
        delta = [1, {name: each for name, each in deltas.items() if each is not None}, []]
    made.record(ContextChanged(delta, state.version + 1, hash))


@drafting("patch")
def offer(made: Decision, patch_id: str, patch: ContextPatch, strategy: MergeStrategy) -> None:
    """Merge a patch, or queue it for approval; nothing if that patch was offered before."""
    state = made.state.folded
    if patch_id in state.decided or patch_id in state.pending:
        return
    if strategy is MergeStrategy.HUMAN_GATED:
        _queue(made, patch_id, patch)
    else:
        _apply(made, patch_id, patch, strategy)


@drafting("patch")
def approve(made: Decision, patch_id: str, strategy: MergeStrategy = MergeStrategy.APPEND) -> bool:
    """Merge a queued patch; False if none of that id waits."""
    queued = made.state.folded.pending.get(patch_id)
    if queued is None:
        return False
    if strategy is MergeStrategy.HUMAN_GATED:
        strategy = MergeStrategy.APPEND  # approval was asked for and given: it does not wait again
    _apply(made, patch_id, PendingContextPatch.restored(queued).patch, strategy)
    _close(made, queued, "info", "Context updated", "applied")
    return True


def reject(made: Decision, patch_id: str) -> bool:
    """Drop a queued patch; False if none of that id waits."""
    queued = made.state.folded.pending.get(patch_id)
    if queued is None:
        return False
    made.record(PatchDecided(patch_id, REJECTED))
    _close(made, queued, "warning", "Context patch rejected", "rejected")
    return True


def waits_as(session_id: str, queued: PatchQueued) -> Ref:
    """The reference of a queued patch in the list of all that waits for a person."""
    return Ref.at(WaitingKind.PATCH, queued.queued_at, session_id, queued.patch_id)


def _queue(made: Decision, patch_id: str, patch: ContextPatch) -> None:
    patch = _with_divergence(made.state.folded, patch)
    body = msgspec.Raw(codec.encode(dict(patch), "patch"))
    queued = PatchQueued(patch_id, patch.task_id, body, now())
    made.record(queued)
    made.waiting.append(began(waits_as(made.session_id, queued), made.session_id))
    content = {
        "type": "context_patch_approval",
        "patch_id": patch_id,
        "task_id": patch.task_id,
        "digest": list(patch.digest),
        "diverged": patch.context_diverged,
        "options": ["approve", "reject"],
    }
    made.update(patch.task_id, UpdateType.CHECKPOINT, content)
    if patch.context_diverged:
        _warn(made, patch)


def _apply(made: Decision, patch_id: str, patch: ContextPatch, strategy: MergeStrategy) -> None:
    state = made.state.folded
    judged = _with_divergence(state, patch)
    made.record(PatchDecided(patch_id, APPLIED, strategy.value))
    change(made, {"llm_context": _merged(state, judged, strategy)})
    if judged.context_diverged and not patch.context_diverged:  # else the warning was given before
        _warn(made, judged)


def _merged(state: State, patch: ContextPatch, strategy: MergeStrategy) -> dict[str, Any]:
    """A copy of the `llm_context` with the patch in it; MergeRefused where nothing is appended."""
    content = patch.model_dump(mode="json")
    llm_context: dict[str, Any] = {}
    if state.context is not None:
        llm_context = codec.decode(_encode(state.context["llm_context"]))
    if strategy is MergeStrategy.REPLACE:
        return {**llm_context, RESULT: content}
    results = llm_context.get(RESULTS, [])
    if not isinstance(results, list):
        raise MergeRefused(RESULTS, results)
    return {**llm_context, RESULTS: [*results, content]}


def _with_divergence(state: State, patch: ContextPatch) -> ContextPatch:
    """The patch, marked if the context has changed since the patch's task was spawned."""
    version, hash = patch.source_context_version, patch.source_context_hash
    diverged = version not in (None, state.version) or (bool(hash) and hash != state.hash)
    if diverged and not patch.context_diverged:
        return patch.model_copy(update={"context_diverged": True})
    return patch


def _warn(made: Decision, patch: ContextPatch) -> None:
    body = "Context changed during background task execution"
    made.notify(patch.task_id, "warning", "Context changed", body)


def _close(made: Decision, queued: PatchQueued, severity: str, title: str, outcome: str) -> None:
    patch_id = queued.patch_id
    made.waiting.append(ended(waits_as(made.session_id, queued)))
    body = f"Context patch {patch_id} {outcome}"
    made.notify(queued.task_id, severity, title, body, patch_id=patch_id)
