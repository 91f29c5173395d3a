"""States as bytes and as JSON, and back, also of earlier versions of their type. No I/O.

A state's class may say, as class variables: `state_version` (1 unless it does), which grows with
its schema; `state_type`, a name that outlives a renaming of the class; and
`state_exportable = False` for what no export may hold. Its class method `upcast(state, version)`
is given what an earlier version has written, as plain data, and returns what this version reads.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar, cast, get_origin

import msgspec
from pydantic import BaseModel

from foldlog import codec
from foldlog.agents.errors import IncompatibleAgentState
from foldlog.errors import LogCorrupt, PayloadError, RedactionFailed
from foldlog.store.payloads import drafting
from foldlog.store.redaction import Redaction
from foldlog.values import TypeCodec, encode, from_json, to_json
from foldlog_projections.agents.agentstates import TURNED, Change, Entry
from foldlog_projections.delta import difference

T = TypeVar("T")

_native = msgspec.msgpack.Decoder()
_encode = msgspec.msgpack.Encoder().encode


class Written(NamedTuple):
    """A state as it is stored: its type's name and version, and its encoded value."""

    type: str
    schema: int
    private: bool
    raw: bytes


class _Exported(msgspec.Struct, frozen=True):
    type: str
    version: int
    state: Any


@drafting("state")
def written(
    state: object, key: str, redaction: Redaction, about: Mapping[str, Any] | None = None
) -> Written:
    """Return a state as it is stored; `about` names its scope and key to the redaction hook.

    Raises:
        PayloadError: a part cannot be held; `.path` begins with `key`.
        RedactionFailed: the hook failed, or what it returned is not of the state's type.
    """
    type_ = type(state)
    raw = encode(state, key)
    if redaction:
        raw = _redacted(redaction, raw, type_, key, {**(about or {}), "type": name_of(type_)})
    private = getattr(type_, "state_exportable", True) is False
    return Written(name_of(type_), version_of(type_), private, raw)


def read(stored: Written, model: type[T], scope: str, key: str) -> T:
    """Return a state as a new object of `model`. Raises IncompatibleAgentState."""
    name, version, type_codec = name_of(model), version_of(model), _codec_of(cast(Any, model))

    def refused(reason: str) -> IncompatibleAgentState:
        was, wanted = f"{stored.type} {stored.schema}".strip(), f"{name or model} {version}"
        return IncompatibleAgentState(scope, key, was, wanted, reason)

    if stored.type and name and stored.type != name:
        raise refused("it is another type")
    value = codec.decode(stored.raw)
    if name and stored.schema != version:
        upcast = getattr(model, "upcast", None)
        if stored.schema > version:
            raise refused("a newer version has written it")
        if upcast is None:
            raise refused(f"{name} has no upcast")
        try:
            value = upcast(value, stored.schema)
        except Exception as error:  # it is the type's own code, and may raise anything
            raise refused(f"its upcast raised {error!r}") from error
    try:
        made: T = type_codec.load(value)
    except ValueError as error:
        raise refused(str(error)) from error
    return made


def stored_in(entry: Entry, scope: str, key: str) -> Written:
    """Return the state of an entry. Raises LogCorrupt if its changes do not follow each other."""
    try:
        return Written(entry.type, entry.schema, entry.private, entry.raw)
    except msgspec.MsgspecError as fault:
        raise LogCorrupt(f"{scope} {key}", entry.version, str(fault)) from fault


def change_of(before: Written | None, after: Written | None, key: str) -> Change | None:
    """Return the change from one state of a key to another; None if they are the same."""
    if after == before:
        return None
    if after is None:
        return Change(key, gone=True)
    old = None if before is None else _native.decode(before.raw)
    # Where only the type's name or version differs, the delta is empty.
    delta = difference(old, _native.decode(after.raw)) or [1, {}, []]
    return Change(key, msgspec.Raw(_encode(delta)), after.type, after.schema, after.private)


def plain(entry: Entry | None) -> Any:
    """Return an entry's value as plain data; None for no entry."""
    return None if entry is None else codec.decode(entry.raw)


def name_of(type_: Any) -> str:
    """Return the name under which states of a type are stored; "" for plain data."""
    type_ = get_origin(type_) or type_
    is_model = isinstance(type_, type) and issubclass(type_, BaseModel)
    if not (is_model or dataclasses.is_dataclass(type_) or hasattr(type_, "state_type")):
        return ""
    return str(getattr(type_, "state_type", None) or type_.__name__)


def version_of(type_: Any) -> int:
    """Return the version of a type's schema. Raises PayloadError for a bad `state_version`."""
    version = getattr(type_, "state_version", 1)
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise PayloadError(f"{type_.__name__}.state_version", f"{version!r:.40} is no version")
    return version


def exported(scope: str, entries: Mapping[str, Entry]) -> dict[str, Any]:
    """Return a scope's states by key, as JSON holds them; a private one has an empty state."""
    return {key: _exported(stored_in(entry, scope, key)) for key, entry in entries.items()}


def imported(state: Mapping[str, Any], redaction: Redaction) -> dict[str, dict[str, Written]]:
    """Return the states of an export by scope and key, without the empty ones.

    Raises:
        PayloadError: it is no export. RedactionFailed: the hook failed.
    """
    try:
        scopes = msgspec.convert(state, dict[str, dict[str, _Exported]])
    except msgspec.ValidationError as error:
        raise PayloadError("state", str(error)) from error
    return {
        scope: {
            key: _written(scope, key, held, redaction)
            for key, held in keys.items()
            if held.state != {}
        }
        for scope, keys in scopes.items()
    }


def replacing(
    scope: str, entries: Mapping[str, Entry], states: Mapping[str, Written], kept: set[str]
) -> list[Change]:
    """The changes from a scope's entries to `states`; keys in `kept` stay as they are."""
    changes = []
    for key in dict.fromkeys([*entries, *states]):
        before = stored_in(entries[key], scope, key) if key in entries else None
        change = None if key in kept else change_of(before, states.get(key), key)
        if change is not None:
            changes.append(change)
    return changes


def _written(scope: str, key: str, held: _Exported, redaction: Redaction) -> Written:
    about = {"scope": scope, "key": key, "type": held.type}
    given = {"state": from_json(held.state)}
    found = redaction.alike("AgentStates.load_state", TURNED, about, given)["state"]
    return Written(held.type, held.version, False, codec.encode(found, f"{scope}.{key}"))


def _exported(stored: Written) -> dict[str, Any]:
    state = {} if stored.private else to_json(codec.decode(stored.raw))
    return {"type": stored.type, "version": stored.schema, "state": state}


@functools.lru_cache(maxsize=256)
def _codec_of(type_: Any) -> TypeCodec[Any]:
    return TypeCodec(type_)


def _redacted(
    redaction: Redaction, raw: bytes, type_: Any, key: str, about: Mapping[str, Any]
) -> bytes:
    method, given = "TurnStateContext.update", {"state": codec.decode(raw)}
    found = redaction.alike(method, TURNED, about, given)["state"]
    redacted = codec.encode(found, key)
    if redacted != raw:
        try:
            _codec_of(type_).load(found)
        except ValueError:
            reason = f"what it returned is no {type_.__name__}"
            raise RedactionFailed(TURNED, method, reason) from None  # for that quotes the state
    return redacted
