"""What a spool file holds: a header, then one frame for each append. Pure.

    header = magic (8 bytes), `done` u64, `tried` u64, crc32 of these u32
    frame  = length of the body u32, crc32 of length and body u32, body
    body   = MessagePack of `Entry`

Numbers are little-endian. `docs/log-format.md` describes the same bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from foldlog.envelope import Draft
from foldlog.log.port import Append
from foldlog.subjects import Namespace

MAGIC: Final = b"FLSPOOL\x01"
_HEADER: Final = struct.Struct("<8sQQ")
_FRAME: Final = struct.Struct("<II")
_CRC: Final = struct.Struct("<I")

HEADER_BYTES: Final = _HEADER.size + _CRC.size
FRAME_HEAD_BYTES: Final = _FRAME.size


class Waiting(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Envelopes for one subject, named so that the shard is found when they are appended."""

    family: str
    keys: tuple[str, ...]
    drafts: tuple[Draft, ...]


class Entry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One append that waits. `doubtful`: it may be on the log already."""

    atomic: bool
    doubtful: bool
    waiting: tuple[Waiting, ...]

    @property
    def envelopes(self) -> int:
        """How many envelopes wait in it."""
        return sum(len(waiting.drafts) for waiting in self.waiting)

    def parts(self) -> list[Entry]:
        """An entry for each envelope, in order."""
        return [
            Entry(self.atomic, self.doubtful, (msgspec.structs.replace(each, drafts=(one,)),))
            for each in self.waiting
            for one in each.drafts
        ]

    def appends(self, namespace: Namespace) -> list[Append]:
        """The append, as the log of `namespace` takes it."""
        return [Append(namespace.subject(w.family, *w.keys), w.drafts) for w in self.waiting]


def entry(appends: Sequence[Append], *, atomic: bool, doubtful: bool) -> Entry:
    """Make an entry of an append."""
    waiting = (Waiting(a.subject.family, a.subject.keys, a.drafts) for a in appends)
    return Entry(atomic, doubtful, tuple(waiting))


class Progress(NamedTuple):
    """How far a file has come: what ends before `done` is on the log, before `tried` may be."""

    done: int
    tried: int


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Entry)


def encode_header(progress: Progress) -> bytes:
    """The first bytes of a file."""
    head = _HEADER.pack(MAGIC, *progress)
    return head + _CRC.pack(zlib.crc32(head))


def decode_header(data: bytes, size: int) -> Progress | None:
    """What the first bytes of a file of `size` bytes say; None if they are not whole.

    Then everything may or may not be on the log: its ids tell.
    """
    if len(data) < HEADER_BYTES:
        return None
    head, (crc,) = data[: _HEADER.size], _CRC.unpack_from(data, _HEADER.size)
    magic, done, tried = _HEADER.unpack(head)
    if magic != MAGIC or crc != zlib.crc32(head) or not HEADER_BYTES <= done <= tried <= size:
        return None
    return Progress(done, tried)


def encode_frame(entry: Entry) -> bytes:
    """One frame."""
    body = _encoder.encode(entry)
    return _FRAME.pack(len(body), _checksum(body)) + body


def frame_length(head: bytes) -> int | None:
    """The length of the body after the first bytes of a frame; None if they are cut short."""
    return _FRAME.unpack(head)[0] if len(head) == FRAME_HEAD_BYTES else None


def decode_frame(head: bytes, body: bytes) -> Entry | None:
    """The entry of a frame; None if it was torn or changed."""
    length, crc = _FRAME.unpack(head)
    if len(body) != length or crc != _checksum(body):
        return None
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError:
        return None


def _checksum(body: bytes) -> int:
    # Begins with the length, so that a run of zeros is no frame.
    return zlib.crc32(body, zlib.crc32(_CRC.pack(len(body))))
