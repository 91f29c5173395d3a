"""Steering: what users and systems ask of a running session (specification 2.11, section 9)."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncGenerator

import msgspec

from foldlog.envelope import Draft, Recorded
from foldlog.models import SteeringEvent, SteeringEventType
from foldlog.steering import sanitize_payload, validate_steering_event
from foldlog.store.feed import list_feed, watch_feed
from foldlog.store.guards import drafting, restoring
from foldlog.store.operation import nothing, operation
from foldlog.store.payloads import encode, enum_text, load, time_text
from foldlog.store.primitives import Primitives
from foldlog.subjects import Subject, checked_id
from foldlog.views import Consistency
from foldlog_projections import steering
from foldlog_projections.steering import SteeringSaved


class Steering(Primitives):
    """Steering events by session, sanitised, each `event_id` once."""

    @operation(nothing, writes=True)
    async def save_steering(self, event: SteeringEvent) -> None:
        """Append a steering event with its payload sanitised. A seen `event_id` has no effect.

        Raises:
            SteeringValidationError: the store is strict about steering, and the payload breaks a
                rule of its type. Nothing was appended.
            InvalidId: the session, task or event id is empty. Nothing was appended.
            PayloadError: a part cannot be held. Nothing was appended.
            AppendFailed, LogUnavailable, AppendUnknown: see `foldlog.errors`.
        """
        await self.append_drafts(self._steering_drafted(event))

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
        """Return a page of a session's steering events, oldest first.

        Arguments and errors are those of `list_updates`; `since_id` is an `event_id`.
        """
        return await list_feed(
            self,
            steering.kind,
            _event,
            session_id,
            task_id=task_id,
            since_id=since_id,
            limit=limit,
            consistency=consistency,
        )

    def watch_steering(
        self, session_id: str, since_id: str | None = None, task_id: str | None = None
    ) -> AsyncGenerator[SteeringEvent]:
        """Yield the events after `since_id` (from the first, if None or unknown), then new ones.

        Without gap or repeat, also across reconnects. Ends when the store is closed (StoreClosed)
        or the iterator is.
        """
        return watch_feed(self, steering.kind, _event, session_id, since_id, task_id)

    @drafting("event")
    def _steering_drafted(self, event: SteeringEvent) -> tuple[Subject, list[Draft]]:
        record = recorded_steering(event)
        # The rules are of what is saved, so they come after the hook.
        key = steering.kind(event.session_id)
        redacted: SteeringSaved = self.redacted("save_steering", key, record)
        if redacted is not record:
            event = event.model_copy(update={"payload": redacted.payload})
        saved = draft_steering(event, strict=self._options.strict_steering)
        return self.subject(steering.kind, event.session_id), [saved]


@drafting("event")
def draft_steering(event: SteeringEvent, *, strict: bool) -> Draft:
    """The draft that saves an event, sanitised. Errors as `Steering.save_steering`."""
    record = recorded_steering(event)
    if strict:
        validate_steering_event(event)
    payload = sanitize_payload(event.payload)
    return encode(steering.kind, msgspec.structs.replace(record, payload=payload))


@drafting("event")
def recorded_steering(event: SteeringEvent) -> SteeringSaved:
    """The record of an event as it is. Errors as `Steering.save_steering`."""
    return SteeringSaved(
        session_id=event.session_id,
        task_id=checked_id(event.task_id, "task_id"),
        event_id=checked_id(event.event_id, "event_id"),
        event_type=enum_text(event.event_type, SteeringEventType, "event_type"),
        payload=event.payload,
        source=event.source,
        created_at=time_text(event.created_at, "created_at"),
        trace_id=event.trace_id,
    )


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
