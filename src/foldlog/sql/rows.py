"""Rows of tables as Arrow has them, made of typed records."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from foldlog import codec
from foldlog.jsonable import jsonable
from foldlog.sql.messages import Column

_NO_JSON: Final = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)
_LATEST: Final = 253_402_300_799  # the year 9999, in Unix seconds
_BIGINT: Final = 2**63
_json: Final = msgspec.json.Encoder()

Sent = tuple[tuple[Any, ...], Any]
"""The keys of a row's view and where its envelope stands, as columns number it; and the record."""


def batch(columns: Sequence[Column], rows: Sequence[Sent]) -> pa.Table:
    """Return rows with columns named c0, c1 and so on, as `made` takes them."""
    arrays = []
    for column in columns:
        source, default = column.source, column.default
        if isinstance(source, int):
            values = [place[source] for place, _ in rows]
        else:
            found = [getattr(record, source, default) for _, record in rows]
            values = [None if each is msgspec.UNSET else each for each in found]
        arrays.append(_array(column, values))
    return pa.table(arrays, [f"c{n}" for n, _ in enumerate(columns)])


def made(columns: Sequence[Column]) -> str:
    """The values of a table's columns in SQL, from what `batch` returns."""
    return ", ".join(
        f"try_cast(c{n} as timestamptz)" if each.form == "text" else f"c{n}::{each.type}"
        for n, each in enumerate(columns)
    )


def _array(column: Column, values: list[Any]) -> pa.Array:
    if column.form == "seconds":
        return pa.array(map(_micros, values), pa.timestamp("us", "UTC"))
    if column.type == "JSON":
        return pa.array(map(_text, values), pa.string())
    if column.type == "BIGINT":
        return pa.array(map(_integer, values), pa.int64())
    if column.type in ("INTEGER", "DOUBLE", "BOOLEAN", "BLOB"):
        return pa.array(values, _ARROW[column.type])
    return pa.array(map(_word, values), pa.string())


_ARROW: Final = {
    "INTEGER": pa.int32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "BLOB": pa.binary(),
}


def _micros(seconds: Any) -> int | None:
    """A time for SQL; None for a number that is none."""
    if not isinstance(seconds, int | float) or not -_LATEST < seconds < _LATEST:
        return None
    return round(seconds * 1_000_000)


def _integer(value: Any) -> int | None:
    return value if value is None or -_BIGINT <= value < _BIGINT else None


def _word(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return str(msgspec.to_builtins(value))


def _text(value: Any) -> str | None:
    """A value as JSON; one that msgspec has no form for as the command line shows it."""
    if value is None:
        return None
    if isinstance(value, msgspec.Raw):
        value = codec.decode(value)
    try:
        return _json.encode(value).decode()
    except _NO_JSON:
        return json.dumps(jsonable(value))
