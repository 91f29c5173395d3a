"""What callers hand in, as records and payloads of envelopes, and models of records again.

This runs the caller's code (properties, a tzinfo, a mapping of their own). Whatever that raises is
a PayloadError. `Any` fields hold exactly what the user supplied: see `foldlog.codec`.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ContextDecorator
from enum import Enum
from operator import attrgetter
from types import TracebackType
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

import msgspec
from pydantic import BaseModel

from foldlog import codec
from foldlog.envelope import Draft, Recorded
from foldlog.errors import FoldlogError, PayloadError
from foldlog.kind import Kind
from foldlog.store.restoring import FAULTS, decoder, restoring
from foldlog.subjects import checked_id
from foldlog.upcasting import UPCASTERS

_WHERE: Final = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?$", re.DOTALL)

_encoder = msgspec.msgpack.Encoder()
_json_encoder = msgspec.json.Encoder()

M = TypeVar("M")
R = TypeVar("R", bound=msgspec.Struct)


class drafting(ContextDecorator):  # noqa: N801 - written as a function is, like contextlib.suppress
    """A block, or a function, that makes envelopes and raises no errors but foldlog's.

    Its faults become a PayloadError at the path `what`. It must do no I/O: nothing was appended.
    """

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(fault, FAULTS) and not isinstance(fault, FoldlogError):
            raise PayloadError(self._what, f"{type(fault).__name__}: {fault}") from fault


def dump(payload: msgspec.Struct, *held: str) -> bytes:
    """Encode a payload; `held` are the fields that a user filled with values of any kind."""
    return _dump_native(payload, *held)[0]


def encode(
    kind: Kind[Any],
    record: msgspec.Struct,
    *,
    type: str | None = None,
    ts: float | None = None,
    id: str | None = None,
) -> Draft:
    """Return the draft of a record whose content is redacted; `ts` is now unless given.

    Args:
        type: the record's type, where several types of the kind share a struct.
        id: its idempotency key. None: what the kind's id rule makes.
    """
    type = type or kind.type_of(record)
    body, native = _dump_native(record, *kind.records[type].open_fields)
    version = UPCASTERS.newest.get(type, 1)
    key = kind.id(native, body) if id is None else checked_id(id)
    return Draft(key, type, version, time.time() if ts is None else ts, body)


# --- checks of one field: each returns what the record holds, or raises PayloadError --------------


def finite(value: float, field: str) -> float:
    """Return a time as a float that can be ordered."""
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
    """Return a datetime as ISO 8601."""
    if not isinstance(value, dt.datetime):
        raise PayloadError(field, f"{value!r:.80} is not a datetime")
    if type(value) is dt.datetime and value.tzinfo is dt.UTC:
        # The same text, at a fifth of the cost.
        return _json_encoder.encode(value)[1:-2].decode() + "+00:00"
    return value.isoformat()


def enum_text(members: type[Enum]) -> Callable[[Enum | str, str], str]:
    """Return what gives the text of a string enum's member, or of its bare value."""

    def text(value: Enum | str, field: str) -> str:
        if value.__class__ is members:
            return str(value._value_)
        bare = value.value if isinstance(value, Enum) else value
        try:
            return str(members(bare).value)
        except ValueError:
            raise PayloadError(field, f"{value!r:.80} is no {members.__name__}") from None

    return text


