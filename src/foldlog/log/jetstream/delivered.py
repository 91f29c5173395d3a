"""What a direct get says about each message that it brings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nats.aio.msg import Msg

from foldlog.log.jetstream.parser import Incoming
from foldlog.log.jetstream.server_details import PAGE_HEADERS


class Delivered(NamedTuple):
    """A message of a page; `previous` is the sequence of the one before it in the page, 0 for none.

    `time` is the log's clock, RFC 3339.
    """

    subject: str
    seq: int
    time: str
    previous: int
    data: bytes


def delivered(msg: Msg) -> Delivered:
    """What `msg` brings."""
    found = PAGE_HEADERS.search(msg.block) if isinstance(msg, Incoming) else None
    if found is not None:
        subject, seq, time, previous = found.groups()
        return Delivered(subject.decode(), int(seq), time.decode(), int(previous), msg.data)
    headers = msg.headers or {}
    return Delivered(
        headers.get("Nats-Subject", ""),
        int(headers["Nats-Sequence"]),
        headers["Nats-Time-Stamp"],
        int(headers.get("Nats-Last-Sequence", "0")),
        msg.data,
    )


def is_chain(page: Sequence[Delivered]) -> bool:
    """Whether each message of a page names the one before it; the server starts with 0."""
    previous = 0
    for each in page:
        if each.previous != previous:
            return False
        previous = each.seq
    return True
