"""The history of a trace: its events. That of `session:<id>` is the audit trail of the session."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Kind
from foldlog.models import StoredEvent
from foldlog.store.events import EVENTS, Events
from foldlog.store.lineages import Lineages
from foldlog.store.operation import operation
from foldlog.views import Consistency, refold
from foldlog_projections import events, steering, tasks, updates
from foldlog_projections.folds import AllRecords

SESSION_PREFIX: Final = "session:"
"""How the trace that is a session's audit trail begins."""

_SHOWN: Final[Mapping[str, tuple[str, Kind[Any]]]] = {
    "task.saved": ("session.task", tasks.kind),
    "update.saved": ("session.update", updates.kind),
    "steering.saved": ("session.steering", steering.kind),
}
"""What an audit trail has beside events: the kind of the event, and of the record shown by it."""

_writers_clock: Final = attrgetter("ts")
_time_and_place: Final = attrgetter("ts", "seq", "index")


class History(Events, Lineages):
    """What happened, by trace."""

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
        folded = await self.read(events.kind, trace_id, consistency=consistency)
        session_id = trace_id.removeprefix(SESSION_PREFIX)
        if session_id in ("", trace_id):
            return EVENTS.restore_all(sorted(folded.state, key=_writers_clock))
        items = [
            *folded.state,
            *await self._session_records(session_id, consistency),
            *await self._origins_events(session_id, consistency),
        ]
        return [self._shown(item, session_id) for item in sorted(items, key=_time_and_place)]

    async def _session_records(self, session_id: str, consistency: Consistency) -> list[Recorded]:
        # The view of tasks keeps the last save of each; here every one counts.
        subject = self.subject(tasks.kind, session_id)
        envelopes = (await refold(self.forked_log, AllRecords(tasks.kind.family), subject)).state
        items = list(tasks.each_whole(envelopes))
        for kind in (updates.kind, steering.kind):
            items += (await self.read(kind, session_id, consistency=consistency)).state
        return items

    async def _origins_events(self, session_id: str, consistency: Consistency) -> list[Recorded]:
        """The events that a fork shares: those of its origin's own trace, up to the fork."""
        items: list[Recorded] = []
        while origin := (await self.lineage_of(session_id, consistency)).shared:
            session_id = origin.session_id
            subject = self.subject(events.kind, f"{SESSION_PREFIX}{session_id}")
            items += (await refold(self.origin_log(origin), events.kind, subject)).state
        return items

    def _shown(self, item: Recorded, session_id: str) -> StoredEvent:
        trace_id = f"{SESSION_PREFIX}{session_id}"
        if item.type not in _SHOWN:
            return dataclasses.replace(EVENTS.restore(item), trace_id=trace_id)
        name, kind = _SHOWN[item.type]
        payload = msgspec.structs.asdict(self._decoded(kind, item))
        payload.pop("mode", None)  # of telemetry: a TaskState has none
        context = payload.get("context_snapshot")
        if context is not None and isinstance(context.get("spawned_at"), dt.datetime):
            context["spawned_at"] = context["spawned_at"].isoformat()
        return StoredEvent(
            trace_id=trace_id,
            ts=item.ts,
            kind=name,
            node_name=None,
            node_id=payload["task_id"],
            payload=payload | {"session_id": session_id},
        )
