"""A session: what its agents know, what they do, and how they are steered.

The guide is `docs/guides/sessions.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Self

from foldlog.errors import Misuse, PayloadError
from foldlog.models import (
    StateUpdate,
    SteeringEvent,
    SteeringEventType,
    StoredEvent,
)
from foldlog.sessions import context, steering
from foldlog.sessions.memory.config import ShortTermMemoryConfig
from foldlog.sessions.memory.memory import OnHealth, ShortTermMemory, is_made_with
from foldlog.sessions.memory.state import Summarizer
from foldlog.sessions.models import (
    ContextPatch,
    MergeStrategy,
    PendingContextPatch,
    SessionContext,
)
from foldlog.sessions.state import SessionState
from foldlog.sessions.tasks import SessionTasks
from foldlog.sessions.telemetry import TaskTelemetrySink
from foldlog.sessions.writing import called, new_id
from foldlog.steering import sanitize_steering_event, validate_steering_event
from foldlog.store.events import SESSION_PREFIX
from foldlog.store.payloads import mapping
from foldlog.store.steering import STEERING, draft_steering
from foldlog.store.store import BaseStore
from foldlog.views import Consistency
from foldlog_projections import steering as steering_events
from foldlog_projections.sessions import session


class Session(SessionTasks):
    """One session of a store, made by `store.session(session_id)`.

    Any number may be open on the same session, in any number of processes; each sees what the
    others did. Every decision is a compare-and-set on the log: it is made once, on the session as
    it is, and appended whole or not at all. Inside `store.atomic()` it is appended with the block,
    and only if nobody has written to the session meanwhile: else the block raises AppendConflict.
    Calls raise also where the store degrades.

    `context`, `pending_patches`, `foreground_task_id` and `get_task` answer from memory, with what
    the last call of this object saw or what has arrived since; `refresh` asks the log. A session
    lives until `close` or the end of its `async with`, which is needed only where it has a
    telemetry sink or a memory.
    """

    def __init__(
        self,
        session_id: str,
        state_store: BaseStore,
        telemetry_sink: TaskTelemetrySink | None = None,
    ) -> None:
        super().__init__(session_id, state_store, telemetry_sink)
        self._memories: dict[str, ShortTermMemory] = {}
        self._opening = asyncio.Lock()

    # Reading.

    @called()
    async def refresh(self, *, consistency: Consistency = "strong") -> SessionState:
        """Return the session as of now: a copy, which stays as it is.

        Args:
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).

        Raises:
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        return (await self._read(consistency)).copy()

    @called()
    async def hydrate(self) -> None:
        """Read the session as of now. `store.session` has done it.

        Raises:
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        await self._read("strong")

    @property
    def state(self) -> SessionState:
        """The whole session: a copy, which stays as it is."""
        return self._seen.copy()

    @property
    def context(self) -> SessionContext:
        """The context: a copy that you may change. `update_context` changes the session's."""
        return self._seen.context

    @property
    def pending_patches(self) -> dict[str, PendingContextPatch]:
        """The patches that wait for approval, by id."""
        return self._seen.pending_patches

    @property
    def foreground_task_id(self) -> str | None:
        """The first foreground task that runs, if any."""
        return self._seen.foreground_task_id

    @called()
    async def history(self, *, consistency: Consistency = "session") -> list[StoredEvent]:
        """Return the audit trail: each save of a task, update and steering event, by time.

        That is `store.load_history("session:<id>")`.

        Args:
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).

        Raises:
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        return await self._store.load_history(
            SESSION_PREFIX + self.session_id, consistency=consistency
        )

    def watch(
        self, *, after: str | None = None, task_id: str | None = None
    ) -> AsyncGenerator[StateUpdate]:
        """Yield the updates of the session, then each new one. It waits out an outage.

        It never ends by itself: use `contextlib.aclosing`.

        Args:
            after: begin behind this `update_id`. None: with the first.
            task_id: only those of this task.

        Raises:
            NotFound: the session has had no update `after`.
            LogCorrupt, StoreClosed: the log cannot be read, or is closed.
        """
        return self._store.watch_updates(self.session_id, after=after, task_id=task_id)

    @called(writes=True)
    async def clear(self) -> None:
        """Remove the session with all that was saved in it, at once: `store.clear_session`.

        The object and its memories stay usable; what is saved afterwards begins the session anew.

        Raises:
            SessionHasForks: forks still share the session. Nothing was removed.
            ConfigurationError: the server denies deletes, or a spool file cannot be written.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: some may remain; clear again.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        for each in [*self._memories.values()]:
            await each.close()  # else one could save, meanwhile, what is being removed
        try:
            await self._store.clear_session(self.session_id)
        finally:
            for each in [*self._memories.values()]:
                await each.hydrate()
        await self._read("strong")

    # The context.

    @called(writes=True)
    async def update_context(
        self,
        *,
        llm_context: Mapping[str, Any] | None = None,
        tool_context: Mapping[str, Any] | None = None,
        memory: Mapping[str, Any] | None = None,
        artifacts: list[dict[str, Any]] | None = None,
    ) -> SessionContext:
        """Replace these parts of the context, and return its next version.

        Args:
            llm_context: what a model may see. None: as it was; so for the others.
            tool_context: what only tools may see.
            memory: the agents' memory.
            artifacts: references to artifacts.

        Raises:
            InvalidId, PayloadError, RedactionFailed: the input was refused.
            AppendConflict: others wrote to the session until the time was up. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; `refresh` before you try again.
        """
        parts = {"llm_context": llm_context, "tool_context": tool_context, "memory": memory}
        given: dict[str, Any] = {
            name: dict(mapping(part, name)) for name, part in parts.items() if part is not None
        }
        if artifacts is not None:
            if not isinstance(artifacts, list):
                raise PayloadError("artifacts", f"{artifacts!r:.80} is not a list")
            given["artifacts"] = [dict(mapping(each, "artifacts")) for each in artifacts]
        new = self._redacted("update_context", session.CONTEXT, {}, given)
        await self._write(lambda made: context.change(made, new))
        return self.context

    @called(writes=True)
    async def apply_context_patch(
        self,
        *,
        patch: ContextPatch,
        strategy: MergeStrategy = MergeStrategy.APPEND,
        patch_id: str | None = None,
    ) -> str | None:
        """Merge a patch into the context; with `HUMAN_GATED`, queue it for approval.

        A CHECKPOINT update announces a queued patch. A patch whose context has changed since it was
        made is marked as diverged, with a NOTIFICATION.

        Args:
            patch: what a task found.
            strategy: how it is merged.
            patch_id: names the patch, so that offering it again has no effect. None: a new one.

        Returns:
            The patch's id if it waits, else None.

        Raises:
            InvalidId, PayloadError, RedactionFailed: the input was refused.
            AppendConflict: others wrote to the session until the time was up. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; `refresh` before you try again.
            MergeRefused: `background_results` in the context is no list.
        """
        strategy = MergeStrategy(strategy)
        id = new_id("patch_id", patch_id)
        given = self._redacted_patch("apply_context_patch", id, patch)
        await self._write(lambda made: context.offer(made, id, given, strategy))
        return id if strategy is MergeStrategy.HUMAN_GATED else None

    @called(writes=True)
    async def apply_pending_patch(
        self, patch_id: str, strategy: MergeStrategy | None = None
    ) -> bool:
        """Merge a patch that waits. Return False if none of that id does.

        Of all callers that apply or reject it, in any process, exactly one gets True.

        Args:
            patch_id: the patch.
            strategy: how it is merged. None, or `HUMAN_GATED`: `APPEND`.

        Raises:
            InvalidId, PayloadError, RedactionFailed: the input was refused.
            AppendConflict: others wrote to the session until the time was up. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; `refresh` before you try again.
            MergeRefused: `background_results` in the context is no list. The patch still waits.
        """
        chosen = MergeStrategy(strategy or MergeStrategy.APPEND)
        return await self._write(lambda made: context.approve(made, patch_id, chosen))

    @called(writes=True)
    async def reject_pending_patch(self, patch_id: str) -> bool:
        """Drop a patch that waits. Return False if none of that id does.

        Of all callers that apply or reject it, in any process, exactly one gets True.

        Args:
            patch_id: the patch.

        Raises:
            InvalidId, PayloadError, RedactionFailed: the input was refused.
            AppendConflict: others wrote to the session until the time was up. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; `refresh` before you try again.
        """
        return await self._write(lambda made: context.reject(made, patch_id))

    # Steering.

    @called(writes=True)
    async def steer(self, event: SteeringEvent) -> bool:
        """Record a steering event and apply it, in one append.

        PAUSE, RESUME, PRIORITIZE and CANCEL change their task; APPROVE and REJECT decide about the
        patch that their `patch_id` names. All of them reach the task's inbox. Return False if the
        event was seen before, or has nothing to decide any more.

        Args:
            event: the event, which names its task.

        Raises:
            InvalidId, PayloadError, RedactionFailed: the input was refused.
            AppendConflict: others wrote to the session until the time was up. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; `refresh` before you try again.
            SteeringValidationError: the payload breaks a rule of its type.
            IdTaken: the session has another event of that id. Nothing was stored.
            NotFound, IllegalTransition: there is no such task, or its status does not allow it.
            MergeRefused: the patch cannot be merged.

        Examples:
            >>> async with store.session("trip") as session:
            ...     task = await session.spawn_task(task_id="book")
            ...     task = await session.start_task("book")
            ...     await session.steer(foldlog.SteeringEvent(
            ...         session_id="trip", task_id="book",
            ...         event_type=foldlog.SteeringEventType.PAUSE,
            ...     ))
            ...     session.get_task("book").status.value
            True
            'PAUSED'
        """
        if event.session_id != self.session_id:
            raise PayloadError("session_id", f"the event is of {event.session_id!r:.80}")
        key = steering_events.kind(self.session_id)
        record = self._core.redacted("Session.steer", key, STEERING.record(event))
        event = sanitize_steering_event(event.model_copy(update={"payload": record.payload}))
        validate_steering_event(event)
        return await self._write(
            lambda made: steering.steer(made, event),
            once=(steering_events.kind, draft_steering(STEERING.record(event), strict=True)),
            steered=event.task_id,
        )

    async def _steer(self, task_id: str, event_type: SteeringEventType, **payload: Any) -> None:
        payload = {name: value for name, value in payload.items() if value is not None}
        await self.steer(
            SteeringEvent(
                session_id=self.session_id, task_id=task_id, event_type=event_type, payload=payload
            )
        )

    @called(writes=True)
    async def cancel_task(self, task_id: str, *, reason: str | None = None) -> None:
        """Cancel a task and all that was spawned from it, in one append.

        Tasks that were spawned with "isolate" stay, with all that was spawned from them.

        Args:
            task_id: the task.
            reason: why, for a reader.

        Raises:
            InvalidId, PayloadError, RedactionFailed: the input was refused.
            AppendConflict: others wrote to the session until the time was up. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; `refresh` before you try again.
            NotFound, IllegalTransition: there is no such task, or it has ended.
        """
        await self._steer(task_id, SteeringEventType.CANCEL, reason=reason)

    @called(writes=True)
    async def pause_task(self, task_id: str, *, reason: str | None = None) -> None:
        """Pause a running task.

        Args:
            task_id: the task.
            reason: why, for a reader.

        Raises:
            InvalidId, PayloadError, RedactionFailed: the input was refused.
            AppendConflict: others wrote to the session until the time was up. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; `refresh` before you try again.
            NotFound, IllegalTransition: there is no such task, or it does not run.
        """
        await self._steer(task_id, SteeringEventType.PAUSE, reason=reason)

    @called(writes=True)
    async def resume_task(self, task_id: str, *, reason: str | None = None) -> None:
        """Resume a paused task.

        Args:
            task_id: the task.
            reason: why, for a reader.

        Raises:
            InvalidId, PayloadError, RedactionFailed: the input was refused.
            AppendConflict: others wrote to the session until the time was up. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; `refresh` before you try again.
            NotFound, IllegalTransition: there is no such task, or it is not paused.
        """
        await self._steer(task_id, SteeringEventType.RESUME, reason=reason)

    @called(writes=True)
    async def prioritize_task(self, task_id: str, priority: int) -> None:
        """Give a task another priority.

        Args:
            task_id: the task.
            priority: higher is more urgent.

        Raises:
            InvalidId, PayloadError, RedactionFailed: the input was refused.
            AppendConflict: others wrote to the session until the time was up. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; `refresh` before you try again.
            NotFound, IllegalTransition: there is no such task, or it has ended.
        """
        await self._steer(task_id, SteeringEventType.PRIORITIZE, priority=priority)

    def inbox(self, task_id: str, *, acknowledge: bool = True) -> AsyncGenerator[SteeringEvent]:
        """Yield the steering events of a task that no worker has acknowledged, then new ones.

        It ends when the task has ended and no event is left. The caller closes it:
        `async with aclosing(session.inbox(task_id)) as inbox`.

        Args:
            task_id: the task.
            acknowledge: True: each event is acknowledged before it is yielded, so that exactly one
                worker gets it; a worker that dies then loses it. False: every worker gets it until
                one calls `acknowledge`.

        Raises:
            NotFound: there is no such task.
            LogCorrupt, StoreClosed: the log cannot be read, or is closed.
        """
        take = self.acknowledge if acknowledge else None
        return steering.inbox(self._store, self.session_id, task_id, take)

    @called(writes=True)
    async def acknowledge(self, event: SteeringEvent) -> bool:
        """Acknowledge an event, so that no inbox yields it any more. Exactly one caller gets True.

        Args:
            event: the event, as the inbox yielded it.

        Raises:
            InvalidId, PayloadError, RedactionFailed: the input was refused.
            AppendConflict: others wrote to the session until the time was up. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; `refresh` before you try again.
        """
        return await self._write(
            lambda made: steering.acknowledge(made, event.event_id, self.worker)
        )

    # Memory, and the end.

    @called()
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

        A session has one memory of a key: who asks for it again gets the same one.

        Args:
            config: how the memory works; asked again, as at first.
            key: the memory's key. None: what `config.isolation` finds in the tool context.
            tool_context: None: that of the session's context.
            summarizer: a coroutine function that makes summaries: needed for "rolling_summary".
            on_health: called with each change of health: the one before, and the one after.

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            PayloadError: the tool context lacks a part of the key.
            ConfigurationError: rolling summaries need a summarizer.
            Misuse: the memory is in use with another config, summarizer or `on_health`.
        """
        if key is None:
            key = config.isolation.key(tool_context or self.context.tool_context)
        async with self._opening:
            found = self._memories.get(key)
            if found is None:
                found = ShortTermMemory(
                    config, self._store, key, summarizer=summarizer, on_health=on_health
                )
                await found.hydrate()
                self._memories[key] = found
            elif not is_made_with(found, config, summarizer, on_health):
                raise Misuse(f"the memory {key!r:.80} is in use in another way: use that one")
            return found

    async def close(self) -> None:
        """Close the session's memories, and let the telemetry sink receive what waits.

        Closing again does nothing. Raises nothing.
        """
        try:
            while self._memories:
                _, memory = self._memories.popitem()
                await memory.close()
        finally:
            await self.telemetry.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()


StreamingSession = Session
"""The name that the StateStore specification 2.11 gives it."""
