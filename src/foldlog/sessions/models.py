"""The words of a session: contexts, patches to them, groups of tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field

from foldlog import codec
from foldlog.models import TaskStatus
from foldlog.models._clock import utc_now
from foldlog_projections.session import Group, PatchQueued


class MergeStrategy(StrEnum):
    """A patch is appended to `background_results`, replaces `background_result`, or waits."""

    APPEND = "append"
    REPLACE = "replace"
    HUMAN_GATED = "human_gated"


@dataclass(slots=True)
class SessionContext:
    """The context that a session's agents share. `version` counts changes.

    `context_hash` is the SHA-256 of `llm_context` as JSON with sorted keys; None before the first
    change, and where JSON cannot hold it.
    """

    llm_context: dict[str, Any] = field(default_factory=dict)
    tool_context: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    artifacts: list[dict[str, Any]] = field(default_factory=list)
    version: int = 0
    context_hash: str | None = None


class ContextPatch(BaseModel):
    """The findings of a background task, to be merged into its session's context.

    `source_context_version` and `source_context_hash` are those of the context that the task was
    spawned with; `context_diverged` is set where the context has changed since.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(defer_build=True)

    task_id: str
    spawned_from_event_id: str | None = None
    source_context_version: int | None = None
    source_context_hash: str | None = None
    context_diverged: bool = False
    completed_at: datetime = Field(default_factory=utc_now)
    digest: list[str] = Field(default_factory=list)
    facts: dict[str, Any] = Field(default_factory=dict)
    artifacts: list[dict[str, Any]] = Field(default_factory=list)
    sources: list[dict[str, Any]] = Field(default_factory=list)
    recommended_next_steps: list[str] = Field(default_factory=list)
    assumptions: list[str] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PendingContextPatch:
    """A patch that waits for approval, and the strategy that it was offered with."""

    patch_id: str
    task_id: str
    patch: ContextPatch
    queued_at: datetime
    strategy: MergeStrategy = MergeStrategy.HUMAN_GATED

    @classmethod
    def restored(cls, queued: PatchQueued) -> Self:
        """Return the patch that a record holds: a new object."""
        return cls(
            patch_id=queued.patch_id,
            task_id=queued.task_id,
            patch=ContextPatch.model_construct(**codec.decode(queued.patch)),
            queued_at=datetime.fromisoformat(queued.queued_at),
        )


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """A group of tasks, which ends when it is sealed and all of its tasks have ended.

    `status` is "open" (tasks may join), "sealed" (none may), "complete" (all of them are) or
    "failed" (all have ended, not all of them complete). `merge_strategy` applies to the patches of
    its tasks that name none.
    """

    group_id: str
    name: str
    status: str
    merge_strategy: MergeStrategy
    task_ids: tuple[str, ...]
    completed_task_ids: tuple[str, ...]
    failed_task_ids: tuple[str, ...]
    created_at: datetime
    sealed_at: datetime | None = None
    ended_at: datetime | None = None

    @classmethod
    def restored(cls, group: Group) -> Self:
        """Return the group that is folded."""
        completed = [t for t in group.task_ids if group.ended.get(t) == TaskStatus.COMPLETE]
        failed = [t for t in group.task_ids if t in group.ended and t not in completed]
        return cls(
            group_id=group.group_id,
            name=group.name,
            status=group.status,
            merge_strategy=MergeStrategy(group.strategy),
            task_ids=group.task_ids,
            completed_task_ids=tuple(completed),
            failed_task_ids=tuple(failed),
            created_at=datetime.fromisoformat(group.created_at),
            sealed_at=_moment(group.sealed_at),
            ended_at=_moment(group.ended_at),
        )

    @property
    def pending_task_ids(self) -> tuple[str, ...]:
        """Those that have not ended."""
        ended = {*self.completed_task_ids, *self.failed_task_ids}
        return tuple(task_id for task_id in self.task_ids if task_id not in ended)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
