"""What a request makes of a stream: pure functions of the stream's state. No I/O, no clock.

The contract is the Durable Streams Protocol, version 1.0, sections 4 and 5.
"""

from __future__ import annotations

import copy
import re
from collections import ChainMap
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast

import msgspec

from foldlog.bounds import Refused
from foldlog_projections.streams import (
    Appended,
    Closed,
    ForkedTo,
    Gone,
    Opened,
    Stream,
)

JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"

PIECE_BYTES: Final = 256 * 1024
"""Bytes of one record; what is appended at once may be several."""

_SLACK: Final = 8
"""A stream lives longer than its time to live by such a part of it; so often a read is recorded."""

_OFFSET: Final = re.compile(r"[0-9]{16}_[0-9a-f]{16}")

_messages: Final = msgspec.json.Decoder(list[msgspec.Raw])
_value: Final = msgspec.json.Decoder(msgspec.Raw)


class Producer(NamedTuple):
    """An idempotent producer's name, its epoch, and the number of its request."""

    id: str
    epoch: int
    number: int


class Asked(NamedTuple):
    """What a request asks to be appended.

    `pieces` are the parts of its body. `tag` is new with each request and ends its offsets.
    """

    content_type: str
    pieces: tuple[str | bytes, ...]
    closes: bool
    tag: str
    producer: Producer | None = None
    seq: str = ""


class Outcome(NamedTuple):
    """What is answered, and what is appended for it. `status` below 300: it was done."""

    status: int
    records: tuple[Any, ...] = ()
    headers: Mapping[str, str] = MappingProxyType({})
    reason: str = ""


def media_type(content_type: str) -> str:
    """A content type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def is_text(content_type: str) -> bool:
    """Whether events carry the data as it is; else in base64."""
    found = media_type(content_type)
    return found == JSON or found.startswith("text/")


def pieces_of(content_type: str, body: bytes) -> tuple[str | bytes, ...]:
    """Cut a body into what records hold: of JSON whole messages, an array's one by one.

    Raises:
        Refused: it is no JSON.
    """
    if not body:
        return ()
    if media_type(content_type) != JSON:
        cut = [body[at : at + PIECE_BYTES] for at in range(0, len(body), PIECE_BYTES)]
        return tuple(_as_text(each) for each in cut) if is_text(content_type) else tuple(cut)
    try:
        value = bytes(_value.decode(body))
        found = [bytes(each) for each in _messages.decode(value)] if value[:1] == b"[" else [value]
        return tuple(piece.decode() for piece in _joined(found))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(400, f"the body is no JSON: {error}") from None


def _joined(messages: list[bytes]) -> Iterator[bytes]:
    some, size = list[bytes](), 0
    for each in messages:
        if some and size + len(each) > PIECE_BYTES:
            yield b",".join(some)
            some, size = [], 0
        some.append(each)
        size += len(each)
    if some:
        yield b",".join(some)


def _as_text(piece: bytes) -> str | bytes:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return piece


def cut_at(content_type: str, piece: bytes, sub: int) -> str | bytes:
    """The first `sub` messages or bytes of a piece. Raises Refused: it has fewer."""
    if media_type(content_type) != JSON:
        if sub <= len(piece):
            return _as_text(piece[:sub]) if is_text(content_type) else piece[:sub]
    elif sub <= len(found := _messages.decode(b"[%s]" % piece)):
        return b",".join(bytes(each) for each in found[:sub]).decode()
    raise Refused(400, "Stream-Fork-Sub-Offset: it is past the next offset")


def checked_offset(offset: str) -> str:
    """An offset as it is. Raises Refused: it is none."""
    if _OFFSET.fullmatch(offset) is None:
        raise Refused(400, "offset: it is none that this server has given")
    return offset


def is_expired(stream: Stream, now: float) -> bool:
    """Whether a stream's time is over, `now` in Unix seconds."""
    opened = stream.opened
    if opened is None:
        return False
    if opened.ttl is not None:
        return now > stream.used + opened.ttl * (1 + 1 / _SLACK)
    return opened.expires is not None and now >= opened.expires


def wants_touch(stream: Stream, now: float) -> bool:
    """Whether a read has to be recorded, for the time to live to begin anew."""
    opened = stream.opened
    ttl = None if opened is None else opened.ttl
    return ttl is not None and now - stream.used > ttl / _SLACK


def staged(stream: Stream) -> Stream:
    """A copy for records that are decided on and not yet written."""
    copied = copy.copy(stream)
    copied.producers = cast("dict[str, tuple[int, int]]", ChainMap({}, stream.producers))
    copied.forks = cast("dict[str, str]", ChainMap({}, stream.forks))
    return copied


def create(stream: Stream, opened: Opened, asked: Asked) -> Outcome:
    """Open a stream, or say that it is there as it was asked for."""
    if stream.is_gone:
        return Outcome(409, reason="the stream was deleted, and others begin with it")
    if stream.opened is not None:
        if not _is_alike(stream.opened, opened) or stream.is_closed != asked.closes:
            return Outcome(409, reason="there is a stream of another configuration")
        return Outcome(200, headers=described(stream))
    new = staged(stream).advanced(opened, 0.0)
    records = (opened, *_appended(new, asked))
    for each in records[1:]:
        new.advanced(each, 0.0)
    return Outcome(201, records, described(new))


