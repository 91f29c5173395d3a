"""Redaction: the caller's hook sees every save before anything of it is encoded, hashed or stored.

It comes first of all, so that ids, digests, views, spool, snapshots and the log know the redacted
values only. What no hook is run on is not saved either: a store with `redact=` refuses envelopes of
a type that does not pass here.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, ParamSpec

from pydantic import BaseModel

from foldlog.envelope import CLEARED, FORKED, Draft
from foldlog.errors import ConfigurationError, RedactionFailed
from foldlog.log.port import Append, Log
from foldlog.log.relay import Relay
from foldlog.store.artifacts import Artifacts
from foldlog.store.guards import drafting
from foldlog.store.journal import Journal
from foldlog.subjects import Subject
from foldlog_projections import lineage

P = ParamSpec("P")


class Saving(NamedTuple):
    """What is about to be saved.

    `kind` is the type of its envelope, as in `update.saved`. `about` says of what it is: ids,
    names, times, and is not for changing. `values` are what may be changed: the caller's own
    objects, so build new ones.
    """

    kind: str
    about: Mapping[str, Any]
    values: dict[str, Any]


Redact = Callable[[Saving], Mapping[str, Any]]
"""Returns what is saved instead of `values`, under the same names."""


@dataclass(frozen=True, slots=True)
class _Object:
    """A save that is given one object: its attributes, by what they are."""

    kind: str
    parameter: str
    about: tuple[str, ...]
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Arguments:
    """A save whose arguments are its values."""

    kind: str
    value: str


_EVENT: Final = _Object(
    "event.saved", "event", ("trace_id", "ts", "kind", "node_name", "node_id"), ("payload",)
)
_SAVES: Final[dict[str, _Object | _Arguments | None]] = {
    "save_event": _EVENT,
    "save_events": _EVENT,
    "save_remote_binding": _Object(
        "binding.saved",
        "binding",
        ("trace_id", "context_id", "task_id", "router_session_id", "tenant_id", "user_id"),
        ("metadata",),
    ),
    "save_planner_state": _Arguments("pause.saved", "payload"),
    "save_memory_state": _Arguments("memory.saved", "state"),
    "save_task": _Object(
        "task.saved",
        "state",
        ("session_id", "task_id", "trace_id", "status", "task_type"),
        ("context_snapshot", "description", "result", "error", "progress"),
    ),
    "save_update": _Object(
        "update.saved",
        "update",
        ("session_id", "task_id", "update_id", "update_type", "trace_id"),
        ("content",),
    ),
    "save_steering": _Object(
        "steering.saved",
        "event",
        ("session_id", "task_id", "event_id", "event_type", "source", "trace_id"),
        ("payload",),
    ),
    "save_trajectory": _Arguments("trajectory.saved", "trajectory"),
    "save_planner_event": _Object(
        "planner.saved",
        "event",
        ("event_type", "ts", "trajectory_step", "node_name"),
        ("thought", "error", "extra"),
    ),
    # Nothing in these but ids.
    "mark_binding_terminal": None,
    "clear_session": None,
    "clear": None,
}

_ARTIFACT: Final = "artifact.saved"

PASSED: Final = frozenset(
    {save.kind for save in _SAVES.values() if save is not None}
    | {_ARTIFACT, "artifact.located", "artifact.deleted"}
    | {"binding.terminal", "route.saved", "trace.saved", "pause.consumed", CLEARED}
    | {FORKED, lineage.BEGAN, lineage.FORKED, lineage.ENDED, lineage.CLEARED}
)
"""The types of envelopes whose values the hook has seen, or that have none."""


class Redaction:
    """Runs a hook, and trusts nothing that it returns."""

    def __init__(self, redact: Redact) -> None:
        if not callable(redact):
            raise ConfigurationError(f"redact is a function, not {redact!r:.80}")
        self._redact = redact

    def redacted(
        self, kind: str, about: Mapping[str, Any], values: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return what is to be saved instead of `values`.

        Raises:
            RedactionFailed: the hook raised, or returned something else than was asked for.
        """
        try:
            found: Any = self._redact(Saving(kind, about, dict(values)))
        except Exception as error:
            raise RedactionFailed(kind, f"it raised {type(error).__name__}") from error
        if inspect.iscoroutine(found):
            found.close()
            raise RedactionFailed(kind, "it is asynchronous, and must not be")
        if not isinstance(found, Mapping):
            raise RedactionFailed(kind, f"it returned {type(found).__name__}, not a mapping")
        if found.keys() != values.keys():
            differing = ", ".join(sorted(f"{name!r:.40}" for name in found.keys() ^ values.keys()))
            raise RedactionFailed(kind, f"it returned other names than it was given: {differing}")
        return dict(found)

    def guard(
        self, method: Callable[P, Coroutine[Any, Any, None]]
    ) -> Callable[P, Coroutine[Any, Any, None]]:
        """Return a Store's method as one that saves what the hook returns.

        Raises:
            ConfigurationError: nobody has said what is to be redacted of this method.
        """
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
            given.arguments |= self._changed(name, save, dict(given.arguments))
            await method(*given.args, **given.kwargs)

        return redacting

    def artifacts(self, artifacts: Artifacts) -> Artifacts:
        """Return artifacts whose bytes, file name and metadata are redacted; text is bytes."""
        guarded = copy.copy(artifacts)
        put = artifacts.put_bytes

        @functools.wraps(put)
        async def put_bytes(data: Any, **about: Any) -> Any:
            values = {"data": data, "filename": about.pop("filename", None)}
            values["meta"] = about.pop("meta", None)
            return await put(**{**about, **self.redacted(_ARTIFACT, about, values)})

        vars(guarded)["put_bytes"] = put_bytes
        return guarded

    @drafting("redact")
    def _changed(
        self, name: str, save: _Object | _Arguments, given: dict[str, Any]
    ) -> dict[str, Any]:
        """The arguments of a save that are others now; `given` is used up."""
        if name == "save_events":
            return {"events": [self._object(_EVENT, each, {}) for each in given["events"]]}
        if isinstance(save, _Object):
            saved = given.pop(save.parameter)
            return {save.parameter: self._object(save, saved, given)}
        return {save.value: self._value(save, given.pop(save.value), given)}

    def _object(self, save: _Object, given: Any, about: dict[str, Any]) -> Any:
        about |= {name: getattr(given, name, None) for name in save.about}
        # What is not there is for the save itself to refuse.
        held = {name: getattr(given, name) for name in save.values if hasattr(given, name)}
        models = {name: value for name, value in held.items() if isinstance(value, BaseModel)}
        held |= {name: dict(model) for name, model in models.items()}
        changed = dict(self.redacted(save.kind, about, held))
        for name, model in models.items():
            if not isinstance(changed[name], Mapping):
                raise RedactionFailed(save.kind, f"{name} has to stay a mapping")
            changed[name] = type(model).model_construct(**changed[name])
        made = copy.copy(given)
        try:
            for name, value in changed.items():
                object.__setattr__(made, name, value)
        except AttributeError as error:
            raise RedactionFailed(save.kind, f"{type(given).__name__} cannot be changed") from error
        return made

    def _value(self, save: _Arguments, given: Any, about: dict[str, Any]) -> Any:
        if save.value != "trajectory":
            return self.redacted(save.kind, about, {save.value: given})[save.value]
        # Another library's trajectory serialises as well; nothing else of it is saved.
        serialise = getattr(given, "serialise", None)
        if serialise is None:
            return given  # for the save itself to refuse
        return _Serialised(self.redacted(save.kind, about, {save.value: serialise()})[save.value])


