"""Planner events: tool calls, LLM responses, stream chunks of one trace, in emission order."""

from __future__ import annotations

from foldlog import codec
from foldlog.envelope import Draft, Recorded, draft
from foldlog.models import PlannerEvent
from foldlog.store.guards import all_restored, drafting, restoring
from foldlog.store.journal import Journal
from foldlog.store.payloads import PlannerEventSaved, dump, finite, load, mapping
from foldlog.subjects import Subject
from foldlog.views import Consistency
from foldlog_projections import planner


class PlannerEvents:
    """Planner events by trace, each content once."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def save_planner_event(self, trace_id: str, event: PlannerEvent) -> None:
        """Append a planner event. Saving the same content again has no effect.

        Errors as `Events.save_event`.
        """
        await self._journal.append(self._drafted(trace_id, event))

    @drafting("event")
    def _drafted(self, trace_id: str, event: PlannerEvent) -> tuple[Subject, list[Draft]]:
        subject = self._journal.subject(planner, trace_id)
        ts = finite(event.ts, "ts")
        body = dump(
            PlannerEventSaved(
                event_type=event.event_type,
                ts=ts,
                trajectory_step=event.trajectory_step,
                thought=event.thought,
                node_name=event.node_name,
                latency_ms=event.latency_ms,
                token_estimate=event.token_estimate,
                error=event.error,
                extra=mapping(event.extra, "extra"),
            ),
            "extra",
        )
        return subject, [draft("planner.saved", body, id=codec.digest(body), ts=ts)]

    async def list_planner_events(
        self, trace_id: str, *, consistency: Consistency = "session"
    ) -> list[PlannerEvent]:
        """Return a trace's planner events in the order in which they were saved; [] if unknown.

        Errors as `Events.load_history`.
        """
        folded = await self._journal.read(planner, trace_id, consistency=consistency)
        return all_restored(_event, folded.state)


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
