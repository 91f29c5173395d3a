"""Runtime events: the audit log of a trace (StateStore specification 2.11, Required Methods)."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec

from foldlog.envelope import Draft, Recorded
from foldlog.errors import PayloadError
from foldlog.models import PlannerEvent, StoredEvent
from foldlog.store.guards import all_restored, drafting, restoring
from foldlog.store.lineages import Lineages
from foldlog.store.operation import nothing, operation
from foldlog.store.payloads import dump_native, encode, finite, load, mapping
from foldlog.store.planner import PlannerEvents
from foldlog.subjects import Subject
from foldlog.views import Consistency, refold
from foldlog_projections import events, steering, tasks, updates
from foldlog_projections.events import EventSaved
from foldlog_projections.folds import AllRecords
from foldlog_projections.steering import SteeringSaved
from foldlog_projections.tasks import TaskSaved
from foldlog_projections.updates import UpdateSaved

GLOBAL_TRACE: Final = "__global__"
"""The name under which events without a trace are read."""

SESSION_PREFIX: Final = "session:"
"""What the trace of a session is called begins with this: its whole life is read as events."""

_writers_clock: Final = attrgetter("ts")


class _Shown(NamedTuple):
    kind: str
    schema: type[TaskSaved | UpdateSaved | SteeringSaved]


_SHOWN: Final[Mapping[str, _Shown]] = {
    "task.saved": _Shown("session.task", TaskSaved),
    "update.saved": _Shown("session.update", UpdateSaved),
    "steering.saved": _Shown("session.steering", SteeringSaved),
}


class Events(PlannerEvents, Lineages):
    """Events by trace, each content once."""

    async def save_event(
        self, event: StoredEvent | str, planner_event: PlannerEvent | None = None
    ) -> None:
        """Append an event. Saving the same content again, ever, has no effect.

        `payload` may hold what `foldlog.codec` lists; any `kind` is accepted. An event with
        `trace_id=None` is read by `load_history("__global__")`. `save_event(trace_id, event)`, as
        older playgrounds call it, is `save_planner_event`.

        Raises:
            PayloadError: a field or part of the payload cannot be held, or breaks the schema of
                its kind where the store is strict about that. Nothing was appended.
            InvalidId: the trace id is empty. Nothing was appended.
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
        subject, saved = self._event_drafted("save_event", event)
        await self.append_drafts((subject, [saved]))

    @operation(nothing, writes=True)
    async def save_events(self, events: Iterable[StoredEvent]) -> None:
        """Append many events; every one is checked before the first is appended.

        Each event's effect is atomic, the call is not: use `atomic()` for that. Errors as
        `save_event`; after AppendUnknown, saving all again is safe.
        """
        by_subject = self._events_drafted(events)
        if by_subject:
            await self.append_drafts(*by_subject.items())

    save_events_bulk = save_events

    @operation(list)
    async def load_history(
        self, trace_id: str, *, consistency: Consistency = "session"
    ) -> list[StoredEvent]:
        """Return a trace's events in ascending `ts`, ties in log order; [] for an unknown trace.

        `session:<id>` also has an event for every task save (`session.task`), update
        (`session.update`) and steering event (`session.steering`) of that session: `node_id` is
        the task, `ts` when it was saved, `payload` its fields, with times as ISO 8601 text. That
        reads the session's whole log of tasks each time. (StateStore specification 2.11, section
        "Event Types", 3.)

        Raises:
            InvalidId: the trace id is empty.
            LogUnavailable, LogCorrupt: the history could not be read whole.
        """
        session_id = _session_of(trace_id)
        folded = await self.read(events.kind, trace_id, consistency=consistency)
        if session_id is None:
            return all_restored(stored_event, sorted(folded.state, key=_writers_clock))
        items = list(folded.state)
        items += await self._session_records(session_id, consistency)
        items += await self._origins_events(session_id, consistency)
        return [_shown_event(item, session_id) for item in sorted(items, key=_place)]

    async def watch_events(self, trace_id: str) -> AsyncGenerator[StoredEvent]:
        """Yield a trace's events in log order, then each new one, without gap or repeat.

        It outlives reconnects and ends when the store is closed (StoreClosed) or the iterator is.
        """
        async with aclosing(self.follow(events.kind, trace_id, since_id=None)) as items:
            async for item in items:
                yield stored_event(item)

    @drafting("events")
    def _events_drafted(self, events: Iterable[StoredEvent]) -> dict[Subject, list[Draft]]:
        by_subject: dict[Subject, list[Draft]] = defaultdict(list)
        for event in events:
            subject, saved = self._event_drafted("save_events", event)
            by_subject[subject].append(saved)
        return by_subject

    @drafting("event")
    def _event_drafted(self, method: str, event: StoredEvent) -> tuple[Subject, Draft]:
        key = events.kind(trace_of(event))
        record: EventSaved = self.redacted(method, key, recorded_event(event))
        validation = self._options.validation
        if validation.validate != "off":
            validation.check(StoredEvent(**msgspec.structs.asdict(record)))
        subject = self.subject(events.kind, trace_of(event))
        return subject, encode(events.kind, record, ts=record.ts)

    async def _session_records(self, session_id: str, consistency: Consistency) -> list[Recorded]:
        # The view of tasks keeps the last save of each; here every one counts.
        subject = self.subject(tasks.kind, session_id)
        envelopes = (await refold(self.forked_log, AllRecords(tasks.kind.family), subject)).state
        items = list(tasks.each_whole(envelopes))
        for kind in (updates.kind, steering.kind):
            folded = await self.read(kind, session_id, consistency=consistency)
            items += folded.state
        return items

    async def _origins_events(self, session_id: str, consistency: Consistency) -> list[Recorded]:
        """The events that a fork shares: those of its origin's own trace, up to the fork."""
        items: list[Recorded] = []
        origin = (await self.lineage_of(session_id, consistency)).shared
        while origin is not None:
            subject = self.subject(events.kind, f"{SESSION_PREFIX}{origin.session_id}")
            items += (await refold(self.origin_log(origin), events.kind, subject)).state
            origin = (await self.lineage_of(origin.session_id, consistency)).shared
        return items


