"""Patches to the context: merged at once, or kept until somebody decides. Pure."""

from __future__ import annotations

from datetime import datetime

import msgspec

from foldlog import codec
from foldlog.models import UpdateType
from foldlog.sessions import records
from foldlog.sessions.context import changed, context_of, has_diverged, merged
from foldlog.sessions.models import ContextPatch, MergeStrategy, PendingContextPatch
from foldlog.sessions.standing import Entry, Standing
from foldlog.store.payloads import drafting
from foldlog_projections import session
from foldlog_projections.session import APPLIED, REJECTED, PatchDecided, PatchQueued, State


@drafting("patch")
def offered(
    standing: Standing, patch_id: str, patch: ContextPatch, strategy: MergeStrategy
) -> Entry:
    """A patch is merged, or waits from now on; nothing, if that patch was offered before.

    Raises:
        MergeRefused: see `context.merged`. PayloadError: a part cannot be held.
    """
    state = standing.state
    if patch_id in state.decided or patch_id in state.pending:
        return Entry()
    if strategy is MergeStrategy.HUMAN_GATED:
        return _queued(standing, patch_id, _judged(state, patch))
    return _applied(standing, patch_id, patch, strategy)


@drafting("patch")
def approved(standing: Standing, patch_id: str, strategy: MergeStrategy) -> Entry | None:
    """A patch that waits is merged; None, if none of that id waits. Errors as `offered`."""
    queued = standing.state.pending.get(patch_id)
    if queued is None:
        return None
    if strategy is MergeStrategy.HUMAN_GATED:
        strategy = MergeStrategy.APPEND  # it was asked for and given: it does not wait again
    entry = _applied(standing, patch_id, restored(queued).patch, strategy)
    entry.updates.append(
        records.notification(
            standing.session_id,
            queued.task_id,
            "info",
            "Context updated",
            f"Context patch {patch_id} applied",
            patch_id=patch_id,
        )
    )
    return entry


def rejected(standing: Standing, patch_id: str) -> Entry | None:
    """A patch that waits is dropped; None, if none of that id waits."""
    queued = standing.state.pending.get(patch_id)
    if queued is None:
        return None
    return Entry(
        session=[records.drafted(session.DECIDED, PatchDecided(patch_id, REJECTED))],
        updates=[
            records.notification(
                standing.session_id,
                queued.task_id,
                "warning",
                "Context patch rejected",
                f"Context patch {patch_id} rejected",
                patch_id=patch_id,
            )
        ],
    )


def restored(queued: PatchQueued) -> PendingContextPatch:
    """Return a patch that waits as users see it: a new object."""
    fields = codec.decode(queued.patch)
    return PendingContextPatch(
        patch_id=queued.patch_id,
        task_id=queued.task_id,
        patch=ContextPatch.model_construct(**fields),
        queued_at=datetime.fromisoformat(queued.queued_at),
    )


def _queued(standing: Standing, patch_id: str, patch: ContextPatch) -> Entry:
    payload = PatchQueued(
        patch_id,
        patch.task_id,
        msgspec.Raw(codec.encode(dict(patch), "patch")),
        records.now(),
    )
    content = {
        "type": "context_patch_approval",
        "patch_id": patch_id,
        "task_id": patch.task_id,
        "digest": list(patch.digest),
        "diverged": patch.context_diverged,
        "options": ["approve", "reject"],
    }
    checkpoint = records.update(standing.session_id, patch.task_id, UpdateType.CHECKPOINT, content)
    entry = Entry(session=[records.drafted(session.QUEUED, payload)], updates=[checkpoint])
    _warn(entry, standing, patch)
    return entry


def _applied(
    standing: Standing, patch_id: str, patch: ContextPatch, strategy: MergeStrategy
) -> Entry:
    state = standing.state
    judged = _judged(state, patch)
    context = merged(context_of(state), judged, strategy)
    decided = PatchDecided(patch_id, APPLIED, strategy.value)
    entry = Entry(session=[records.drafted(session.DECIDED, decided), changed(state, context)])
    if not patch.context_diverged:  # else somebody was warned before
        _warn(entry, standing, judged)
    return entry


def _judged(state: State, patch: ContextPatch) -> ContextPatch:
    if has_diverged(state, patch) and not patch.context_diverged:
        return patch.model_copy(update={"context_diverged": True})
    return patch


def _warn(entry: Entry, standing: Standing, patch: ContextPatch) -> None:
    if patch.context_diverged:
        entry.updates.append(
            records.notification(
                standing.session_id,
                patch.task_id,
                "warning",
                "Context changed",
                "Context changed during background task execution",
            )
        )
