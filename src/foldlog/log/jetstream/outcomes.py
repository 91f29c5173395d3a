"""How an append ends, by the server's replies. Pure.

1. An ack says stored: committed.
2. The server refused it, or nothing was sent: not committed.
3. Anything else is unknown, until an attempt with the same message id is acknowledged, or the log
   is read back.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final, NamedTuple, TypeGuard

import msgspec
from nats.aio.msg import Msg

from foldlog.errors import AppendConflict, AppendFailed, AppendUnknown, LogUnavailable
from foldlog.log.jetstream import wire
from foldlog.log.jetstream.connection import status_of
from foldlog.log.jetstream.server_details import LAST_SEQUENCE
from foldlog.log.port import Append


class Kind(Enum):
    """Why a message was not stored, or is not known to be. The last two may be tried again."""

    CONFLICT = auto()
    REFUSED = auto()
    UNREACHABLE = auto()
    UNKNOWN = auto()


class Failure(NamedTuple):
    """A message without a sequence.

    `code` is the server's error code. `actual` is where the subject ends, after a conflict.
    """

    kind: Kind
    reason: str
    code: int = 0
    actual: int | None = None


Outcome = int | Failure
"""The sequence at which a message is stored, or why it is not."""

UNSENT: Final = Failure(Kind.UNREACHABLE, "time is up")
CLOSED_IN_FLIGHT: Final = Failure(Kind.UNKNOWN, "closed while it was in flight")

_UNKNOWN_CODES: Final = (wire.DUPLICATE_IN_BATCH, wire.DUPLICATE_IN_PROCESS)

_ack_decoder = msgspec.json.Decoder(wire.PubAck)


def read_reply(reply: Msg | None) -> Outcome:
    """Return what the reply to one attempt says of that attempt; None is no reply."""
    if reply is None:
        return Failure(Kind.UNKNOWN, "no reply came")
    if status_of(reply) == "503":
        return Failure(Kind.UNREACHABLE, "nobody serves the stream")
    ack = _ack_decoder.decode(reply.data)
    if ack.error is None:
        return ack.seq
    reason, code = ack.error.description, ack.error.err_code
    if code in wire.WRONG_LAST:
        found = LAST_SEQUENCE.search(reason)
        return Failure(Kind.CONFLICT, reason, code, int(found[1]) if found else None)
    if code in _UNKNOWN_CODES:
        return Failure(Kind.UNKNOWN, reason, code)
    if code == wire.BATCH_INCOMPLETE:
        reason = "the server could not keep a batch until its end"
        return Failure(Kind.UNREACHABLE, reason, code)
    if ack.error.code == 503:
        return Failure(Kind.UNREACHABLE, reason, code)
    return Failure(Kind.REFUSED, f"{reason} ({code})", code)


def is_open(found: Outcome) -> TypeGuard[Failure]:
    """Whether another attempt may still store the message."""
    return isinstance(found, Failure) and found.kind in (Kind.UNREACHABLE, Kind.UNKNOWN)


def is_unknown(found: Outcome) -> bool:
    """Whether the message may be stored already."""
    return isinstance(found, Failure) and found.kind is Kind.UNKNOWN


def is_conflict(found: Outcome) -> TypeGuard[Failure]:
    """Whether the subject did not end where the message expected."""
    return isinstance(found, Failure) and found.kind is Kind.CONFLICT


def verdict(
    appends: Sequence[Append], spans: Sequence[tuple[int, int]], outcomes: Sequence[Outcome]
) -> list[int] | Exception:
    """Return the sequences at which appends end, or the port's error for all of them.

    `spans`: the first and last message of each append, by their place in `outcomes`.
    """
    found = [each for first, last in spans for each in outcomes[first : last + 1]]
    failures = [each for each in found if isinstance(each, Failure)]
    if not failures:
        return [end for _, last in spans if isinstance(end := outcomes[last], int)]
    failure = next(filter(is_unknown, failures), failures[0])
    if failure.kind is Kind.UNKNOWN or len(failures) < len(found):
        ids = [draft.id for append in appends for draft in append.drafts]
        return AppendUnknown(ids, failure.reason)
    if failure.kind is Kind.UNREACHABLE:
        return LogUnavailable(failure.reason)
    if failure.kind is Kind.CONFLICT:
        refused = next(append for append in appends if append.expect is not None)
        return AppendConflict(refused.subject.name, refused.expect or 0, failure.actual)
    return AppendFailed(failure.reason)
