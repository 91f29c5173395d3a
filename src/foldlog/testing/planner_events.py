"""`save_planner_event` and `list_planner_events`: what a planner told while it ran."""

from __future__ import annotations

from typing import Any

from foldlog.testing.base import Contract, Reopen
from foldlog.testing.exact import plain, same, scribble
from foldlog.testing.values import JSON_VALUES, nested


class PlannerEventsContract(Contract):
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
        assert await self._events(await restart()) == [plain(event) for event in events]

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
        assert await self._events(store) == [plain(event) for event in events]

    async def test_saving_an_event_twice_keeps_one(self, store: Any) -> None:
        """SHOULD, Idempotency Requirements: retries can duplicate planner events."""
        for _ in range(3):
            await store.save_planner_event("trace", self.build.planner_event())
        assert len(await self._events(store)) == 1

    async def test_saving_an_event_again_after_a_restart_keeps_one(
        self, store: Any, restart: Reopen
    ) -> None:
        """SHOULD, Idempotency Requirements: retries come from restarted processes too."""
        await store.save_planner_event("trace", self.build.planner_event())
        again = await restart()
        await again.save_planner_event("trace", self.build.planner_event())
        assert len(await self._events(again)) == 1

    async def test_two_stores_saving_one_event_keep_one(self, store: Any, beside: Reopen) -> None:
        """SHOULD, Idempotency Requirements: in whichever process the retry runs."""
        stores = (store, await beside())
        event = self.build.planner_event()
        await self.at_once(stores[n % 2].save_planner_event("trace", event) for n in range(32))
        assert len(await self._events(await beside())) == 1

    async def test_events_that_differ_in_any_field_are_different(self, store: Any) -> None:
        """MUST, section 11: a stream of chunks is nothing but small differences."""
        event = self.build.planner_event
        variants = [
            event(),
            event(2.0),
            event(event_type="stream_chunk"),
            event(trajectory_step=1),
            event(thought=""),
            event(node_name="n"),
            event(latency_ms=0.0),
            event(token_estimate=0),
            event(error=""),
            event(extra={"seq": 1}),
            event(extra={"seq": 1.0}),
        ]
        for variant in variants:
            await store.save_planner_event("trace", variant)
        assert await self._events(store) == [plain(variant) for variant in variants]

    async def test_planner_events_are_no_runtime_events(self, store: Any) -> None:
        """MUST, Event Types: two channels."""
        await store.save_planner_event("trace", self.build.planner_event())
        assert list(await store.load_history("trace")) == []
        await store.save_event(self.build.event())
        assert await self._events(store) == [plain(self.build.planner_event())]

    async def test_traces_do_not_see_each_other(self, store: Any) -> None:
        """MUST, section 11: the events *for a trace*."""
        await store.save_planner_event("one", self.build.planner_event(1.0))
        await store.save_planner_event("two", self.build.planner_event(2.0))
        assert await self._events(store, "one") == [plain(self.build.planner_event(1.0))]

    async def test_hostile_traces_never_collide(self, store: Any) -> None:
        """Beyond: an id is data."""
        for number, trace_id in enumerate(self.hostile_ids):
            await store.save_planner_event(trace_id, self.build.planner_event(float(number)))
        for number, trace_id in enumerate(self.hostile_ids):
            [loaded] = await store.list_planner_events(trace_id)
            assert loaded.ts == number, trace_id

    async def test_concurrent_writers_lose_nothing(self, store: Any) -> None:
        """Beyond: what was awaited without an error is there."""
        events = [self.build.planner_event(float(n)) for n in range(200)]
        await self.at_once(store.save_planner_event("trace", event) for event in events)
        listed = await store.list_planner_events("trace")
        assert sorted(event.ts for event in listed) == [float(n) for n in range(200)]

    async def test_two_stores_writing_lose_nothing(self, store: Any, beside: Reopen) -> None:
        """Beyond: in two processes, and everybody who comes later agrees on the order."""
        stores = (store, await beside())
        events = [self.build.planner_event(float(n)) for n in range(100)]
        await self.at_once(
            stores[n % 2].save_planner_event("trace", event) for n, event in enumerate(events)
        )
        listed = await self._events(await beside())
        assert sorted(event["ts"] for event in listed) == [float(n) for n in range(100)]
        assert await self._events(await beside()) == listed

    async def test_what_was_saved_may_be_changed_afterwards(self, store: Any) -> None:
        """Beyond: the list holds what was true when it was saved."""
        event = self.build.planner_event(extra={"l": [1]})
        saved = plain(event)
        await store.save_planner_event("trace", event)
        scribble(event)
        assert await self._events(store) == [saved]

    async def test_what_was_loaded_may_be_changed(self, store: Any) -> None:
        """Beyond: one reader cannot change what another sees."""
        event = self.build.planner_event(extra={"l": [1]})
        saved = plain(event)
        await store.save_planner_event("trace", event)
        scribble(await store.list_planner_events("trace"))
        assert await self._events(store) == [saved]

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

    async def _events(self, store: Any, trace_id: str = "trace") -> list[Any]:
        return [plain(event) for event in await store.list_planner_events(trace_id)]