def trace_of(event: StoredEvent) -> str:
    """The trace under which an event stands."""
    return GLOBAL_TRACE if event.trace_id is None else event.trace_id


@drafting("event")
def recorded_event(event: StoredEvent) -> EventSaved:
    """The record that saves an event. Errors as `Events.save_event`."""
    ts = finite(event.ts, "ts")
    payload = mapping(event.payload, "payload")
    return EventSaved(event.trace_id, ts, event.kind, event.node_name, event.node_id, payload)


def event_id(event: StoredEvent) -> str:
    """The id under which an event is saved: it follows from the content. Errors as `save_event`."""
    body, record = dump_native(recorded_event(event), "payload")
    return events.kind.id(record, body)


@restoring
def stored_event(item: Recorded) -> StoredEvent:
    """The event that an `event.saved` envelope holds: a new object."""
    saved = load(EventSaved, item.payload)
    return StoredEvent(
        trace_id=saved.trace_id,
        ts=saved.ts,
        kind=saved.kind,
        node_name=saved.node_name,
        node_id=saved.node_id,
        payload=saved.payload,
    )


def _session_of(trace_id: str) -> str | None:
    if not isinstance(trace_id, str) or not trace_id.startswith(SESSION_PREFIX):
        return None
    return trace_id.removeprefix(SESSION_PREFIX) or None


def _place(item: Recorded) -> tuple[float, int, int]:
    return item.ts, item.seq, item.index


def _shown_event(item: Recorded, session_id: str) -> StoredEvent:
    trace_id = f"{SESSION_PREFIX}{session_id}"
    shown = _SHOWN.get(item.type)
    if shown is None:
        return dataclasses.replace(stored_event(item), trace_id=trace_id)
    saved = load(shown.schema, item.payload)
    payload: dict[str, Any] = msgspec.structs.asdict(saved)
    context = payload.get("context_snapshot")
    if context is not None and isinstance(context.get("spawned_at"), dt.datetime):
        context["spawned_at"] = context["spawned_at"].isoformat()
    return StoredEvent(
        trace_id=trace_id,
        ts=item.ts,
        kind=shown.kind,
        node_name=None,
        node_id=saved.task_id,
        payload=payload | {"session_id": session_id},
    )
