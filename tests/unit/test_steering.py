from __future__ import annotations

import copy
import json
import uuid
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from foldlog.errors import SteeringValidationError
from foldlog.models import SteeringEvent, SteeringEventType
from foldlog.steering import (
    MAX_STEERING_DEPTH,
    MAX_STEERING_KEYS,
    MAX_STEERING_LIST_ITEMS,
    MAX_STEERING_PAYLOAD_BYTES,
    MAX_STEERING_STRING,
    sanitize_payload,
    sanitize_steering_event,
    validate_steering_event,
)


def steering(event_type: SteeringEventType, payload: dict[str, Any]) -> SteeringEvent:
    return SteeringEvent(session_id="s", task_id="t", event_type=event_type, payload=payload)


# --- what always holds ------------------------------------------------------------------------


class Colour(StrEnum):
    RED = "red"


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


class BrokenZone(tzinfo):
    def utcoffset(self, _: datetime | None) -> timedelta:
        raise RuntimeError("lost in time")


# Drawn by size, because drawing each item is what makes such data slow.
oversized = st.one_of(
    st.builds(lambda char, size: char * size, st.sampled_from('a"😀\x01'), st.integers(0, 6000)),
    st.integers(49, 52).map(lambda size: [[item] for item in range(size)]),
    st.integers(63, 66).map(lambda size: {str(key): {} for key in range(size)}),
)
any_text = st.text(st.characters(), max_size=80) | st.text('\ud800\udfff\x00"\\é😀a', max_size=80)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=10**3000, max_value=10**6000),
    st.floats(),
    any_text,
    oversized,
    st.binary(max_size=20),
    st.datetimes(),
    st.decimals(),
    st.uuids(),
    st.sampled_from([Colour.RED, Hostile(), object()]),
)
keys = any_text | st.integers(0, 3) | st.booleans() | st.none() | st.sampled_from(["0", "True"])
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=8),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=8),
    ),
    max_leaves=20,
)


def depth(value: object) -> int:
    children = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(children, list):
        return 0
    return 1 + max(map(depth, children), default=0)


def widest(value: object, kind: type) -> int:
    children = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(children, list):
        return 0
    return max(
        [len(value) if isinstance(value, kind) else 0, *(widest(child, kind) for child in children)]  # type: ignore[arg-type]
    )


def longest(value: object) -> int:
    if isinstance(value, str):
        return len(value)
    children = list(value.values()) if isinstance(value, dict) else value
    return max(map(longest, children), default=0) if isinstance(children, list) else 0


