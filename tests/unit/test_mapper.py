"""Models and their records: what one holds the other does, and faults are named."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import pytest

from foldlog.envelope import Recorded
from foldlog.errors import InvalidId, LogCorrupt, PayloadError
from foldlog.kind import Kind
from foldlog.models import PlannerEvent, RemoteBinding, StateUpdate
from foldlog.store.bindings import BINDINGS
from foldlog.store.events import EVENTS, PLANNER_EVENTS
from foldlog.store.payloads import Mapper, encode
from foldlog.store.steering import STEERING
from foldlog.store.tasks import TASKS
from foldlog.store.updates import UPDATES
from foldlog_projections import bindings, events, planner, steering as steered, tasks, updates
from tests.support.build import event, steering, task, update

PLANNED = PlannerEvent("llm_call", 1.5, 2, "thought", "node", 0.5, 7, "error", {"k": [1]})
BOUND = RemoteBinding("t", "c", "task", "url", "s", "skill", "me", "u", "last", True, {"a": 1})

OBJECTS: list[tuple[Mapper[Any, Any], Kind[Any], Any]] = [
    (EVENTS, events.kind, event()),
    (PLANNER_EVENTS, planner.kind, PLANNED),
    (BINDINGS, bindings.kind, BOUND),
    (TASKS, tasks.kind, task(result={"n": 1}, progress={"of": 3})),
    (UPDATES, updates.kind, update("u")),
    (STEERING, steered.kind, steering("e")),
]


def stored(kind: Kind[Any], record: Any, seq: int = 1) -> Recorded:
    draft = encode(kind, record)
    time = "2026-01-01T00:00:00Z"
    return Recorded(draft.id, draft.type, 1, 0.0, draft.payload, None, seq, 0, time)


@pytest.mark.parametrize(("mapper", "kind", "given"), OBJECTS, ids=lambda each: str(each)[:20])
def test_what_was_saved_is_read(mapper: Mapper[Any, Any], kind: Kind[Any], given: Any) -> None:
    item = stored(kind, mapper.record(given))
    first, second = mapper.restore_all([item, item])
    assert first == second == mapper.restore(item) == given
    assert first is not second
    assert type(first) is type(given)


def test_an_object_that_was_read_is_the_callers_own() -> None:
    item = stored(updates.kind, UPDATES.record(update("u", content={"n": 1})))
    first, second = UPDATES.restore_all([item, item])
    first.content["n"], first.task_id = 2, "other"
    assert (second.content, second.task_id) == ({"n": 1}, update("u").task_id)
    assert first.model_fields_set == set(StateUpdate.model_fields)
    assert list(dict(first)) == list(StateUpdate.model_fields)


class Broken(dt.tzinfo):
    def utcoffset(self, _: dt.datetime | None) -> dt.timedelta:
        raise LookupError("no offset")

    def dst(self, _: dt.datetime | None) -> None:
        return None

    def tzname(self, _: dt.datetime | None) -> None:
        return None


def test_a_fault_of_the_callers_code_is_a_payload_error() -> None:
    wrong: Any = object()
    with pytest.raises(PayloadError, match="AttributeError") as refused:
        UPDATES.record(wrong)
    assert refused.value.path == "update"
    broken = dataclasses.replace(task(), created_at=dt.datetime(2026, 1, 1, tzinfo=Broken()))
    with pytest.raises(PayloadError, match="no offset"):
        TASKS.record(broken)


def test_a_field_at_fault_is_named() -> None:
    with pytest.raises(InvalidId, match="update_id"):
        UPDATES.record(update(""))
    with pytest.raises(PayloadError) as refused:
        UPDATES.record(update("u").model_copy(update={"update_type": "LOUD"}))
    assert refused.value.path == "update_type"


def test_the_envelope_that_cannot_be_read_is_named() -> None:
    good = stored(updates.kind, UPDATES.record(update("u")))
    bad = Recorded("b", "update.saved", 1, 0.0, b"\xc1", None, 7, 0, "2026-01-01T00:00:00Z")
    with pytest.raises(LogCorrupt, match="7"):
        UPDATES.restore_all([good, bad])
