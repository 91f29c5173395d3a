"""What a store and the process that answers its queries tell each other, over two pipes.

It imports little, for the process's sake.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import msgspec


class Column(msgspec.Struct, frozen=True):
    """A column of a table, with its type in SQL.

    `source` is the place in a row where its values stand, or the name of the record's attribute
    that holds them; a record without it has `default`. `form` says how a time is written:
    "seconds" since 1970, or "text" as ISO 8601.
    """

    name: str
    type: str
    source: int | str
    default: Any = None
    form: str = ""


class Start(msgspec.Struct, frozen=True, tag=True):
    """The columns' types of all tables, by name; the directory of their files; bytes of memory."""

    tables: dict[str, dict[str, str]]
    directory: str
    max_bytes: int


class Ask(msgspec.Struct, frozen=True, tag=True):
    """A query, its parameters encoded, and the position at which it is answered."""

    query: str
    parameters: bytes
    until: str
    max_rows: int


class Look(msgspec.Struct, frozen=True, tag=True):
    """Look again whether the tables stand at this position, and answer then."""

    until: str


class Wanted(msgspec.Struct, frozen=True, tag=True):
    """These tables do not stand at the position; or one `is_busy`: another process writes it."""

    tables: tuple[str, ...]
    is_busy: bool


class Data(msgspec.Struct, frozen=True, tag=True):
    """Some of the answer as an Arrow stream."""

    part: bytes


class Done(msgspec.Struct, frozen=True, tag=True):
    """The answer is complete; its columns, and their types in SQL."""

    columns: tuple[str, ...]
    types: tuple[str, ...]


class Failed(msgspec.Struct, frozen=True, tag=True):
    """There is no answer. `about`: the table that is not there."""

    reason: str
    message: str
    about: str = ""


Question = Start | Ask | Look
Answer = Wanted | Data | Done | Failed
HEADER: Final = struct.Struct(">I")
"""What stands before each message: its size in bytes."""

POSITION: Final = "foldlog_position"
"""The table of each file that says how its other table was made, and how far that is."""

LOCKED: Final = "Could not set lock"
"""In DuckDB's message, where another process has a file open."""

SETTINGS: Final[dict[str, Any]] = {
    "temp_directory": "",  # nothing of the log is spilled to a disk
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,  # a table is no variable of this program
}
"""Of all connections to DuckDB."""

_encoder: Final = msgspec.msgpack.Encoder()


def framed(message: Question | Answer) -> bytes:
    """A message as it goes through a pipe."""
    body = _encoder.encode(message)
    return HEADER.pack(len(body)) + body


def text(value: str) -> str:
    """A text as SQL has it."""
    return "'" + value.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """A name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'
