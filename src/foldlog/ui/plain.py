"""Records of the log as the JSON that the page folds: what JSON lacks as `foldlog.jsonable` says.

Long texts and bytes are cut, and so is a record that has a lot of short ones: `/api/record` has the
whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec

from foldlog import codec
from foldlog.bounds import RECORD_BYTES
from foldlog.jsonable import jsonable
from foldlog.kind import Key
from foldlog.store.primitives import Item

CUT: Final = 20_000
"""Characters of a text, or bytes, beyond which a page of records has only the beginning."""

_SHORT: Final = 1_000
"""Characters that a text keeps once a record has had its bytes: an id has all of its."""

_NODE: Final = 8
"""What a value counts beside its text."""

_SAFE_INT: Final = 2**53
encode: Final = msgspec.json.Encoder().encode

V = TypeVar("V")


class Plain:
    """Makes plain values; `was_cut` says whether anything was left out."""

    def __init__(self, limit: int | None = CUT, most: int = RECORD_BYTES) -> None:
        self._limit = limit
        self._left: float = math.inf if limit is None else most
        self.was_cut: bool = False

    def value(self, value: Any) -> Any:
        """The value in JSON's types."""
        kind = type(value)
        self._left -= _NODE
        if kind is str:
            return self._text(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            return value if -_SAFE_INT <= value <= _SAFE_INT else str(jsonable(value))
        if kind is float:
            return value if math.isfinite(value) else jsonable(value)
        if kind is dict:
            return {
                key if type(key) is str else _name(key): self.value(item)
                for key, item in self._some(value.items())
            }
        if kind is list or kind is tuple:
            return [self.value(item) for item in self._some(value)]
        return self._other(value)

    def _some(self, values: Iterable[V]) -> Iterator[V]:
        """Values while the record has bytes left."""
        for each in values:
            if self._left <= 0:
                self.was_cut = True
                return
            yield each

    def _other(self, value: Any) -> Any:
        if isinstance(value, msgspec.Raw):
            return self.value(codec.decode(value))
        if isinstance(value, msgspec.Struct):
            return self.struct(value)
        if isinstance(value, Mapping):
            return self.value(dict(value))
        if isinstance(value, bytes):
            if self._limit is not None and len(value) > self._limit:
                self.was_cut = True
                value = value[: self._limit]
            return jsonable(value)
        return jsonable(value)

    def struct(self, record: msgspec.Struct) -> dict[str, Any]:
        """A record's fields, without those that it leaves as they are."""
        readable = getattr(record, "readable", None)  # of bytes that a record's own module reads
        fields = msgspec.structs.asdict(record) if readable is None else readable()
        return {n: self.value(v) for n, v in fields.items() if v is not msgspec.UNSET}

    def _text(self, text: str) -> str:
        self._left -= len(text)
        limit = self._limit if self._left > 0 else _SHORT
        if self._limit is None or limit is None or len(text) <= limit:
            return text
        self.was_cut = True
        self._left += len(text) - limit
        return f"{text[:limit]}… ({len(text):,} characters)"


def record_of(key: Key[Any], item: Item, limit: int | None = CUT) -> dict[str, Any]:
    """An item of a view as `/api/records` has it, at its own position."""
    plain = Plain(limit)
    made = {
        "position": str(item.position),
        "view": [key.kind.name, *key.keys],
        "id": item.id,
        "type": item.type,
        "ts": item.ts,
        "recorded_at": item.recorded_at,
        "writer": item.writer,
        "number": item.number,
        "record": plain.struct(item.record),
        "line": key.line(item)._asdict(),
    }
    if plain.was_cut:
        made["cut"] = True
    return made


def _name(key: Any) -> str:
    return next(iter(jsonable({key: None})))
