"""A session: what its agents know, what they do, and what they are told. See `docs/sessions.md`."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from foldlog.errors import PayloadError
from foldlog.models import SteeringEvent, SteeringEventType
from foldlog.sessions import context, inbox, patches, steering
from foldlog.sessions.memory import (
    OnHealth,
    ShortTermMemory,
    ShortTermMemoryConfig,
    Summarizer,
)
from foldlog.sessions.models import ContextPatch, MergeStrategy, SessionContext
from foldlog.sessions.standing import Entry, Standing
from foldlog.sessions.tasking import Tasking
from foldlog.sessions.telemetry import TaskTelemetrySink
from foldlog.steering import sanitize_steering_event, validate_steering_event
from foldlog.store.store import BaseStore
from foldlog.subjects import checked_id
from foldlog_projections import steering as steering_events


class Session(Tasking):
    """One session of a store: `await store.session(session_id)`. Any number may be open on the same
    session, in any number of processes; each sees what the others did.

    Every decision is a compare-and-set on the log: it is made once, on how the session really
    stands, and appended whole or not at all. Calls act at once, also inside `store.atomic()`, and
    raise also where the store was told to degrade.

    `state`, `context`, `pending_patches` and so on are as of the last call of this object that
    read or wrote; `refresh` looks again. It lives until `close` or the end of its `async with`,
    which is needed only where it has a telemetry sink or a memory.

    Every method that writes may raise, beside what it says itself:
        PayloadError: a part cannot be held. InvalidId: an id is empty. Nothing was appended.
        RedactionFailed: the store's `redact=` failed. Nothing was appended.
        AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: see `foldlog.errors`.
    """

    def __init__(
        self, journal: BaseStore, session_id: str, telemetry: TaskTelemetrySink | None = None
    ) -> None:
        """See `Store.session`."""
        super().__init__(journal, session_id, telemetry)
        self._memories: list[ShortTermMemory] = []

    # --- the context ------------------------------------------------------------------------------

    async def update_context(
        self,
        *,
        llm_context: Mapping[str, Any] | None = None,
        tool_context: Mapping[str, Any] | None = None,
        memory: Mapping[str, Any] | None = None,
        artifacts: list[dict[str, Any]] | None = None,
    ) -> SessionContext:
        """Put these in place of what the context has; the next version of it. Returns that."""
        parts: dict[str, Any] = {
            "llm_context": None if llm_context is None else dict(llm_context),
            "tool_context": None if tool_context is None else dict(tool_context),
            "memory": None if memory is None else dict(memory),
            "artifacts": None if artifacts is None else list(artifacts),
        }
        given = self._redacting.context(
            {name: part for name, part in parts.items() if part is not None}
        )

        def decide(standing: Standing) -> Entry:
            new = replace(context.context_of(standing.state), **given)
            return Entry(session=[context.changed(standing.state, new)])

        await self._write(decide)
        return self.context

    async def apply_context_patch(
        self,
        *,
        patch: ContextPatch,
        strategy: MergeStrategy = MergeStrategy.APPEND,
        patch_id: str | None = None,
    ) -> str | None:
        """Merge a patch into the context; with `HUMAN_GATED`, have it wait for approval.

        What waits is told by a CHECKPOINT update. A patch whose context has moved on since it was
        made is marked as diverged, and a NOTIFICATION says so.

        Args:
            patch_id: names the patch, so that offering it again has no effect. None: a new one.

        Returns the patch's id if it waits, else None.

        Raises:
            MergeRefused: there is something else where patches are appended to.
        """
        strategy = MergeStrategy(strategy)
        id = secrets.token_hex(8) if patch_id is None else checked_id(patch_id, "patch_id")
        given = self._redacting.patch("apply_context_patch", id, patch)
        await self._write(lambda standing: patches.offered(standing, id, given, strategy))
        return id if strategy is MergeStrategy.HUMAN_GATED else None

    async def apply_pending_patch(
        self, patch_id: str, strategy: MergeStrategy | None = None
    ) -> bool:
        """Merge a patch that waits. Return False if none of that id does.

        Of all that apply or reject it, in whatever process, one gets True.

        Raises:
            MergeRefused: there is something else where patches are appended to. It still waits.
        """
        chosen = MergeStrategy(strategy or MergeStrategy.APPEND)
        return await self._write(lambda standing: patches.approved(standing, patch_id, chosen))

    async def reject_pending_patch(self, patch_id: str) -> bool:
        """Drop a patch that waits. Return False if none of that id does."""
        return await self._write(lambda standing: patches.rejected(standing, patch_id))

    # --- steering ---------------------------------------------------------------------------------

    async def steer(self, event: SteeringEvent) -> bool:
        """Have a steering event take effect, in the moment in which it is put on record.

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
            lambda standing: steering.steered(standing, event),
            also_on=steering_events.kind,
            unless_seen=event.event_id,
        )

    def inbox(self, task_id: str, *, acknowledge: bool = True) -> AsyncGenerator[SteeringEvent]:
        """Yield the steering events of a task that no worker has taken, then new ones as they come.

        Ends when the task has ended, however it did, and nothing is left. Its owner closes it:
        `async with aclosing(session.inbox(task_id)) as inbox`.

        Args:
            acknowledge: True: each event is acknowledged, and so handed to one worker only, of all
                that look: a worker that dies takes it along. False: it is handed to whoever looks
                until somebody acknowledges it.

        Raises:
            UnknownTask: there is no such task. LogCorrupt, StoreClosed: see `foldlog.errors`.
        """
        return inbox.events(self._ledger, task_id, self.acknowledge if acknowledge else None)

    async def acknowledge(self, event: SteeringEvent) -> bool:
        """Take an event, so that no inbox yields it any more. True for one of all who do."""
        return await self._write(
            lambda standing: steering.acknowledged(standing, event.event_id, self.worker)
        )

    async def cancel_task(self, task_id: str, *, reason: str | None = None) -> bool:
        """Cancel a task, and with it, in the same moment, all that was spawned from it.

        What is isolated stays, with all that was spawned from that. The same as `steer` with a
        CANCEL. Returns True.

        Raises:
            UnknownTask, IllegalTransition: there is no such task, or it has ended.
        """
        payload = {} if reason is None else {"reason": reason}
        return await self._steer(task_id, SteeringEventType.CANCEL, payload)

    async def pause_task(self, task_id: str, *, reason: str | None = None) -> bool:
        """Have a running task pause: `steer` with a PAUSE. Returns True.

        Raises:
            UnknownTask, IllegalTransition: there is no such task, or it does not run.
        """
        payload = {} if reason is None else {"reason": reason}
        return await self._steer(task_id, SteeringEventType.PAUSE, payload)

    async def resume_task(self, task_id: str, *, reason: str | None = None) -> bool:
        """Have a paused task go on: `steer` with a RESUME. Returns True.

        Raises:
            UnknownTask, IllegalTransition: there is no such task, or it is not paused.
        """
        payload = {} if reason is None else {"reason": reason}
        return await self._steer(task_id, SteeringEventType.RESUME, payload)

    async def prioritize_task(self, task_id: str, priority: int) -> bool:
        """Make a task more urgent, or less: `steer` with a PRIORITIZE. Returns True.

        Raises:
            UnknownTask, IllegalTransition: there is no such task, or it has ended.
        """
        return await self._steer(task_id, SteeringEventType.PRIORITIZE, {"priority": priority})

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
            config, self._journal, key, summarizer=summarizer, on_health=on_health
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

    async def _steer(
        self, task_id: str, event_type: SteeringEventType, payload: dict[str, Any]
    ) -> bool:
        return await self.steer(
            SteeringEvent(
                session_id=self.session_id,
                task_id=task_id,
                event_type=event_type,
                payload=payload,
            )
        )
