"""Steering: what users and systems ask of a running session (specification 2.11, section 9)."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncGenerator

from foldlog.envelope import Draft, Recorded, draft
from foldlog.models import SteeringEvent, SteeringEventType
from foldlog.steering import sanitize_steering_event, validate_steering_event
from foldlog.store.feed import Feed
from foldlog.store.guards import drafting, restoring
from foldlog.store.journal import Journal
from foldlog.store.payloads import OfTask, SteeringSaved, dump, enum_text, load, time_text
from foldlog.subjects import Subject, checked_id
from foldlog.views import Consistency
from foldlog_projections import steering


class Steering:
    """Steering events by session, sanitised, each `event_id` once.

    Args:
        strict: refuse events whose payload breaks the rules of their type.
    """

    def __init__(self, journal: Journal, *, strict: bool) -> None:
        self._journal = journal
        self._feed = Feed(journal, steering, restore=_event, task_of=_task_id)
        self._strict = strict

    async def save_steering(self, event: SteeringEvent) -> None:
        """Append a steering event with its payload sanitised. A seen `event_id` has no effect.

        Raises:
            SteeringValidationError: strict, and the payload breaks a rule. Nothing was appended.
            Others as `Tasks.save_task`.
        """
        await self._journal.append(self._drafted(event))

    @drafting("event")
    def _drafted(self, event: SteeringEvent) -> tuple[Subject, list[Draft]]:
        saved = drafted(event, strict=self._strict)
        return self._journal.subject(steering, event.session_id), [saved]

    async def list_steering(
        self,
        session_id: str,
        *,
        task_id: str | None = None,
        since_id: str | None = None,
        limit: int = 500,
        consistency: Consistency = "strong",
    ) -> list[SteeringEvent]:
        """Return a page of steering events, ascending: see `foldlog.store.cursor.page`.

        Errors as `Events.load_history`.
        """
        return await self._feed.list(
            session_id, task_id=task_id, since_id=since_id, limit=limit, consistency=consistency
        )

    def watch_steering(
        self, session_id: str, since_id: str | None = None, task_id: str | None = None
    ) -> AsyncGenerator[SteeringEvent]:
        """Yield the events after `since_id` (from the first, if None or unknown), then new ones.

        Without gap or repeat, also across reconnects. Ends when the store is closed (StoreClosed)
        or the iterator is.
        """
        return self._feed.watch(session_id, since_id, task_id)


@drafting("event")
def drafted(event: SteeringEvent, *, strict: bool) -> Draft:
    """Return the envelope that saves an event, sanitised. Errors as `Steering.save_steering`."""
    event_type = enum_text(event.event_type, SteeringEventType, "event_type")
    if strict:
        validate_steering_event(event)
    event_id = checked_id(event.event_id, "event_id")
    event = sanitize_steering_event(event)
    body = dump(
        SteeringSaved(
            session_id=event.session_id,
            task_id=checked_id(event.task_id, "task_id"),
            event_id=event_id,
            event_type=event_type,
            payload=event.payload,
            source=event.source,
            created_at=time_text(event.created_at, "created_at"),
            trace_id=event.trace_id,
        ),
        "payload",
    )
    return draft("steering.saved", body, id=event_id)


@restoring
def _task_id(item: Recorded) -> str:
    return load(OfTask, item.payload).task_id


@restoring
def _event(item: Recorded) -> SteeringEvent:
    saved = load(SteeringSaved, item.payload)
    return SteeringEvent.model_construct(
        session_id=saved.session_id,
        task_id=saved.task_id,
        event_id=saved.event_id,
        event_type=SteeringEventType(saved.event_type),
        payload=saved.payload,
        trace_id=saved.trace_id,
        source=saved.source,
        created_at=dt.datetime.fromisoformat(saved.created_at),
    )
