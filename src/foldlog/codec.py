"""Payloads as bytes, and back, exactly.

MessagePack holds None, bool, 64-bit int, float, str, bytes, list and dict by itself. Extension
types hold int of any size, datetime with its offset, date, time, timedelta, tuple, set, frozenset,
Decimal and UUID. Anything else is refused with its path, before anything is appended. Decoding
builds these types and nothing else: it imports and calls nothing that a payload names.

A string or integer `Enum` is held as its value, a `bytearray` as bytes, a dict subclass as a dict.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from itertools import chain
from typing import Any, Final
from uuid import UUID

import msgspec

from foldlog.errors import PayloadError

MAX_DEPTH: Final = 100
"""How deep lists and dicts may nest. Every reader can follow that far without its stack giving."""

_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**64 - 1

_BIG_INT, _DATETIME, _DATE, _TIME, _DELTA = 1, 2, 3, 4, 5
_TUPLE, _SET, _FROZENSET, _DECIMAL, _UUID = 6, 7, 8, 9, 10

# The first bytes of MessagePack arrays and maps; each level of nesting takes one of them.
_CONTAINER_HEADERS: Final = bytes([*range(0x80, 0xA0), *range(0xDC, 0xE0)])

_TIMESTAMPS: Final = (b"\xd6\xff", b"\xd7\xff", b"\xc7\x0c\xff")
"""How MessagePack's own timestamps begin."""

_CONTAINERS: Final = frozenset({dict, list, tuple})

_encoder = msgspec.msgpack.Encoder()
_sorting_encoder = msgspec.msgpack.Encoder(order="deterministic")


def encode(value: object, path: str = "payload") -> bytes:
    """Return `value` as MessagePack."""
    try:
        raw = _encoder.encode(value)
        if is_proven(raw, value, _decoder.decode(raw)):
            return raw
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        pass  # the walk below says what and where
    return _encoder.encode(to_native(value, path))


def decode(raw: bytes | msgspec.Raw) -> Any:
    """Return the value that `encode` was given: new objects, shared with nobody."""
    return _decoder.decode(raw)


def is_proven(raw: bytes, value: object, decoded: object) -> bool:
    """Whether `raw`, in which `value` was encoded as it is, has been proven to hold it exactly.

    Nearly every payload is plain JSON-like data. That it decodes to an equal value proves it,
    several times faster than a walk in Python. Other values take the walk, `to_native`: NaN
    (unequal to itself), a type that msgspec writes as another (date, tuple, UUID ...), a timestamp
    (equal, but its offset would be lost), or nesting that may be too deep for a reader's stack.
    """
    if b"\xff" in raw and any(each in raw for each in _TIMESTAMPS):
        return False
    # Each level of nesting takes a header.
    if len(raw) - len(raw.translate(None, _CONTAINER_HEADERS)) > MAX_DEPTH and _is_deep(decoded):
        return False
    return bool(decoded == value)


def to_native(value: object, path: str) -> Any:
    """Return `value` in types that MessagePack has, the others as extensions."""
    native = _to_native(value, path, MAX_DEPTH)
    try:
        _decoder.decode(_encoder.encode(native))
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        # A set member, for instance, that can be hashed only as the subclass that it was.
        raise PayloadError(path, f"cannot be read back: {error}") from error
    return native


def decoder(type_: type) -> msgspec.msgpack.Decoder[Any]:
    """A decoder of `type_`, whose `Any` fields hold what `encode` takes."""
    return msgspec.msgpack.Decoder(type_, ext_hook=_from_extension)


def digest(data: bytes) -> str:
    """A 160-bit content hash in hexadecimal. Contents with one digest are taken to be the same."""
    return hashlib.blake2b(data, digest_size=20).hexdigest()


def native_digest(native: object) -> str:
    """A digest of what `to_native` returned, or of plain data: order of dict keys aside."""
    try:
        return digest(_sorting_encoder.encode(native))
    except TypeError:  # keys of several types have no order of their own
        return digest(_encoder.encode(_sorted_by_encoding(native)))


def fingerprint(parts: tuple[object, ...]) -> str:
    """A digest of several plain values, in order."""
    return digest(_encoder.encode(parts))


def _is_deep(decoded: object) -> bool:
    """Whether a value may nest deeper than MAX_DEPTH. Errs towards yes."""
    level: list[Any] = [[decoded]]
    for _ in range(MAX_DEPTH + 2):
        parts = list(
            chain.from_iterable(
                chain(each, each.values()) if type(each) is dict else each for each in level
            )
        )
        if _CONTAINERS.isdisjoint(map(type, parts)):
            return False
        level = [part for part in parts if type(part) in _CONTAINERS]
    return True


