"""A session: what its agents know, what they do, and what they are told. See `docs/sessions.md`."""

from __future__ import annotations

import functools
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from types import TracebackType
from typing import Any, Final, Literal, Self

from foldlog.errors import PayloadError
from foldlog.models import (
    StateUpdate,
    SteeringEvent,
    SteeringEventType,
    TaskContextSnapshot,
    TaskState,
    TaskStatus,
    TaskType,
    UpdateType,
)
from foldlog.sessions import context, groups, inbox, lifecycle, patches, steering
from foldlog.sessions.decision import Decision, new_update
from foldlog.sessions.memory import (
    OnHealth,
    ShortTermMemory,
    ShortTermMemoryConfig,
    Summarizer,
)
from foldlog.sessions.models import (
    ContextPatch,
    MergeStrategy,
    PendingContextPatch,
    SessionContext,
    TaskGroup,
)
from foldlog.sessions.state import SessionState
from foldlog.sessions.telemetry import TaskTelemetrySink
from foldlog.sessions.writing import SessionWriter
from foldlog.steering import sanitize_steering_event, validate_steering_event
from foldlog.store.operation import operation
from foldlog.store.payloads import mapping
from foldlog.store.store import BaseStore
from foldlog.subjects import checked_id
from foldlog.views import Consistency
from foldlog_projections import session, steering as steering_events, updates

_FOREGROUND: Final = "foreground"
"""What a task is spawned from where no task is named and none runs in the foreground."""


_operation: Final = functools.partial(operation, prefix="sessions.")


