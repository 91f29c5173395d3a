"""Planner events: tool calls, LLM responses, stream chunks of one trace, in emission order."""

from __future__ import annotations

from typing import Final

from foldlog.models import PlannerEvent
from foldlog.store.mapper import MAPPING, SECONDS, Mapper
from foldlog.store.operation import nothing, operation
from foldlog.store.primitives import Primitives
from foldlog.views import Consistency
from foldlog_projections import planner
from foldlog_projections.planner import PlannerEventSaved

PLANNER_EVENTS: Final = Mapper("event", PlannerEvent, PlannerEventSaved, ts=SECONDS, extra=MAPPING)


class PlannerEvents(Primitives):
    """Planner events by trace, each content once."""

    @operation(nothing, writes=True)
    async def save_planner_event(self, trace_id: str, event: PlannerEvent) -> None:
        """Append a planner event. Saving the same content again has no effect.

        Errors as `save_event`.
        """
        record, key = PLANNER_EVENTS.record(event), planner.kind(trace_id)
        await self.append_drafts(self.drafts("save_planner_event", key, record, ts=record.ts))

    @operation(list)
    async def list_planner_events(
        self, trace_id: str, *, consistency: Consistency = "session"
    ) -> list[PlannerEvent]:
        """Return a trace's planner events in the order in which they were saved; [] if unknown.

        Errors as `load_history`.
        """
        folded = await self.read(planner.kind, trace_id, consistency=consistency)
        return PLANNER_EVENTS.restore_all(folded.state)

    get_events = list_planner_events