def mapping(value: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Return a mapping as a dict; a dict as it is."""
    if value.__class__ is dict:
        return value
    with drafting(field):
        if not isinstance(value, Mapping):
            raise PayloadError(field, f"{value!r:.80} is not a mapping")
        return dict(value)


# --- encoding -------------------------------------------------------------------------------------


def _dump_native(payload: R, *held: str) -> tuple[bytes, R]:
    """As `dump`; also return the payload with the native form of what a user supplied."""
    # One encoding and one decoding prove nearly every payload: see `codec.is_proven`.
    try:
        raw = _encoder.encode(payload)
        decoded = decoder(type(payload)).decode(raw)
        for field in held:
            if not codec.is_proven(raw, getattr(payload, field), getattr(decoded, field)):
                break
        else:
            return raw, payload
    except FAULTS:
        pass  # what follows says what and where
    natives = {field: _native(getattr(payload, field), field) for field in held}
    payload = msgspec.structs.replace(payload, **natives)
    try:
        raw = _encoder.encode(payload)
        decoder(type(payload)).decode(raw)
    except UnicodeEncodeError:
        raise PayloadError(_first_bad_text(payload), "a lone surrogate") from None
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        found = _WHERE.match(str(error))
        path = (found["path"] if found else None) or type(payload).__name__
        raise PayloadError(path, found["what"] if found else str(error)) from None
    return raw, payload


def _native(value: object, field: str) -> Any:
    with drafting(field):
        return codec.to_native(value, field)


def _first_bad_text(payload: msgspec.Struct) -> str:
    for field in payload.__struct_fields__:
        value = getattr(payload, field)
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                return field
    return type(payload).__name__


class Field(NamedTuple):
    """How a field's value becomes the record's, given its name too, and how it is read back."""

    write: Callable[[Any, str], Any]
    read: Callable[[Any], Any] | None = None


ID: Final = Field(checked_id)
SECONDS: Final = Field(finite)
MAPPING: Final = Field(mapping)
TIME: Final = Field(time_text, dt.datetime.fromisoformat)


def member_of(members: type[Enum]) -> Field:
    """A field that holds a member of a string enum."""
    return Field(enum_text(members), members)


class Mapper(Generic[M, R]):
    """Turns objects of a model into records, and back. Both have fields of the same names.

    A record may have more fields, with defaults; they are left as they are.

    Args:
        name: what the path of an error begins with where the object as a whole is at fault.
        fields: those that are checked or converted. Every other value stays as it is.
    """

    def __init__(self, name: str, model: type[M], record: type[R], **fields: Field) -> None:
        self._name = name
        self._record = record
        self._decode = decoder(record).decode
        known = _names(model)
        self._saved = [each for each in record.__struct_fields__ if each in known]
        self._get_given = attrgetter(*self._saved)
        self._writes = [(each, fields[each].write) for each in self._saved if each in fields]
        self._get_saved = attrgetter(*known)
        self._known = known
        reads = {each: field.read for each, field in fields.items()}
        self._reads = [(each, read) for each in known if (read := reads.get(each)) is not None]
        self._make: Callable[[dict[str, Any]], M] = lambda values: model(**values)
        if issubclass(model, BaseModel):
            # Copying an object costs a fraction of constructing one; neither validates.
            copy = model.model_construct(**dict.fromkeys(model.model_fields)).model_copy
            self._make = lambda values: cast(M, copy(update=values))
        self._guarded = restoring(self._read)

    def record(self, given: M) -> R:
        """Return the record that saves an object."""
        try:
            values = dict(zip(self._saved, self._get_given(given), strict=True))
            for name, write in self._writes:
                values[name] = write(values[name], name)
            return self._record(**values)
        except FAULTS:
            with drafting(self._name):
                raise

    def restore(self, item: Recorded) -> M:
        """Return the object that an envelope holds: a new one, the caller's own."""
        return self._guarded(item)

    def restore_all(self, items: Iterable[Recorded]) -> list[M]:
        """As `restore`, of many."""
        items = list(items)
        try:
            return [self._read(item) for item in items]
        except FAULTS:
            return [self.restore(item) for item in items]  # raises at the one that is at fault

    def _read(self, item: Recorded) -> M:
        saved = self._decode(item.payload)
        values = dict(zip(self._known, self._get_saved(saved), strict=True))
        for name, read in self._reads:
            values[name] = read(values[name])
        return self._make(values)


def _names(model: type[Any]) -> list[str]:
    if issubclass(model, BaseModel):
        return list(model.model_fields)
    return [each.name for each in dataclasses.fields(model)]
