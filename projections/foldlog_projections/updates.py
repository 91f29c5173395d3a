"""The updates of one session, in log order. An id's ordinal is its place in the list."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from foldlog.kind import Content, Incidental, Kind, field_id
from foldlog.words import Line, Shown, called, said
from foldlog_projections.folds import feed


class UpdateSaved(msgspec.Struct, frozen=True, omit_defaults=True):
    """`update.saved`: a StateUpdate."""

    session_id: str
    task_id: str
    update_id: str
    update_type: str
    content: Content[Any]
    created_at: Incidental[str]
    trace_id: Incidental[str | None] = None
    step_index: int | None = None
    total_steps: int | None = None


_TYPES: Final = {"THINKING": "thought", "RESULT": "answered", "NOTIFICATION": "told"}


def _line(update: UpdateSaved) -> Line:
    content, type_ = update.content, update.update_type
    if isinstance(content, dict) and type_ == "TOOL_CALL":
        given = next((content[n] for n in ("arguments", "args", "input") if n in content), None)
        call = called(content.get("name") or content.get("tool"), given)
        return Line("called", call, group="tools")
    if isinstance(content, dict) and type_ == "STATUS_CHANGE":
        state = str(content.get("status", "")).lower()
        what, reason = f"task {update.task_id} now {state}", said(content.get("reason"))
        return Line(what, reason, group="tasks", tone="aside")  # the task's own line tells of it
    tone = "failed" if type_ == "ERROR" else "waiting" if type_ == "CHECKPOINT" else ""
    return Line(_TYPES.get(type_, type_.lower()), said(content), tone=tone)


kind: Final = Kind(
    "updates",
    keys=("session_id",),
    owner="session",
    records={"update.saved": UpdateSaved},
    fold=feed,
    id=field_id("update_id"),
    shown=Shown(
        {"update.saved": _line},
        titles={"update.saved": lambda update: said(update.content)},
        audited={"update.saved": "session.update"},
    ),
)
