"""The three methods that every store has: `save_event`, `load_history`, `save_remote_binding`."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from foldlog.testing.base import Contract, Reopen
from foldlog.testing.exact import plain, same, scribble
from foldlog.testing.values import JSON_VALUES, nested

GLOBAL_TRACE = "__global__"


class StateStoreContract(Contract):
    """What the StateStore specification 2.11 requires of every store."""

    async def test_the_required_methods_are_there(self, store: Any) -> None:
        """MUST, Protocol Checking: the three methods exist, and all are to be awaited."""
        for call in (
            store.save_event(self.build.event()),
            store.load_history("trace"),
            store.save_remote_binding(self.build.binding()),
        ):
            assert inspect.isawaitable(call)
            await call

    async def test_an_event_comes_back_as_it_was(self, store: Any) -> None:
        """MUST, sections 1 and 2; required test 1."""
        saved = self.build.event(
            "test-trace", 1702857600.1234567, node_id="id", payload={"latency_ms": 100}
        )
        await store.save_event(saved)
        [loaded] = await store.load_history("test-trace")
        assert isinstance(loaded, self.models.StoredEvent)
        assert same(plain(loaded), plain(saved))

    async def test_an_unknown_trace_has_no_history(self, store: Any) -> None:
        """MUST, section 2; required test 2: a sequence, and an empty one."""
        history = await store.load_history("nonexistent")
        assert isinstance(history, Sequence)
        assert list(history) == []

    async def test_history_is_ordered_by_timestamp(self, store: Any) -> None:
        """MUST, section 2 and Ordering Guarantees; required test 3."""
        for ts in (3.0, 1.0, -2.5, 2.0, 0.0):
            await store.save_event(self.build.event(ts=ts))
        assert await self._times(store) == [-2.5, 0.0, 1.0, 2.0, 3.0]

    async def test_history_stays_ordered_after_a_restart(self, store: Any, restart: Reopen) -> None:
        """MUST, section 2: the order is the data's, not the process's."""
        for ts in (3.0, 1.0, 2.0):
            await store.save_event(self.build.event(ts=ts))
        assert await self._times(await restart()) == [1.0, 2.0, 3.0]

    async def test_equal_timestamps_keep_the_order_of_saves(self, store: Any) -> None:
        """SHOULD, Ordering Guarantees: ties are broken by insertion."""
        expected = await self._save_ties(store)
        assert await self._names(store) == expected

    async def test_equal_timestamps_keep_their_order_after_a_restart(
        self, store: Any, restart: Reopen
    ) -> None:
        """SHOULD, Ordering Guarantees: insertion order is stored, not remembered."""
        expected = await self._save_ties(store)
        assert await self._names(await restart()) == expected

    async def test_saving_an_event_twice_does_not_fail(self, store: Any) -> None:
        """MUST, section 1; required test 4: and it is there."""
        for _ in range(2):
            await store.save_event(self.build.event())
        assert plain(self.build.event()) in await self._history(store)

    async def test_saving_an_event_twice_keeps_one(self, store: Any) -> None:
        """SHOULD, Idempotency Requirements; required test 4 lets a store keep both."""
        for _ in range(3):
            await store.save_event(self.build.event())
        assert await self._history(store) == [plain(self.build.event())]

    async def test_saving_an_event_again_after_a_restart_keeps_one(
        self, store: Any, restart: Reopen
    ) -> None:
        """SHOULD, Idempotency Requirements: retries come from restarted processes too."""
        await store.save_event(self.build.event())
        again = await restart()
        await again.save_event(self.build.event())
        assert len(await self._history(again)) == 1
        assert len(await self._history(await restart())) == 1

    async def test_concurrent_saves_of_one_event_keep_one(self, store: Any) -> None:
        """SHOULD, Idempotency Requirements: a retry may overtake its original."""
        await self.at_once(store.save_event(self.build.event()) for _ in range(64))
        assert len(await self._history(store)) == 1

    async def test_two_stores_saving_one_event_keep_one(self, store: Any, beside: Reopen) -> None:
        """SHOULD, Idempotency Requirements: in whichever process the retry runs."""
        other = await beside()
        await self.at_once(
            s.save_event(self.build.event()) for _ in range(32) for s in (store, other)
        )
        assert len(await self._history(await beside())) == 1

    async def test_events_that_differ_in_any_field_are_different(self, store: Any) -> None:
        """MUST, section 1: only a duplicate *of the same event* may be dropped."""
        event = self.build.event
        variants = [
            event(),
            event(kind="node_error"),
            event(node_name="other"),
            event(node_name=None),
            event(node_id="other"),
            event(node_id=None),
            event(payload={"n": 1}),
            event(payload={"n": 1.0}),
            event(payload={"n": True}),
            event(payload={"n": "1"}),
            event(payload={"n": [1]}),
            event(payload={"n": None}),
        ]
        for number, variant in enumerate(variants, start=1):
            await store.save_event(variant)
            assert len(await self._history(store)) == number, variant

    async def test_the_order_of_payload_keys_makes_no_other_event(self, store: Any) -> None:
        """SHOULD, Database Schema: the fingerprint is one of canonical JSON, with sorted keys."""
        await store.save_event(self.build.event(payload={"a": 1, "b": {"c": 2, "d": 3}}))
        await store.save_event(self.build.event(payload={"b": {"d": 3, "c": 2}, "a": 1}))
        assert len(await self._history(store)) == 1

    async def test_concurrent_writers_lose_nothing(self, store: Any) -> None:
        """Beyond: what was awaited without an error is there."""
        events = [self.build.event(ts=float(n), node_name=f"n{n}") for n in range(300)]
        await self.at_once(map(store.save_event, events))
        assert await self._history(store) == [plain(event) for event in events]

    async def test_two_stores_writing_lose_nothing(self, store: Any, beside: Reopen) -> None:
        """Beyond: the same, in two processes."""
        stores = (store, await beside())
        events = [self.build.event(ts=float(n), node_name=f"n{n}") for n in range(200)]
        await self.at_once(stores[n % 2].save_event(event) for n, event in enumerate(events))
        assert await self._history(await beside()) == [plain(event) for event in events]

    async def test_each_concurrent_writer_finds_its_events_in_order(self, store: Any) -> None:
        """SHOULD, Ordering Guarantees: at equal timestamps too, among other writers."""

        async def write(writer: int) -> None:
            for number in range(20):
                await store.save_event(self.build.event(node_name=f"{writer}-{number}"))

        await self.at_once(write(writer) for writer in range(8))
        names = await self._names(store)
        for writer in range(8):
            mine = [name for name in names if name.startswith(f"{writer}-")]
            assert mine == [f"{writer}-{number}" for number in range(20)]

    async def test_an_event_without_a_trace_is_kept(self, store: Any) -> None:
        """SHOULD, section 1: global events stand under `__global__`."""
        await store.save_event(self.build.event(None, kind="trace_cancel_drop"))
        [loaded] = await store.load_history(GLOBAL_TRACE)
        assert loaded.kind == "trace_cancel_drop"
        assert loaded.trace_id in (None, GLOBAL_TRACE)

    async def test_any_kind_is_kept(self, store: Any) -> None:
        """MUST, Event Types: kinds are an open set of opaque strings."""
        kinds = ["node_start", "session.task", "never.seen before*>", "\u2728 kind"]
        for ts, kind in enumerate(kinds):
            await store.save_event(self.build.event(ts=float(ts), kind=kind))
        assert [event.kind for event in await store.load_history("trace")] == kinds

    async def test_absent_names_are_not_blank_ones(self, store: Any) -> None:
        """Beyond: None stays None, and an empty string stays one."""
        absent = self.build.event(ts=1.0, node_name=None, node_id=None)
        blank = self.build.event(ts=2.0, node_name="", node_id="")
        await store.save_event(absent)
        await store.save_event(blank)
        assert await self._history(store) == [plain(absent), plain(blank)]

    async def test_any_mapping_serves_as_a_payload(self, store: Any) -> None:
        """MUST, StoredEvent: a payload is a Mapping, not necessarily a dict."""
        payload = MappingProxyType({"a": [1, {"b": None}]})
        await store.save_event(self.build.event(payload=payload))
        [loaded] = await store.load_history("trace")
        assert dict(loaded.payload) == {"a": [1, {"b": None}]}

    async def test_payloads_come_back_exactly(self, store: Any) -> None:
        """MUST, StoredEvent: structured data, without loss."""
        for ts, value in enumerate(JSON_VALUES):
            await store.save_event(self.build.event(ts=float(ts), payload=nested(value)))
        payloads = [plain(event.payload) for event in await store.load_history("trace")]
        assert len(payloads) == len(JSON_VALUES)
        inexact = [
            value
            for payload, value in zip(payloads, JSON_VALUES, strict=True)
            if not same(payload, nested(value))
        ]
        assert inexact == []

    async def test_a_payload_of_a_megabyte_is_held(self, store: Any) -> None:
        """Beyond: tool results are large."""
        saved = self.build.event(payload={"text": "\U0001f427" * 250_000})
        await store.save_event(saved)
        assert await self._history(store) == [plain(saved)]

    async def test_traces_do_not_see_each_other(self, store: Any) -> None:
        """MUST, section 2: the events *for a trace*."""
        await store.save_event(self.build.event("one"))
        await store.save_event(self.build.event("two"))
        assert await self._history(store, "one") == [plain(self.build.event("one"))]
        assert await self._history(store, "two") == [plain(self.build.event("two"))]

    async def test_hostile_traces_never_collide(self, store: Any) -> None:
        """Beyond: an id is data, never a pattern, a path or a piece of a query."""
        for number, trace_id in enumerate(self.hostile_ids):
            await store.save_event(self.build.event(trace_id, float(number)))
        confused = [
            trace_id
            for number, trace_id in enumerate(self.hostile_ids)
            if await self._history(store, trace_id)
            != [plain(self.build.event(trace_id, float(number)))]
        ]
        assert confused == []

    async def test_hostile_text_in_every_field_is_data(self, store: Any) -> None:
        """Beyond: the same for what an event holds."""
        events = [
            self.build.event(ts=float(n), kind=s, node_name=s, node_id=s, payload={s: s})
            for n, s in enumerate(self.hostile_ids)
        ]
        for event in events:
            await store.save_event(event)
        assert await self._history(store) == [plain(event) for event in events]

    async def test_what_was_saved_may_be_changed_afterwards(self, store: Any) -> None:
        """Beyond: the log holds what was true when it was saved."""
        event = self.build.event(payload={"list": [1, 2], "dict": {"a": 1}})
        saved = plain(event)
        await store.save_event(event)
        scribble(event)
        assert await self._history(store) == [saved]

    async def test_what_was_loaded_may_be_changed(self, store: Any) -> None:
        """Beyond: one reader cannot rewrite another's history."""
        event = self.build.event(payload={"list": [1, 2]})
        saved = plain(event)
        await store.save_event(event)
        scribble(await store.load_history("trace"))
        assert await self._history(store) == [saved]

    async def test_saving_a_remote_binding_again_does_not_fail(self, store: Any) -> None:
        """MUST, section 3; required test 5. What is kept: `BindingsContract`."""
        binding = self.models.RemoteBinding(
            trace_id="binding-test",
            context_id="ctx",
            task_id="task-123",
            agent_url="http://worker:8080",
        )
        for _ in range(2):
            await store.save_remote_binding(binding)
        await store.save_remote_binding(self.build.binding(context_id=None))

    async def _save_ties(self, store: Any) -> list[str]:
        """Save fifty events of one timestamp, whose names are in no order; return the names."""
        names = [f"node-{(7 * n) % 50}" for n in range(50)]
        for name in names:
            await store.save_event(self.build.event(ts=5.0, node_name=name))
        return names

    async def _history(self, store: Any, trace_id: str = "trace") -> list[Any]:
        return [plain(event) for event in await store.load_history(trace_id)]

    async def _names(self, store: Any) -> list[str]:
        return [event.node_name for event in await store.load_history("trace")]

    async def _times(self, store: Any) -> list[float]:
        return [event.ts for event in await store.load_history("trace")]
