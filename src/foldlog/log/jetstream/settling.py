"""Settling a compare-and-set whose first attempt may have been stored, by reading back.

A server without replicas compares the expected sequence before it looks at the message id. So the
mismatch that a second attempt meets may be with the very message that the first one stored. What
stands directly behind the expected sequence tells: nothing else can ever have been stored there.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from foldlog.errors import LogUnavailable
from foldlog.log.jetstream import wire
from foldlog.log.jetstream.connection import Connection
from foldlog.log.jetstream.parser import parse_headers

_decoder = msgspec.json.Decoder(wire.MessageAnswer)


class Standing(NamedTuple):
    """A stored message: its sequence, and the id that it was published with."""

    seq: int
    id: str


async def behind(
    connection: Connection, stream: str, subject: str, sequence: int, *, timeout: float
) -> Standing | None:
    """Return what follows `sequence` on a subject, as the stream's leader has it; None for nothing.

    Raises:
        LogUnavailable: the leader did not say.
    """
    payload = msgspec.json.encode({"seq": sequence + 1, "next_by_subj": subject})
    reply = await connection.request(f"$JS.API.STREAM.MSG.GET.{stream}", payload, timeout=timeout)
    answer = _decoder.decode(reply.data)
    if answer.error is not None:
        if answer.error.err_code == wire.NO_MESSAGE:
            return None
        raise LogUnavailable(answer.error.description)
    assert answer.message is not None
    headers = parse_headers(answer.message.hdrs)
    return Standing(answer.message.seq, headers.get("Nats-Msg-Id", ""))
