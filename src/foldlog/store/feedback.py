"""Feedback: what people say of a trace, as users of tracing tools expect to find it there."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple

from foldlog.errors import PayloadError
from foldlog.store.operation import nothing, operation
from foldlog.store.payloads import finite
from foldlog.store.primitives import Primitives
from foldlog.views import Consistency
from foldlog_projections.feedback import FeedbackSaved, kind


class Feedback(NamedTuple):
    """One opinion on a trace. `created_at` is the writer's clock."""

    trace_id: str
    score: float | None
    comment: str | None
    author: str | None
    created_at: dt.datetime


class Feedbacks(Primitives):
    """Feedback by trace. It goes with the trace when its session is cleared or erased."""

    @operation(nothing, writes=True)
    async def save_feedback(
        self,
        trace_id: str,
        *,
        score: float | None = None,
        comment: str | None = None,
        author: str | None = None,
    ) -> None:
        """Save somebody's opinion of a trace. Each call adds one.

        Args:
            score: in your own units: 0 or 1 for thumbs, one to five stars ...
            comment: what was said; `redact=` sees it.
            author: who said it: an id or a name.

        Raises:
            PayloadError: neither a score nor a comment is given, or one cannot be held.
            InvalidId: the trace id is empty. In each case nothing was appended.
            AppendFailed, LogUnavailable, AppendUnknown: see `foldlog.errors`.
        """
        if score is None and comment is None:
            raise PayloadError("score", "give a score, a comment, or both")
        checked = None if score is None else finite(score, "score")
        key, record = kind(trace_id), FeedbackSaved(checked, comment, author)
        draft = self.drafted("save_feedback", key, record)
        await self.append_drafts((self.subject(kind, trace_id), [draft]))

    @operation(list)
    async def list_feedback(
        self, trace_id: str, *, consistency: Consistency = "session"
    ) -> list[Feedback]:
        """Return what was said of a trace, oldest first; [] for an unknown trace.

        Raises:
            InvalidId: the trace id is empty.
            LogUnavailable, LogCorrupt: it could not be read whole.
        """
        folded = await self.read(kind, trace_id, consistency=consistency)
        items = (self._item(kind, each) for each in folded.state)
        return [
            Feedback(
                trace_id,
                item.record.score,
                item.record.comment,
                item.record.author,
                dt.datetime.fromtimestamp(item.ts, dt.UTC),
            )
            for item in items
        ]
