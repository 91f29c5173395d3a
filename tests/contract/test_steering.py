"""Steering beyond `test_kit`: summaries of what is too big, and `strict_steering`."""

from __future__ import annotations

import json
from typing import Any

import pytest

import foldlog
from foldlog import SteeringEventType
from tests.conftest import OpenStore
from tests.support.build import steering
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


async def test_a_payload_that_stays_too_big_is_summarised(store: foldlog.Store) -> None:
    payload = await stored_payload(store, {f"k{i}": "a" * 4_000 for i in range(60)})
    assert payload["truncated"] is True


async def test_multibyte_text_counts_in_bytes(store: foldlog.Store) -> None:
    payload = await stored_payload(store, {f"k{i}": "\U0001f600" * 1_000 for i in range(5)})
    assert payload["truncated"] is True


async def test_strict_steering_refuses_before_anything_is_appended(reopen: OpenStore) -> None:
    strict = await reopen(strict_steering=True)
    before = await appended(strict)
    for event_type, payload in INVALID:
        event = steering("event", event_type=event_type, payload=payload)
        with pytest.raises(foldlog.SteeringValidationError) as refused:
            foldlog.validate_steering_event(event)
        assert refused.value.errors
        with pytest.raises(foldlog.SteeringValidationError) as refused:
            await strict.save_steering(event)
        assert refused.value.errors
        assert await appended(strict) == before
    assert await strict.list_steering("session") == []


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
