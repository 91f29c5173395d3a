"""Feedback: what people say of a trace, as users of tracing tools expect to find it there."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple

from foldlog.envelope import Recorded
from foldlog.errors import PayloadError
from foldlog.store.core import Capability
from foldlog.store.operation import nothing, operation
from foldlog.store.payloads import finite
from foldlog.store.primitives import decoded
from foldlog.views import Consistency
from foldlog_projections.feedback import FeedbackSaved, kind


class Feedback(NamedTuple):
    """One opinion on a trace.

    Attributes:
        trace_id: the trace.
        score: in your units, or None.
        comment: what the author said, or None.
        author: an id or a name, or None.
        created_at: the time of the save, by the writer's clock.
    """

    trace_id: str
    score: float | None
    comment: str | None
    author: str | None
    created_at: dt.datetime


class Feedbacks(Capability):
    """Feedback by trace. Clearing or erasing the trace's session removes it."""

    @operation(nothing, writes=True)
    async def save_feedback(
        self,
        trace_id: str,
        *,
        score: float | None = None,
        comment: str | None = None,
        author: str | None = None,
    ) -> None:
        """Save an opinion of a trace. Each call adds one.

        Args:
            trace_id: the trace.
            score: in your own units: 0 or 1 for thumbs, one to five stars ...
            comment: what the author said; `redact=` sees it.
            author: an id or a name.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
            PayloadError: neither a score nor a comment is given.
        """
        if score is None and comment is None:
            raise PayloadError("score", "give a score, a comment, or both")
        checked = None if score is None else finite(score, "score")
        record = FeedbackSaved(checked, comment, author)
        await self._core.append_drafts(self._core.drafts("save_feedback", kind(trace_id), record))

    @operation(list)
    async def list_feedback(
        self, trace_id: str, *, consistency: Consistency = "session"
    ) -> list[Feedback]:
        """Return the feedback on a trace, oldest first; [] for an unknown trace.

        Args:
            trace_id: the trace.
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        folded = await self._core.read(kind, trace_id, consistency=consistency)
        return [_feedback(trace_id, each) for each in folded.state]


def _feedback(trace_id: str, item: Recorded) -> Feedback:
    said: FeedbackSaved = decoded(kind, item)
    created_at = dt.datetime.fromtimestamp(item.ts, dt.UTC)
    return Feedback(trace_id, said.score, said.comment, said.author, created_at)
