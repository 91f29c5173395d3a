"""Patches to the context: merged at once, or kept until somebody decides. Pure."""

from __future__ import annotations

import msgspec

from foldlog import codec
from foldlog.models import UpdateType, WaitingKind
from foldlog.sessions.context import changed, has_diverged, merged
from foldlog.sessions.decision import Decision, now
from foldlog.sessions.models import ContextPatch, MergeStrategy, PendingContextPatch
from foldlog.store.payloads import drafting
from foldlog.store.waiting import Ref, began, ended
from foldlog_projections import session
from foldlog_projections.session import APPLIED, REJECTED, PatchDecided, PatchQueued


@drafting("patch")
def offer(made: Decision, patch_id: str, patch: ContextPatch, strategy: MergeStrategy) -> None:
    """Merge a patch, or have it wait; nothing if that patch was offered before.

    Raises:
        MergeRefused: see `context.merged`. PayloadError: a part cannot be held.
    """
    state = made.state.folded
    if patch_id in state.decided or patch_id in state.pending:
        return
    if strategy is MergeStrategy.HUMAN_GATED:
        _queue(made, patch_id, patch)
    else:
        _apply(made, patch_id, patch, strategy)


@drafting("patch")
def approve(made: Decision, patch_id: str, strategy: MergeStrategy) -> bool:
    """Merge a patch that waits; False if none of that id waits. Errors as `offer`."""
    queued = made.state.folded.pending.get(patch_id)
    if queued is None:
        return False
    if strategy is MergeStrategy.HUMAN_GATED:
        strategy = MergeStrategy.APPEND  # it was asked for and given: it does not wait again
    _apply(made, patch_id, PendingContextPatch.restored(queued).patch, strategy)
    made.waiting.append(ended(waits_as(made.session_id, queued)))
    body = f"Context patch {patch_id} applied"
    made.notify(queued.task_id, "info", "Context updated", body, patch_id=patch_id)
    return True


def reject(made: Decision, patch_id: str) -> bool:
    """Drop a patch that waits; False if none of that id waits."""
    queued = made.state.folded.pending.get(patch_id)
    if queued is None:
        return False
    made.record(session.DECIDED, PatchDecided(patch_id, REJECTED))
    made.waiting.append(ended(waits_as(made.session_id, queued)))
    body = f"Context patch {patch_id} rejected"
    made.notify(queued.task_id, "warning", "Context patch rejected", body, patch_id=patch_id)
    return True


def waits_as(session_id: str, queued: PatchQueued) -> Ref:
    """What a patch that waits is called in the list of all that waits for a person."""
    return Ref.at(WaitingKind.PATCH, queued.queued_at, session_id, queued.patch_id)


def _queue(made: Decision, patch_id: str, patch: ContextPatch) -> None:
    patch = _judge(made, patch)
    body = msgspec.Raw(codec.encode(dict(patch), "patch"))
    queued = PatchQueued(patch_id, patch.task_id, body, now())
    made.record(session.QUEUED, queued)
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
    judged = _judge(made, patch)
    made.record(session.DECIDED, PatchDecided(patch_id, APPLIED, strategy.value))
    made.record(session.CONTEXT, changed(state, {"llm_context": merged(state, judged, strategy)}))
    if judged.context_diverged and not patch.context_diverged:  # else somebody was warned before
        _warn(made, judged)


def _judge(made: Decision, patch: ContextPatch) -> ContextPatch:
    if has_diverged(made.state.folded, patch) and not patch.context_diverged:
        return patch.model_copy(update={"context_diverged": True})
    return patch


def _warn(made: Decision, patch: ContextPatch) -> None:
    body = "Context changed during background task execution"
    made.notify(patch.task_id, "warning", "Context changed", body)
