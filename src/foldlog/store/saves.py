"""The Store's own saves, through the hook: of each it is said what of its arguments is content."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final, ParamSpec, TypeVar

from pydantic import BaseModel

from foldlog.errors import ConfigurationError, RedactionFailed
from foldlog.store.artifacts import Artifacts
from foldlog.store.guards import drafting
from foldlog.store.memory import Memory
from foldlog.store.redaction import CONTENT, Redaction

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Object:
    """A save that is given one object: its attributes, of which `CONTENT` has the values."""

    kind: str
    parameter: str
    about: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Argument:
    """A save one of whose arguments is its value."""

    kind: str
    value: str


_EVENT: Final = _Object("event.saved", "event", ("trace_id", "ts", "kind", "node_name", "node_id"))
_TRAJECTORY: Final = "trajectory"
_SAVES: Final[dict[str, _Object | _Argument | None]] = {
    "save_event": _EVENT,
    "save_events": _EVENT,
    "save_remote_binding": _Object(
        "binding.saved",
        "binding",
        ("trace_id", "context_id", "task_id", "router_session_id", "tenant_id", "user_id"),
    ),
    "save_planner_state": _Argument("pause.saved", "payload"),
    "save_memory_state": _Argument("memory.saved", "state"),
    "save_task": _Object(
        "task.saved", "state", ("session_id", "task_id", "trace_id", "status", "task_type")
    ),
    "save_update": _Object(
        "update.saved", "update", ("session_id", "task_id", "update_id", "update_type", "trace_id")
    ),
    "save_steering": _Object(
        "steering.saved",
        "event",
        ("session_id", "task_id", "event_id", "event_type", "source", "trace_id"),
    ),
    "save_trajectory": _Argument("trajectory.saved", _TRAJECTORY),
    "save_planner_event": _Object(
        "planner.saved", "event", ("event_type", "ts", "trajectory_step", "node_name")
    ),
    # Nothing in these but ids.
    "mark_binding_terminal": None,
    "clear_session": None,
    "clear": None,
}

_ARTIFACT: Final = "artifact.saved"


def guarded(
    redaction: Redaction, method: Callable[P, Coroutine[Any, Any, None]]
) -> Callable[P, Coroutine[Any, Any, None]]:
    """Return a Store's method as one that saves what the hook returns; as it is without a hook.

    Raises:
        ConfigurationError: nobody has said what is to be redacted of this method.
    """
    if not redaction:
        return method
    name = method.__name__
    if name not in _SAVES:
        raise ConfigurationError(f"redact= does not know what {name} saves")
    save = _SAVES[name]
    if save is None:
        return method
    signature = inspect.signature(method)

    @functools.wraps(method)
    async def redacting(*args: P.args, **kwargs: P.kwargs) -> None:
        given = signature.bind(*args, **kwargs)
        given.arguments |= _changed(redaction, name, save, dict(given.arguments))
        await method(*given.args, **given.kwargs)

    return redacting


def guarded_artifacts(redaction: Redaction, artifacts: Artifacts) -> Artifacts:
    """Return artifacts whose bytes, file name and metadata are redacted; text is bytes."""
    if not redaction:
        return artifacts
    redacting = copy.copy(artifacts)
    put = artifacts.put_bytes

    @functools.wraps(put)
    async def put_bytes(data: Any, **about: Any) -> Any:
        values = {"data": data, "filename": about.pop("filename", None)}
        values["meta"] = about.pop("meta", None)
        return await put(**{**about, **redaction.redacted("put_bytes", _ARTIFACT, about, values)})

    vars(redacting)["put_bytes"] = put_bytes
    return redacting


def guarded_memory(redaction: Redaction, memory: Memory) -> Memory:
    """Return memory whose states are redacted."""
    redacting = copy.copy(memory)
    vars(redacting)["save_memory_state"] = guarded(redaction, memory.save_memory_state)
    return redacting


@drafting("redact")
def redacted(redaction: Redaction, method: str, save: str, given: T) -> T:
    """Return the object of one of the Store's saves, with what the hook makes of its values.

    For a `method` that makes the envelope by itself.
    """
    if not redaction:
        return given
    wanted = _SAVES[save]
    assert isinstance(wanted, _Object), "the others are given no object"
    made: T = _redacted(redaction, method, wanted, given, {})
    return made


@drafting("redact")
def _changed(
    redaction: Redaction, name: str, save: _Object | _Argument, given: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of a save that are others now; `given` is used up."""
    if name == "save_events":
        events = given["events"]
        return {"events": [_redacted(redaction, name, _EVENT, each, {}) for each in events]}
    if isinstance(save, _Object):
        saved = given.pop(save.parameter)
        return {save.parameter: _redacted(redaction, name, save, saved, given)}
    value = given.pop(save.value)
    if save.value == _TRAJECTORY:
        # Another library's trajectory serialises as well; nothing else of it is saved.
        serialise = getattr(value, "serialise", None)
        if serialise is None:
            return {}  # for the save itself to refuse
        kept = redaction.value(name, save.kind, given, trajectory=serialise())
        return {save.value: _Serialised(kept)}
    return {save.value: redaction.value(name, save.kind, given, **{save.value: value})}


def _redacted(
    redaction: Redaction, method: str, save: _Object, given: Any, about: dict[str, Any]
) -> Any:
    about |= {name: getattr(given, name, None) for name in save.about}
    # What is not there is for the save itself to refuse.
    held = {name: getattr(given, name) for name in CONTENT[save.kind] if hasattr(given, name)}
    models = {name: value for name, value in held.items() if isinstance(value, BaseModel)}
    held |= {name: dict(model) for name, model in models.items()}
    changed = dict(redaction.redacted(method, save.kind, about, held))
    for name, model in models.items():
        # Not those of `held`, which the hook was given and may have changed.
        if not isinstance(changed[name], Mapping) or changed[name].keys() != dict(model).keys():
            reason = f"{name} has to stay a mapping with the same names"
            raise RedactionFailed(save.kind, method, reason)
        changed[name] = type(model).model_construct(**changed[name])
    made = copy.copy(given)
    try:
        for name, value in changed.items():
            object.__setattr__(made, name, value)
    except AttributeError as error:
        reason = f"{type(given).__name__} cannot be changed"
        raise RedactionFailed(save.kind, method, reason) from error
    return made


@dataclass(frozen=True, slots=True)
class _Serialised:
    """A trajectory as what is left of it."""

    value: Any

    def serialise(self) -> Any:
        return self.value
