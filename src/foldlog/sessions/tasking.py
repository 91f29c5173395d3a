"""The part of a session that is about its tasks, and groups of them."""

from __future__ import annotations

import secrets
import uuid
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, Final, Literal

from foldlog.models import (
    StateUpdate,
    TaskContextSnapshot,
    TaskState,
    TaskStatus,
    TaskType,
    UpdateType,
)
from foldlog.sessions import context, groups, lifecycle, patches
from foldlog.sessions.errors import IllegalTransition
from foldlog.sessions.held import Held
from foldlog.sessions.models import ContextPatch, MergeStrategy, TaskGroup
from foldlog.sessions.standing import Entry, Standing
from foldlog.subjects import checked_id
from foldlog_projections import updates

_FOREGROUND: Final = "foreground"
"""What a task is spawned from where no task is named and none runs in the foreground."""


class Tasking(Held):
    """Tasks, from when they are spawned until they end."""

    async def spawn_task(
        self,
        *,
        task_id: str | None = None,
        task_type: TaskType = TaskType.FOREGROUND,
        priority: int = 0,
        description: str | None = None,
        query: str | None = None,
        spawn_reason: str | None = None,
        parent_task_id: str | None = None,
        spawned_from_event_id: str | None = None,
        trace_id: str | None = None,
        propagate_on_cancel: Literal["cascade", "isolate"] = "cascade",
        notify_on_complete: bool = True,
        group_id: str | None = None,
    ) -> TaskState:
        """Have a new task wait to be started, with a snapshot of the context as it is now.

        Args:
            task_id: None for a new one. Naming it makes repeating the call safe: a task of that id
                is returned as it stands.
            parent_task_id: None: the foreground task, where one runs.
            propagate_on_cancel: "cascade": cancelled with its parent; "isolate": not.
            group_id: the group that it joins.

        Raises:
            IllegalTransition: its parent was cancelled, and it would have been, too.
            UnknownGroup, GroupSealed: it cannot join the group.
        """
        id = secrets.token_hex(8) if task_id is None else checked_id(task_id, "task_id")

        def decide(standing: Standing) -> Entry:
            known = context.context_of(standing.state)
            snapshot = TaskContextSnapshot(
                session_id=self.session_id,
                task_id=id,
                trace_id=trace_id,
                spawned_from_task_id=(
                    parent_task_id or lifecycle.foreground(standing) or _FOREGROUND
                ),
                spawned_from_event_id=spawned_from_event_id,
                spawn_reason=spawn_reason,
                query=query,
                propagate_on_cancel=propagate_on_cancel,
                notify_on_complete=notify_on_complete,
                context_version=known.version,
                context_hash=known.context_hash,
                llm_context=known.llm_context,
                tool_context=known.tool_context,
                memory=known.memory,
                artifacts=known.artifacts,
            )
            task = TaskState(
                task_id=id,
                session_id=self.session_id,
                status=TaskStatus.PENDING,
                task_type=TaskType(task_type),
                priority=priority,
                context_snapshot=snapshot,
                trace_id=trace_id,
                description=description,
            )
            return lifecycle.spawned(standing, self._redacting.task(task), group_id)

        await self._write(decide)
        return self.get_task(id)

    async def start_task(self, task_id: str) -> TaskState:
        """Have a task that waits run. Of several workers that start it, one succeeds.

        Raises:
            UnknownTask, IllegalTransition: there is no such task, or it does not wait.
        """

        def decide(standing: Standing) -> Entry:
            task = standing.task(task_id)
            if task.status is not TaskStatus.PENDING:
                raise IllegalTransition(task_id, task.status, TaskStatus.RUNNING)
            return lifecycle.moved(standing, task_id, TaskStatus.RUNNING, reason="started")

        await self._write(decide)
        return self.get_task(task_id)

    async def start_next_task(self) -> TaskState | None:
        """Have the most urgent of the tasks that wait run, and return it; None, if none waits.

        That is the one of the highest priority; of those, the one spawned first.
        """
        started: list[str] = []

        def decide(standing: Standing) -> Entry | None:
            task_id = lifecycle.most_urgent(standing)
            if task_id is None:
                return None
            started[:] = [task_id]
            return lifecycle.moved(standing, task_id, TaskStatus.RUNNING, reason="started")

        return self.get_task(started[0]) if await self._write(decide) else None

    async def complete_task(
        self,
        task_id: str,
        result: Any = None,
        *,
        patch: ContextPatch | None = None,
        strategy: MergeStrategy | None = None,
    ) -> TaskState:
        """A running task has done its work.

        Args:
            patch: what it found out, merged in the same moment: `apply_context_patch` with the
                task's id as the patch's.
            strategy: None: that of the task's group, else `APPEND`.

        Raises:
            UnknownTask, IllegalTransition: there is no such task, or it does not run.
            MergeRefused: see `apply_context_patch`.
        """
        result = self._redacting.result(task_id, result)
        if patch is not None:
            patch = self._redacting.patch("complete_task", task_id, patch)

        def decide(standing: Standing) -> Entry:
            entry = lifecycle.moved(standing, task_id, TaskStatus.COMPLETE, result=result)
            if patch is not None:
                group = standing.state.group_of(task_id)
                chosen = strategy or (group.strategy if group else MergeStrategy.APPEND)
                entry.add(patches.offered(standing, task_id, patch, MergeStrategy(chosen)))
            return entry

        await self._write(decide)
        return self.get_task(task_id)

    async def fail_task(self, task_id: str, error: str) -> TaskState:
        """A task cannot do its work.

        Raises:
            UnknownTask, IllegalTransition: there is no such task, or it has ended.
        """
        failed, error = TaskStatus.FAILED, self._redacting.error(task_id, error)
        await self._write(
            lambda standing: lifecycle.moved(standing, task_id, failed, reason=error, error=error)
        )
        return self.get_task(task_id)

    async def report(
        self,
        task_id: str,
        content: Any,
        *,
        update_type: UpdateType = UpdateType.PROGRESS,
        update_id: str | None = None,
        step_index: int | None = None,
        total_steps: int | None = None,
        progress: dict[str, Any] | None = None,
    ) -> StateUpdate:
        """Append an update of a running task, and return it as it was appended.

        Args:
            update_id: names the update, so that reporting it again has no effect. None: a new one.
            progress: what the task's `progress` is from then on; None: as it was.

        Raises:
            UnknownTask, IllegalTransition: there is no such task, or it does not run.
        """
        update = StateUpdate.model_construct(
            session_id=self.session_id,
            task_id=task_id,
            trace_id=None,
            update_id=update_id or uuid.uuid4().hex,
            update_type=UpdateType(update_type),
            content=content,
            step_index=step_index,
            total_steps=total_steps,
            created_at=datetime.now(UTC),
        )
        update = self._redacting.update(update)
        if progress is not None:
            progress = self._redacting.progress(task_id, progress)
        # No report comes after the update that tells of the task's end.
        await self._write(
            lambda standing: lifecycle.progressed(standing, update, progress),
            also_on=updates.kind,
            unless_seen=update.update_id,
        )
        return update

    async def create_group(
        self,
        name: str,
        *,
        merge_strategy: MergeStrategy = MergeStrategy.APPEND,
        group_id: str | None = None,
    ) -> TaskGroup:
        """Return a new group that tasks may join, by `spawn_task(group_id=...)`.

        Args:
            name: for people. merge_strategy: what becomes of its tasks' patches.
            group_id: None for a new one; if there is a group of that id, that is returned.
        """
        id = secrets.token_hex(8) if group_id is None else checked_id(group_id, "group_id")
        strategy = MergeStrategy(merge_strategy)
        name = self._redacting.group_name(id, name)
        await self._write(lambda standing: groups.opened(standing, id, name, strategy))
        return self._state.group(id)

    async def seal_group(self, group_id: str) -> TaskGroup:
        """Have no more tasks join a group: it ends with the last of them. Idempotent.

        Raises:
            UnknownGroup: there is none of that id.
        """
        await self._write(lambda standing: groups.sealed(standing, group_id))
        return self._state.group(group_id)

    async def wait_for_group(self, group_id: str) -> TaskGroup:
        """Wait until a group has ended, and return it. Bound it by `asyncio.timeout`.

        Raises:
            UnknownGroup: there is none of that id. LogCorrupt, StoreClosed: see `foldlog.errors`.
        """
        feed = self._journal
        latest = await feed.list_updates(self.session_id, limit=1, consistency="strong")
        since = latest[-1].update_id if latest else None
        group = (await self.refresh()).group(group_id)
        if group.ended_at is not None:
            return group
        async with aclosing(
            feed.watch_updates(self.session_id, since_id=since, task_id=group_id)
        ) as told:
            async for _ in told:  # mostly its end; but a task may be called as it is
                group = (await self.refresh()).group(group_id)
                if group.ended_at is not None:
                    break
        return group
