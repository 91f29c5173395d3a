"""Steering: sanitised on the way in. Cursors and dedupe stand in `test_cursor_lists`."""

from __future__ import annotations

import json
from typing import Any

import pytest

import foldlog
from foldlog import SteeringEventType
from tests.conftest import OpenStore
from tests.support.build import MOMENT, steering
from tests.support.stores import appended

VALID: dict[SteeringEventType, dict[str, Any]] = {
    SteeringEventType.INJECT_CONTEXT: {"text": "x", "scope": "task_only", "severity": "note"},
    SteeringEventType.REDIRECT: {"goal": "elsewhere", "constraints": {"max": 1}},
    SteeringEventType.CANCEL: {"reason": "enough", "hard": True},
    SteeringEventType.PRIORITIZE: {"priority": 3},
    SteeringEventType.PAUSE: {},
    SteeringEventType.RESUME: {"reason": "go on"},
    SteeringEventType.APPROVE: {"resume_token": "t", "decision": "yes"},
    SteeringEventType.REJECT: {"patch_id": "p"},
    SteeringEventType.USER_MESSAGE: {"text": "hello", "active_tasks": ["a"]},
}
INVALID: list[tuple[SteeringEventType, dict[str, Any]]] = [
    (SteeringEventType.INJECT_CONTEXT, {}),
    (SteeringEventType.INJECT_CONTEXT, {"text": "  "}),
    (SteeringEventType.INJECT_CONTEXT, {"text": "x", "scope": "everywhere"}),
    (SteeringEventType.INJECT_CONTEXT, {"text": "x", "severity": "fatal"}),
    (SteeringEventType.REDIRECT, {"goal": ""}),
    (SteeringEventType.REDIRECT, {"goal": "x", "constraints": "none"}),
    (SteeringEventType.CANCEL, {"hard": "yes"}),
    (SteeringEventType.PRIORITIZE, {"priority": "high"}),
    (SteeringEventType.APPROVE, {"decision": "yes"}),
    (SteeringEventType.REJECT, {}),
    (SteeringEventType.PAUSE, {"reason": 1}),
    (SteeringEventType.USER_MESSAGE, {"text": ""}),
]


async def stored_payload(store: foldlog.Store, payload: dict[str, Any]) -> dict[str, Any]:
    """The payload as it reads after a save; always JSON of at most 16,384 bytes."""
    event_type = SteeringEventType.INJECT_CONTEXT
    await store.save_steering(steering("event", event_type=event_type, payload=payload))
    [event] = await store.list_steering("session")
    assert len(json.dumps(event.payload, ensure_ascii=False).encode()) <= 16_384
    return event.payload


