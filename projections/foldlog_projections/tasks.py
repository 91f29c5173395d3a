"""The tasks of one session: the last state of each, in the order of their first save.

A task is saved whole, or only what has changed of it. The view holds it whole: the last envelope
of each task, with what a save of all of it would say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Content, Fold, Kind
from foldlog.words import Line, Shown, clip, said
from foldlog_projections import waiting
from foldlog_projections.folds import task_of


class TaskSaved(msgspec.Struct, frozen=True, omit_defaults=True):
    """`task.saved`: a TaskState, and the `mode` that telemetry reports. Times are ISO 8601."""

    task_id: str
    session_id: str
    status: str
    task_type: str
    priority: int
    context_snapshot: Content[Any]
    created_at: str
    updated_at: str
    trace_id: str | None = None
    error: Content[str | None] = None
    description: Content[str | None] = None
    result: Content[Any] = None
    progress: Content[Any] = None
    mode: str | None = None


class PausedTask(TaskSaved, frozen=True, omit_defaults=True):
    """`task.saved` of a paused task: it says since when, ISO 8601."""

    paused_at: str = ""


SAVED: Final = "task.saved"
CHANGED: Final = "task.changed"


class Changed(msgspec.Struct, frozen=True):
    """`task.changed`: these fields of a `task.saved` are this now; those unset stay as they are.

    So that a status does not repeat the context that the task was spawned with.
    """

    task_id: str
    updated_at: str
    status: str | msgspec.UnsetType = msgspec.UNSET
    priority: int | msgspec.UnsetType = msgspec.UNSET
    error: Content[str | msgspec.UnsetType | None] = msgspec.UNSET
    result: Content[Any | msgspec.UnsetType] = msgspec.UNSET
    progress: Content[Any | msgspec.UnsetType] = msgspec.UNSET
    paused_at: str | msgspec.UnsetType = msgspec.UNSET


_fields: Final = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])
_encode: Final = msgspec.msgpack.Encoder().encode


def _apply(state: dict[str, Recorded], envelope: Recorded) -> dict[str, Recorded]:
    """A dict keeps a key's first place when its value is replaced: the order of first saves.

    A change of a task that is not there has no effect.
    """
    task_id = task_of(envelope)
    if envelope.type != CHANGED:
        state[task_id] = envelope
    elif task_id in state:
        state[task_id] = _whole(state[task_id], envelope)
    return state


def each_whole(envelopes: Iterable[Recorded]) -> Iterator[Recorded]:
    """Each task as the view held it after each of these envelopes, which are all from the first."""
    state: dict[str, Recorded] = {}
    for envelope in envelopes:
        task = _apply(state, envelope).get(task_of(envelope))
        if task is not None:
            yield task


def _whole(before: Recorded, change: Recorded) -> Recorded:
    fields = _fields.decode(before.payload) | _fields.decode(change.payload)
    return msgspec.structs.replace(change, type=SAVED, payload=_encode(fields))


_STATES: Final = {
    "PENDING": "waits to start",
    "RUNNING": "started",
    "PAUSED": "paused",
    "COMPLETE": "finished",
    "FAILED": "failed",
    "CANCELLED": "cancelled",
}


def _line(task: TaskSaved | Changed) -> Line:
    state = _STATES.get(str(task.status), "changed")
    if state in ("started", "changed") and task.progress:
        state = "goes on"
    title = _title(task) if isinstance(task, TaskSaved) else ""
    text = said(task.error or task.result or task.progress) or title
    tones: Final = {"failed": "failed", "paused": "waiting"}
    return Line(f"task {task.task_id} {state}", text, tone=tones.get(state, ""))


def _title(task: TaskSaved) -> str:
    """What the task is for."""
    context = task.context_snapshot
    asked = context.get("query") if isinstance(context, dict) else None
    return clip(task.description or (asked if isinstance(asked, str) else ""))


def _named(task: TaskSaved) -> str:
    return _title(task) or task.task_id


kind: Final = Kind(
    "tasks",
    keys=("session_id",),
    owner="session",
    listed=[waiting.listing("task")],
    records={SAVED: TaskSaved, CHANGED: Changed},
    fold=Fold(dict, _apply, state=dict[str, Recorded], takes="envelope", replaces="task_id"),
    shown=Shown(
        {SAVED: _line, CHANGED: _line},
        titles={SAVED: _named},
        audited={SAVED: "session.task"},
        effective=each_whole,
    ),
)
