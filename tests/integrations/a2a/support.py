"""Tasks, events and callers."""

from __future__ import annotations

from typing import Any

from a2a.auth.user import User
from a2a.server.cluster import TaskVersion
from a2a.server.context import ServerCallContext
from a2a.types import (
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)

from foldlog.integrations.a2a import FoldlogVersionedTaskStore

MISSING = TaskVersion.MISSING


class Named(User):
    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def is_authenticated(self) -> bool:
        return True

    @property
    def user_name(self) -> str:
        return self._name


ANN = ServerCallContext(user=Named("ann"))
BOB = ServerCallContext(user=Named("bob"))


def task(id: str = "t1", state: str = "submitted", *, context: str = "trip", at: int = 0) -> Task:
    """A task whose status is `at` seconds old in Unix time; 0: it has no time."""
    found = Task(id=id, context_id=context, status=TaskStatus(state=_state(state)))
    if at:
        found.status.timestamp.FromSeconds(at)
    return found


def now(task: Task, state: str, said: str = "") -> TaskStatusUpdateEvent:
    """Change the status of a task; return the event that says so."""
    task.status.CopyFrom(TaskStatus(state=_state(state)))
    if said:
        message = Message(message_id=said, role=Role.ROLE_AGENT, parts=[Part(text=said)])
        task.status.message.CopyFrom(message)
    return TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=task.status)


def chunk(task: Task, text: str) -> TaskArtifactUpdateEvent:
    """Append text to the one artifact of a task; return the event that says so."""
    is_more = bool(task.artifacts)
    if not is_more:
        task.artifacts.append(Artifact(artifact_id="a1"))
    task.artifacts[0].parts.append(Part(text=text))
    part = Artifact(artifact_id="a1", parts=[Part(text=text)])
    return TaskArtifactUpdateEvent(
        task_id=task.id, context_id=task.context_id, artifact=part, append=is_more
    )


async def save(
    tasks: FoldlogVersionedTaskStore,
    task: Task,
    version: TaskVersion = MISSING,
    event: Any = None,
    *,
    by: ServerCallContext = ANN,
) -> TaskVersion:
    return await tasks.save(task, event=event, prev=None, prev_version=version, context=by)


def _state(name: str) -> Any:
    return TaskState.Value(f"TASK_STATE_{name.upper()}")
