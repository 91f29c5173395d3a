"""The answer to a query: an Arrow table, and its rows as Python values where they are asked for."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec
import pyarrow as pa

from foldlog.position import LogPosition


class SqlResult:
    """The answer to a query.

    Args:
        columns: the names of the columns.
        types: the names of their SQL types.
        stream: the answer as an Arrow stream, in parts.
        position: how far the log was read.

    Attributes:
        columns: the names of the columns.
        types: the names of their SQL types.
        position: how far the log was read: with `at=` it, the same query gives the same answer.
    """

    def __init__(
        self,
        columns: tuple[str, ...],
        types: tuple[str, ...],
        stream: Sequence[bytes],
        position: LogPosition,
    ) -> None:
        self.columns: tuple[str, ...] = columns
        self.types: tuple[str, ...] = types
        self.position: LogPosition = position
        table = pa.ipc.open_stream(b"".join(stream)).read_all()
        self._table: pa.Table = table.rename_columns([*columns])

    def to_arrow(self) -> pa.Table:
        """Return the answer as a `pyarrow.Table`, without a copy.

        `found.to_arrow().to_pandas()` and `polars.from_arrow(found.to_arrow())` go on from there.
        JSON is text in it.
        """
        return self._table

    @cached_property
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows, as Python values."""
        columns = map(_values, self.types, self._table.columns)
        return [*zip(*columns, strict=True)]

    def dicts(self) -> list[dict[str, Any]]:
        """Return the rows as dicts; of columns with one name, the last counts."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SqlResult) and (
            (self.columns, self.types, self.rows, self.position)
            == (other.columns, other.types, other.rows, other.position)
        )

    def __repr__(self) -> str:
        return f"<SqlResult, {self._table.num_rows} rows of {', '.join(self.columns)}>"


def _values(type_: str, column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        values = _each(column.cast(pa.timestamp("us"), safe=False))
        if column.type.tz is None:
            return values
        return [v.replace(tzinfo=dt.UTC) if isinstance(v, dt.datetime) else v for v in values]
    values = _each(column)
    name, _, lists = type_.partition("[")
    convert = _CONVERTED.get(name)
    if convert is None or (lists and name == "JSON"):
        return values
    return [_converted(convert, each) for each in values]


def _each(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; a time that Python has none for as its text."""
    try:
        values: list[Any] = column.to_pylist(maps_as_pydicts="lossy")
    except (OverflowError, ValueError):
        values = column.cast(pa.string()).to_pylist()
    return values


def _converted(convert: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, list):
        return [_converted(convert, each) for each in value]
    return None if value is None else convert(value)


def _interval(value: Any) -> dt.timedelta:
    days = 30 * value.months + value.days
    return dt.timedelta(days=days, microseconds=value.nanoseconds // 1000)


_CONVERTED: Final[dict[str, Callable[[Any], Any]]] = {
    "JSON": msgspec.json.decode,
    "HUGEINT": int,
    "UHUGEINT": int,
    "UUID": uuid.UUID,
    "INTERVAL": _interval,
    "TIME WITH TIME ZONE": dt.time.fromisoformat,
}
"""How values become Python's, where Arrow has another one; of lists, each one in them."""
