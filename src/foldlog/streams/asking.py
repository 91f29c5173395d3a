"""What a request's headers and query say. Pure; what is malformed raises Refused with 400."""

from __future__ import annotations

import datetime as dt
import re
import secrets
from collections.abc import Mapping
from typing import Annotated, Final, NamedTuple
from urllib.parse import parse_qs, unquote

import msgspec

from foldlog.bounds import Refused
from foldlog.streams.deciding import Asked, Producer, checked_offset, pieces_of
from foldlog_projections.streams import ZERO, Opened

_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,15}")
_MOST: Final = 2**53 - 1
_Zoned = Annotated[dt.datetime, msgspec.Meta(tz=True)]

Headers = Mapping[str, str]


class Reading(NamedTuple):
    """What a reader asks for. `after` is None for what comes from now on. `live`: "" for no."""

    after: str | None
    live: str
    cursor: str


def reading(query: bytes) -> Reading:
    """What the query of a read says."""
    found = parse_qs(query.decode("latin-1"), keep_blank_values=True)
    offsets, live = found.get("offset", []), found.get("live", [""])[-1]
    if len(offsets) > 1 or live not in ("", "long-poll", "sse"):
        raise Refused(400, "offset is given once; live is long-poll or sse")
    if live and not offsets:
        raise Refused(400, "offset: a live read says where it begins")
    offset = offsets[0] if offsets else "-1"
    after = None if offset == "now" else ZERO if offset == "-1" else offset
    return Reading(after, live, found.get("cursor", [""])[-1])


def asked(headers: Headers, content_type: str, body: bytes) -> Asked:
    """What a request appends."""
    closes = headers.get("stream-closed", "").strip().lower() == "true"
    pieces = pieces_of(content_type, body)
    seq = headers.get("stream-seq", "")
    return Asked(content_type, pieces, closes, secrets.token_hex(8), _producer(headers), seq)


def opening(headers: Headers, root: str) -> Opened:
    """How a stream is to be created. `root` is where the application is mounted."""
    ttl, expires_at = headers.get("stream-ttl"), headers.get("stream-expires-at", "")
    if ttl is not None and expires_at:
        raise Refused(400, "Stream-TTL and Stream-Expires-At: give one of them")
    source = unquote(headers.get("stream-forked-from", "")).removeprefix(root).lstrip("/")
    fork_offset = headers.get("stream-fork-offset", "")
    sub = headers.get("stream-fork-sub-offset")
    if not source and (fork_offset or sub is not None):
        raise Refused(400, "Stream-Fork-Offset: say with Stream-Forked-From of what")
    if fork_offset:
        fork_offset = ZERO if fork_offset == "-1" else checked_offset(fork_offset)
    return Opened(
        secrets.token_hex(8),
        headers.get("content-type", ""),
        ttl=None if ttl is None else _number("Stream-TTL", ttl),
        expires_at=expires_at,
        expires=_time(expires_at) if expires_at else None,
        source=source,
        fork_offset=fork_offset,
        sub=_number("Stream-Fork-Sub-Offset", sub or "0"),
    )


def _producer(headers: Headers) -> Producer | None:
    names = ("producer-id", "producer-epoch", "producer-seq")
    given = [headers.get(name) for name in names]
    if given == [None] * 3:
        return None
    id, epoch, number = given
    if not id or epoch is None or number is None:
        raise Refused(400, "Producer-Id, Producer-Epoch and Producer-Seq: give all of them")
    return Producer(id, _number("Producer-Epoch", epoch), _number("Producer-Seq", number))


def _number(name: str, text: str) -> int:
    if not _NUMBER.fullmatch(text) or int(text) > _MOST:
        raise Refused(400, f"{name}: {text!r:.80} is no whole number")
    return int(text)


def _time(text: str) -> float:
    try:
        return msgspec.convert(text, _Zoned).timestamp()
    except msgspec.ValidationError:
        raise Refused(400, f"Stream-Expires-At: {text!r:.80} is no time with a time zone") from None