def _is_alike(there: Opened, asked: Opened) -> bool:
    """Whether an existing stream is what is asked for; a fork inherits what is left out."""
    same = (there.source, there.fork_offset, there.sub) == (
        *(asked.source, asked.fork_offset, asked.sub),
    )
    type_ = media_type(asked.content_type)
    lives = (asked.ttl, asked.expires_at)
    return (
        same
        and (media_type(there.content_type) == type_ or (not type_ and there.source != ""))
        and (lives == (there.ttl, there.expires_at) or (lives == (None, "") and there.source != ""))
    )


def append(stream: Stream, asked: Asked) -> Outcome:
    """Append to a stream, close it, or both."""
    refused = missing(stream) or _fenced(stream, asked.producer)
    if refused is not None:
        return refused
    assert stream.opened is not None
    producer = asked.producer
    if stream.is_closed:
        is_repeat = producer == stream.closer if producer else asked.closes and not asked.pieces
        return _answer(stream, asked, 204 if is_repeat else 409, "the stream is closed")
    if asked.pieces and media_type(asked.content_type) != media_type(stream.opened.content_type):
        return Outcome(409, reason=f"the stream is {stream.opened.content_type}")
    if producer is not None:
        epoch, last = stream.producers.get(producer.id, (producer.epoch, -1))
        if producer.epoch > epoch:
            last = -1
            if producer.number:
                return Outcome(400, reason="Producer-Seq: a new epoch begins with 0")
        if producer.number <= last:
            return _answer(stream, asked, 204)
        if producer.number > last + 1:
            headers = {
                "Producer-Expected-Seq": str(last + 1),
                "Producer-Received-Seq": str(producer.number),
            }
            return Outcome(409, headers=headers, reason="requests of this producer are missing")
    if asked.seq and stream.seq and asked.seq.encode() <= stream.seq.encode():
        return Outcome(409, reason=f"Stream-Seq: it is not greater than {stream.seq!r:.80}")
    records, new = _appended(stream, asked), staged(stream)
    for each in records:
        new.advanced(each, 0.0)
    status = 200 if producer and asked.pieces else 204
    return _answer(new, asked, status)._replace(records=records)


def fork(stream: Stream, path: str, id: str) -> Outcome:
    """Note that another stream begins with what is here."""
    if stream.is_gone:
        return Outcome(409, reason="the source was deleted")
    if not stream.id:
        return Outcome(404, reason="the source does not exist")
    return Outcome(200, (ForkedTo(path, id),))


def remove(stream: Stream) -> Outcome:
    """Delete a stream that others begin with: it stays for them."""
    return missing(stream) or Outcome(204, (Gone(),))


def missing(stream: Stream) -> Outcome | None:
    """What is answered where there is no stream."""
    if stream.is_gone:
        return Outcome(410, reason="the stream was deleted")
    return None if stream.id else Outcome(404, reason="there is no such stream")


def _fenced(stream: Stream, producer: Producer | None) -> Outcome | None:
    """What a producer is told that another one of its name has followed."""
    if producer is None or (known := stream.producers.get(producer.id)) is None:
        return None
    if producer.epoch >= known[0]:
        return None
    headers = {"Producer-Epoch": str(known[0])}
    return Outcome(403, headers=headers, reason="Producer-Epoch: a later one has been here")


def _appended(stream: Stream, asked: Asked) -> tuple[Any, ...]:
    producer = asked.producer or Producer("", 0, 0)
    begin = int(stream.tail[:16]) + 1
    records: list[Any] = []
    for n, piece in enumerate(asked.pieces, begin):
        offset = f"{n:016d}_{asked.tag}"
        made = Appended(offset, "", b"", *producer, asked.seq)
        changed = {"text" if isinstance(piece, str) else "data": piece}
        records.append(msgspec.structs.replace(made, **changed))
    if asked.closes:
        records.append(Closed(*producer))
    return tuple(records)


def _answer(stream: Stream, asked: Asked, status: int, reason: str = "") -> Outcome:
    headers = {"Stream-Next-Offset": stream.tail}
    if stream.is_closed:
        headers["Stream-Closed"] = "true"
    if asked.producer is not None and status < 300:
        epoch, last = stream.producers.get(asked.producer.id, (asked.producer.epoch, 0))
        headers |= {"Producer-Epoch": str(epoch), "Producer-Seq": str(last)}
    return Outcome(status, (), headers, reason)


def described(stream: Stream) -> dict[str, str]:
    """What there is to know of a stream, as headers."""
    opened = stream.opened
    assert opened is not None
    found = {"Content-Type": opened.content_type, "Stream-Next-Offset": stream.tail}
    if stream.is_closed:
        found["Stream-Closed"] = "true"
    if opened.ttl is not None:
        found["Stream-TTL"] = str(opened.ttl)
    if opened.expires_at:
        found["Stream-Expires-At"] = opened.expires_at
    return found
