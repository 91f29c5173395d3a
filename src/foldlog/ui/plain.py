"""Records of the log as the JSON that the page folds: what JSON lacks as `foldlog.jsonable` says.

Long texts and bytes are cut, so that a record of 10 MB costs a page nothing; `/api/record` has the
whole.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from foldlog import codec
from foldlog.jsonable import jsonable
from foldlog.kind import Key
from foldlog.store.primitives import Item

CUT: Final = 20_000
"""Characters of a text, or bytes, beyond which a page of records has only the beginning."""

_SAFE_INT: Final = 2**53
encode: Final = msgspec.json.Encoder().encode


class Plain:
    """Makes plain values; `was_cut` says whether anything was left out."""

    def __init__(self, limit: int | None = CUT) -> None:
        self._limit = limit
        self.was_cut: bool = False

    def value(self, value: Any) -> Any:
        """The value in JSON's types."""
        kind = type(value)
        if kind is str:
            return value if self._limit is None or len(value) <= self._limit else self._cut(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            return value if -_SAFE_INT <= value <= _SAFE_INT else str(jsonable(value))
        if kind is float:
            return value if math.isfinite(value) else jsonable(value)
        if kind is dict:
            return {
                key if type(key) is str else _name(key): self.value(item)
                for key, item in value.items()
            }
        if kind is list or kind is tuple:
            return [self.value(item) for item in value]
        return self._other(value)

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

    def _cut(self, text: str) -> str:
        self.was_cut = True
        return f"{text[: self._limit]}… ({len(text):,} characters)"


def record_of(key: Key[Any], item: Item, position: str, limit: int | None = CUT) -> dict[str, Any]:
    """An item of a view as `/api/records` has it."""
    plain = Plain(limit)
    made = {
        "position": position,
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
