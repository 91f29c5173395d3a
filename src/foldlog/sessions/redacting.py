"""What a store's `redact=` sees of what a session is given. No I/O.

What follows from it (updates, notifications, telemetry, the context's hash) is made of what the
hook has returned.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from foldlog.errors import RedactionFailed
from foldlog.kind import Kind
from foldlog.models import StateUpdate, SteeringEvent, TaskState
from foldlog.sessions.models import ContextPatch
from foldlog.store.payloads import drafting
from foldlog.store.redaction import Redaction
from foldlog.store.tasks import check_context
from foldlog_projections import session, steering, tasks, updates

_OF_A_PATCH: Final = ContextPatch.model_fields.keys() - {
    *session.kind.records[session.QUEUED].content
}
"""What a patch is about: ids, versions, times."""


class Redacting:
    """The hook, as one session meets it. Each method raises RedactionFailed."""

    def __init__(self, redaction: Redaction, session_id: str) -> None:
        self._redaction = redaction
        self._session_id = session_id

    def alike(
        self, method: str, type: str, about: Mapping[str, Any], values: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Values of a record of that type: text stays text, a list a list, a mapping a mapping."""
        about = {"session_id": self._session_id, **about}
        return self._redaction.alike(_called(method), type, about, values)

    def of_task(self, method: str, task_id: str, **one: Any) -> Any:
        """One field of a task's change."""
        [found] = self.alike(method, tasks.CHANGED, {"task_id": task_id}, one).values()
        return found

    def result(self, task_id: str, result: Any) -> Any:
        """What a task gave; it may become anything."""
        about = {"session_id": self._session_id, "task_id": task_id}
        called = _called("complete_task")
        return self._redaction.value(called, tasks.CHANGED, about, result=result)

    @drafting("patch")
    def patch(self, method: str, patch_id: str, patch: ContextPatch) -> ContextPatch:
        """A patch to the context, whether or not it waits; what a subclass adds is content, too."""
        if not self._redaction:
            return patch
        fields = dict(patch)
        held = {name: value for name, value in fields.items() if name not in _OF_A_PATCH}
        about = {"patch_id": patch_id, "task_id": patch.task_id}
        found = self.alike(method, session.QUEUED, about, held)
        try:
            return type(patch).model_validate({**fields, **found}, by_alias=False, by_name=True)
        except ValidationError:
            reason = "what it left is no patch"
            # Without its cause, which quotes the patch.
            raise RedactionFailed(session.QUEUED, _called(method), reason) from None

    def task(self, task: TaskState) -> TaskState:
        """A task that is spawned, with its snapshot of the context."""
        if not self._redaction:
            return task
        context = task.context_snapshot
        plain = {"context_snapshot": dict(context)}
        found = self._fields("spawn_task", tasks.kind, tasks.SAVED, task, **plain)
        check_context(_called("spawn_task"), found["context_snapshot"], context)
        found["context_snapshot"] = type(context).model_construct(**found["context_snapshot"])
        return dataclasses.replace(task, **found)

    def update(self, update: StateUpdate) -> StateUpdate:
        """What a task reports."""
        found = self._fields("report", updates.kind, "update.saved", update)
        return update.model_copy(update=found)

    def steering(self, event: SteeringEvent) -> SteeringEvent:
        """A steering event. Whom it is for and what it decides on is left as it is by a hook that
        leaves `patch_id` and `priority`.
        """
        found = self._fields("steer", steering.kind, "steering.saved", event)
        return event.model_copy(update=found)

    def _fields(
        self, method: str, kind: Kind[Any], type: str, given: Any, **plain: Any
    ) -> dict[str, Any]:
        """The content of an object that becomes a record, as the hook leaves it."""
        about_type = kind.records[type]
        about = {
            field: getattr(given, field, None)
            for field in about_type.schema.__struct_fields__
            if field not in about_type.content
        }
        values = {name: getattr(given, name) for name in about_type.content} | plain
        return dict(self._redaction.redacted(_called(method), type, about, values))


def _called(method: str) -> str:
    return f"Session.{method}"
