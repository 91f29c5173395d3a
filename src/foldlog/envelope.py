"""What the log holds: envelopes, packed in records, each at a position.

The format is in `docs/reference/log-format.md`.

A *draft* is what a writer appends; a *recorded* envelope is what the log gives back, with its
position and the log's time. One JetStream message is one *record*: envelopes of one subject.
"""

from __future__ import annotations

import datetime as dt
import re
import secrets
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from foldlog import codec

RECORD_FORMAT: Final = 1
_UPSERT_ID: Final = re.compile(r"~[0-9a-f]{40}~[0-9a-f]{16}")

CLEARED: Final = "subject.cleared"
"""The envelope type that empties a subject: see `foldlog_projections.fold`."""

FORKED: Final = "subject.forked"
"""The envelope type with which a subject goes on where another was: see `foldlog.log.forks`."""


class Draft(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An envelope as a writer makes it.

    `id` is the idempotency key: one effect per id and subject, for ever. `v` is the version of the
    payload's schema for that `type`. `ts` is the writer's clock in Unix seconds. `payload` stays
    encoded until somebody reads it. `keys` are the subject's keys where the subject hashes them.

    `writer` names the open store that appends it, `n` counts what that store has drafted, and
    `known` is the last sequence of the shard that it knew of then: see `Writer`.
    """

    id: str
    type: str
    v: int
    ts: float
    payload: bytes
    keys: tuple[str, ...] | None = None
    writer: str = ""
    n: int = 0
    known: int = 0


class Position(msgspec.Struct, frozen=True, order=True):
    """Where an envelope stands in its stream.

    Attributes:
        seq: the sequence of its record in the stream.
        index: its index in the record.
        id: its id, by which a reader notices a log that was restored under it.
    """

    seq: int
    index: int
    id: str


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """An envelope as the log holds it. `time` is the log's clock, RFC 3339."""

    id: str
    type: str
    v: int
    ts: float
    payload: bytes
    keys: tuple[str, ...] | None
    seq: int
    index: int
    time: str
    writer: str = ""
    n: int = 0
    known: int = 0

    @property
    def position(self) -> Position:
        """Where it stands in its stream."""
        return Position(self.seq, self.index, self.id)

    @property
    def recorded_at(self) -> float:
        """The log's clock when it was stored, in Unix seconds."""
        return dt.datetime.fromisoformat(self.time).timestamp()


class _Record(msgspec.Struct, array_like=True, frozen=True):
    format: int
    envelopes: Sequence[Draft]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Record)


class Writer:
    """One open store. Its drafts are numbered in the order in which its saves were called, so that
    a fold that replaces can drop one that arrives after a later one.
    """

    def __init__(self) -> None:
        self.id: str = secrets.token_urlsafe(6)
        self._n = 0

    def stamped(
        self, drafts: Sequence[Draft], known: int, keys: tuple[str, ...] | None
    ) -> tuple[Draft, ...]:
        """Return drafts as this writer's next ones.

        Args:
            known: the last sequence of their shard that this process knows of.
            keys: the keys of their subject if it is hashed, else None.
        """
        stamped = []
        for e in drafts:
            self._n += 1
            stamped.append(Draft(e.id, e.type, e.v, e.ts, e.payload, keys, self.id, self._n, known))
        return tuple(stamped)


def draft(type: str, payload: bytes, *, id: str, v: int = 1, ts: float | None = None) -> Draft:
    """Make an envelope around an encoded payload; `ts` is now unless given."""
    return Draft(id, type, v, time.time() if ts is None else ts, payload)


def upsert_id(payload: bytes) -> str:
    """An id for a save that replaces: `~<content>~<nonce>`.

    Saving A, B, A takes effect three times, so the nonce differs each time. After a subject was
    cleared, the content recognises a late writer's A.
    """
    return f"~{codec.digest(payload)}~{secrets.token_hex(8)}"


def content_id(id: str) -> str:
    """The part of an envelope id that two saves of the same content share."""
    return id[:-17] if _UPSERT_ID.fullmatch(id) else id


def pack(envelopes: Sequence[Draft]) -> bytes:
    """Encode one record."""
    return _encoder.encode(_Record(RECORD_FORMAT, envelopes))


def unpack(data: bytes, seq: int, time: str) -> list[Recorded]:
    """Decode one record as stored at `seq`."""
    try:
        record = _decoder.decode(data)
    except (UnicodeDecodeError, RecursionError) as fault:  # msgspec lets these two through
        raise msgspec.DecodeError(str(fault)) from fault
    if record.format != RECORD_FORMAT:
        raise msgspec.ValidationError(f"record format {record.format} is newer than this version")
    return [
        Recorded(
            e.id, e.type, e.v, e.ts, e.payload, e.keys, seq, index, time, e.writer, e.n, e.known
        )
        for index, e in enumerate(record.envelopes)
    ]