class Session(SessionWriter):
    """One session of a store: `async with store.session(session_id) as session`.

    Any number may be open on the same session, in any number of processes; each sees what the
    others did. Every decision is a compare-and-set on the log: it is made once, on the session as
    it is, and appended whole or not at all. Inside `store.atomic()` it is appended with the block,
    and only if nobody has written to the session meanwhile: else the block raises AppendConflict.
    Calls raise also where the store degrades.

    `context`, `pending_patches`, `foreground_task_id` and `get_task` answer from memory, with what
    the last call of this object saw or what has arrived since; `refresh` asks the log. A session
    lives until `close` or the end of its `async with`, which is needed only where it has a
    telemetry sink or a memory.

    Every method that writes may raise, beside what it says itself:
        PayloadError: a part cannot be held. InvalidId: an id is empty. Nothing was appended.
        RedactionFailed: the store's `redact=` failed. Nothing was appended.
        AppendConflict: others wrote to the session all the time. Nothing was appended.
        AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: see `foldlog.errors`.

    Args:
        state_store: a foldlog store.
        telemetry_sink: hears of the tasks that begin and end by this object. None: nobody does.
    """

    def __init__(
        self,
        session_id: str,
        state_store: BaseStore,
        telemetry_sink: TaskTelemetrySink | None = None,
    ) -> None:
        super().__init__(session_id, state_store, telemetry_sink)
        self._memories: list[ShortTermMemory] = []

    # --- looking ----------------------------------------------------------------------------------

    @_operation()
    async def refresh(self, *, consistency: Consistency = "strong") -> SessionState:
        """Return the session as of now: a copy, which stays as it is.

        Raises:
            LogUnavailable, LogCorrupt: it could not be read.
        """
        return (await self._read(consistency)).copy()

    async def hydrate(self) -> None:
        """Look at the session as of now. `store.session` has done it. Errors as `refresh`."""
        await self._read("strong")

    @property
    def state(self) -> SessionState:
        """All of the session: a copy, which stays as it is."""
        return self._seen.copy()

    @property
    def context(self) -> SessionContext:
        """The context: the caller's own copy, see `update_context`."""
        return self._seen.context

    @property
    def pending_patches(self) -> dict[str, PendingContextPatch]:
        """The patches that wait for approval, by id."""
        return self._seen.pending_patches

    @property
    def foreground_task_id(self) -> str | None:
        """The first foreground task that runs, if any."""
        return self._seen.foreground_task_id

    def get_task(self, task_id: str) -> TaskState:
        """Return a task.

        Raises:
            UnknownTask: there is none of that id.
        """
        return self._seen.task(task_id)

    @_operation()
    async def list_tasks(
        self, *, status: TaskStatus | None = None, consistency: Consistency = "strong"
    ) -> list[TaskState]:
        """Return the tasks, or those with that status, in the order in which they were spawned.

        Errors as `refresh`.
        """
        tasks = (await self._read(consistency)).tasks
        return [task for task in tasks if status is None or task.status is status]

    # --- the context ------------------------------------------------------------------------------

    @_operation(writes=True)
    async def update_context(
        self,
        *,
        llm_context: Mapping[str, Any] | None = None,
        tool_context: Mapping[str, Any] | None = None,
        memory: Mapping[str, Any] | None = None,
        artifacts: list[dict[str, Any]] | None = None,
    ) -> SessionContext:
        """Replace these parts of the context, and return its next version.

        Raises:
            PayloadError: a part is no mapping, or `artifacts` no list of them.
        """
        parts = {"llm_context": llm_context, "tool_context": tool_context, "memory": memory}
        given: dict[str, Any] = {
            name: dict(mapping(part, name)) for name, part in parts.items() if part is not None
        }
        if artifacts is not None:
            if not isinstance(artifacts, list):
                raise PayloadError("artifacts", f"{artifacts!r:.80} is not a list")
            given["artifacts"] = [dict(mapping(each, "artifacts")) for each in artifacts]
        new = self._redacting.alike("update_context", session.CONTEXT, {}, given)

        def decide(made: Decision) -> None:
            made.record(session.CONTEXT, context.changed(made.state.folded, new))

        await self._write(decide)
        return self.context

    @_operation(writes=True)
    async def apply_context_patch(
        self,
        *,
        patch: ContextPatch,
        strategy: MergeStrategy = MergeStrategy.APPEND,
        patch_id: str | None = None,
    ) -> str | None:
        """Merge a patch into the context; with `HUMAN_GATED`, have it wait for approval.

        A CHECKPOINT update tells of a patch that waits. A patch whose context has moved on since
        it was made is marked as diverged, and a NOTIFICATION says so.

        Args:
            patch_id: names the patch, so that offering it again has no effect. None: a new one.

        Returns:
            The patch's id if it waits, else None.

        Raises:
            MergeRefused: there is something else where patches are appended to.
        """
        strategy = MergeStrategy(strategy)
        id = secrets.token_hex(8) if patch_id is None else checked_id(patch_id, "patch_id")
        given = self._redacting.patch("apply_context_patch", id, patch)
        await self._write(lambda made: patches.offer(made, id, given, strategy))
        return id if strategy is MergeStrategy.HUMAN_GATED else None

    @_operation(writes=True)
    async def apply_pending_patch(
        self, patch_id: str, strategy: MergeStrategy | None = None
    ) -> bool:
        """Merge a patch that waits. Return False if none of that id does.

        Of all callers that apply or reject it, in any process, exactly one gets True.

        Raises:
            MergeRefused: there is something else where patches are appended to. It still waits.
        """
        chosen = MergeStrategy(strategy or MergeStrategy.APPEND)
        return await self._write(lambda made: patches.approve(made, patch_id, chosen))

    @_operation(writes=True)
    async def reject_pending_patch(self, patch_id: str) -> bool:
        """Drop a patch that waits. Return False if none of that id does."""
        return await self._write(lambda made: patches.reject(made, patch_id))

    # --- tasks ------------------------------------------------------------------------------------

    @_operation(writes=True)
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
        mode: Literal["subagent", "job"] | None = None,
    ) -> TaskState:
        """Add a task, which waits for `start_task`, with a snapshot of the context as it is now.

        Args:
            task_id: None: a new one. With an id, repeating the call is safe: it returns the task
                of that id as it is.
            parent_task_id: None: the foreground task, where one runs.
            propagate_on_cancel: "cascade": cancelled with its parent; "isolate": not.
            group_id: the group that it joins.
            mode: what telemetry calls a background task: "job" runs without an agent of its own.
                None: "subagent".

        Raises:
            IllegalTransition: its parent was cancelled, and would have taken it along.
            UnknownGroup, GroupSealed: it cannot join the group.
            PayloadError: `propagate_on_cancel` or `mode` is none of these.
        """
        _check_one_of("propagate_on_cancel", propagate_on_cancel, "cascade", "isolate")
        _check_one_of("mode", mode, "subagent", "job", None)
        id = secrets.token_hex(8) if task_id is None else checked_id(task_id, "task_id")

        def decide(made: Decision) -> None:
            known = made.state.context
            snapshot = TaskContextSnapshot(
                session_id=self.session_id,
                task_id=id,
                trace_id=trace_id,
                spawned_from_task_id=(
                    parent_task_id or made.state.foreground_task_id or _FOREGROUND
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
            lifecycle.spawn(made, self._redacting.task(task), mode, group_id)

        await self._write(decide)
        return self.get_task(id)

    @_operation(writes=True)
    async def start_task(self, task_id: str) -> TaskState:
        """Have a task that waits run. Of several workers that start it, exactly one succeeds.

        Raises:
            UnknownTask, IllegalTransition: there is no such task, or it does not wait.
        """
        await self._write(lambda made: lifecycle.start(made, task_id))
        return self.get_task(task_id)

    @_operation(writes=True)
    async def start_next_task(self) -> TaskState | None:
        """Have the most urgent of the tasks that wait run, and return it; None if none waits.

        That is the one of the highest priority; of those, the one spawned first.
        """
        started: str | None = None

        def decide(made: Decision) -> bool:
            nonlocal started
            started = lifecycle.start_next(made)
            return started is not None

        await self._write(decide)
        return None if started is None else self.get_task(started)

    @_operation(writes=True)
    async def complete_task(
        self,
        task_id: str,
        result: Any = None,
        *,
        patch: ContextPatch | None = None,
        strategy: MergeStrategy | None = None,
    ) -> TaskState:
        """Complete a running task.

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

        def decide(made: Decision) -> None:
            lifecycle.move(made, task_id, TaskStatus.COMPLETE, result=result)
            if patch is not None:
                group = made.state.folded.group_of(task_id)
                chosen = strategy or (group.strategy if group else MergeStrategy.APPEND)
                patches.offer(made, task_id, patch, MergeStrategy(chosen))

        await self._write(decide)
        return self.get_task(task_id)

    @_operation(writes=True)
    async def fail_task(self, task_id: str, error: str) -> TaskState:
        """Fail a task; `error` says why.

        Raises:
            UnknownTask, IllegalTransition: there is no such task, or it has ended.
        """
        failed = TaskStatus.FAILED
        error = self._redacting.of_task("fail_task", task_id, error=error)
        await self._write(
            lambda made: lifecycle.move(made, task_id, failed, reason=error, error=error)
        )
        return self.get_task(task_id)

    @_operation(writes=True)
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

        No report comes after the update that tells of the task's end.

        Args:
            update_id: names the update, so that reporting it again has no effect. None: a new one.
            progress: what the task's `progress` is from then on; None: as it was.

        Raises:
            UnknownTask, IllegalTransition: there is no such task, or it does not run.
        """
        update = new_update(
            self.session_id,
            task_id,
            UpdateType(update_type),
            content,
            update_id=update_id,
            step_index=step_index,
            total_steps=total_steps,
        )
        update = self._redacting.update(update)
        if progress is not None:
            progress = self._redacting.of_task("report", task_id, progress=progress)
        await self._write(
            lambda made: lifecycle.report(made, update, progress),
            once=(updates.kind, update.update_id),
        )
        return update

    # --- groups -----------------------------------------------------------------------------------

    @_operation(writes=True)
    async def create_group(
        self,
        name: str,
        *,
        merge_strategy: MergeStrategy = MergeStrategy.APPEND,
        group_id: str | None = None,
    ) -> TaskGroup:
        """Return a new group that tasks may join, by `spawn_task(group_id=...)`.

        Args:
            name: for people.
            merge_strategy: what becomes of its tasks' patches.
            group_id: None: a new one. If there is a group of that id, that is returned.
        """
        id = secrets.token_hex(8) if group_id is None else checked_id(group_id, "group_id")
        strategy = MergeStrategy(merge_strategy)
        given = self._redacting.alike(
            "create_group", session.OPENED, {"group_id": id}, {"name": name}
        )
        await self._write(lambda made: groups.create(made, id, given["name"], strategy))
        return self._seen.group(id)

    @_operation(writes=True)
    async def seal_group(self, group_id: str) -> TaskGroup:
        """Have no more tasks join a group: it ends with the last of them. Idempotent.

        Raises:
            UnknownGroup: there is none of that id.
        """
        await self._write(lambda made: groups.seal(made, group_id))
        return self._seen.group(group_id)

    async def wait_for_group(self, group_id: str) -> TaskGroup:
        """Wait until a group has ended, and return it. Bound it by `asyncio.timeout`.

        Raises:
            UnknownGroup: there is none of that id. LogCorrupt, StoreClosed: see `foldlog.errors`.
        """
        latest = await self._store.list_updates(self.session_id, limit=1, consistency="strong")
        since = latest[-1].update_id if latest else None
        group = (await self._read("strong")).group(group_id)
        if group.ended_at is not None:
            return group
        async with aclosing(
            self._store.watch_updates(self.session_id, since_id=since, task_id=group_id)
        ) as told:
            async for _ in told:  # mostly its end; but a task may be called as it is
                group = (await self._read("strong")).group(group_id)
                if group.ended_at is not None:
                    break
        return group

    # --- steering ---------------------------------------------------------------------------------

    @_operation(writes=True)
    async def steer(self, event: SteeringEvent) -> bool:
        """Put a steering event on record and have it take effect, in one moment.

        PAUSE, RESUME, PRIORITIZE and CANCEL change their task; APPROVE and REJECT decide about the
        patch that their `patch_id` names. All of them reach the task's inbox. Return False if the
        event was seen before, or has nothing to decide any more.

        Raises:
            SteeringValidationError: the payload breaks a rule of its type.
            UnknownTask, IllegalTransition: there is no such task, or it cannot do that.
            MergeRefused: the patch cannot be merged.
        """
        if event.session_id != self.session_id:
            raise PayloadError("session_id", f"the event is of {event.session_id!r:.80}")
        event = sanitize_steering_event(self._redacting.steering(event))
        validate_steering_event(event)
        return await self._write(
            lambda made: steering.steer(made, event),
            once=(steering_events.kind, event.event_id),
        )

    def inbox(self, task_id: str, *, acknowledge: bool = True) -> AsyncGenerator[SteeringEvent]:
        """Yield the steering events of a task that no worker has taken, then new ones as they come.

        Ends when the task has ended and nothing is left. The caller closes it:
        `async with aclosing(session.inbox(task_id)) as inbox`.

        Args:
            acknowledge: True: each event is acknowledged before it is yielded, so that exactly one
                worker gets it; one that dies then loses it. False: every worker gets it until one
                calls `acknowledge`.

        Raises:
            UnknownTask: there is no such task. LogCorrupt, StoreClosed: see `foldlog.errors`.
        """
        taking = self.acknowledge if acknowledge else None
        return inbox.events(self._store, self.session_id, task_id, taking)

    @_operation(writes=True)
    async def acknowledge(self, event: SteeringEvent) -> bool:
        """Take an event, so that no inbox yields it any more. Exactly one caller gets True."""
        return await self._write(
            lambda made: steering.acknowledge(made, event.event_id, self.worker)
        )

    @_operation(writes=True)
    async def cancel_task(self, task_id: str, *, reason: str | None = None) -> bool:
        """Cancel a task, and with it, in one moment, all that was spawned from it. Returns True.

        What is isolated stays, with all that was spawned from that. The same as `steer` with a
        CANCEL.

        Raises:
            UnknownTask, IllegalTransition: there is no such task, or it has ended.
        """
        return await self._steer(task_id, SteeringEventType.CANCEL, reason=reason)

    @_operation(writes=True)
    async def pause_task(self, task_id: str, *, reason: str | None = None) -> bool:
        """Pause a running task: `steer` with a PAUSE. Returns True.

        Raises:
            UnknownTask, IllegalTransition: there is no such task, or it does not run.
        """
        return await self._steer(task_id, SteeringEventType.PAUSE, reason=reason)

    @_operation(writes=True)
    async def resume_task(self, task_id: str, *, reason: str | None = None) -> bool:
        """Have a paused task go on: `steer` with a RESUME. Returns True.

        Raises:
            UnknownTask, IllegalTransition: there is no such task, or it is not paused.
        """
        return await self._steer(task_id, SteeringEventType.RESUME, reason=reason)

    @_operation(writes=True)
    async def prioritize_task(self, task_id: str, priority: int) -> bool:
        """Make a task more urgent, or less: `steer` with a PRIORITIZE. Returns True.

        Raises:
            UnknownTask, IllegalTransition: there is no such task, or it has ended.
        """
        return await self._steer(task_id, SteeringEventType.PRIORITIZE, priority=priority)

    # --- memory -----------------------------------------------------------------------------------

    async def memory(
        self,
        config: ShortTermMemoryConfig,
        *,
        key: str | None = None,
        tool_context: Mapping[str, Any] | None = None,
        summarizer: Summarizer | None = None,
        on_health: OnHealth | None = None,
    ) -> ShortTermMemory:
        """Return a short-term memory, as it was last saved. It ends with this session.

        Args:
            key: whose it is. None: what `config.isolation` finds in the tool context.
            tool_context: None: that of the session's context.
            on_health: told of each change of health, from where to where.

        Raises:
            MemoryKeyMissing: the tool context does not say whose it is.
            ConfigurationError: rolling summaries need a summarizer.
            LogUnavailable, LogCorrupt: it could not be read, or is none.
        """
        if key is None:
            key = config.isolation.key(tool_context or self.context.tool_context)
        found = ShortTermMemory(
            config, self._store, key, summarizer=summarizer, on_health=on_health
        )
        await found.hydrate()
        self._memories.append(found)
        return found

    # --- its end ----------------------------------------------------------------------------------

    async def close(self) -> None:
        """End its memories, and let the telemetry sink have what waits. Idempotent."""
        try:
            for each in self._memories:
                await each.close()
        finally:
            await self.telemetry.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _steer(self, task_id: str, event_type: SteeringEventType, **payload: Any) -> bool:
        return await self.steer(
            SteeringEvent(
                session_id=self.session_id,
                task_id=task_id,
                event_type=event_type,
                payload={name: value for name, value in payload.items() if value is not None},
            )
        )


StreamingSession = Session
"""The name that the StateStore specification 2.11 gives it."""


def _check_one_of(name: str, value: object, *known: str | None) -> None:
    if value not in known:
        raise PayloadError(name, f"it is one of {', '.join(map(repr, known))}, not {value!r:.80}")
