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

    def context(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        """Parts of the context, those that are given."""
        return dict(self._alike("update_context", session.CONTEXT, {}, parts))

    @drafting("patch")
    def patch(self, method: str, patch_id: str, patch: ContextPatch) -> ContextPatch:
        """A patch to the context, whether or not it waits; what a subclass adds is content, too."""
        if not self._redaction:
            return patch
        fields = dict(patch)
        held = {name: value for name, value in fields.items() if name not in _OF_A_PATCH}
        about = {"patch_id": patch_id, "task_id": patch.task_id}
        found = self._alike(method, session.QUEUED, about, held)
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

    def result(self, task_id: str, result: Any) -> Any:
        """What a task gave."""
        about = self._about(task_id=task_id)
        called = _called("complete_task")
        return self._redaction.value(called, tasks.CHANGED, about, result=result)

    def error(self, task_id: str, error: str) -> str:
        """Why a task cannot do its work."""
        found = self._alike("fail_task", tasks.CHANGED, {"task_id": task_id}, {"error": error})
        text: str = found["error"]
        return text

    def progress(self, task_id: str, progress: dict[str, Any]) -> dict[str, Any]:
        """How far a task is."""
        about, given = {"task_id": task_id}, {"progress": progress}
        found: dict[str, Any] = self._alike("report", tasks.CHANGED, about, given)["progress"]
        return found

    def update(self, update: StateUpdate) -> StateUpdate:
        """What a task reports."""
        found = self._fields("report", updates.kind, "update.saved", update)
        return update.model_copy(update=found)

    def group_name(self, group_id: str, name: str) -> str:
        """What people call a group."""
        found = self._alike("create_group", session.OPENED, {"group_id": group_id}, {"name": name})
        text: str = found["name"]
        return text

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

    def _alike(
        self, method: str, kind: str, about: Mapping[str, Any], values: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        return self._redaction.alike(_called(method), kind, self._about(**about), values)

    def _about(self, **about: Any) -> dict[str, Any]:
        return {"session_id": self._session_id, **about}


def _called(method: str) -> str:
    return f"Session.{method}"
