"""Steering: what users and systems ask of a running session (specification 2.11, section 9)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

import msgspec

from foldlog.envelope import Draft
from foldlog.kind import Key
from foldlog.models import SteeringEvent, SteeringEventType
from foldlog.steering import check_payload, sanitize_payload
from foldlog.store.core import Capability
from foldlog.store.operation import nothing, operation
from foldlog.store.ownership import as_of_session
from foldlog.store.payloads import ID, TIME, Mapper, drafting, encode, member_of
from foldlog.store.primitives import checked_cursor, page
from foldlog.views import Consistency
from foldlog_projections import steering
from foldlog_projections.folds import task_of
from foldlog_projections.steering import SteeringSaved

STEERING: Final = Mapper(
    "event",
    SteeringEvent,
    SteeringSaved,
    task_id=ID,
    event_id=ID,
    event_type=member_of(SteeringEventType),
    created_at=TIME,
)


def place_of_steering(event: SteeringEvent) -> tuple[Key[Any], str]:
    """The view that an event is saved to, and its id there."""
    return steering.kind(event.session_id), event.event_id


class Steering(Capability):
    """Steering events by session, each `event_id` once."""

    @operation(nothing, writes=True)
    async def save_steering(self, event: SteeringEvent) -> None:
        """Append a steering event with its payload sanitised. A repeat has no effect.

        The event is recorded and reaches the task's inbox, whether or not there is such a task. It
        changes no task: `session.steer` and `answer` do. (Specification 2.11, section 9.)

        Args:
            event: the event, which names its session and task.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
            IdTaken: the session has another event of that id. If its events are not in
                memory, the next read raises this, and the event has no effect.
            SteeringValidationError: the store has `strict_steering`, and the payload breaks a rule
                of its type. Nothing was stored.

        Examples:
            >>> await store.save_steering(foldlog.SteeringEvent(
            ...     session_id="trip", task_id="book", event_id="s1",
            ...     event_type=foldlog.SteeringEventType.REDIRECT,
            ...     payload={"instruction": "by train"},
            ... ))
            >>> [each.payload for each in await store.list_steering("trip")]
            [{'instruction': 'by train'}]
        """
        record = STEERING.record(event)
        subject = self._core.subject(steering.kind, record.session_id)
        record = self._core.redacted("save_steering", steering.kind(record.session_id), record)
        # The rules are of what is saved, so they come after the hook.
        draft = draft_steering(record, strict=self._core.options.strict_steering)
        await self._core.append_drafts((subject, [draft]))

    @operation(list)
    async def list_steering(
        self,
        session_id: str,
        *,
        task_id: str | None = None,
        since_id: str | None = None,
        limit: int = 500,
        consistency: Consistency = "strong",
    ) -> list[SteeringEvent]:
        """Return a page of a session's steering events, oldest first; [] for an unknown session.

        Args:
            session_id: whose events.
            task_id: only those of this task.
            since_id: the page holds the first `limit` events after this `event_id`, so paging loses
                nothing. None, or an id that the session has not seen: the last `limit` events.
            limit: how many events at most; below 1, none.
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            PayloadError: `limit` is no integer, or a cursor no string.
        """
        core, asked = self._core, page(since_id=since_id, limit=limit, task_id=task_id)
        found = await core.select(steering.kind, session_id, consistency=consistency, choose=asked)
        return as_of_session(STEERING.restore_all(found), session_id)

    async def watch_steering(
        self, session_id: str, *, after: str | None = None, task_id: str | None = None
    ) -> AsyncGenerator[SteeringEvent]:
        """Yield a session's steering events, then each new one, without gap or repeat.

        It survives reconnects. It ends with StoreClosed when the store is closed.

        Args:
            session_id: whose events.
            after: begin behind this `event_id`. None: with the first.
            task_id: only those of this task.

        Raises:
            InvalidId: an id is empty. NotFound: the session has had nothing of the id `after`.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            PayloadError: a cursor is no string.

        Examples:
            >>> await store.save_steering(foldlog.SteeringEvent(
            ...     session_id="trip", task_id="book", event_id="s1",
            ...     event_type=foldlog.SteeringEventType.CANCEL, payload={"reason": "too dear"},
            ... ))
            >>> async for each in store.watch_steering("trip"):
            ...     print(each.event_type.value, each.payload)
            ...     break
            CANCEL {'reason': 'too dear'}
        """
        follow = self._core.follow(steering.kind, session_id, after=checked_cursor(after, "after"))
        async with aclosing(follow) as items:
            async for item in items:
                if task_id is None or task_of(item) == task_id:
                    [event] = as_of_session([STEERING.restore(item)], session_id)
                    yield event


@drafting("event")
def draft_steering(record: SteeringSaved, *, strict: bool) -> Draft:
    """The draft of a record, sanitised. Errors as `Steering.save_steering`."""
    if strict:
        check_payload(SteeringEventType(record.event_type), record.payload)
    payload = sanitize_payload(record.payload)
    return encode(steering.kind, msgspec.structs.replace(record, payload=payload))
