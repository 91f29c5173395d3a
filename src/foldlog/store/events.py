"""The events of a trace: runtime events (StateStore specification 2.11), and planner events."""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from operator import attrgetter
from typing import Any, Final

import msgspec

from foldlog.envelope import Draft, Recorded
from foldlog.errors import PayloadError
from foldlog.kind import Key, Kind
from foldlog.models import PlannerEvent, StoredEvent
from foldlog.schemas import SCHEMAS, problems
from foldlog.store.core import Capability
from foldlog.store.operation import nothing, operation
from foldlog.store.ownership import session_kinds, state_of
from foldlog.store.payloads import MAPPING, SECONDS, Mapper, drafting, encode
from foldlog.store.primitives import decoded
from foldlog.subjects import Subject
from foldlog.views import Consistency, refold
from foldlog_projections import events, planner
from foldlog_projections.events import EventSaved
from foldlog_projections.folds import all_records
from foldlog_projections.planner import PlannerEventSaved

GLOBAL_TRACE: Final = "__global__"
"""The name under which events without a trace are read."""

EVENTS: Final = Mapper("event", StoredEvent, EventSaved, ts=SECONDS, payload=MAPPING)

PLANNER_EVENTS: Final = Mapper("event", PlannerEvent, PlannerEventSaved, ts=SECONDS, extra=MAPPING)

_log: Final = logging.getLogger("foldlog")

SESSION_PREFIX: Final = "session:"
"""How the trace that is a session's audit trail begins."""

_writers_clock: Final = attrgetter("ts")
_time_and_place: Final = attrgetter("ts", "seq", "index")


