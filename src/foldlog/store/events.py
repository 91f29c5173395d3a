"""Runtime events: the audit log of a trace (StateStore specification 2.11, Required Methods)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from operator import attrgetter
from typing import Final

from foldlog import codec
from foldlog.envelope import Draft, Recorded, draft
from foldlog.models import StoredEvent
from foldlog.store.guards import all_restored, drafting, restoring
from foldlog.store.journal import Journal
from foldlog.store.payloads import EventSaved, dump_native, finite, load, mapping
from foldlog.store.validation import Validation
from foldlog.subjects import Subject
from foldlog.views import Consistency
from foldlog_projections import events

GLOBAL_TRACE: Final = "__global__"
"""The name under which events without a trace are read."""


_writers_clock: Final = attrgetter("ts")


class Events:
    """Events by trace, each content once."""

    def __init__(self, journal: Journal, validation: Validation) -> None:
        self._journal = journal
        self._validation = validation

    async def save_event(self, event: StoredEvent) -> None:
        """Append an event. Saving the same content again, ever, has no effect.

        `payload` may hold what `foldlog.codec` lists; any `kind` is accepted. An event with
        `trace_id=None` is read by `load_history("__global__")`.

        Raises:
            PayloadError: a field or part of the payload cannot be held, or breaks the schema of
                its kind where the store is strict about that. Nothing was appended.
            InvalidId: the trace id is empty. Nothing was appended.
            AppendFailed, LogUnavailable, AppendUnknown: see `foldlog.errors`.
        """
        subject, envelope = self._drafted(event)
        await self._journal.append((subject, [envelope]))

    async def save_events(self, events: Iterable[StoredEvent]) -> None:
        """Append many events; every one is checked before the first is appended.

        Each event's effect is atomic, the call is not: use `atomic()` for that. Errors as
        `save_event`; after AppendUnknown, saving all again is safe.
        """
        by_subject = self._all_drafted(events)
        if by_subject:
            await self._journal.append(*by_subject.items())

    async def load_history(
        self, trace_id: str, *, consistency: Consistency = "session"
    ) -> list[StoredEvent]:
        """Return a trace's events in ascending `ts`, ties in log order; [] for an unknown trace.

        Raises:
            InvalidId: the trace id is empty.
            LogUnavailable, LogCorrupt: the history could not be read whole.
        """
        folded = await self._journal.read(events, trace_id, consistency=consistency)
        return all_restored(stored_event, sorted(folded.state, key=_writers_clock))

    async def watch_events(self, trace_id: str) -> AsyncGenerator[StoredEvent]:
        """Yield a trace's events in log order, then each new one, without gap or repeat.

        It outlives reconnects and ends when the store is closed (StoreClosed) or the iterator is.
        """
        async with aclosing(self._journal.watch(events, trace_id, since_id=None)) as items:
            async for item in items:
                yield stored_event(item)

    @drafting("events")
    def _all_drafted(self, events: Iterable[StoredEvent]) -> dict[Subject, list[Draft]]:
        by_subject: dict[Subject, list[Draft]] = defaultdict(list)
        for event in events:
            subject, envelope = self._drafted(event)
            by_subject[subject].append(envelope)
        return by_subject

    @drafting("event")
    def _drafted(self, event: StoredEvent) -> tuple[Subject, Draft]:
        self._validation.check(event)
        return self._journal.subject(events, trace_of(event)), drafted(event)


def trace_of(event: StoredEvent) -> str:
    """The trace under which an event stands."""
    return GLOBAL_TRACE if event.trace_id is None else event.trace_id


def drafted(event: StoredEvent) -> Draft:
    """Return the envelope that saves an event. Errors as `Events.save_event`."""
    ts = finite(event.ts, "ts")
    payload = mapping(event.payload, "payload")
    body, saved = dump_native(
        EventSaved(event.trace_id, ts, event.kind, event.node_name, event.node_id, payload),
        "payload",
    )
    content = codec.native_digest(saved.payload)
    identity = (event.trace_id, ts, event.kind, event.node_name, event.node_id, content)
    return draft("event.saved", body, id=codec.fingerprint(identity), ts=ts)


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
