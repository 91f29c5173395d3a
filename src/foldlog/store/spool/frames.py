"""What a segment of the spool holds: one frame for each append. Pure.

    frame = length of the body u32, crc32 of length and body u32, body
    body  = MessagePack of `Entry`

Numbers are little-endian. `docs/log-format.md` describes the same bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from foldlog.envelope import Draft
from foldlog.log.port import Append
from foldlog.subjects import Namespace, Subject

_LENGTH: Final = struct.Struct("<I")
_HEAD: Final = struct.Struct("<II")


class Waiting(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Envelopes for one subject, named so that the shard is found when they are appended."""

    family: str
    keys: tuple[str, ...]
    drafts: tuple[Draft, ...]

    def subject(self, namespace: Namespace) -> Subject:
        """The subject, in a namespace of any number of shards."""
        return namespace.subject(self.family, *self.keys)


class Entry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One append that waits. With `atomic`, all of it is appended or nothing."""

    atomic: bool
    waiting: tuple[Waiting, ...]

    @property
    def envelopes(self) -> int:
        """How many envelopes wait in it."""
        return sum(len(waiting.drafts) for waiting in self.waiting)

    def parts(self) -> list[Entry]:
        """An entry for each envelope, in order."""
        return [
            Entry(self.atomic, (msgspec.structs.replace(each, drafts=(one,)),))
            for each in self.waiting
            for one in each.drafts
        ]


def entry(appends: Sequence[Append], *, atomic: bool) -> Entry:
    """Make an entry of an append."""
    return Entry(
        atomic, tuple(Waiting(a.subject.family, a.subject.keys, a.drafts) for a in appends)
    )


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Entry)


def encode_frame(entry: Entry) -> bytes:
    """One frame."""
    body = _encoder.encode(entry)
    return _HEAD.pack(len(body), _checksum(body)) + body


def decode_frames(data: bytes) -> Iterator[tuple[Entry, int]]:
    """Yield each entry and where its frame ends, up to the first frame that is torn or changed."""
    start, view = 0, memoryview(data)
    while start + _HEAD.size <= len(data):
        length, checksum = _HEAD.unpack_from(data, start)
        start += _HEAD.size
        body = view[start : start + length]
        if len(body) < length or checksum != _checksum(body):
            return
        try:
            entry = _decoder.decode(body)
        except msgspec.MsgspecError:
            return
        start += length
        yield entry, start


def _checksum(body: bytes | memoryview) -> int:
    # Begins with the length, so that a run of zeros is no frame.
    return zlib.crc32(body, zlib.crc32(_LENGTH.pack(len(body))))