class Events(Capability):
    """Events by trace: runtime events and planner events."""

    @operation(nothing, writes=True)
    async def save_planner_event(self, trace_id: str, event: PlannerEvent) -> None:
        """Append a planner event. Saving the same content again has no effect.

        Args:
            trace_id: the trace that the event belongs to.
            event: what the planner did.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
        """
        record, key = PLANNER_EVENTS.record(event), planner.kind(trace_id)
        saved = self._core.drafts("save_planner_event", key, record, ts=record.ts)
        await self._core.append_drafts(saved)

    @operation(list)
    async def list_planner_events(
        self, trace_id: str, *, consistency: Consistency = "session"
    ) -> list[PlannerEvent]:
        """Return a trace's planner events in the order of their saves; [] for an unknown trace.

        Args:
            trace_id: whose events.
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        folded = await self._core.read(planner.kind, trace_id, consistency=consistency)
        return PLANNER_EVENTS.restore_all(folded.state)

    @operation(nothing, writes=True)
    async def save_event(self, event: StoredEvent) -> None:
        """Append an event. Saving the same content again, ever, has no effect.

        Args:
            event: the event. Its `kind` is free; its `payload` holds JSON types, bytes, dates,
                times, Decimal, UUID and sets. One with `trace_id=None` is read as trace
                "__global__".

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.

        Examples:
            >>> event = foldlog.StoredEvent(
            ...     trace_id="t1", ts=1.0, kind="note",
            ...     node_name=None, node_id=None, payload={"n": 1},
            ... )
            >>> await store.save_event(event)
            >>> [each.payload for each in await store.load_history("t1")]
            [{'n': 1}]
        """
        subject, draft = self._event_drafted("save_event", event)
        await self._core.append_drafts((subject, [draft]))

    @operation(nothing, writes=True)
    async def save_events(
        self, events: Iterable[StoredEvent], *, ids: Iterable[str] | None = None
    ) -> None:
        """Append many events. Every one is checked before the first is appended.

        Each event is stored whole or not at all, the call is not: use `atomic()` for that. After
        AppendUnknown, saving all of them again is safe.

        Args:
            events: the events, of any traces.
            ids: the idempotency key of each event, where its source gives it one: an event whose id
                its trace has had has no effect, whatever it holds. `at` takes this id, not the
                event, for its moment. None: the content is the key.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
        """
        by_subject: dict[Subject, list[Draft]] = defaultdict(list)
        with drafting("events"):
            given = list(events)
            named = [None] * len(given) if ids is None else list(ids)
            if len(named) != len(given):
                raise PayloadError("ids", f"{len(named)} of {len(given)} events: give one for each")
            for event, id in zip(given, named, strict=True):
                subject, draft = self._event_drafted("save_events", event, id)
                by_subject[subject].append(draft)
        if by_subject:
            await self._core.append_drafts(*by_subject.items())

    async def watch_events(self, trace_id: str) -> AsyncGenerator[StoredEvent]:
        """Yield a trace's events in log order, then each new one, without gap or repeat.

        It survives reconnects. It ends with StoreClosed when the store is closed.

        Args:
            trace_id: whose events.

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        async with aclosing(self._core.follow(events.kind, trace_id, after=None)) as items:
            async for item in items:
                yield EVENTS.restore(item)

    def _event_drafted(
        self, method: str, event: StoredEvent, id: str | None = None
    ) -> tuple[Subject, Draft]:
        given = EVENTS.record(event)
        key = events.kind(trace_of(given))
        record: EventSaved = self._core.redacted(method, key, given)
        if self._core.options.validate != "off":
            self._check_schema(record)
        draft = encode(events.kind, record, ts=record.ts, id=id)
        return self._core.subject(events.kind, *key.keys), draft

    def _check_schema(self, record: EventSaved) -> None:
        """Refuse an event that breaks the schema of its kind, or log one line about it."""
        schemas = SCHEMAS if self._core.options.schemas is None else self._core.options.schemas
        found = problems(StoredEvent(**msgspec.structs.asdict(record)), schemas)
        if not found:
            return
        if self._core.options.validate == "strict":
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

    @operation(list)
    async def load_history(
        self, trace_id: str, *, consistency: Consistency = "session"
    ) -> list[StoredEvent]:
        """Return a trace's events, ordered by `ts` and then by the log; [] for an unknown trace.

        The trace `session:<id>` also shows what was saved in that session: tasks (`session.task`),
        updates (`session.update`), steering (`session.steering`), messages (`session.message`,
        `session.message_removed`) and Pydantic AI's conversations (`session.conversation`,
        `session.conversation_deleted`). There `node_id` is the task or the author, `ts` the time of
        the save, and `payload` the fields, with times as ISO 8601 text. Reading it reads all of
        these logs each time. (StateStore specification 2.11, "Event Types", 3.)

        Args:
            trace_id: whose events.
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.

        Examples:
            >>> await store.load_history("unknown")
            []
        """
        found = await state_of(self._core, events.kind(trace_id), consistency)
        session_id = trace_id.removeprefix(SESSION_PREFIX)
        if session_id in ("", trace_id):
            return EVENTS.restore_all(sorted(found, key=_writers_clock))
        shown = [
            (item, dataclasses.replace(EVENTS.restore(item), trace_id=trace_id)) for item in found
        ]
        for kind in session_kinds(self._core):
            shown += await self._audited(kind, session_id)
        return [event for _, event in sorted(shown, key=lambda each: _time_and_place(each[0]))]

    async def _audited(
        self, kind: Kind[Any], session_id: str
    ) -> list[tuple[Recorded, StoredEvent]]:
        """The records of a view that are events of the session's audit trail, too."""
        if not kind.shown.audited:
            return []
        # The views keep the last save of each task, and what is left of messages; here all count.
        core = self._core
        records = await refold(core.forked_log, all_records(kind), core.subject(kind, session_id))
        effective = kind.shown.effective or list
        return [(each, self._shown(kind, each, session_id)) for each in effective(records.state)]

    def _shown(self, kind: Kind[Any], item: Recorded, session_id: str) -> StoredEvent:
        payload = msgspec.structs.asdict(decoded(kind, item))
        payload.pop("mode", None)  # of telemetry: a TaskState has none
        context = payload.get("context_snapshot")
        if context is not None and isinstance(context.get("spawned_at"), dt.datetime):
            context["spawned_at"] = context["spawned_at"].isoformat()
        return StoredEvent(
            trace_id=f"{SESSION_PREFIX}{session_id}",
            ts=item.ts,
            kind=kind.shown.audited[item.type],
            node_name=payload.get("author") or payload.get("role"),
            node_id=payload.get("task_id") or payload.get("id"),
            payload=payload | {"session_id": session_id},
        )


def trace_of(event: StoredEvent | EventSaved) -> str:
    """The trace under which an event is saved."""
    return GLOBAL_TRACE if event.trace_id is None else event.trace_id


def place_of_event(event: StoredEvent) -> tuple[Key[Any], str]:
    """The view that an event is saved to, and its id there, which follows from its content."""
    return events.kind(trace_of(event)), encode(events.kind, EVENTS.record(event)).id
