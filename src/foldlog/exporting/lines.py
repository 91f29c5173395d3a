"""The format of an export: lines of JSON. What a line says reads back as exactly what it was.

First a header, then a line a record, then a line a blob; the last line is the manifest. An envelope
has its payload as JSON if that gives the same bytes again, else as base64; a record likewise.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from foldlog.envelope import Draft, Recorded, pack
from foldlog.errors import ImportFailed, LogCorrupt
from foldlog.exporting.payloads import NOT_JSON, as_json, from_json
from foldlog.store import LogRecord
from foldlog.store.blobs import BlobRef

FORMAT: Final = 3
"""Lines of formats 1 and 2 have no place; blobs of format 1 belong to no view."""

_PLACE: Final = re.compile(rb',"line":([0-9]{1,18}),"before":"[0-9a-f]{16}"}\n')


class Header(msgspec.Struct, frozen=True):
    """The first line: what the file holds. Positions are text; None is the log's beginning.

    `session_id` None: of all sessions.
    """

    foldlog_export: int
    namespace: str
    shards: int
    session_id: str | None
    after: str | None
    until: str


class Manifest(msgspec.Struct, frozen=True):
    """The last line: counts, and the SHA-256 of all lines before it. A signature covers it."""

    end: bool
    records: int
    blobs: int
    sha256: str


class BlobLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A large value of a view. In format 1 nothing says which view."""

    blob: str
    data: bytes
    kind: str = ""
    keys: tuple[str, ...] = ()

    @property
    def ref(self) -> BlobRef:
        """What it is called."""
        return BlobRef(self.kind, self.keys, self.blob)


class _Envelope(msgspec.Struct, omit_defaults=True):
    id: str
    type: str
    v: int
    ts: float
    payload: Raw | UnsetType = UNSET
    raw: bytes | UnsetType = UNSET
    keys: tuple[str, ...] | None = None
    writer: str = ""
    n: int = 0
    known: int = 0


class _Record(msgspec.Struct, omit_defaults=True):
    shard: int
    seq: int
    time: str
    kind: str
    keys: tuple[str, ...]
    envelopes: list[_Envelope] | UnsetType = UNSET
    raw: bytes | UnsetType = UNSET


T = TypeVar("T")

_record_decoder: Final = msgspec.json.Decoder(_Record)


class Places:
    """Gives each line its place: its number, and the beginning of the SHA-256 of all before it."""

    def __init__(self) -> None:
        self.lines: int = 0
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """Of all lines until now."""
        return self._digest.hexdigest()

    @property
    def next(self) -> bytes:
        """With what the next line ends."""
        return b',"line":%d,"before":"%s"}\n' % (self.lines + 1, self.sha256[:16].encode())

    def add(self, line: bytes) -> None:
        """Take in the next line."""
        self._digest.update(line)
        self.lines += 1

    def placed(self, line: bytes) -> bytes:
        """Take in the next line, and return it with its place."""
        found = line[:-2] + self.next
        self.add(found)
        return found


def number_of(line: bytes) -> int | None:
    """Return the number that a line has; None if none can be read."""
    found = _PLACE.search(line, max(0, len(line) - 80))
    return None if found is None or found.end() < len(line) else int(found[1])


def encode_line(line: msgspec.Struct) -> bytes:
    """Return a line, without its place."""
    return msgspec.json.encode(line) + b"\n"


def decode_line(line: bytes, type_: type[T]) -> T:
    """Return what `encode_line` was given.

    Raises:
        ImportFailed: the line is something else.
    """
    try:
        return msgspec.json.decode(line, type=type_)
    except NOT_JSON as error:
        raise ImportFailed(f"not a line of an export: {line!r:.60} ({error})") from error


def encode_record(record: LogRecord) -> bytes:
    """Return a record's line, without its place."""
    row = _Record(record.shard, record.seq, record.time, record.kind, record.keys)
    try:
        row.envelopes = list(map(_envelope, record.envelopes))
        line = encode_line(row)
        if decode_record(line) == record:
            return line
    except (LogCorrupt, ImportFailed, *NOT_JSON):
        pass
    row.envelopes, row.raw = UNSET, record.data
    return encode_line(row)


def decode_record(line: bytes) -> LogRecord:
    """Return the record of a line.

    Raises:
        ImportFailed: it is no record's line.
    """
    try:
        row = _record_decoder.decode(line)
        data = row.raw
        if isinstance(data, UnsetType):
            data = pack(list(map(_draft, row.envelopes or ())))
    except NOT_JSON as error:
        raise ImportFailed(f"not a record's line: {line!r:.60} ({error})") from error
    return LogRecord(row.shard, row.seq, row.time, row.kind, row.keys, data)


def _envelope(each: Recorded) -> _Envelope:
    text = as_json(each.payload)
    payload, raw = (UNSET, each.payload) if text is None else (Raw(text), UNSET)
    about: dict[str, Any] = {"keys": each.keys, "writer": each.writer, "n": each.n}
    return _Envelope(each.id, each.type, each.v, each.ts, payload, raw, known=each.known, **about)


def _draft(row: _Envelope) -> Draft:
    payload = row.raw
    if isinstance(payload, UnsetType):
        payload = from_json(bytes(row.payload or b""))
    about = (row.keys, row.writer, row.n, row.known)
    return Draft(row.id, row.type, row.v, row.ts, payload, *about)
