"""`save_planner_event` and `list_planner_events`: what a planner reported while it ran."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foldlog.testing.base import Reopen
from foldlog.testing.events import TraceEventsContract
from foldlog.testing.exact import plain, same
from foldlog.testing.values import JSON_VALUES, nested


class PlannerEventsContract(TraceEventsContract):
    """Append-only, each event once, in the order of emission."""

    async def test_a_planner_event_comes_back_as_it_was(self, store: Any) -> None:
        """MUST, section 11."""
        saved = self._full_event()
        await store.save_planner_event("trace", saved)
        [loaded] = await store.list_planner_events("trace")
        assert isinstance(loaded, self.models.PlannerEvent)
        assert same(plain(loaded), plain(saved))

    async def test_planner_events_survive_a_restart(self, store: Any, restart: Reopen) -> None:
        """MUST, section 11: auditing; in their order."""
        events = [self._full_event(), self.build.planner_event(3.0), self.build.planner_event(2.0)]
        for event in events:
            await store.save_planner_event("trace", event)
        assert await self._history(await restart()) == [plain(event) for event in events]

    async def test_extras_come_back_exactly(self, store: Any) -> None:
        """Beyond: without loss."""
        extra = {f"v{n}": nested(value) for n, value in enumerate(JSON_VALUES)}
        await store.save_planner_event("trace", self.build.planner_event(extra=extra))
        [loaded] = await store.list_planner_events("trace")
        assert same(plain(loaded.extra), extra)

    async def test_an_unknown_trace_has_no_planner_events(self, store: Any) -> None:
        """MUST, section 8: empty, not an error."""
        assert list(await store.list_planner_events("nonexistent")) == []

    async def test_events_keep_the_order_of_emission(self, store: Any) -> None:
        """SHOULD, Ordering Guarantees: whatever their timestamps say."""
        events = [self.build.planner_event(ts) for ts in (3.0, 1.0, 2.0, 1.5)]
        for event in events:
            await store.save_planner_event("trace", event)
        assert await self._history(store) == [plain(event) for event in events]

    async def test_planner_events_are_no_runtime_events(self, store: Any) -> None:
        """MUST, Event Types: two channels."""
        await store.save_planner_event("trace", self.build.planner_event())
        assert list(await store.load_history("trace")) == []
        await store.save_event(self.build.event())
        assert await self._history(store) == [plain(self.build.planner_event())]

    def _full_event(self) -> Any:
        return self.build.planner_event(
            1702857600.25,
            event_type="llm_stream_chunk",
            trajectory_step=3,
            thought="hm",
            node_name="tool",
            latency_ms=1.5,
            token_estimate=12,
            error="none",
            extra={"chunk": "text", "message": "kept", "args": [1]},
        )

    _content = "extra"
    _variants = (
        {},
        {"ts": 2.0},
        {"event_type": "stream_chunk"},
        {"trajectory_step": 1},
        {"thought": ""},
        {"node_name": "n"},
        {"latency_ms": 0.0},
        {"token_estimate": 0},
        {"error": ""},
        {"extra": {"seq": 1}},
        {"extra": {"seq": 1.0}},
    )

    def _event(self, trace_id: str | None = "trace", ts: float = 1.0, **fields: Any) -> Any:
        return self.build.planner_event(ts, **fields)

    async def _save(self, store: Any, event: Any, trace_id: str = "trace") -> None:
        await store.save_planner_event(trace_id, event)

    async def _load(self, store: Any, trace_id: str) -> Sequence[Any]:
        events: Sequence[Any] = await store.list_planner_events(trace_id)
        return events
