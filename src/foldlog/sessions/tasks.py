"""The tasks of a session, and their groups."""

from __future__ import annotations

import functools
import uuid
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, Literal

from foldlog.errors import PayloadError
from foldlog.models import (
    StateUpdate,
    TaskContextSnapshot,
    TaskState,
    TaskStatus,
    TaskType,
    UpdateType,
)
from foldlog.sessions import context, groups, lifecycle
from foldlog.sessions.decision import Decision
from foldlog.sessions.models import ContextPatch, MergeStrategy, TaskGroup
from foldlog.sessions.writing import SessionWriter, called, named, new_id
from foldlog.store.payloads import encode
from foldlog.store.updates import UPDATES
from foldlog.views import Consistency, watching
from foldlog_projections import tasks, updates
from foldlog_projections.sessions import session


class SessionTasks(SessionWriter):
    """The methods of a session for its tasks."""

    @named
    def get_task(self, task_id: str) -> TaskState:
        """Return a task, from memory.

        Args:
            task_id: the task.

        Raises:
            NotFound: there is none of that id.
        """
        return self._seen.task(task_id)

    @called()
    async def list_tasks(
        self, *, status: TaskStatus | None = None, consistency: Consistency = "strong"
    ) -> list[TaskState]:
        """Return the tasks in the order in which they were spawned.

        Args:
            status: only tasks with this status. None: all.
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).

        Raises:
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        found = (await self._read(consistency)).tasks
        return [task for task in found if status is None or task.status is status]

    @called(writes=True)
    async def spawn_task(
        self,
        task_id: str | None = None,
        *,
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
        mode: Literal["subagent", "job"] | None = None,
    ) -> TaskState:
        """Add a task with a snapshot of the context as it is now. The task waits for `start_task`.

        Args:
            task_id: None: a new one. With an id, repeating the call is safe: it returns the task of
                that id as it is.
            task_type: FOREGROUND is interactive, BACKGROUND runs beside it.
            priority: higher is more urgent.
            description: what it is, for a reader.
            query: what it is to do.
            spawn_reason: why, in words.
            parent_task_id: None: the foreground task, where one runs.
            spawned_from_event_id: the event that made it.
            trace_id: its trace.
            propagate_on_cancel: "cascade": cancelled with its parent; "isolate": not.
            notify_on_complete: whether a NOTIFICATION update tells of a background task's end.
            group_id: the group that it joins.
            mode: how telemetry names a background task: "job" runs without an agent. None:
                "subagent".

        Returns:
            The task as it was saved.

        Raises:
            InvalidId, PayloadError, RedactionFailed: the input was refused.
            AppendConflict: others wrote to the session until the time was up. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; `refresh` before you try again.
            IllegalTransition: its parent was cancelled, and the task would be cancelled with it.
            NotFound, GroupSealed: it cannot join the group.
        """
        _check_one_of("propagate_on_cancel", propagate_on_cancel, "cascade", "isolate")
        _check_one_of("mode", mode, "subagent", "job", None)
        id = new_id("task_id", task_id)
        task = TaskState(
            task_id=id,
            session_id=self.session_id,
            status=TaskStatus.PENDING,
            task_type=TaskType(task_type),
            priority=priority,
            context_snapshot=TaskContextSnapshot(
                session_id=self.session_id,
                task_id=id,
                trace_id=trace_id,
                spawned_from_task_id=parent_task_id or "",
                spawned_from_event_id=spawned_from_event_id,
                spawn_reason=spawn_reason,
                query=query,
                propagate_on_cancel=propagate_on_cancel,
                notify_on_complete=notify_on_complete,
            ),
            trace_id=trace_id,
            description=description,
        )
        redact = functools.partial(
            self._core.redacted, "Session.spawn_task", tasks.kind(self.session_id)
        )
        await self._write(lambda made: lifecycle.spawn(made, task, mode, group_id, redact))
        return self.get_task(id)

    @called(writes=True)
    async def start_task(self, task_id: str) -> TaskState:
        """Start a task that waits, and return it. Of several workers, exactly one succeeds.

        Args:
            task_id: the task.

        Raises:
            InvalidId, PayloadError, RedactionFailed: the input was refused.
            AppendConflict: others wrote to the session until the time was up. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; `refresh` before you try again.
            NotFound, IllegalTransition: there is no such task, or it does not wait.

        Examples:
            >>> async with store.session("trip") as session:
            ...     task = await session.spawn_task(task_id="book", query="a flight to Oslo")
            ...     (await session.start_task("book")).status.value
            ...     (await session.complete_task("book", "SK 4035")).result
            'RUNNING'
            'SK 4035'
        """
        await self._write(lambda made: lifecycle.start(made, task_id))
        return self.get_task(task_id)

    @called(writes=True)
    async def start_next_task(self) -> TaskState | None:
        """Start the most urgent task that waits, and return it; None if none waits.

        That is the one of the highest priority; of those, the one spawned first.

        Raises:
            InvalidId, PayloadError, RedactionFailed: the input was refused.
            AppendConflict: others wrote to the session until the time was up. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; `refresh` before you try again.
        """
        started: str | None = None

        def decide(made: Decision) -> bool:
            nonlocal started
            started = lifecycle.start_next(made)
            return started is not None

        await self._write(decide)
        return None if started is None else self.get_task(started)

    @called(writes=True)
    async def complete_task(
        self,
        task_id: str,
        result: Any = None,
        *,
        patch: ContextPatch | None = None,
        strategy: MergeStrategy | None = None,
    ) -> TaskState:
        """Complete a running task, and return it.

        Args:
            task_id: the task.
            result: what came of it.
            patch: what it found, merged in the same append.
            strategy: how the patch is merged. None: as the task's group says, else `APPEND`.

        Raises:
            InvalidId, PayloadError, RedactionFailed: the input was refused.
            AppendConflict: others wrote to the session until the time was up. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; `refresh` before you try again.
            NotFound, IllegalTransition: there is no such task, or it does not run.
            MergeRefused: `background_results` in the context is no list.
        """
        about = {"session_id": self.session_id, "task_id": task_id}
        result = self._core.redaction.value(
            "Session.complete_task", tasks.CHANGED, about, result=result
        )
        if patch is not None:
            patch = self._redacted_patch("complete_task", task_id, patch)

        def decide(made: Decision) -> None:
            lifecycle.move(made, task_id, TaskStatus.COMPLETE, result=result)
            if patch is not None:
                group = made.state.folded.group_of(task_id)
                chosen = strategy or (group.strategy if group else MergeStrategy.APPEND)
                context.offer(made, task_id, patch, MergeStrategy(chosen))

        await self._write(decide)
        return self.get_task(task_id)

    @called(writes=True)
    async def fail_task(self, task_id: str, error: str) -> TaskState:
        """Fail a task that has not ended, and return it.

        Args:
            task_id: the task.
            error: why.

        Raises:
            InvalidId, PayloadError, RedactionFailed: the input was refused.
            AppendConflict: others wrote to the session until the time was up. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; `refresh` before you try again.
            NotFound, IllegalTransition: there is no such task, or it has ended.
        """
        error = self._redacted_field("fail_task", task_id, error=error)
        await self._write(
            lambda made: lifecycle.move(made, task_id, TaskStatus.FAILED, reason=error, error=error)
        )
        return self.get_task(task_id)

    @called(writes=True)
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
        """Append an update of a task that runs or is paused, and return it as it was appended.

        No report comes after the update of the task's end.

        Args:
            task_id: the task.
            content: any value that the log can hold.
            update_type: what `content` is.
            update_id: names the update, so that reporting it again has no effect. None: a new one.
            step_index: which step it is, counted from 0.
            total_steps: how many steps there are.
            progress: the task's `progress` from then on; None: as it was.

        Raises:
            InvalidId, PayloadError, RedactionFailed: the input was refused.
            AppendConflict: others wrote to the session until the time was up. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; `refresh` before you try again.
            IdTaken: the session has another update of that id. Nothing was stored.
            NotFound, IllegalTransition: there is no such task, or it does not run.
        """
        update = StateUpdate.model_construct(
            session_id=self.session_id,
            task_id=task_id,
            update_id=update_id or uuid.uuid4().hex,
            update_type=UpdateType(update_type),
            content=content,
            step_index=step_index,
            total_steps=total_steps,
            created_at=datetime.now(UTC),
        )
        key = updates.kind(self.session_id)
        record = self._core.redacted("Session.report", key, UPDATES.record(update))
        if progress is not None:
            progress = self._redacted_field("report", task_id, progress=progress)
        await self._write(
            lambda made: lifecycle.report(made, record, progress),
            once=(updates.kind, encode(updates.kind, record)),
        )
        return update.model_copy(update={"content": record.content})

    @called(writes=True)
    async def create_group(
        self,
        name: str,
        *,
        merge_strategy: MergeStrategy = MergeStrategy.APPEND,
        group_id: str | None = None,
    ) -> TaskGroup:
        """Return a new group that tasks may join, by `spawn_task(group_id=...)`.

        Args:
            name: for a reader.
            merge_strategy: how the patches of its tasks are merged.
            group_id: None: a new one. If there is a group of that id, that is returned.

        Raises:
            InvalidId, PayloadError, RedactionFailed: the input was refused.
            AppendConflict: others wrote to the session until the time was up. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; `refresh` before you try again.
        """
        id = new_id("group_id", group_id)
        strategy = MergeStrategy(merge_strategy)
        given = self._redacted("create_group", session.OPENED, {"group_id": id}, {"name": name})
        await self._write(lambda made: groups.create(made, id, given["name"], strategy))
        return self._seen.group(id)

    @called(writes=True)
    async def seal_group(self, group_id: str) -> TaskGroup:
        """Let no more tasks join a group, and return it: it ends with the last of its tasks.

        Args:
            group_id: the group.

        Raises:
            InvalidId, PayloadError, RedactionFailed: the input was refused.
            AppendConflict: others wrote to the session until the time was up. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; `refresh` before you try again.
            NotFound: there is none of that id.
        """
        await self._write(lambda made: groups.seal(made, group_id))
        return self._seen.group(group_id)

    @called()
    async def wait_for_group(self, group_id: str) -> TaskGroup:
        """Wait until a group has ended, and return it. Bound the wait by `asyncio.timeout`.

        Args:
            group_id: the group.

        Raises:
            NotFound: there is none of that id, or the session was cleared.
            LogCorrupt, StoreClosed: the log cannot be read, or is closed.
        """
        subject = self._core.subject(session.kind, self.session_id)
        advances = watching.advances(self._core.hot_views, session.kind, subject)
        async with aclosing(advances) as changes:
            async for _ in changes:
                group = (await self._read("strong")).group(group_id)
                if group.ended_at is not None:
                    break
        return group


def _check_one_of(name: str, value: object, *known: str | None) -> None:
    if value not in known:
        raise PayloadError(name, f"it is one of {', '.join(map(repr, known))}, not {value!r:.80}")
