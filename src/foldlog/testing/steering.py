"""`save_steering` and `list_steering`: interventions, stored in their sanitised form."""

from __future__ import annotations

import json
from typing import Any, Final

from foldlog.testing.base import Reopen
from foldlog.testing.cursors import CursorContract
from foldlog.testing.exact import plain, same

MAX_PAYLOAD_BYTES: Final = 16_384
MAX_DEPTH: Final = 6
MAX_KEYS: Final = 64
MAX_LIST_ITEMS: Final = 50
MAX_STRING: Final = 4_096


class SteeringContract(CursorContract):
    """Untrusted input: once per `event_id`, cut to size, read by cursor.

    The limits are those of the specification, section "Steering Payload Sanitization". How a
    store marks what it cut is its own affair.
    """

    strong = True

    save_name = "save_steering"
    list_name = "list_steering"
    id_name = "event_id"

    def item(self, id_: str, session_id: str = "session", **fields: Any) -> Any:
        """Return a steering event `id_` of `session_id`; `fields` override."""
        if "content" in fields:
            fields["payload"] = fields.pop("content")
        return self.build.steering(id_, session_id, **fields)

    async def test_a_steering_event_comes_back_as_it_was(self, store: Any) -> None:
        """MUST, SteeringEvent; required test 12."""
        saved = self._full_event()
        await store.save_steering(saved)
        [loaded] = await store.list_steering("session")
        assert isinstance(loaded, self.models.SteeringEvent)
        assert loaded.event_type is self.models.SteeringEventType.USER_MESSAGE
        assert same(plain(loaded), plain(saved))

    async def test_a_steering_event_survives_a_restart(self, store: Any, restart: Reopen) -> None:
        """MUST, Integration Points: backfills after a restart."""
        saved = self._full_event()
        await store.save_steering(saved)
        [loaded] = await (await restart()).list_steering("session")
        assert same(plain(loaded), plain(saved))

    async def test_every_type_is_held(self, store: Any) -> None:
        """MUST, SteeringEventType."""
        for kind in self.models.SteeringEventType:
            await store.save_steering(self.build.steering(kind.value, event_type=kind))
        listed = await store.list_steering("session")
        assert [event.event_type for event in listed] == list(self.models.SteeringEventType)

    async def test_another_store_sees_it_at_once(self, store: Any, beside: Reopen) -> None:
        """SHOULD, Consistency Model: strong, for interventions in real time."""
        other = await beside()
        for number in range(20):
            writer, reader = (store, other) if number % 2 else (other, store)
            await writer.save_steering(self.build.steering(f"e{number}"))
            for each in (reader, writer):  # so that both have read before the other one writes
                assert f"e{number}" in await self.ids(each)

    async def test_a_harmless_payload_is_left_alone(self, store: Any) -> None:
        """MUST, Steering Payload Sanitization: only what breaks a limit is cut."""
        payload = {"text": "é" * 100, "n": 1, "x": 0.5, "yes": True, "none": None, "l": [{"a": []}]}
        assert await self._stored(store, payload) == payload

    async def test_a_string_at_the_limit_is_kept(self, store: Any) -> None:
        """MUST, Size Limits."""
        payload = {"text": "a" * MAX_STRING}
        assert await self._stored(store, payload) == payload

    async def test_a_long_string_is_cut(self, store: Any) -> None:
        """MUST, Size Limits."""
        payload = await self._stored(store, {"text": "a" * 10_000})
        assert 0 < len(payload["text"]) <= MAX_STRING
        assert set(payload["text"][: MAX_STRING - 96]) == {"a"}

    async def test_a_wide_object_is_cut(self, store: Any) -> None:
        """MUST, Size Limits: what comes first stays."""
        payload = await self._stored(store, {"text": "x", **{f"k{n}": n for n in range(500)}})
        assert payload["text"] == "x"
        kept = {key for key in payload if key.startswith("k")}
        assert kept == {f"k{n}" for n in range(len(kept))}
        assert MAX_KEYS - 4 <= len(kept) < MAX_KEYS + 1

    async def test_a_long_list_is_cut(self, store: Any) -> None:
        """MUST, Size Limits: what comes first stays."""
        payload = await self._stored(store, {"text": "x", "list": list(range(500))})
        numbers = [item for item in payload["list"] if isinstance(item, int)]
        assert numbers == list(range(MAX_LIST_ITEMS))
        assert len(payload["list"]) <= MAX_LIST_ITEMS + 1

    async def test_deep_nesting_is_cut(self, store: Any) -> None:
        """MUST, Size Limits."""
        deep: Any = "bottom"
        for _ in range(100):
            deep = {"d": deep}
        payload = await self._stored(store, {"text": "x", "deep": deep})
        node: Any = payload
        depth = 0
        while isinstance(node, dict):
            depth, node = depth + 1, node.get("deep", node.get("d"))
        assert depth <= MAX_DEPTH + 1
        assert node != "bottom"

    async def test_a_payload_that_stays_too_big_is_summarised(self, store: Any) -> None:
        """MUST, Sanitization Process, step 5; `_stored` looks at the size."""
        payload = await self._stored(store, {f"k{n}": "a" * 4_000 for n in range(60)})
        assert payload

    async def test_text_counts_in_bytes(self, store: Any) -> None:
        """MUST, Size Limits: 16 KB, not characters."""
        payload = await self._stored(store, {f"k{n}": "\U0001f600" * 1_000 for n in range(5)})
        assert payload

    async def test_what_json_lacks_is_made_harmless(self, store: Any) -> None:
        """MUST, Sanitization Process, step 1: what stays is JSON."""
        for number, value in enumerate(
            [object(), b"\xff", {1, 2}, float("nan"), 10**400, {1: "a"}]
        ):
            payload = await self._stored(store, {"text": "x", "odd": value}, f"e{number}")
            assert payload["text"] == "x"

    async def test_a_payload_that_holds_itself_is_made_harmless(self, store: Any) -> None:
        """MUST, Sanitization Process: untrusted input breaks nothing."""
        cyclic: dict[str, Any] = {"text": "x"}
        cyclic["self"] = cyclic
        await self._stored(store, cyclic)

    async def test_a_lone_surrogate_is_made_harmless(self, store: Any) -> None:
        """Beyond: what no UTF-8 can hold."""
        payload = await self._stored(store, {"text": "a\ud800b"})
        assert payload["text"].startswith("a")

    async def test_the_callers_event_is_not_touched(self, store: Any) -> None:
        """Beyond: a copy is cut."""
        event = self.build.steering("event", payload={"text": "a" * 10_000})
        await store.save_steering(event)
        [stored] = await store.list_steering("session")
        assert len(stored.payload["text"]) < 10_000
        assert event.payload == {"text": "a" * 10_000}

    async def _stored(
        self, store: Any, payload: dict[str, Any], event_id: str = "event"
    ) -> dict[str, Any]:
        """Save the payload and return what reads back, which is JSON of at most 16,384 bytes."""
        await store.save_steering(self._raw(event_id, payload))
        stored = (await store.list_steering("session"))[-1].payload
        text = json.dumps(stored, ensure_ascii=False, allow_nan=False)
        assert len(text.encode()) <= MAX_PAYLOAD_BYTES
        return dict(stored)

    def _raw(self, event_id: str, payload: dict[str, Any]) -> Any:
        kind = self.models.SteeringEventType.INJECT_CONTEXT
        event = self.build.steering(event_id, event_type=kind)
        try:
            # Past the model's own validation, which is not the store's.
            event.payload = payload
        except (AttributeError, TypeError, ValueError):  # it is frozen
            return self.build.steering(event_id, event_type=kind, payload=payload)
        return event

    def _full_event(self) -> Any:
        return self.build.steering(
            "event-1",
            payload={"text": "Hello", "active_tasks": ["a", "b"]},
            trace_id="trace",
            source="agent",
        )
