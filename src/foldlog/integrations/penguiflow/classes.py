"""PenguiFlow's classes, as the installed version has them, beside foldlog's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel

from foldlog import models
from foldlog.errors import ConfigurationError
from foldlog.integrations.penguiflow.plain import plain

T = TypeVar("T")

_HOMES: Final = {
    "penguiflow.state": (
        "RemoteBinding",
        "StateUpdate",
        "SteeringEvent",
        "SteeringEventType",
        "StoredEvent",
        "TaskContextSnapshot",
        "TaskState",
        "TaskStatus",
        "TaskType",
        "UpdateType",
    ),
    "penguiflow.planner": ("PlannerEvent", "Trajectory"),
    "penguiflow.artifacts": ("ArtifactRef", "ArtifactScope"),
    "penguiflow.steering": ("sanitize_steering_event",),
}


@dataclass(frozen=True, slots=True)
class Pair(Generic[T]):
    """A class of PenguiFlow's and foldlog's for the same thing.

    They are translated by the fields that both have: a field that only another version of
    PenguiFlow knows takes its default. `enums` and `parts` are the fields that hold a member of
    an enumeration of PenguiFlow's, and those that hold another pair's object or None.
    """

    theirs: Any
    ours: type[T]
    shared: tuple[str, ...]
    enums: Mapping[str, Any]
    parts: Mapping[str, Pair[Any]]

    def to_ours(self, value: Any) -> T:
        """Return foldlog's, sharing nothing with `value`."""
        taken: dict[str, Any] = {}
        for name in self.shared:
            held, part = getattr(value, name), self.parts.get(name)
            taken[name] = plain(held) if part is None or held is None else part.to_ours(held)
        made: T = _made(self.ours, taken)
        return made

    def to_theirs(self, value: T) -> Any:
        """Return PenguiFlow's, which takes over what `value` holds."""
        taken = {name: getattr(value, name) for name in self.shared}
        for name, enum in self.enums.items():
            taken[name] = enum(str(taken[name]))
        for name, part in self.parts.items():
            if taken[name] is not None:
                taken[name] = part.to_theirs(taken[name])
        return _made(self.theirs, taken)


@dataclass(frozen=True, slots=True)
class Classes:
    """The words of one installed PenguiFlow."""

    event: Pair[models.StoredEvent]
    binding: Pair[models.RemoteBinding]
    task: Pair[models.TaskState]
    update: Pair[models.StateUpdate]
    steering: Pair[models.SteeringEvent]
    planner_event: Pair[models.PlannerEvent]
    artifact: Pair[models.ArtifactRef]
    scope: Pair[models.ArtifactScope]
    trajectory: Any
    sanitize_steering_event: Any


@cache
def installed() -> Classes:
    """Return the classes of the PenguiFlow that is installed.

    Raises:
        ConfigurationError: there is none, or it is older than 2.11.
    """
    names: dict[str, Any] = {}
    try:
        for home, wanted in _HOMES.items():
            module = import_module(home)
            names |= {name: getattr(module, name) for name in wanted}
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(
            f"PenguiFlow 2.11 to 3 is needed: pip install 'foldlog[penguiflow]' ({error})"
        ) from error
    snapshot = _pair(names["TaskContextSnapshot"], models.TaskContextSnapshot)
    scope = _pair(names["ArtifactScope"], models.ArtifactScope)
    statuses = {"status": names["TaskStatus"], "task_type": names["TaskType"]}
    return Classes(
        event=_pair(names["StoredEvent"], models.StoredEvent),
        binding=_pair(names["RemoteBinding"], models.RemoteBinding),
        task=_pair(
            names["TaskState"],
            models.TaskState,
            enums=statuses,
            parts={"context_snapshot": snapshot},
        ),
        update=_pair(
            names["StateUpdate"], models.StateUpdate, enums={"update_type": names["UpdateType"]}
        ),
        steering=_pair(
            names["SteeringEvent"],
            models.SteeringEvent,
            enums={"event_type": names["SteeringEventType"]},
        ),
        planner_event=_pair(names["PlannerEvent"], models.PlannerEvent),
        artifact=_pair(names["ArtifactRef"], models.ArtifactRef, parts={"scope": scope}),
        scope=scope,
        trajectory=names["Trajectory"],
        sanitize_steering_event=names["sanitize_steering_event"],
    )


def _pair(
    theirs: Any,
    ours: type[T],
    *,
    enums: Mapping[str, Any] | None = None,
    parts: Mapping[str, Pair[Any]] | None = None,
) -> Pair[T]:
    known = _field_names(ours)
    shared = tuple(name for name in _field_names(theirs) if name in known)
    return Pair(theirs, ours, shared, enums or {}, parts or {})


def _field_names(kind: Any) -> list[str]:
    if is_dataclass(kind):
        return [each.name for each in fields(kind)]
    return list(kind.model_fields)


def _made(kind: Any, values: dict[str, Any]) -> Any:
    # What comes from a store was checked when it was made; a model need not check it again.
    return kind.model_construct(**values) if issubclass(kind, BaseModel) else kind(**values)
