"""What the specification leaves to a store, the kit leaves to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, make_dataclass
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

import foldlog
from foldlog import testing
from foldlog.models import ArtifactRef
from foldlog.testing.exact import plain, same, scribble
from foldlog.testing.values import HOSTILE_NAMES
from tests.testing.plain_artifacts import PlainArtifacts, Refused
from tests.testing.plain_store import PlainStore
from tests.testing.running import checks_of, failures


def frozen(model: Any) -> Any:
    """A model with the same fields and methods, whose instances cannot be assigned to."""
    if issubclass(model, BaseModel):
        return type(model.__name__, (model,), {"model_config": ConfigDict(frozen=True)})
    shape = [(field.name, field.type, field) for field in fields(model)]
    methods = {name: value for name, value in vars(model).items() if is_method(name, value)}
    return make_dataclass(model.__name__, shape, frozen=True, namespace=methods)


def is_method(name: str, value: Any) -> bool:
    return not name.startswith("_") and isinstance(value, Callable | classmethod)  # type: ignore[arg-type]


# But for TaskState, whose `update_status` the specification has itself.
FROZEN = SimpleNamespace(
    **{name: getattr(foldlog, name) for name in dir(foldlog)}
    | {
        name: frozen(getattr(foldlog, name))
        for name in (
            "ArtifactScope",
            "PlannerEvent",
            "RemoteBinding",
            "StateUpdate",
            "SteeringEvent",
            "StoredEvent",
            "TaskContextSnapshot",
            "Trajectory",
        )
    }
)


async def test_models_may_be_frozen() -> None:
    with pytest.raises(AttributeError):
        FROZEN.StoredEvent("trace", 1.0, "kind", None, None, {}).kind = "changed"
    assert await failures(PlainStore, models=FROZEN) == set()


class RefusesSlashes(PlainStore):
    """By design: its ids are paths."""

    class Artifacts(PlainArtifacts):
        async def put_bytes(self, data: bytes, **described: Any) -> ArtifactRef:
            if "/" in (described.get("filename") or ""):
                raise Refused
            return await super().put_bytes(data, **described)


async def test_what_a_store_refuses_by_design_may_be_taken_out() -> None:
    checks = list(checks_of(testing.ArtifactsContract))
    failed = await failures(RefusesSlashes, checks)
    assert failed == {"Artifacts.test_names_are_data_and_never_paths"}
    without = [name for name in HOSTILE_NAMES if "/" not in name]
    assert await failures(RefusesSlashes, checks, hostile_names=without) == set()


NOON = datetime(2024, 5, 15, 12, tzinfo=UTC)
NOON_ELSEWHERE = NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 1.0),
        (1, True),
        (0.0, -0.0),
        (float("nan"), 1.0),
        ([1], (1,)),
        ({"a": 1}, {"a": 1, "b": None}),
        ({1: "a"}, {True: "a"}),
        (NOON, NOON.replace(tzinfo=None)),
        (NOON, NOON_ELSEWHERE + timedelta(microseconds=1)),
    ],
    ids=repr,
)
def test_what_is_not_the_same(left: Any, right: Any) -> None:
    assert not same(left, right)
    assert not same({"k": [left]}, {"k": [right]})


def test_an_instant_is_the_same_wherever_it_is_told() -> None:
    for left, right in ((NOON, NOON_ELSEWHERE), ({"k": [NOON]}, {"k": [NOON_ELSEWHERE]})):
        assert same(left, right)
        assert not same(left, right, offsets=True)
        assert same(left, left, offsets=True)


def test_scribbling_changes_all_that_can_be_changed() -> None:
    step = foldlog.TrajectoryStep({"args": ({"deep": []},)})
    trajectory = foldlog.Trajectory("query", metadata={"a": [1]}, steps=[step])
    scribble(trajectory)
    assert trajectory.query == "query, scribbled"
    assert trajectory.metadata == {"a": [1, "scribbled"], "scribbled": True}
    deep = {"deep": ["scribbled"], "scribbled": True}
    assert step.action == {"args": (deep,), "scribbled": True}


@dataclass(frozen=True)
class Frozen:
    text: str
    held: Any


def test_scribbling_leaves_what_is_frozen() -> None:
    value = (Frozen("kept", MappingProxyType({"inside": ("kept", [])})), "kept", b"kept", None)
    scribble(value)
    inside = {"inside": ("kept", ["scribbled"])}
    assert plain(value) == ({"text": "kept", "held": inside}, "kept", b"kept", None)
