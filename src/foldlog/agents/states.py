"""States as bytes, and back, also from what an earlier version of their type wrote. No I/O.

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
from foldlog.values import TypeCodec, encode
from foldlog_projections.agentstates import TURNED, Change, Entry
from foldlog_projections.delta import difference

T = TypeVar("T")

_native = msgspec.msgpack.Decoder()
_encode = msgspec.msgpack.Encoder().encode


class Written(NamedTuple):
    """A state that is ready to be stored: its type's name and version, and its value, encoded."""

    type: str
    schema: int
    private: bool
    raw: bytes


@drafting("state")
def written(
    state: object, key: str, redaction: Redaction, about: Mapping[str, Any] | None = None
) -> Written:
    """Return a state as it is stored.

    Args:
        about: whose state it is, for the redaction hook.

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
    """Return a state as `model`: a new object.

    Raises:
        IncompatibleAgentState: another type or version wrote it, and nothing leads from there.
    """
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
    """Return what an entry holds.

    Raises:
        LogCorrupt: its changes do not follow one another.
    """
    try:
        return Written(entry.type, entry.schema, entry.private, entry.raw)
    except msgspec.MsgspecError as fault:
        raise LogCorrupt(f"{scope} {key}", entry.version, str(fault)) from fault


def change_of(before: Written | None, after: Written | None, key: str) -> Change | None:
    """Return what makes one state of a key of the other; None if they are the same."""
    if after == before:
        return None
    if after is None:
        return Change(key, gone=True)
    old = None if before is None else _native.decode(before.raw)
    # Where only the type's name or version differs, the value is said once more.
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
    """Return the version of a type's schema.

    Raises:
        PayloadError: its `state_version` is no version.
    """
    version = getattr(type_, "state_version", 1)
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise PayloadError(f"{type_.__name__}.state_version", f"{version!r:.40} is no version")
    return version


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