class RedactedJournal(Journal):
    """A journal that takes only what has passed a hook."""

    async def append(self, *appends: tuple[Subject, Sequence[Draft]]) -> None:
        """As `Journal.append`. Errors also as `_check`."""
        _check(draft for _, drafts in appends for draft in drafts)
        await super().append(*appends)

    @property
    def log(self) -> Log:
        """As `Journal.log`; it refuses what `append` refuses."""
        return _Guarded(super().log)

    @property
    def own_log(self) -> Log:
        """As `Journal.own_log`; it refuses what `append` refuses."""
        return _Guarded(super().own_log)


class _Guarded(Relay):
    def append(
        self, appends: Sequence[Append], *, atomic: bool = False
    ) -> Coroutine[Any, Any, list[int]]:
        _check(draft for append in appends for draft in append.drafts)
        return super().append(appends, atomic=atomic)


@dataclass(frozen=True, slots=True)
class _Serialised:
    """A trajectory as what is left of it."""

    value: Any

    def serialise(self) -> Any:
        return self.value


def _check(drafts: Iterable[Draft]) -> None:
    """Raise ConfigurationError for a type that no hook has seen. Nothing was appended."""
    for draft in drafts:
        if draft.type not in PASSED:
            raise ConfigurationError(
                f"{draft.type} does not pass through redact=, and so a store that has one "
                "does not save it"
            )
