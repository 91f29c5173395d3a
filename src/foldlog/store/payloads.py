"""Records as bytes and back, and the checks of what callers put into their fields.

Structs are written as MessagePack maps, so that a later version may add fields. `Any` fields hold
what a user supplied, exactly: see `foldlog.codec`.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, TypeVar

import msgspec

from foldlog import codec
from foldlog.envelope import Draft, draft
from foldlog.errors import PayloadError
from foldlog.kind import Kind
from foldlog.upcasting import UPCASTERS

T = TypeVar("T", bound=msgspec.Struct)

_WHERE: Final = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?$", re.DOTALL)


_encoder = msgspec.msgpack.Encoder()
_json_encoder = msgspec.json.Encoder()
_decoders: dict[type, msgspec.msgpack.Decoder[Any]] = {}


def dump(payload: msgspec.Struct, *held: str) -> bytes:
    """Encode a payload; `held` are the fields that a user filled with values of any kind.

    Raises:
        PayloadError: a field has another type than its schema says, is no valid Unicode, or holds
            what cannot be held exactly. Its `.path` begins with the field's name.
    """
    return dump_native(payload, *held)[0]


def dump_native(payload: T, *held: str) -> tuple[bytes, T]:
    """As `dump`; also return the payload with the native form of what a user supplied."""
    # One encoding and one decoding prove nearly every payload: see `codec.is_proven`.
    try:
        raw = _encoder.encode(payload)
        decoded = _decoder(type(payload)).decode(raw)
        for field in held:
            if not codec.is_proven(raw, getattr(payload, field), getattr(decoded, field)):
                break
        else:
            return raw, payload
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        pass  # what follows says what and where
    natives = {field: codec.to_native(getattr(payload, field), field) for field in held}
    payload = msgspec.structs.replace(payload, **natives)
    try:
        raw = _encoder.encode(payload)
        _decoder(type(payload)).decode(raw)
    except UnicodeEncodeError:
        raise PayloadError(_first_bad_text(payload), "a lone surrogate") from None
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        found = _WHERE.match(str(error))
        path = (found["path"] if found else None) or type(payload).__name__
        raise PayloadError(path, found["what"] if found else str(error)) from None
    return raw, payload


def encode(
    kind: Kind[Any], record: msgspec.Struct, *, type: str | None = None, ts: float | None = None
) -> Draft:
    """Return the draft of a record whose content is redacted; `ts` is now unless given.

    Args:
        type: the record's type, where several types of the kind share a struct.

    Raises:
        PayloadError: a part cannot be held. InvalidId: the id that it gives is none.
    """
    type = type or kind.type_of(record)
    body, native = dump_native(record, *kind.records[type].open_fields)
    version = UPCASTERS.newest.get(type, 1)
    return draft(type, body, id=kind.id(native, body), v=version, ts=ts)


def load(type_: type[T], raw: bytes) -> T:
    """Decode a payload.

    Raises:
        msgspec.ValidationError: it is not of that schema.
    """
    decoded: T = _decoder(type_).decode(raw)
    return decoded


def finite(value: float, field: str) -> float:
    """Return a time as a float.

    Raises:
        PayloadError: it is not a number that can be ordered.
    """
    seconds = math.nan
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            seconds = float(value)
        except OverflowError:
            seconds = math.nan  # an integer beyond all time
    if math.isnan(seconds):
        raise PayloadError(field, f"{value!r:.80} is not a time in seconds")
    return seconds


def time_text(value: dt.datetime, field: str) -> str:
    """Return a datetime as ISO 8601.

    Raises:
        PayloadError: it is no datetime.
    """
    if not isinstance(value, dt.datetime):
        raise PayloadError(field, f"{value!r:.80} is not a datetime")
    if type(value) is dt.datetime and value.tzinfo is dt.UTC:
        # The same text, at a fifth of the cost.
        return _json_encoder.encode(value)[1:-2].decode() + "+00:00"
    return value.isoformat()


def enum_text(value: Enum | str, members: type[Enum], field: str) -> str:
    """Return the text of a string enum's member, or of its bare value.

    Raises:
        PayloadError: `members` has no such value.
    """
    if value.__class__ is members:
        return str(value._value_)
    text = value.value if isinstance(value, Enum) else value
    try:
        return str(members(text).value)
    except ValueError:
        raise PayloadError(field, f"{value!r:.80} is no {members.__name__}") from None


def mapping(value: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Return a mapping as a dict; a dict as it is.

    Raises:
        PayloadError: it is none.
    """
    if value.__class__ is dict:
        return value
    if not isinstance(value, Mapping):
        raise PayloadError(field, f"{value!r:.80} is not a mapping")
    return dict(value)


def _decoder(type_: type) -> msgspec.msgpack.Decoder[Any]:
    decoder = _decoders.get(type_)
    if decoder is None:
        decoder = _decoders[type_] = codec.decoder(type_)
    return decoder


def _first_bad_text(payload: msgspec.Struct) -> str:
    for field in payload.__struct_fields__:
        value = getattr(payload, field)
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                return field
    return type(payload).__name__
