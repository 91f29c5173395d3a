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
from foldlog_projections.sessions.session import Group, PatchQueued


class MergeStrategy(StrEnum):
    """A patch is appended to `background_results`, replaces `background_result`, or waits."""

    APPEND = "append"
    REPLACE = "replace"
    HUMAN_GATED = "human_gated"


@dataclass(slots=True)
class SessionContext:
    """The context that a session's agents share.

    Attributes:
        llm_context: what a model may see.
        tool_context: what only tools may see.
        memory: the agents' memory.
        artifacts: references to artifacts.
        version: counts changes.
        context_hash: the SHA-256 of `llm_context` as JSON with sorted keys; None before the first
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

    Attributes:
        task_id: the task.
        spawned_from_event_id: the event that made the task.
        source_context_version, source_context_hash: those of the context that the task was given.
        context_diverged: the context has changed since.
        completed_at: when the task ended.
        digest: what it found, in sentences.
        facts: what it found, by name.
        artifacts: references to artifacts.
        sources: what the findings rest on.
        recommended_next_steps: what to do next.
        assumptions: what it took for granted.
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
    """A patch that waits for approval.

    Attributes:
        patch_id: the patch.
        task_id: the task that made it.
        patch: the patch itself.
        queued_at: since when it waits.
        strategy: how it was to be merged.
    """

    patch_id: str
    task_id: str
    patch: ContextPatch
    queued_at: datetime
    strategy: MergeStrategy = MergeStrategy.HUMAN_GATED

    @classmethod
    def restored(cls, queued: PatchQueued) -> Self:
        """Internal: return the patch that a record holds."""
        return cls(
            patch_id=queued.patch_id,
            task_id=queued.task_id,
            patch=ContextPatch.model_construct(**codec.decode(queued.patch)),
            queued_at=datetime.fromisoformat(queued.queued_at),
        )


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """A group of tasks, which ends when it is sealed and all of its tasks have ended.

    Attributes:
        group_id: the group.
        name: for a reader.
        status: "open" (tasks may join), "sealed" (none may), "complete" (all of them are) or
            "failed" (all have ended, not all of them complete).
        merge_strategy: how the patches of its tasks are merged that name no strategy.
        task_ids, completed_task_ids, failed_task_ids: its tasks, and those that have ended.
        created_at, sealed_at, ended_at: when; None: not yet.
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
        """Internal: return the group that is folded."""
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
        """The tasks that have not ended."""
        ended = {*self.completed_task_ids, *self.failed_task_ids}
        return tuple(task_id for task_id in self.task_ids if task_id not in ended)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
