"""A session's life as a history: its tasks, updates and steering, read as events of one trace.

StateStore specification 2.11, section "Event Types", 3: what a session store has kept is read as
pseudo-events of the trace `session:<session id>`. Nothing is saved twice for that; the envelopes of
the session are shown as events.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from foldlog.envelope import Recorded
from foldlog.models import StoredEvent
from foldlog.store.events import Events, stored_event
from foldlog.store.journal import Journal
from foldlog.store.lineages import Lineages
from foldlog.store.payloads import SteeringSaved, TaskSaved, UpdateSaved, load
from foldlog.views import Consistency, refold
from foldlog_projections import events, sequence, steering, tasks, updates

PREFIX: Final = "session:"


class _Shown(NamedTuple):
    kind: str
    schema: type[TaskSaved | UpdateSaved | SteeringSaved]


_SHOWN: Final[Mapping[str, _Shown]] = {
    "task.saved": _Shown("session.task", TaskSaved),
    "update.saved": _Shown("session.update", UpdateSaved),
    "steering.saved": _Shown("session.steering", SteeringSaved),
}


class SessionHistory:
    """`load_history`, which knows sessions."""

    def __init__(self, journal: Journal, events: Events) -> None:
        self._journal = journal
        self._events = events
        self._lineages = Lineages(journal)

    async def load_history(
        self, trace_id: str, *, consistency: Consistency = "session"
    ) -> list[StoredEvent]:
        """Return a trace's events in ascending `ts`, ties in log order; [] for an unknown trace.

        `session:<id>` also has an event for every task save (`session.task`), update
        (`session.update`) and steering event (`session.steering`) of that session: `node_id` is
        the task, `ts` when it was saved, `payload` its fields, with times as ISO 8601 text. That
        reads the session's whole log of tasks each time.

        Raises:
            InvalidId: the trace id is empty.
            LogUnavailable, LogCorrupt: the history could not be read whole.
        """
        session_id = _session_id(trace_id)
        if session_id is None:
            return await self._events.load_history(trace_id, consistency=consistency)
        items = await self._session(session_id, consistency)
        folded = await self._journal.read(events, trace_id, consistency=consistency)
        items += folded.state
        items += await self._shared(session_id, consistency)
        return [_event(item, session_id) for item in sorted(items, key=_place)]

    async def _session(self, session_id: str, consistency: Consistency) -> list[Recorded]:
        # The view of tasks keeps the last save of each; here every one counts.
        subject = self._journal.subject(tasks, session_id)
        envelopes = (await refold(self._journal.log, sequence, subject)).state
        items = list(tasks.each_whole(envelopes))
        for projection in (updates, steering):
            folded = await self._journal.read(projection, session_id, consistency=consistency)
            items += folded.state
        return items

    async def _shared(self, session_id: str, consistency: Consistency) -> list[Recorded]:
        """The events that a fork shares: those of its origin's own trace, up to the fork."""
        items: list[Recorded] = []
        origin = (await self._lineages.of(session_id, consistency)).shared
        while origin is not None:
            subject = self._journal.subject(events, f"{PREFIX}{origin.session_id}")
            log = self._lineages.origin_log(origin)
            items += (await refold(log, events, subject)).state
            origin = (await self._lineages.of(origin.session_id, consistency)).shared
        return items


def _session_id(trace_id: str) -> str | None:
    # What is no string, `Events` refuses.
    if not isinstance(trace_id, str) or not trace_id.startswith(PREFIX):
        return None
    return trace_id.removeprefix(PREFIX) or None


def _place(item: Recorded) -> tuple[float, int, int]:
    return item.ts, item.seq, item.index


def _event(item: Recorded, session_id: str) -> StoredEvent:
    trace_id = f"{PREFIX}{session_id}"
    shown = _SHOWN.get(item.type)
    if shown is None:
        return dataclasses.replace(stored_event(item), trace_id=trace_id)
    saved = load(shown.schema, item.payload)
    return StoredEvent(
        trace_id=trace_id,
        ts=item.ts,
        kind=shown.kind,
        node_name=None,
        node_id=saved.task_id,
        payload=_payload(saved) | {"session_id": session_id},
    )


def _payload(saved: msgspec.Struct) -> dict[str, Any]:
    payload = msgspec.structs.asdict(saved)
    context = payload.get("context_snapshot")
    if context is not None and isinstance(context.get("spawned_at"), dt.datetime):
        context["spawned_at"] = context["spawned_at"].isoformat()
    return payload
