"""Planner events: tool calls, LLM responses, stream chunks of one trace, in emission order."""

from __future__ import annotations

from foldlog.envelope import Draft, Recorded
from foldlog.models import PlannerEvent
from foldlog.store.guards import all_restored, drafting, restoring
from foldlog.store.operation import nothing, operation
from foldlog.store.payloads import finite, load, mapping
from foldlog.store.primitives import Primitives
from foldlog.subjects import Subject
from foldlog.views import Consistency
from foldlog_projections import planner
from foldlog_projections.planner import PlannerEventSaved


class PlannerEvents(Primitives):
    """Planner events by trace, each content once."""

    @operation(nothing, writes=True)
    async def save_planner_event(self, trace_id: str, event: PlannerEvent) -> None:
        """Append a planner event. Saving the same content again has no effect.

        Raises:
            PayloadError, InvalidId: a part cannot be held. Nothing was appended.
            AppendFailed, LogUnavailable, AppendUnknown: see `foldlog.errors`.
        """
        await self.append_drafts(self._planner_drafted(trace_id, event))

    @operation(list)
    async def list_planner_events(
        self, trace_id: str, *, consistency: Consistency = "session"
    ) -> list[PlannerEvent]:
        """Return a trace's planner events in the order in which they were saved; [] if unknown.

        Raises:
            InvalidId: the trace id is empty.
            LogUnavailable, LogCorrupt: they could not be read whole.
        """
        folded = await self.read(planner.kind, trace_id, consistency=consistency)
        return all_restored(_event, folded.state)

    get_events = list_planner_events

    @drafting("event")
    def _planner_drafted(self, trace_id: str, event: PlannerEvent) -> tuple[Subject, list[Draft]]:
        subject = self.subject(planner.kind, trace_id)
        ts = finite(event.ts, "ts")
        record = PlannerEventSaved(
            event_type=event.event_type,
            ts=ts,
            trajectory_step=event.trajectory_step,
            thought=event.thought,
            node_name=event.node_name,
            latency_ms=event.latency_ms,
            token_estimate=event.token_estimate,
            error=event.error,
            extra=mapping(event.extra, "extra"),
        )
        return subject, [self.drafted("save_planner_event", planner.kind(trace_id), record, ts=ts)]


@restoring
def _event(item: Recorded) -> PlannerEvent:
    saved = load(PlannerEventSaved, item.payload)
    return PlannerEvent(
        event_type=saved.event_type,
        ts=saved.ts,
        trajectory_step=saved.trajectory_step,
        thought=saved.thought,
        node_name=saved.node_name,
        latency_ms=saved.latency_ms,
        token_estimate=saved.token_estimate,
        error=saved.error,
        extra=saved.extra,
    )