async def test_a_steering_event_comes_back_as_it_was(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    saved = foldlog.SteeringEvent(
        session_id="test-session",
        task_id="test-task",
        event_id="event-1",
        event_type=SteeringEventType.USER_MESSAGE,
        payload={"text": "Hello", "active_tasks": ["a", "b"]},
        trace_id="trace",
        source="agent",
        created_at=MOMENT,
    )
    await store.save_steering(saved)
    for reader in (store, await reopen()):
        [loaded] = await reader.list_steering("test-session")
        assert loaded == saved
        assert loaded.event_type is SteeringEventType.USER_MESSAGE


async def test_a_harmless_payload_is_left_alone(store: foldlog.Store) -> None:
    payload = {"text": "é" * 100, "n": 1, "x": 0.5, "yes": True, "none": None, "l": [{"a": []}]}
    assert await stored_payload(store, payload) == payload


async def test_a_long_string_is_cut(store: foldlog.Store) -> None:
    payload = await stored_payload(store, {"text": "a" * 10_000})
    assert 0 < len(payload["text"]) <= 4_096
    assert set(payload["text"][:4_000]) == {"a"}


async def test_a_string_at_the_limit_is_kept(store: foldlog.Store) -> None:
    assert await stored_payload(store, {"text": "a" * 4_096}) == {"text": "a" * 4_096}


async def test_a_wide_object_is_cut(store: foldlog.Store) -> None:
    payload = await stored_payload(store, {"text": "x", **{f"k{i}": i for i in range(500)}})
    assert payload["text"] == "x"
    kept = [key for key in payload if key.startswith("k")]
    assert kept == [f"k{i}" for i in range(len(kept))]
    assert 60 <= len(kept) < 65


async def test_a_long_list_is_cut(store: foldlog.Store) -> None:
    payload = await stored_payload(store, {"text": "x", "list": list(range(500))})
    numbers = [item for item in payload["list"] if isinstance(item, int)]
    assert numbers == list(range(50))
    assert len(payload["list"]) <= 51


async def test_deep_nesting_is_cut(store: foldlog.Store) -> None:
    deep: Any = "bottom"
    for _ in range(100):
        deep = {"d": deep}
    payload = await stored_payload(store, {"text": "x", "deep": deep})
    depth, node = 0, payload
    while isinstance(node, dict):
        depth, node = depth + 1, node.get("deep", node.get("d"))
    assert depth <= 7
    assert node != "bottom"


async def test_a_payload_that_stays_too_big_is_summarised(store: foldlog.Store) -> None:
    payload = await stored_payload(store, {f"k{i}": "a" * 4_000 for i in range(60)})
    assert payload["truncated"] is True


async def test_multibyte_text_counts_in_bytes(store: foldlog.Store) -> None:
    payload = await stored_payload(store, {f"k{i}": "\U0001f600" * 1_000 for i in range(5)})
    assert payload["truncated"] is True


@pytest.mark.parametrize("value", [object(), b"\xff", {1, 2}, float("nan"), 10**400, {1: "a"}])
async def test_what_json_lacks_is_made_harmless(store: foldlog.Store, value: Any) -> None:
    payload = await stored_payload(store, {"text": "x", "odd": value})
    assert json.loads(json.dumps(payload)) is not None


async def test_a_cyclic_payload_is_made_harmless(store: foldlog.Store) -> None:
    cyclic: dict[str, Any] = {"text": "x"}
    cyclic["self"] = cyclic
    event = steering("event").model_copy(update={"payload": cyclic})
    await store.save_steering(event)
    [loaded] = await store.list_steering("session")
    assert len(json.dumps(loaded.payload).encode()) <= 16_384


async def test_a_surrogate_is_made_harmless(store: foldlog.Store) -> None:
    event = steering("event").model_copy(update={"payload": {"text": "a\ud800b"}})
    await store.save_steering(event)
    [loaded] = await store.list_steering("session")
    assert loaded.payload["text"].encode().startswith(b"a")


async def test_the_callers_event_is_not_touched(store: foldlog.Store) -> None:
    event = steering("event", payload={"text": "a" * 10_000})
    await store.save_steering(event)
    assert event.payload == {"text": "a" * 10_000}


@pytest.mark.parametrize(("event_type", "payload"), INVALID)
async def test_strict_steering_refuses_before_anything_is_appended(
    reopen: OpenStore, event_type: SteeringEventType, payload: dict[str, Any]
) -> None:
    strict = await reopen(strict_steering=True)
    event = steering("event", event_type=event_type, payload=payload)
    with pytest.raises(foldlog.SteeringValidationError) as refused:
        foldlog.validate_steering_event(event)
    assert refused.value.errors

    before = await appended(strict)
    with pytest.raises(foldlog.SteeringValidationError) as refused:
        await strict.save_steering(event)
    assert refused.value.errors
    assert await strict.list_steering("session") == []
    assert await appended(strict) == before


async def test_strict_steering_accepts_every_valid_event(reopen: OpenStore) -> None:
    strict = await reopen(strict_steering=True)
    assert set(VALID) == set(SteeringEventType)
    for event_type, payload in VALID.items():
        event = steering(event_type.value, event_type=event_type, payload=payload)
        foldlog.validate_steering_event(event)
        await strict.save_steering(event)
    listed = await strict.list_steering("session")
    assert [(e.event_type, e.payload) for e in listed] == list(VALID.items())


async def test_without_strict_steering_an_odd_payload_is_kept(store: foldlog.Store) -> None:
    for i, (event_type, payload) in enumerate(INVALID):
        await store.save_steering(steering(f"e{i}", event_type=event_type, payload=payload))
    listed = await store.list_steering("session")
    assert [(e.event_type, e.payload) for e in listed] == INVALID
