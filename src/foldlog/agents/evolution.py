"""State models as bytes, and back, also from what an earlier version of the model wrote. No I/O.

A model may say, as class variables: `state_version` (1 unless it does), which grows with its
schema; `state_type`, a name that outlives a renaming of the class; and `state_exportable = False`
for what no export may hold. Its class method `upcast(state, version)` is given what an earlier
version has written, as plain data, and returns what this version reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec
from pydantic import BaseModel, ValidationError

from foldlog import codec
from foldlog.agents.errors import IncompatibleAgentState
from foldlog.errors import LogCorrupt, PayloadError, RedactionFailed
from foldlog.store.payloads import drafting
from foldlog.store.redaction import Redaction
from foldlog_projections.agentstates import TURNED, Entry

T = TypeVar("T", bound=BaseModel)


class Written(NamedTuple):
    """A state that is ready to be stored: the model's name and version, and its value."""

    type: str
    schema: int
    private: bool
    raw: bytes


def type_of(model: type[BaseModel]) -> str:
    """The name under which states of a model are stored."""
    return str(getattr(model, "state_type", None) or model.__name__)


def version_of(model: type[BaseModel]) -> int:
    """The version of a model's schema."""
    version = getattr(model, "state_version", 1)
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise PayloadError(f"{model.__name__}.state_version", f"{version!r:.40} is no version")
    return version


@drafting("state")
def written(
    state: BaseModel, key: str, redaction: Redaction, about: Mapping[str, Any] | None = None
) -> Written:
    """Return a state as it is stored.

    Args:
        about: what the hook is told of whose state it is.

    Raises:
        PayloadError: it is no model, or holds what cannot be held; its `.path` begins with `key`.
        RedactionFailed: the hook failed, or what it returned is not of the model.
    """
    if not isinstance(state, BaseModel):
        raise PayloadError(key, f"a pydantic model is needed, not {type(state).__qualname__}")
    model = type(state)
    if redaction:
        value = _redacted(redaction, state, {**(about or {}), "type": type_of(model)})
    else:
        value = _dumped(state)
    private = getattr(model, "state_exportable", True) is False
    return Written(type_of(model), version_of(model), private, codec.encode(value, key))


def read(stored: Written, model: type[T], scope: str, key: str) -> T:
    """Return a state as `model`: a new object.

    Raises:
        IncompatibleAgentState: another model or version wrote it, and nothing leads from there.
    """
    wanted = type_of(model), version_of(model)

    def refused(reason: str) -> IncompatibleAgentState:
        was, is_ = (f"{name} {version}" for name, version in (stored[:2], wanted))
        return IncompatibleAgentState(scope, key, was, is_, reason)

    if stored.type != wanted[0]:
        raise refused("it is another model")
    value = codec.decode(stored.raw)
    if stored.schema != wanted[1]:
        upcast = getattr(model, "upcast", None)
        if stored.schema > wanted[1]:
            raise refused("a newer version has written it")
        if upcast is None:
            raise refused(f"{model.__name__} has no upcast")
        try:
            value = upcast(value, stored.schema)
        except Exception as error:  # it is the model's own code, and may raise anything
            raise refused(f"its upcast raised {error!r}") from error
    try:
        return model.model_validate(value, by_alias=False, by_name=True)
    except ValidationError as error:
        raise refused(str(error)) from error


def _dumped(state: BaseModel) -> Any:
    # By the names of fields: aliases may be other ones for reading than for writing.
    return state.model_dump(by_alias=False, round_trip=True, warnings=False)


def _redacted(redaction: Redaction, state: BaseModel, about: Mapping[str, Any]) -> Any:
    method = "TurnStateContext.update"
    found = redaction.alike(method, TURNED, about, {"state": _dumped(state)})["state"]
    if found != _dumped(state):  # once more: the hook may have changed the one that it was given
        try:
            type(state).model_validate(found, by_alias=False, by_name=True)
        except ValidationError:
            reason = f"what it returned is no {type(state).__name__}"
            raise RedactionFailed(TURNED, method, reason) from None  # for that quotes the state
    return found


def stored_in(entry: Entry, scope: str, key: str) -> Written:
    """Return what an entry holds.

    Raises:
        LogCorrupt: its changes do not follow one another.
    """
    try:
        return Written(entry.type, entry.schema, entry.private, entry.raw)
    except msgspec.MsgspecError as fault:
        raise LogCorrupt(f"{scope} {key}", entry.version, str(fault)) from fault


def plain(entry: Entry | None) -> Any:
    """An entry's value as plain data; None for no entry."""
    return None if entry is None else codec.decode(entry.raw)
