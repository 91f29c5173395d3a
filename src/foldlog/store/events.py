"""Runtime events: the audit log of a trace (StateStore specification 2.11, Required Methods)."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Final

import msgspec

from foldlog.envelope import Draft
from foldlog.errors import PayloadError
from foldlog.models import PlannerEvent, StoredEvent
from foldlog.schemas import SCHEMAS, problems
from foldlog.store.mapper import MAPPING, SECONDS, Mapper
from foldlog.store.operation import nothing, operation
from foldlog.store.payloads import drafting, encode
from foldlog.store.planner import PlannerEvents
from foldlog.subjects import Subject
from foldlog_projections import events
from foldlog_projections.events import EventSaved

GLOBAL_TRACE: Final = "__global__"
"""The name under which events without a trace are read."""

EVENTS: Final = Mapper("event", StoredEvent, EventSaved, ts=SECONDS, payload=MAPPING)

_log: Final = logging.getLogger("foldlog")


class Events(PlannerEvents):
    """Events by trace, each content once."""

    async def save_event(
        self, event: StoredEvent | str, planner_event: PlannerEvent | None = None
    ) -> None:
        """Append an event. Saving the same content again, ever, has no effect.

        `payload` may hold what `foldlog.codec` lists; any `kind` is accepted. An event with
        `trace_id=None` is read by `load_history("__global__")`. `save_event(trace_id, event)`, as
        older playgrounds call it, is `save_planner_event`.

        Raises:
            PayloadError: a part cannot be held, its path begins with the field; or a strict store
                finds that the payload breaks the schema of its kind. Nothing was appended.
            InvalidId: an id is empty. Nothing was appended.
            AppendFailed, LogUnavailable, AppendUnknown: see `foldlog.errors`.
        """
        if isinstance(event, str):
            if planner_event is None:
                raise PayloadError("event", "save_event(trace_id, event) needs the event")
            await self.save_planner_event(event, planner_event)
        else:
            await self._save_event(event)

    @operation(nothing, writes=True, name="save_event")
    async def _save_event(self, event: StoredEvent) -> None:
        subject, draft = self._event_drafted("save_event", event)
        await self.append_drafts((subject, [draft]))

    @operation(nothing, writes=True)
    async def save_events(self, events: Iterable[StoredEvent]) -> None:
        """Append many events; every one is checked before the first is appended.

        Each event's effect is atomic, the call is not: use `atomic()` for that. Errors as
        `save_event`; after AppendUnknown, saving all again is safe.
        """
        by_subject: dict[Subject, list[Draft]] = defaultdict(list)
        with drafting("events"):
            for event in events:
                subject, draft = self._event_drafted("save_events", event)
                by_subject[subject].append(draft)
        if by_subject:
            await self.append_drafts(*by_subject.items())

    save_events_bulk = save_events

    async def watch_events(self, trace_id: str) -> AsyncGenerator[StoredEvent]:
        """Yield a trace's events in log order, then each new one, without gap or repeat.

        It outlives reconnects and ends when the store is closed (StoreClosed) or the iterator is.
        """
        async with aclosing(self.follow(events.kind, trace_id, since_id=None)) as items:
            async for item in items:
                yield EVENTS.restore(item)

    def _event_drafted(self, method: str, event: StoredEvent) -> tuple[Subject, Draft]:
        given = EVENTS.record(event)
        key = events.kind(trace_of(given))
        record: EventSaved = self.redacted(method, key, given)
        if self._options.validate != "off":
            self._check_schema(record)
        return self.subject(events.kind, *key.keys), encode(events.kind, record, ts=record.ts)

    def _check_schema(self, record: EventSaved) -> None:
        """Refuse an event that breaks the schema of its kind, or log one line about it."""
        schemas = SCHEMAS if self._options.schemas is None else self._options.schemas
        found = problems(StoredEvent(**msgspec.structs.asdict(record)), schemas)
        if not found:
            return
        if self._options.validate == "strict":
            raise PayloadError(found[0].path, f"{found[0].reason} (kind {record.kind!r:.80})")
        _log.warning(
            "event_schema_mismatch",
            extra={
                "event": "event_schema_mismatch",
                "kind": record.kind,
                "trace_id": record.trace_id,
                "problems": [f"{path}: {reason}" for path, reason in found],
            },
        )


def trace_of(event: StoredEvent | EventSaved) -> str:
    """The trace under which an event is kept."""
    return GLOBAL_TRACE if event.trace_id is None else event.trace_id


def event_id(event: StoredEvent) -> str:
    """The id under which an event is saved: it follows from the content. Errors as `save_event`."""
    return encode(events.kind, EVENTS.record(event)).id
