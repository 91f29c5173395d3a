"""The three methods that every store has: `save_event`, `load_history`, `save_remote_binding`."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import Any, ClassVar

from foldlog.testing.base import Contract, Reopen
from foldlog.testing.exact import plain, same, scribble
from foldlog.testing.values import JSON_VALUES, nested

GLOBAL_TRACE = "__global__"


class TraceEventsContract(Contract):
    """What is so of runtime events and of planner events."""

    async def test_saving_an_event_twice_keeps_one(self, store: Any) -> None:
        """SHOULD, Idempotency Requirements; required test 4 lets a store keep both."""
        for _ in range(3):
            await self._save(store, self._event())
        assert await self._history(store) == [plain(self._event())]

    async def test_saving_an_event_again_after_a_restart_keeps_one(
        self, store: Any, restart: Reopen
    ) -> None:
        """SHOULD, Idempotency Requirements: retries come from restarted processes too."""
        await self._save(store, self._event())
        again = await restart()
        await self._save(again, self._event())
        assert len(await self._history(again)) == 1
        assert len(await self._history(await restart())) == 1

    async def test_two_stores_saving_one_event_keep_one(self, store: Any, beside: Reopen) -> None:
        """SHOULD, Idempotency Requirements: in whichever process the retry runs."""
        stores = (store, await beside())
        await self.at_once(self._save(stores[n % 2], self._event()) for n in range(64))
        assert len(await self._history(await beside())) == 1

    async def test_events_that_differ_in_any_field_are_different(self, store: Any) -> None:
        """MUST, sections 1 and 11: only a duplicate *of the same event* may be dropped."""
        for number, fields in enumerate(self._variants, start=1):
            await self._save(store, self._event(**fields))
            assert len(await self._history(store)) == number, fields
        saved = [plain(self._event(**fields)) for fields in self._variants]
        assert sorted(await self._history(store), key=repr) == sorted(saved, key=repr)

    async def test_concurrent_writers_lose_nothing(self, store: Any) -> None:
        """Beyond: what was awaited without an error is there."""
        events = [self._event(ts=float(n), node_name=f"n{n}") for n in range(300)]
        await self.at_once(self._save(store, event) for event in events)
        assert sorted(await self._history(store), key=itemgetter("ts")) == [
            plain(event) for event in events
        ]

    async def test_two_stores_writing_lose_nothing(self, store: Any, beside: Reopen) -> None:
        """Beyond: in two processes, and everybody who comes later agrees on the order."""
        stores = (store, await beside())
        events = [self._event(ts=float(n), node_name=f"n{n}") for n in range(200)]
        await self.at_once(self._save(stores[n % 2], event) for n, event in enumerate(events))
        listed = await self._history(await beside())
        assert sorted(listed, key=itemgetter("ts")) == [plain(event) for event in events]
        assert await self._history(await beside()) == listed

    async def test_traces_do_not_see_each_other(self, store: Any) -> None:
        """MUST, sections 2 and 11: the events *for a trace*."""
        for ts, trace_id in enumerate(("one", "two")):
            await self._save(store, self._event(trace_id, float(ts)), trace_id)
        assert await self._history(store, "one") == [plain(self._event("one", 0.0))]
        assert await self._history(store, "two") == [plain(self._event("two", 1.0))]

    async def test_hostile_traces_never_collide(self, store: Any) -> None:
        """Beyond: an id is data, never a pattern, a path or a piece of a query."""
        for number, trace_id in enumerate(self.hostile_ids):
            await self._save(store, self._event(trace_id, float(number)), trace_id)
        for number, trace_id in enumerate(self.hostile_ids):
            saved = plain(self._event(trace_id, float(number)))
            assert await self._history(store, trace_id) == [saved], trace_id

    async def test_what_was_saved_may_be_changed_afterwards(self, store: Any) -> None:
        """Beyond: the log holds what was true when it was saved."""
        content: dict[str, Any] = {self._content: {"list": [1, 2], "dict": {"a": 1}}}
        event = self._event(**content)
        saved = plain(event)
        await self._save(store, event)
        scribble(event)
        assert await self._history(store) == [saved]

    async def test_what_was_loaded_may_be_changed(self, store: Any) -> None:
        """Beyond: one reader cannot rewrite another's history."""
        content: dict[str, Any] = {self._content: {"list": [1, 2]}}
        event = self._event(**content)
        saved = plain(event)
        await self._save(store, event)
        scribble(await self._load(store, "trace"))
        assert await self._history(store) == [saved]

    _content: ClassVar[str]
    _variants: ClassVar[Sequence[dict[str, Any]]]

    def _event(self, trace_id: str | None = "trace", ts: float = 1.0, **fields: Any) -> Any:
        raise NotImplementedError

    async def _save(self, store: Any, event: Any, trace_id: str = "trace") -> None:
        raise NotImplementedError

    async def _load(self, store: Any, trace_id: str) -> Sequence[Any]:
        raise NotImplementedError

    async def _history(self, store: Any, trace_id: str = "trace") -> list[Any]:
        return [plain(event) for event in await self._load(store, trace_id)]


class StateStoreContract(TraceEventsContract):
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

    async def test_concurrent_saves_of_one_event_keep_one(self, store: Any) -> None:
        """SHOULD, Idempotency Requirements: a retry may overtake its original."""
        await self.at_once(store.save_event(self.build.event()) for _ in range(64))
        assert len(await self._history(store)) == 1

    async def test_the_order_of_payload_keys_makes_no_other_event(self, store: Any) -> None:
        """SHOULD, Database Schema: the fingerprint is one of canonical JSON, with sorted keys."""
        await store.save_event(self.build.event(payload={"a": 1, "b": {"c": 2, "d": 3}}))
        await store.save_event(self.build.event(payload={"b": {"d": 3, "c": 2}, "a": 1}))
        assert len(await self._history(store)) == 1

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

    async def test_hostile_text_in_every_field_is_data(self, store: Any) -> None:
        """Beyond: the same for what an event holds."""
        events = [
            self.build.event(ts=float(n), kind=s, node_name=s, node_id=s, payload={s: s})
            for n, s in enumerate(self.hostile_ids)
        ]
        for event in events:
            await store.save_event(event)
        assert await self._history(store) == [plain(event) for event in events]

    async def test_saving_a_remote_binding_again_does_not_fail(self, store: Any) -> None:
        """MUST, section 3; required test 5. What it stores: `BindingsContract`."""
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

    _content = "payload"
    _variants = (
        {},
        {"kind": "node_error"},
        *({name: value} for name in ("node_name", "node_id") for value in ("other", None)),
        *({"payload": {"n": value}} for value in (1, 1.0, True, "1", [1], None)),
    )

    def _event(self, trace_id: str | None = "trace", ts: float = 1.0, **fields: Any) -> Any:
        return self.build.event(trace_id, ts, **fields)

    async def _save(self, store: Any, event: Any, trace_id: str = "trace") -> None:
        await store.save_event(event)

    async def _load(self, store: Any, trace_id: str) -> Sequence[Any]:
        history: Sequence[Any] = await store.load_history(trace_id)
        assert sorted(times := [event.ts for event in history]) == times
        return history

    async def _names(self, store: Any) -> list[str]:
        return [event.node_name for event in await store.load_history("trace")]

    async def _times(self, store: Any) -> list[float]:
        return [event.ts for event in await store.load_history("trace")]
