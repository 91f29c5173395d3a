"""What FoldlogCheckpointStorage does beyond the framework's own tests, which `upstream.py` runs."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from agent_framework import Message, WorkflowCheckpoint, WorkflowCheckpointException
from pydantic import BaseModel

import foldlog
from foldlog.integrations.agent_framework import (
    CheckpointNotFound,
    FoldlogCheckpointStorage,
    TypeNotAllowed,
)
from foldlog_projections.agent_framework import workflowcheckpoints
from foldlog_projections.agent_framework.workflowcheckpoints import CheckpointSaved
from tests.integrations.agent_framework.desk import REFUNDS, Refund, make_workflow
from tests.integrations.killing import dying_at

# Some versions warn that they will want to be told what a workflow's outputs are.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

TIME = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def checkpoint(id: str, previous: str | None = None, minute: int = 0, **given: Any) -> Any:
    time = (TIME + dt.timedelta(minutes=minute)).isoformat()
    return WorkflowCheckpoint(
        **{
            "workflow_name": "w",
            "graph_signature_hash": "hash",
            "checkpoint_id": id,
            "previous_checkpoint_id": previous,
            "timestamp": time,
            **given,
        }
    )


async def latest(storage: FoldlogCheckpointStorage) -> str | None:
    found = await storage.get_latest(workflow_name="w")
    return None if found is None else found.checkpoint_id


async def test_the_latest_is_the_end_of_a_lineage_whatever_the_clocks_say(
    store: foldlog.Store,
) -> None:
    storage = FoldlogCheckpointStorage("trip", store)
    assert await latest(storage) is None
    await storage.save(checkpoint("a", minute=9))
    await storage.save(checkpoint("b", "a", minute=5))  # a process whose clock is behind
    assert await latest(storage) == "b"
    await storage.save(checkpoint("c", "a", minute=7))  # another run went on from `a`
    assert await latest(storage) == "c"
    assert await storage.list_checkpoint_ids(workflow_name="w") == ["a", "b", "c"]
    assert await storage.delete("c")
    assert not await storage.delete("c")
    assert await latest(storage) == "b"
    assert await storage.list_checkpoint_ids(workflow_name="other") == []


async def test_what_one_process_was_acked_another_reads_at_once(
    store: foldlog.Store, embedded_path: Path, namespace: str
) -> None:
    async with foldlog.connect(path=embedded_path, namespace=namespace) as other:
        storages = [FoldlogCheckpointStorage("trip", each) for each in (store, other)]
        for number in range(50):
            await storages[number % 2].save(checkpoint(f"{number}", f"{number - 1}"))
            assert await latest(storages[(number + 1) % 2]) == f"{number}"


async def test_a_fork_goes_on_from_the_checkpoints_of_its_origin(store: foldlog.Store) -> None:
    storage = FoldlogCheckpointStorage("trip", store)
    await storage.save(checkpoint("a"))
    then = await store.position()
    await storage.save(checkpoint("b", "a", minute=1))
    await store.fork("trip", at=then, to="trip-2")
    fork = FoldlogCheckpointStorage("trip-2", store)
    await fork.save(checkpoint("c", "a", minute=2))
    assert await fork.list_checkpoint_ids(workflow_name="w") == ["a", "c"]
    assert await storage.list_checkpoint_ids(workflow_name="w") == ["a", "b"]
    assert await latest(FoldlogCheckpointStorage("trip", store.at(then))) == "a"


async def test_a_checkpoint_of_the_same_id_is_replaced(store: foldlog.Store) -> None:
    storage = FoldlogCheckpointStorage("trip", store)
    await storage.save(checkpoint("a", state={"n": 1}))
    await storage.delete("a")
    with pytest.raises(CheckpointNotFound):
        await storage.load("a")
    for n in (2, 3):
        await storage.save(checkpoint("a", state={"n": n}))
    assert (await storage.load("a")).state == {"n": 3}
    with pytest.raises(WorkflowCheckpointException):
        await FoldlogCheckpointStorage("another", store).load("a")


class Colour(enum.Enum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    tags: frozenset[str] = field(default_factory=frozenset)


class Model(BaseModel):
    name: str
    at: dt.datetime


class Plain:
    def __init__(self, inner: Any) -> None:
        self.inner = inner


class Unknown(Plain):
    pass


VALUES: Any = {
    "colour": Colour.RED,
    "points": [Point(1, frozenset("ab")), Point(2)],
    "by_key": {1: "a", ("x", 2): b"b"},
    "set": {Point(3), "s"},
    "model": Model(name="m", at=TIME),
    "scalars": (uuid.UUID(int=1), Decimal("1.50"), TIME, None, True, 1.5, 2**70),
    "types": [Point, int, list[str], dict],
    "marked": {"$object": "not one", "$dict": {"$set": []}},
    "message": Message("user", ["hello"]),
}


async def test_values_come_back_as_they_were_without_a_pickle(store: foldlog.Store) -> None:
    types = [Colour, Point, Model, Plain]
    storage = FoldlogCheckpointStorage("trip", store, types=types)
    await storage.save(checkpoint("a", state={**VALUES, "plain": Plain(Point(4))}))
    found = (await storage.load("a")).state
    assert found.pop("plain").inner == Point(4)
    assert found.pop("message").to_dict() == VALUES["message"].to_dict()
    assert found == {key: each for key, each in VALUES.items() if key != "message"}
    with pytest.raises(TypeNotAllowed, match="types="):
        await FoldlogCheckpointStorage("trip", store).load("a")


class Rich(dict[str, int]):
    pass


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"state": {"a": [Unknown(1)]}}, r"checkpoint\.state\.a\[0\]"),
        ({"state": {"a": Rich(b=1)}}, r"checkpoint\.state\.a"),
        ({"state": {"a": lambda: 1}}, r"checkpoint\.state\.a"),
        ({"state": {"a": CYCLE}}, "holds itself"),
        ({"timestamp": "yesterday"}, "timestamp"),
        ({"checkpoint_id": ""}, "checkpoint_id"),
        ({"workflow_name": None}, "workflow_name"),
    ],
)
async def test_what_cannot_be_stored_is_refused_and_nothing_is_stored(
    store: foldlog.Store, given: Any, path: str
) -> None:
    storage = FoldlogCheckpointStorage("trip", store, types=[Rich])
    with pytest.raises((foldlog.PayloadError, foldlog.InvalidId), match=path):
        await storage.save(checkpoint("a", **{"checkpoint_id": "a", **given}))
    assert await storage.list_checkpoints(workflow_name="w") == []


async def test_other_bad_input(store: foldlog.Store) -> None:
    storage = FoldlogCheckpointStorage("trip", store)
    no_checkpoint: Any = {"checkpoint_id": "a"}
    with pytest.raises(foldlog.PayloadError, match="no WorkflowCheckpoint"):
        await storage.save(no_checkpoint)
    with pytest.raises(foldlog.InvalidId):
        FoldlogCheckpointStorage("", store)
    with pytest.raises(foldlog.InvalidId):
        await storage.delete("")


async def test_a_checkpoint_of_another_version_is_told_as_the_framework_tells_it(
    store: foldlog.Store,
) -> None:
    saved = CheckpointSaved("a", "w", TIME.isoformat(), {"of_tomorrow": 1})
    await store.append(workflowcheckpoints.kind("trip"), saved)
    with pytest.raises(WorkflowCheckpointException, match="of_tomorrow"):
        await FoldlogCheckpointStorage("trip", store).load("a")


async def test_pickles_are_read_only_by_those_who_ask_for_them(store: foldlog.Store) -> None:
    name = f"{Unknown.__module__}:{Unknown.__qualname__}"
    storage = FoldlogCheckpointStorage("trip", store, pickle_types=[name])
    await storage.save(checkpoint("a", state={"a": Unknown(1)}))
    assert (await storage.load("a")).state["a"].inner == 1
    with pytest.raises(TypeNotAllowed, match="pickle"):
        await FoldlogCheckpointStorage("trip", store, types=[Unknown]).load("a")
    with pytest.raises(WorkflowCheckpointException):
        await FoldlogCheckpointStorage("trip", store, pickle_types=[]).load("a")


async def test_a_request_waits_until_a_checkpoint_has_it_answered(store: foldlog.Store) -> None:
    storage = FoldlogCheckpointStorage("trip", store, types=[Refund])
    await make_workflow(storage).run(7)
    [waits] = await store.waiting()
    assert (waits.session_id, waits.asked["reason"]) == ("trip", "request_info")
    assert waits.asked["payload"]["data"]["state"] == {"order": 7}
    paused = await storage.get_latest(workflow_name=REFUNDS)
    assert paused is not None
    ran = await make_workflow(storage).run(
        checkpoint_id=paused.checkpoint_id,
        responses={waits.asked["payload"]["request_id"]: False},
    )
    assert ran.get_outputs() == ["order 7: refused"]
    assert await store.waiting() == []


async def test_what_waits_is_saved_with_its_checkpoint_or_not_at_all(store: foldlog.Store) -> None:
    storage = FoldlogCheckpointStorage("trip", store, types=[Refund])
    await make_workflow(storage).run(7)
    paused = await storage.get_latest(workflow_name=REFUNDS)
    assert paused is not None
    [waits] = await store.waiting()

    other = FoldlogCheckpointStorage("other", store, types=[Refund])
    with dying_at(store, "save_planner_state"):
        await other.save(paused)
    assert await other.list_checkpoint_ids(workflow_name=REFUNDS) == []

    over = checkpoint("over", paused.checkpoint_id)
    with dying_at(store, "load_planner_state"):
        await storage.save(over)
    assert await latest(storage) is None
    await storage.save(over)
    assert await store.waiting() == []
    with pytest.raises(foldlog.AlreadyAnswered):
        await store.answer(waits.id)


async def test_redaction_and_erasure_reach_checkpoints_and_requests(
    embedded_path: Path, namespace: str
) -> None:
    def redact(saving: Any) -> dict[str, Any]:
        if saving.kind == "workflow.checkpoint":
            assert saving.about["workflow"] in (REFUNDS, "w")
            return {"body": {**saving.values["body"], "metadata": {"redacted": True}}}
        if saving.kind == "pause.saved":
            return {"payload": {**saving.values["payload"], "payload": {"data": "***"}}}
        return dict(saving.values)

    async with foldlog.connect(path=embedded_path, namespace=namespace, redact=redact) as store:
        storage = FoldlogCheckpointStorage("trip", store, types=[Refund])
        await make_workflow(storage).run(7)
        found = await storage.get_latest(workflow_name=REFUNDS)
        assert found is not None
        assert found.metadata == {"redacted": True}
        [waits] = await store.waiting(session_id="trip")
        assert waits.asked["payload"] == {"data": "***"}
        assert await store.sessions() == ["trip"]
        await store.erase_session("trip")
        assert await store.waiting() == []
        assert await storage.list_checkpoint_ids(workflow_name=REFUNDS) == []


@pytest.mark.parametrize("gone", ["gone", {"gone": 1}, {"$object": 1}, {"$pickled": 1}, [], None])
async def test_a_checkpoint_that_a_hook_replaced_is_told_by_name(gone: Any) -> None:
    async with foldlog.memory_store(redact=lambda s: dict.fromkeys(s.values, gone)) as store:
        for options in ({}, {"pickle_types": []}):
            storage = FoldlogCheckpointStorage("trip", store, **options)  # type: ignore[arg-type]
            await storage.save(checkpoint("a"))
            with pytest.raises(WorkflowCheckpointException, match=r"trip|pickle") as raised:
                await storage.load("a")
            assert isinstance(raised.value, foldlog.FoldlogError)
            with suppress(TypeNotAllowed):
                assert await storage.list_checkpoints(workflow_name="w") == []
            assert await storage.list_checkpoint_ids(workflow_name="w") == ["a"]
