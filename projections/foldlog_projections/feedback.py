"""What people say of a trace, in the order in which they said it."""

from __future__ import annotations

from typing import Final

import msgspec

from foldlog.kind import Content, Kind
from foldlog.words import Line, Shown, clip
from foldlog_projections.folds import every


class FeedbackSaved(msgspec.Struct, frozen=True, omit_defaults=True):
    """`feedback.saved`: an opinion. `score` is in the caller's units."""

    score: float | None = None
    comment: Content[str | None] = None
    author: str | None = None


def _said(feedback: FeedbackSaved) -> Line:
    score = "" if feedback.score is None else f" gave {feedback.score:g}"
    return Line(
        f"{feedback.author or 'somebody'}{score or ' commented'}", clip(feedback.comment or "")
    )


kind: Final = Kind(
    "feedback",
    keys=("trace_id",),
    owner="trace",
    records={"feedback.saved": FeedbackSaved},
    fold=every,
    shown=Shown({"feedback.saved": _said}),
)
