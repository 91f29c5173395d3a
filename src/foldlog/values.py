"""Values of users' own types (models, dataclasses, enums) as what `foldlog.codec` holds, and back.

The reader declares the type, in an annotation or an argument. The data names none, so decoding runs
the validators of the declared type, and imports and calls nothing that the data says.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import functools
import inspect
import math
import types
import typing
from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from enum import Enum
from typing import Any, Final, Generic, TypeVar, Union
from uuid import UUID
from weakref import WeakKeyDictionary

from pydantic import BaseModel, PydanticUserError, TypeAdapter
from pydantic_core import to_jsonable_python

from foldlog import codec
from foldlog.errors import ConfigurationError, PayloadError, shown

T = TypeVar("T")

_HELD: Final = (bool, int, float, str, bytes, dt.date, dt.time, dt.timedelta, Decimal, UUID)
_PLAIN_TYPES: Final = (Any, object, None, types.NoneType, dt.datetime, *_HELD)
_CONTAINERS: Final = (list, dict, tuple, set, frozenset)
_UNIONS: Final = (Union, types.UnionType)


class TypeCodec(Generic[T]):
    """Values of one declared type as plain data, and back. Making one is slow: keep it.

    Args:
        declared: a class, or whatever stands in an annotation: `list[Flight] | None`.
    """

    def __init__(self, declared: Any) -> None:
        self.name = getattr(declared, "__name__", None) or str(declared)
        if isinstance(declared, types.GenericAlias) or typing.get_origin(declared):
            self.name = str(declared)
        try:
            self._adapter: TypeAdapter[T] = TypeAdapter(declared)
        except PydanticUserError as error:
            reason = str(error).partition("\n")[0]
            raise ConfigurationError(
                f"values of {self.name:.80} cannot be written and read: {reason}"
            ) from error

    def dump(self, value: object, path: str) -> Any:
        """Return a value as plain data, from which `load` makes an equal one.

        What `foldlog.codec` lacks, a path for instance, is written as pydantic writes it in JSON.
        """
        data = as_plain(value, path)
        try:
            is_whole = _is_same(self.load(data), value)
        except ValueError as error:
            raise PayloadError(path, f"it is not of {self.name:.80}: {error}") from error
        if not is_whole:
            raise PayloadError(path, f"reading it as {self.name:.80} would not give it back")
        return data

    def load(self, data: Any) -> T:
        """Return the value that `dump` was given: a new object."""
        return self._adapter.validate_python(data, strict=False, by_alias=False, by_name=True)


def type_codec(declared: Any) -> TypeCodec[Any] | None:
    """Return the codec of a declared type; None where `foldlog.codec` needs none.

    That is `Any`, and the types that come back as they are: `dict[str, tuple[int, ...]]`.
    """
    if _is_plain_type(declared):
        return None
    try:
        return _cached(declared)
    except TypeError:  # an annotation with parts that cannot be hashed
        return TypeCodec(declared)


def returned_type(function: Callable[..., Any]) -> Any:
    """Return the type that a function is declared to return; `Any` where that is not known.

    Of a coroutine function, or a function that returns an awaitable: what awaiting it gives.
    """
    while isinstance(function, functools.partial):
        function = function.func
    if not (inspect.isroutine(function) or inspect.isclass(function)):
        function = type(function).__call__
    function = getattr(function, "__func__", function)
    if "return" not in getattr(function, "__annotations__", ()):
        return Any
    if function not in _returned:
        _returned[function] = _awaited_type(function)
    return _returned[function]


_returned: Final[WeakKeyDictionary[Any, Any]] = WeakKeyDictionary()
"""By function: evaluating annotations costs more than recording a step does otherwise."""


def _awaited_type(function: Callable[..., Any]) -> Any:
    try:
        declared = typing.get_type_hints(function, include_extras=True).get("return", Any)
    except (AttributeError, NameError, TypeError):  # a name that only its own module knows
        return Any
    origin = typing.get_origin(declared)
    if isinstance(origin, type) and issubclass(origin, Awaitable):
        return typing.get_args(declared)[-1]
    return declared


def as_plain(value: object, path: str) -> Any:
    """Return a value as data that `foldlog.codec` holds, whatever its type: models as maps."""
    return codec.decode(encode(value, path))


def encode(value: object, path: str) -> bytes:
    """Return a value as bytes, from which `codec.decode` makes its plain data."""
    try:
        return codec.encode(_dumped(value), path)
    except (PayloadError, RecursionError, TypeError, ValueError):
        try:
            data = _walked(value)
        except (RecursionError, TypeError, ValueError) as error:
            raise PayloadError(path, str(error)) from error
        return codec.encode(data, path)


# --- plain data as JSON ---------------------------------------------------------------------------


def to_json(data: Any) -> Any:
    """Return plain data as what JSON has: new dicts, lists, strings, numbers, True, False, None.

    A value that JSON lacks becomes a map with one key that begins with `$`: `{"$set": [1, 2]}`.
    """
    if data is None or isinstance(data, str | bool | int):
        return data
    if isinstance(data, float):
        return data if math.isfinite(data) else {"$float": str(data)}
    if isinstance(data, list):
        return [to_json(each) for each in data]
    if isinstance(data, dict):
        named = all(isinstance(key, str) for key in data)
        if named and not (len(data) == 1 and next(iter(data)).startswith("$")):
            return {key: to_json(each) for key, each in data.items()}
        return {"$dict": [[to_json(key), to_json(each)] for key, each in data.items()]}
    for name, (type_, write, _) in _TAGGED.items():
        if type(data) is type_:
            return {f"${name}": write(data)}
    raise PayloadError("value", f"{type(data).__qualname__} cannot be held")


def from_json(data: Any) -> Any:
    """Return the plain data that `to_json` was given."""
    if isinstance(data, list):
        return [from_json(each) for each in data]
    if not isinstance(data, dict):
        return data
    [tag, *others] = list(data) or [""]
    if others or not tag.startswith("$"):
        return {key: from_json(each) for key, each in data.items()}
    try:
        if tag == "$float":
            return float(data[tag])
        if tag == "$dict":
            return {from_json(key): from_json(each) for key, each in data[tag]}
        return _TAGGED[tag[1:]][2](data[tag])
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise PayloadError(tag, f"{shown(data[tag])} is no such value") from error


def _items(data: Any) -> list[Any]:
    return [to_json(each) for each in data]


def _members(data: Any) -> list[Any]:
    return sorted(_items(data), key=repr)


_Tag = tuple[type, Callable[[Any], Any], Callable[[Any], Any]]
_TAGGED: Final[dict[str, _Tag]] = {
    "tuple": (tuple, _items, lambda items: tuple(map(from_json, items))),
    "set": (set, _members, lambda items: set(map(from_json, items))),
    "frozenset": (frozenset, _members, lambda items: frozenset(map(from_json, items))),
    "bytes": (
        bytes,
        lambda data: base64.b64encode(data).decode(),
        lambda text: base64.b64decode(text, validate=True),
    ),
    "datetime": (dt.datetime, dt.datetime.isoformat, dt.datetime.fromisoformat),
    "date": (dt.date, dt.date.isoformat, dt.date.fromisoformat),
    "time": (dt.time, dt.time.isoformat, dt.time.fromisoformat),
    "timedelta": (
        dt.timedelta,
        lambda span: [span.days, span.seconds, span.microseconds],
        lambda parts: dt.timedelta(*parts),
    ),
    "decimal": (Decimal, str, Decimal),
    "uuid": (UUID, str, UUID),
}

# --- by pydantic ----------------------------------------------------------------------------------

_anything: Final[TypeAdapter[Any]] = TypeAdapter(Any)


@functools.lru_cache(maxsize=256)
def _cached(declared: Any) -> TypeCodec[Any]:
    return TypeCodec(declared)


def _dumped(value: object) -> Any:
    """A value with models as maps, by the names of their fields, each by its own class."""
    return _anything.dump_python(
        value, by_alias=False, round_trip=True, serialize_as_any=True, warnings=False
    )


def _walked(value: Any) -> Any:
    """As `_dumped`; what `foldlog.codec` does not hold becomes what JSON would have of it."""
    if isinstance(value, Enum):
        return _walked(value.value)
    if value is None or isinstance(value, _HELD):
        return value
    if isinstance(value, Mapping):
        return {_walked(key): _walked(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_walked(each) for each in value]
    if isinstance(value, tuple):
        return tuple(_walked(each) for each in value)
    if isinstance(value, set | frozenset):
        members = [_walked(each) for each in value]
        return members if any(isinstance(each, dict) for each in members) else set(members)
    if isinstance(value, BaseModel):
        try:
            return _walked(_dumped(value))
        except TypeError:  # a set of models: there are no sets of maps
            return _walked(vars(value) | (value.__pydantic_extra__ or {}))
    if dataclasses.is_dataclass(value):
        return {each.name: _walked(getattr(value, each.name)) for each in dataclasses.fields(value)}
    try:
        return to_jsonable_python(value)
    except ValueError:
        return value  # the codec refuses it, and names its place


def _is_plain_type(declared: Any) -> bool:
    if declared in _PLAIN_TYPES or declared in _CONTAINERS or isinstance(declared, TypeVar):
        return True
    if typing.get_origin(declared) not in (*_CONTAINERS, *_UNIONS):
        return False
    return all(each is ... or _is_plain_type(each) for each in typing.get_args(declared))


def _is_same(one: Any, another: Any) -> bool:
    """Whether two values are equal down to their types; NaN is NaN."""
    if type(one) is not type(another):
        return False
    if isinstance(one, Mapping):
        return one.keys() == another.keys() and all(_is_same(one[k], another[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(another) and all(map(_is_same, one, another))
    if isinstance(one, BaseModel):
        mine, others = (vars(each) | (each.__pydantic_extra__ or {}) for each in (one, another))
        return _is_same(mine, others)
    if dataclasses.is_dataclass(one):
        names = [each.name for each in dataclasses.fields(one)]
        return all(_is_same(getattr(one, name), getattr(another, name)) for name in names)
    return bool(one == another) or one != one
