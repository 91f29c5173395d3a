"""What a store and the process that answers its query tell each other, over two pipes.

It imports little, for the process's sake.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import msgspec


class Column(msgspec.Struct, array_like=True, frozen=True):
    """A column of a table, with its type in SQL.

    `source` is the place in a row where its values stand, or the name of the record's field that
    holds them; a record without that field has `default`. `form` says how a time is written:
    "seconds" since 1970, or "text" as ISO 8601.
    """

    name: str
    type: str
    source: int | str
    default: Any = None
    form: str = ""


class Table(msgspec.Struct, array_like=True, frozen=True):
    """A table. `fields` names those of records that are arrays, by the type of record."""

    name: str
    columns: tuple[Column, ...]
    fields: dict[str, tuple[str, ...]] = {}


class Ask(msgspec.Struct, frozen=True, tag=True):
    """The query, its parameters encoded, the tables that there are, and the limits."""

    query: str
    parameters: bytes
    tables: tuple[Table, ...]
    max_rows: int
    max_bytes: int


class Rows(msgspec.Struct, frozen=True, tag=True):
    """Rows of a table: keys, shard, sequence, time, id, type, ts, and the record's payload."""

    table: str
    rows: list[tuple[Any, ...]]


class Forget(msgspec.Struct, frozen=True, tag=True):
    """The rows of a table that were sent for these keys were cleared."""

    table: str
    keys: tuple[str, ...]


class Loaded(msgspec.Struct, frozen=True, tag=True):
    """There are no more rows: answer the query."""


class Wanted(msgspec.Struct, frozen=True, tag=True):
    """The query can be answered with these tables."""

    tables: tuple[str, ...]


class Page(msgspec.Struct, frozen=True, tag=True):
    """Some rows of the answer, encoded; `cost` is about how many bytes they take as values."""

    rows: bytes
    cost: int


class Done(msgspec.Struct, frozen=True, tag=True):
    """The answer is complete; its columns, and their types in SQL."""

    columns: tuple[str, ...]
    types: tuple[str, ...]


class Failed(msgspec.Struct, frozen=True, tag=True):
    """There is no answer. `about`: the table that is not there, or a limit."""

    reason: str
    message: str
    about: str = ""


Question = Ask | Rows | Forget | Loaded
Answer = Wanted | Page | Done | Failed
HEADER: Final = struct.Struct(">I")
"""What stands before each frame: its size in bytes."""

_encoder: Final = msgspec.msgpack.Encoder()


def framed(message: Question | Answer) -> bytes:
    """A message as it goes through a pipe."""
    body = _encoder.encode(message)
    return HEADER.pack(len(body)) + body
