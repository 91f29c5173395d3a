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
    Opened,
    Stream,
)

JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"

# Bytes of one record; what is appended at once may be several.
PIECE_BYTES: Final = 256 * 1024

# A stream lives longer than its time to live by such a part of it; so often a read is recorded.
_SLACK: Final = 8

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

    @property
    def size(self) -> int:
        """How much it appends."""
        return sum(map(len, self.pieces))


class Outcome(NamedTuple):
    """What is done, and how it is answered."""

    status: int
    records: tuple[Any, ...] = ()
    headers: Mapping[str, str] = MappingProxyType({})


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
    copied.forks = cast("dict[str, bool]", ChainMap({}, stream.forks))
    return copied


def create(stream: Stream, opened: Opened, asked: Asked) -> Outcome:
    """Open a stream, or say that it is there as it was asked for. Raises Refused: it is not."""
    if stream.is_gone:
        raise Refused(409, "the stream was deleted, and others begin with it")
    if stream.opened is not None:
        if not _is_alike(stream.opened, opened) or stream.is_closed != asked.closes:
            raise Refused(409, "there is a stream of another configuration")
        return Outcome(200, (), described(stream))
    new = staged(stream).advanced(opened, 0.0)
    records = _appended(new, asked)
    for each in records:
        new.advanced(each, 0.0)
    return Outcome(201, (opened, *records), described(new))


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
    """Append to a stream, close it, or both. Raises Refused: it takes nothing of that."""
    opened, producer = there(stream), asked.producer
    epoch, last = stream.producers.get(producer.id, (0, -1)) if producer else (0, -1)
    if producer is not None and producer.epoch < epoch:
        raise Refused(403, "Producer-Epoch: a later one was here", producer_epoch=str(epoch))
    if stream.is_closed:
        if producer == stream.closer if producer else asked.closes and not asked.pieces:
            return Outcome(204, (), _told(stream, producer))
        raise Refused(409, "the stream is closed", **_told(stream))
    if asked.pieces and media_type(asked.content_type) != media_type(opened.content_type):
        raise Refused(409, f"the stream is {opened.content_type}")
    if producer is not None:
        if producer.epoch > epoch:
            last = -1
            if producer.number:
                raise Refused(400, "Producer-Seq: a new epoch begins with 0")
        if producer.number <= last:
            return Outcome(204, (), _told(stream, producer))
        if producer.number > last + 1:
            numbers = {"producer_expected_seq": last + 1, "producer_received_seq": producer.number}
            headers = {name: str(each) for name, each in numbers.items()}
            raise Refused(409, "requests of this producer are missing", **headers)
    if asked.seq and stream.seq and asked.seq.encode() <= stream.seq.encode():
        raise Refused(409, f"Stream-Seq: it is not greater than {stream.seq!r:.80}")
    records, new = _appended(stream, asked), staged(stream)
    for each in records:
        new.advanced(each, 0.0)
    return Outcome(200 if producer and asked.pieces else 204, records, _told(new, producer))


def fork(stream: Stream, path: str) -> Outcome:
    """Note that another stream begins with what is here. Raises Refused: nothing can."""
    if stream.is_gone:
        raise Refused(409, "the source was deleted")
    there(stream)
    return Outcome(200, (ForkedTo(path),))


def inherited(opened: Opened, source: Stream) -> Opened:
    """How a fork is opened: what was not said is as of its source. Raises Refused: it cannot be."""
    at = there(source)
    if media_type(opened.content_type) not in ("", media_type(at.content_type)):
        raise Refused(409, f"the source is {at.content_type}")
    if (base := opened.fork_offset or source.tail) > source.tail:
        raise Refused(400, "Stream-Fork-Offset: the source ends before")
    lives = at if opened.ttl is None and not opened.expires_at else opened
    return msgspec.structs.replace(
        opened,
        content_type=at.content_type,
        base=base,
        source_id=source.id,
        ttl=lives.ttl,
        expires_at=lives.expires_at,
        expires=lives.expires,
    )


def there(stream: Stream, *, even_gone: bool = False) -> Opened:
    """How a stream was opened. Raises Refused: there is none."""
    if stream.is_gone and not even_gone:
        raise Refused(410, "the stream was deleted")
    if stream.opened is None:
        raise Refused(404, "there is no such stream")
    return stream.opened


def _appended(stream: Stream, asked: Asked) -> tuple[Any, ...]:
    producer = asked.producer or Producer("", 0, 0)
    begin = int(stream.tail[:16]) + 1
    records: list[Any] = []
    for n, piece in enumerate(asked.pieces, begin):
        offset = f"{n:016d}_{asked.tag}"
        text, data = (piece, b"") if isinstance(piece, str) else ("", piece)
        records.append(Appended(offset, text, data, *producer, asked.seq))
    if asked.closes:
        records.append(Closed(*producer))
    return tuple(records)


def _told(stream: Stream, producer: Producer | None = None) -> dict[str, str]:
    """Where a stream ends, and how far its producer is."""
    headers = {"stream-next-offset": stream.tail}
    if stream.is_closed:
        headers["stream-closed"] = "true"
    if producer is not None:
        epoch, last = stream.producers.get(producer.id, (producer.epoch, 0))
        headers |= {"producer-epoch": str(epoch), "producer-seq": str(last)}
    return headers


def described(stream: Stream) -> dict[str, str]:
    """What there is to know of a stream, as headers."""
    opened = there(stream)
    found = _told(stream) | {"content-type": opened.content_type}
    if opened.ttl is not None:
        found["stream-ttl"] = str(opened.ttl)
    if opened.expires_at:
        found["stream-expires-at"] = opened.expires_at
    return found