def _to_native(value: Any, path: str, depth: int) -> Any:
    if depth < 0:
        raise PayloadError(path, f"nested deeper than {MAX_DEPTH} levels")
    kind = type(value)
    if value is None or kind is bool or kind is float or kind is bytes:
        return value
    if kind is str:
        return _checked_text(value, path)
    if kind is int:
        return value if _INT_MIN <= value <= _INT_MAX else _big_int(value)
    if kind is list:
        return [_to_native(item, f"{path}[{i}]", depth - 1) for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        native = {
            _to_key(key, path): _to_native(item, _join(path, key), depth - 1)
            for key, item in value.items()
        }
        if len(native) != len(value):
            raise PayloadError(path, "two keys are held as the same one")
        return native
    if isinstance(value, Enum) and isinstance(value.value, str | int):
        return _to_native(value.value, path, depth)
    if kind is tuple:
        return _extension(_TUPLE, _to_native(list(value), path, depth))
    if kind is set or kind is frozenset:
        encoded = (_encoder.encode(_to_native(item, f"{path}{{}}", depth - 1)) for item in value)
        members = [msgspec.Raw(item) for item in sorted(encoded)]
        return _extension(_SET if kind is set else _FROZENSET, members)
    if (scalar := _SCALARS.get(kind)) is not None:
        code, write = scalar
        return msgspec.msgpack.Ext(code, write(value))
    for plain, as_plain in _PLAIN.items():
        if isinstance(value, plain):  # a subclass: held as what it extends
            return _to_native(as_plain(value), path, depth)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise PayloadError(
        path,
        f"{kind.__module__}.{kind.__qualname__} cannot be held: save plain values (dict, list, "
        "text, numbers, bytes, times)",
    )


def _to_key(key: Any, path: str) -> Any:
    if isinstance(key, Enum):
        key = key.value
    if key is None or isinstance(key, bool | float | bytes):
        return key
    if isinstance(key, str):
        return _checked_text(str.__str__(key), f"{path} key")
    if isinstance(key, int) and _INT_MIN <= key <= _INT_MAX:
        return int(key)
    if type(key) is tuple:
        return tuple(_to_key(part, path) for part in key)
    raise PayloadError(path, f"a key of {type(key).__qualname__} {key!r:.40} cannot be held")


def _checked_text(text: str, path: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise PayloadError(path, f"a lone surrogate at character {error.start}") from None
    return text


def _join(path: str, key: object) -> str:
    if isinstance(key, str) and key.isidentifier():
        return f"{path}.{key}"
    return f"{path}[{key!r:.80}]"


def _extension(code: int, native: object) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(code, _encoder.encode(native))


def _big_int(value: int) -> msgspec.msgpack.Ext:
    length = value.bit_length() // 8 + 1
    return msgspec.msgpack.Ext(_BIG_INT, value.to_bytes(length, "big", signed=True))


def _sorted_by_encoding(native: Any) -> Any:
    if isinstance(native, Mapping):
        pairs = [(_encoder.encode(k), _sorted_by_encoding(v)) for k, v in native.items()]
        return [[key, item] for key, item in sorted(pairs, key=lambda pair: pair[0])]
    if isinstance(native, list):
        return [_sorted_by_encoding(item) for item in native]
    return native


# Asked of the base class: a subclass may show itself as another value.
_PLAIN: Final[dict[type, Callable[[Any], Any]]] = {
    str: str.__str__,
    int: int.__index__,
    float: float.__float__,
    bytes: lambda value: bytes(memoryview(value)),
    list: lambda value: list(list.__iter__(value)),
}

_SCALARS: Final[dict[type, tuple[int, Callable[[Any], bytes]]]] = {
    dt.datetime: (_DATETIME, lambda value: value.isoformat().encode()),
    dt.date: (_DATE, lambda value: value.isoformat().encode()),
    dt.time: (_TIME, lambda value: value.isoformat().encode()),
    dt.timedelta: (
        _DELTA,
        lambda value: _encoder.encode([value.days, value.seconds, value.microseconds]),
    ),
    Decimal: (_DECIMAL, lambda value: str(value).encode()),
    UUID: (_UUID, lambda value: value.bytes),
}

_FROM_EXTENSION: Final[dict[int, Callable[[bytes], object]]] = {
    _BIG_INT: lambda data: int.from_bytes(data, "big", signed=True),
    _DATETIME: lambda data: dt.datetime.fromisoformat(data.decode()),
    _DATE: lambda data: dt.date.fromisoformat(data.decode()),
    _TIME: lambda data: dt.time.fromisoformat(data.decode()),
    _DELTA: lambda data: dt.timedelta(*_decoder.decode(data)),
    _TUPLE: lambda data: tuple(_decoder.decode(data)),
    _SET: lambda data: set(_decoder.decode(data)),
    _FROZENSET: lambda data: frozenset(_decoder.decode(data)),
    _DECIMAL: lambda data: Decimal(data.decode()),
    _UUID: lambda data: UUID(bytes=data),
}


def _from_extension(code: int, data: memoryview) -> object:
    read = _FROM_EXTENSION.get(code)
    if read is None:
        raise msgspec.ValidationError(f"extension type {code} is not known to this version")
    return read(bytes(data))


_decoder: Final[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder(ext_hook=_from_extension)