@given(trees)
@example({"__truncated_keys__": 1, **{str(n): n for n in range(70)}})
@example({"a": {"b": {"c": {"d": {"e": {"__truncated_keys__": True}}}}}})
@example([[[[[[[[1]]]]]]]])
def test_the_result_is_valid_bounded_and_stable(payload: object) -> None:
    clean = sanitize_payload(payload)
    text = json.dumps(clean, ensure_ascii=False, allow_nan=False)
    assert len(text.encode("utf-8")) <= MAX_STEERING_PAYLOAD_BYTES
    assert json.loads(text) == clean
    assert depth(clean) <= MAX_STEERING_DEPTH
    assert widest(clean, dict) <= MAX_STEERING_KEYS + 1
    assert widest(clean, list) <= MAX_STEERING_LIST_ITEMS + 1
    assert longest(clean) <= MAX_STEERING_STRING
    assert sanitize_payload(clean) == clean


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64) | st.text("aé😀", max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab"), inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(any_text, plain | oversized, max_size=5))
def test_the_input_is_left_alone(payload: dict[str, Any]) -> None:
    before = copy.deepcopy(payload)
    clean = sanitize_payload(payload)
    for value in [clean, *clean.values()]:
        if isinstance(value, dict | list):
            value.clear()
    assert payload == before


@given(st.dictionaries(st.text("abc", max_size=9), plain, max_size=4))
def test_what_is_within_the_limits_is_kept_exactly(payload: dict[str, Any]) -> None:
    if depth(payload) < MAX_STEERING_DEPTH:
        assert sanitize_payload(payload) == payload


# --- each limit -------------------------------------------------------------------------------


def test_long_strings_are_cut() -> None:
    assert sanitize_payload({"text": "x" * 5000}) == {"text": "x" * MAX_STEERING_STRING}


def test_long_lists_are_cut_and_marked() -> None:
    clean = sanitize_payload({"items": list(range(51))})
    assert clean == {"items": [*range(MAX_STEERING_LIST_ITEMS), "<truncated>"]}
    assert sanitize_payload({"items": list(range(50))}) == {"items": list(range(50))}


def test_surplus_keys_are_dropped_and_marked() -> None:
    clean = sanitize_payload({f"k{n}": n for n in range(65)})
    assert clean == {**{f"k{n}": n for n in range(MAX_STEERING_KEYS)}, "__truncated_keys__": True}
    exact = {f"k{n}": n for n in range(MAX_STEERING_KEYS)}
    assert sanitize_payload(exact) == exact


def test_values_below_the_sixth_level_are_cut() -> None:
    payload = {"a": {"b": {"c": {"d": {"e": "kept", "f": {"g": 1}}}}}}
    assert sanitize_payload(payload) == {
        "a": {"b": {"c": {"d": {"e": "kept", "f": {"g": "<truncated>"}}}}}
    }


@pytest.mark.parametrize("char", ["a", '"', "\\", "\x01", "é", "😀"])
def test_an_oversized_payload_becomes_a_summary_within_the_limit(char: str) -> None:
    payload = {str(n): char * MAX_STEERING_STRING for n in range(5)}
    clean = sanitize_payload(payload)
    assert set(clean) == {"truncated", "summary"}
    assert clean["truncated"] is True
    assert clean["summary"].startswith('{"0": "')
    size = len(json.dumps(clean, ensure_ascii=False).encode())
    assert size <= MAX_STEERING_PAYLOAD_BYTES
    assert len(clean["summary"]) > MAX_STEERING_STRING - 100


@pytest.mark.parametrize("excess", [0, 1])
def test_the_byte_limit_is_exact(excess: int) -> None:
    empty = len(json.dumps({str(n): "" for n in range(5)}))
    room = MAX_STEERING_PAYLOAD_BYTES - empty + excess
    payload = {str(n): "x" * (room // 5 + (room % 5 if n == 0 else 0)) for n in range(5)}
    assert ("truncated" in sanitize_payload(payload)) is bool(excess)


# --- what JSON cannot hold --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "clean"),
    [
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        ("a\ud800b", "a?b"),
        (b"caf\xc3\xa9 \xff", "café \ufffd"),
        (datetime(2024, 5, 1, tzinfo=UTC), "2024-05-01T00:00:00+00:00"),
        (Decimal("1.50"), "1.50"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Colour.RED, "red"),
        ((1, 2), [1, 2]),
        ({"b", "a"}, ["a", "b"]),
        (Hostile(), "<Hostile>"),
        (datetime(2024, 5, 1, tzinfo=BrokenZone()), "<datetime>"),
    ],
)
def test_foreign_values_become_json(value: object, clean: object) -> None:
    result = sanitize_payload({"value": value})["value"]
    assert result == clean
    assert type(result) is type(clean)


def test_an_integer_too_long_to_print_becomes_hexadecimal() -> None:
    assert sanitize_payload({"n": 16**5000})["n"] == ("0x1" + "0" * 5000)[:MAX_STEERING_STRING]
    assert sanitize_payload({"n": 2**200}) == {"n": 2**200}


def test_keys_that_become_equal_are_told_apart() -> None:
    long = "k" * 80
    clean = sanitize_payload({1: "int", "1": "text", long + "a": "first", long + "b": "second"})
    assert clean == {"1": "int", "1~2": "text", "k" * 64: "first", "k" * 62 + "~2": "second"}


def test_cycles_and_shared_references_end() -> None:
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    assert depth(sanitize_payload(cycle)) == MAX_STEERING_DEPTH
    bomb: list[Any] = []
    bomb.extend([bomb] * 50)
    assert sanitize_payload({"bomb": bomb})["truncated"] is True


def test_nesting_deeper_than_the_interpreter_recurses_is_cut() -> None:
    nested: dict[str, Any] = {}
    for _ in range(100_000):
        nested = {"in": nested}
    assert depth(sanitize_payload(nested)) == MAX_STEERING_DEPTH


def test_a_payload_that_is_no_object_is_wrapped() -> None:
    assert sanitize_payload("hello") == {"value": "hello"}


def test_only_the_payload_of_an_event_changes() -> None:
    event = steering(SteeringEventType.USER_MESSAGE, {"text": "x" * 5000})
    clean = sanitize_steering_event(event)
    assert clean.payload == {"text": "x" * MAX_STEERING_STRING}
    assert event.payload == {"text": "x" * 5000}
    assert clean.model_copy(update={"payload": event.payload}) == event


# --- validation -------------------------------------------------------------------------------

T = SteeringEventType


@pytest.mark.parametrize(
    ("event_type", "payload"),
    [
        (T.INJECT_CONTEXT, {"text": "hi", "scope": "task_only", "severity": "note", "more": 1}),
        (T.REDIRECT, {"goal": "other", "constraints": {"max": 1}}),
        (T.REDIRECT, {"instruction": "", "query": "found"}),
        (T.CANCEL, {}),
        (T.CANCEL, {"reason": "late", "hard": True}),
        (T.PRIORITIZE, {"priority": -1}),
        (T.PAUSE, {}),
        (T.RESUME, {"reason": None}),
        (T.APPROVE, {"patch_id": "p", "decision": "yes"}),
        (T.REJECT, {"event_id": "e"}),
        (T.USER_MESSAGE, {"text": "hi", "active_tasks": ["a", "b"]}),
    ],
)
def test_payloads_that_pass(event_type: T, payload: dict[str, Any]) -> None:
    validate_steering_event(steering(event_type, payload))


@pytest.mark.parametrize(
    ("event_type", "payload", "field"),
    [
        (T.INJECT_CONTEXT, {"text": "  "}, "text"),
        (T.INJECT_CONTEXT, {"text": "hi", "scope": []}, "scope"),
        (T.INJECT_CONTEXT, {"text": "hi", "severity": "loud"}, "severity"),
        (T.REDIRECT, {"instruction": 1}, "instruction"),
        (T.REDIRECT, {"goal": "x", "constraints": []}, "constraints"),
        (T.CANCEL, {"reason": 1}, "reason"),
        (T.CANCEL, {"hard": 1}, "hard"),
        (T.PRIORITIZE, {}, "priority"),
        (T.PRIORITIZE, {"priority": True}, "priority"),
        (T.PRIORITIZE, {"priority": 1.0}, "priority"),
        (T.PAUSE, {"reason": {}}, "reason"),
        (T.RESUME, {"reason": 0}, "reason"),
        (T.APPROVE, {"resume_token": ""}, "resume_token"),
        (T.REJECT, {"patch_id": "p", "decision": 1}, "decision"),
        (T.USER_MESSAGE, {"text": None}, "text"),
        (T.USER_MESSAGE, {"text": "hi", "active_tasks": [1]}, "active_tasks"),
    ],
)
def test_payloads_that_fail_name_their_field(
    event_type: T, payload: dict[str, Any], field: str
) -> None:
    with pytest.raises(SteeringValidationError) as caught:
        validate_steering_event(steering(event_type, payload))
    [error] = caught.value.errors
    assert error.startswith(event_type.value)
    assert repr(field) in error


def test_every_breach_is_listed() -> None:
    event = steering(T.INJECT_CONTEXT, {"scope": "x", "severity": "y"})
    with pytest.raises(SteeringValidationError) as caught:
        validate_steering_event(event)
    assert len(caught.value.errors) == 3


def test_a_payload_replaced_by_something_else_fails() -> None:
    event = steering(T.PAUSE, {})
    event.payload = "stop"  # type: ignore[assignment]
    with pytest.raises(SteeringValidationError, match="object"):
        validate_steering_event(event)


def test_every_event_type_has_rules() -> None:
    for event_type in SteeringEventType:
        payload = {"text": "t", "goal": "g", "priority": 1, "patch_id": "p"}
        validate_steering_event(steering(event_type, payload))
