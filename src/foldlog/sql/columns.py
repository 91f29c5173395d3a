"""The columns of a table, from the declaration of a kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast

import msgspec
from msgspec import NODEFAULT
from msgspec.inspect import (
    BoolType,
    BytesType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    Field,
    FloatType,
    IntType,
    LiteralType,
    Metadata,
    StrType,
    StructType,
    Type,
    UnionType,
    UUIDType,
)

from foldlog import codec
from foldlog.jsonable import jsonable
from foldlog.kind import Kind
from foldlog.sql.messages import Column

_TIME: Final = "TIMESTAMP WITH TIME ZONE"
_TEXT: Final = (StrType, EnumType, DateType, UUIDType, DecimalType)
_PLACES: Final = frozenset({"type", "recorded_at", "shard", "seq"})
"""Columns of every table. A field of the same name gets an underscore."""


def columns_of(
    kind: Kind[Any], schemas: Iterable[type[msgspec.Struct]], *, is_own: bool
) -> tuple[Column, ...]:
    """Return the columns of a table for records of some structs.

    A row is the view's keys, and then shard, sequence, time, id, type and ts.

    Args:
        is_own: the kind is one of foldlog's, whose fields named `ts`, `..._at` and `timestamp` hold
            times: numbers are seconds since 1970, and texts ISO 8601.
    """
    at = len(kind.keys)
    columns = {key: Column(key, "VARCHAR", place) for place, key in enumerate(kind.keys)}
    columns["id"] = Column("id", "VARCHAR", at + 3)
    columns["type"] = Column("type", "VARCHAR", at + 4)
    for schema in schemas:
        for field in cast(StructType, msgspec.inspect.type_info(schema)).fields:
            column = _column(field, is_own)
            before = columns.get(column.name)
            if before is None or column.name in ("id", "ts"):
                columns[column.name] = column
            elif isinstance(before.source, str) and before.type != column.type:
                columns[column.name] = Column(column.name, "JSON", column.source, before.default)
    columns.setdefault("ts", Column("ts", _TIME, at + 5, form="seconds"))
    columns["recorded_at"] = Column("recorded_at", _TIME, at + 2, form="text")
    columns["shard"] = Column("shard", "INTEGER", at)
    columns["seq"] = Column("seq", "BIGINT", at + 1)
    return tuple(_distinct(columns.values()))


def _column(field: Field, is_own: bool) -> Column:
    name = f"{field.name}_" if field.name in _PLACES else field.name
    type_, form = _sql_type(_inner(field.type)), ""
    if is_own and (name in ("ts", "timestamp") or name.endswith("_at")):
        form = {"DOUBLE": "seconds", "VARCHAR": "text"}.get(type_, "")
    if isinstance(_inner(field.type), DateTimeType):
        form = "text"
    return Column(name, _TIME if form else type_, field.name, _default(field), form)


def _inner(found: Type) -> Type:
    """The type of a value that is there: `str` of `Content[str | None]`."""
    if isinstance(found, Metadata):
        return _inner(found.type)
    if isinstance(found, UnionType):
        there = [each for each in found.types if type(each).__name__ not in _ABSENT]
        return _inner(there[0]) if len(there) == 1 else found
    return found


_ABSENT: Final = frozenset({"NoneType", "UnsetType"})


def _sql_type(found: Type) -> str:
    if isinstance(found, LiteralType):
        return "VARCHAR" if all(isinstance(each, str) for each in found.values) else "JSON"
    if isinstance(found, EnumType):
        return "VARCHAR" if all(isinstance(each.value, str) for each in found.cls) else "JSON"
    for class_, name in (
        (BoolType, "BOOLEAN"),
        (IntType, "BIGINT"),
        (FloatType, "DOUBLE"),
        (BytesType, "BLOB"),
        (_TEXT, "VARCHAR"),
    ):
        if isinstance(found, class_):
            return name
    return "JSON"


def _default(field: Field) -> Any:
    """What a record that leaves the field out means."""
    value = field.default
    if value is NODEFAULT:
        value = None if field.default_factory is NODEFAULT else field.default_factory()
    if isinstance(value, msgspec.Raw):
        value = codec.decode(value)
    return None if value is msgspec.UNSET else jsonable(value)


def _distinct(columns: Iterable[Column]) -> Iterable[Column]:
    """SQL knows no difference between `Name` and `name`."""
    seen = set[str]()
    for each in columns:
        name = each.name
        while name.lower() in seen:
            name += "_"
        seen.add(name.lower())
        yield msgspec.structs.replace(each, name=name)
