"""Schemas by event kind: what they refuse, and that whatever they do not know passes."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from pydantic import BaseModel

import foldlog
from foldlog import schemas
from foldlog.schemas import SCHEMAS, problems
from tests.support.build import event, steering, task, update
from tests.support.degrading import failures_of

# The kinds that the StateStore specification 2.11 names, family by family.
CORE = {
    "node_start",
    "node_success",
    "node_timeout",
    "node_retry",
    "node_error",
    "node_failed",
    "node_cancelled",
    "node_trace_cancelled",
    "deadline_skip",
    "trace_cancel_start",
    "trace_cancel_finish",
    "trace_cancel_drop",
}
REMOTE = {
    "remote_call_start",
    "remote_call_success",
    "remote_call_error",
    "remote_call_cancelled",
    "remote_cancel_error",
    "remote_stream_event",
}
SESSION = {"session.task", "session.update", "session.steering"}

COMMON: dict[str, Any] = {
    "ts": 1702857600.123,
    "event": "node_success",
    "node_name": "llm_node",
    "node_id": "llm_node_abc123",
    "trace_id": "trace_xyz",
    "latency_ms": 1523.45,
    "q_depth_in": 0,
    "q_depth_out": 2,
    "q_depth_total": 2,
    "outgoing": 3,
    "queue_maxsize": 1000,
    "attempt": 1,
    "trace_inflight": 5,
    "trace_cancelled": False,
}
BROKEN: list[tuple[str, dict[str, Any], str]] = [
    ("node_success", {"latency_ms": "fast"}, "payload.latency_ms"),
    ("node_start", {"attempt": 1.5}, "payload.attempt"),
    ("node_start", {"attempt": "1"}, "payload.attempt"),
    ("node_error", {"flow_error": {"code": 7}}, "payload.flow_error.code"),
    ("node_error", {"flow_error": "broken"}, "payload.flow_error"),
    ("node_retry", {"sleep_s": "soon"}, "payload.sleep_s"),
    ("deadline_skip", {"deadline_s": "noon"}, "payload.deadline_s"),
    ("trace_cancel_start", {"pending": "some"}, "payload.pending"),
    ("remote_call_success", {"remote_response_bytes": "many"}, "payload.remote_response_bytes"),
    (
        "remote_stream_event",
        {"remote_chunk_meta_keys": ["a", 1]},
        "payload.remote_chunk_meta_keys[1]",
    ),
    ("session.update", {"session_id": "s"}, "payload.task_id"),
    ("session.steering", {"session_id": 5}, "payload.session_id"),
    ("session.task", {"task_id": "t"}, "payload.session_id"),
]


def test_every_kind_of_the_specification_has_a_schema() -> None:
    assert set(SCHEMAS) == CORE | REMOTE | SESSION


@pytest.mark.parametrize("kind", sorted(CORE | REMOTE))
def test_what_a_runtime_emits_passes(kind: str) -> None:
    assert problems(event(kind=kind, payload={})) == []
    assert problems(event(kind=kind, payload=COMMON | {"trace_pending": None, "extra": [1]})) == []
    assert problems(event(kind=kind, payload=COMMON | {"latency_ms": 3, "exception": "E()"})) == []


@pytest.mark.parametrize(("kind", "payload", "path"), BROKEN)
def test_a_broken_payload_is_named(kind: str, payload: dict[str, Any], path: str) -> None:
    found = problems(event(kind=kind, payload=payload))
    assert found[0].path == path
    assert found[0].reason


def test_an_unknown_kind_passes() -> None:
    for kind in ("node_exploded", "", "session.other", "NODE_START"):
        assert problems(event(kind=kind, payload={"latency_ms": object()})) == []


async def test_a_sessions_own_events_keep_their_schema() -> None:
    async with foldlog.memory_store() as store:
        await store.save_task(task(result={"n": 1}))
        await store.save_update(update("u"))
        await store.save_steering(steering("e"))
        history = await store.load_history("session:session")
        assert len(history) == 3
        assert [problems(each) for each in history] == [[], [], []]


# --- stores -------------------------------------------------------------------------------------


async def test_a_store_does_not_look_unless_asked(caplog: pytest.LogCaptureFixture) -> None:
    async with foldlog.memory_store() as store:
        for kind, payload, _ in BROKEN:
            await store.save_event(event(kind, kind=kind, payload=payload))
            assert len(await store.load_history(kind)) >= 1
    assert caplog.records == []


async def test_a_warning_store_says_it_in_one_line_and_saves(
    caplog: pytest.LogCaptureFixture,
) -> None:
    payload = {"latency_ms": "fast", "attempt": "1"}
    async with foldlog.memory_store(validate="warn") as store:
        with caplog.at_level(logging.WARNING, logger="foldlog"):
            await store.save_event(event(payload=payload))
            await store.save_event(event(kind="unknown", payload=payload))
            await store.save_event(event(payload=COMMON))
        assert len(await store.load_history("trace")) == 3
    [record] = caplog.records
    said = vars(record)
    assert (record.levelname, said["event"]) == ("WARNING", "event_schema_mismatch")
    assert (said["kind"], said["trace_id"]) == ("node_success", "trace")
    assert [each.partition(":")[0] for each in said["problems"]] == [
        "payload.latency_ms",
        "payload.attempt",
    ]


async def test_a_strict_store_refuses_before_anything_is_appended() -> None:
    async with foldlog.memory_store(validate="strict") as store:
        good, bad = event(payload=COMMON), event(payload={"latency_ms": "fast"})
        for save in (store.save_event(bad), store.save_events([good, bad])):
            with pytest.raises(foldlog.PayloadError, match="node_success") as refused:
                await save
            assert refused.value.path == "payload.latency_ms"
        assert await store.load_history("trace") == []
        await store.save_events([good, event(kind="unknown", payload={"latency_ms": "fast"})])
        assert len(await store.load_history("trace")) == 2


async def test_kinds_of_ones_own_are_checked_too() -> None:
    class Paid(BaseModel):
        amount: int

    mine = SCHEMAS | {"invoice.paid": Paid}
    async with foldlog.memory_store(validate="strict", schemas=mine) as store:
        await store.save_event(event(kind="invoice.paid", payload={"amount": 5}))
        for kind, payload in (("invoice.paid", {}), ("node_start", {"attempt": "1"})):
            with pytest.raises(foldlog.PayloadError):
                await store.save_event(event(kind=kind, payload=payload))
    async with foldlog.memory_store(validate="strict", schemas={"invoice.paid": Paid}) as store:
        await store.save_event(event(payload={"latency_ms": "fast"}))


async def test_a_degrading_store_swallows_a_refusal_and_counts_it() -> None:
    async with foldlog.memory_store(validate="strict", on_error="degrade") as store:
        await store.save_event(event(payload={"latency_ms": "fast"}))
        assert await store.load_history("trace") == []
        assert failures_of(store) == {"save_event": 1}


def test_another_way_to_validate_is_refused() -> None:
    wrong: Any = "loud"
    with pytest.raises(foldlog.ConfigurationError, match="validate"):
        foldlog.memory_store(validate=wrong)
    with pytest.raises(foldlog.ConfigurationError, match="validate"):
        foldlog.connect(validate=wrong)


def test_every_schema_says_what_it_is() -> None:
    for schema in {schemas.FlowError, *SCHEMAS.values()}:
        assert schema.__doc__
