"""How an append ends, told from the server's replies: pure decisions.

1. The ack says stored: committed.
2. The ack says refused, or nothing was sent: not committed.
3. Anything else is not known until another attempt with the same message id has told.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

import msgspec
from nats.aio.msg import Msg

from foldlog.errors import (
    AppendConflict,
    AppendFailed,
    AppendUnknown,
    FoldlogError,
    LogUnavailable,
)
from foldlog.log.jetstream import wire
from foldlog.log.jetstream.connection import ReplyLost, status_of
from foldlog.log.jetstream.server_details import LAST_SEQUENCE
from foldlog.log.port import Append


class Kind(Enum):
    """Why a message was not stored, or is not known to be."""

    CONFLICT = auto()
    REFUSED = auto()
    UNREACHABLE = auto()
    UNKNOWN = auto()


class Failure(NamedTuple):
    """A message without a sequence; `actual` is where its subject ends, after a conflict."""

    kind: Kind
    reason: str
    actual: int | None = None


Outcome = int | Failure
"""The sequence at which a message is stored, or why it is not."""

CLOSED_IN_FLIGHT: Final = Failure(Kind.UNKNOWN, "closed while it was in flight")


class Undecided(FoldlogError):
    """Nothing is decided yet; another attempt may succeed.

    `duplicate`: the batch, or part of it, is stored. Otherwise none of it is.
    """

    def __init__(self, *, duplicate: bool) -> None:
        super().__init__()
        self.duplicate = duplicate


_ack_decoder = msgspec.json.Decoder(wire.PubAck)


def outcome(reply: Msg | None) -> Outcome:
    """What the reply to a publish says.

    Raises:
        ReplyLost: there is none, or an earlier attempt is still being decided.
        Undecided: nothing is decided yet.
        LogUnavailable: the stream cannot take writes now.
    """
    if reply is None:
        raise ReplyLost("no reply came")
    if status_of(reply) == "503":
        raise LogUnavailable("nobody serves the stream")
    ack = _ack_decoder.decode(reply.data)
    return ack.seq if ack.error is None else _refused(ack.error)


def _refused(error: wire.ApiError) -> Failure:
    if error.err_code in wire.WRONG_LAST:
        found = LAST_SEQUENCE.search(error.description)
        return Failure(Kind.CONFLICT, error.description, int(found[1]) if found else None)
    if error.err_code in (wire.DUPLICATE_IN_BATCH, wire.BATCH_INCOMPLETE):
        raise Undecided(duplicate=error.err_code == wire.DUPLICATE_IN_BATCH)
    if error.err_code == wire.DUPLICATE_IN_PROCESS:
        raise ReplyLost(error.description)
    if error.code == 503:
        raise LogUnavailable(error.description)
    return Failure(Kind.REFUSED, f"{error.description} ({error.err_code})")


def conflicts(found: Outcome) -> bool:
    """Whether an outcome is that of a compare-and-set which did not find what it expected."""
    return isinstance(found, Failure) and found.kind is Kind.CONFLICT


def doubted(found: Outcome) -> Outcome:
    """What an outcome means for a message whose first attempt may still be under way.

    A refusal may be of the second attempt alone.
    """
    return found if isinstance(found, int) else Failure(Kind.UNKNOWN, found.reason)


def settled(found: Outcome, index: int, first: int | None) -> Outcome:
    """What the outcome of a compare-and-set in doubt means, now that the log was read.

    `first`: where the first of its messages stands, of which this is the one at `index`; None if
    something else stands where it was to stand, so that it is not stored and never will be.
    """
    if not conflicts(found):
        return doubted(found)
    return found if first is None else first + index


def verdict(
    appends: Sequence[Append], spans: Sequence[tuple[int, int]], outcomes: Sequence[Outcome]
) -> list[int] | Exception:
    """What the outcomes of a group's messages mean for appends that it carried.

    `spans` are the first and last message that hold each append. Returns the sequences at which
    the appends end, or the error of the port that says how they ended as a whole.
    """
    seqs, failures, messages = [], [], 0
    for first, last in spans:
        messages += last + 1 - first
        failures += [o for o in outcomes[first : last + 1] if isinstance(o, Failure)]
        end = outcomes[last]
        if isinstance(end, int):
            seqs.append(end)
    if not failures:
        return seqs
    failure = failures[0]
    if failure.kind is Kind.UNKNOWN or len(failures) < messages:
        ids = [draft.id for append in appends for draft in append.drafts]
        return AppendUnknown(ids, failure.reason)
    if failure.kind is Kind.UNREACHABLE:
        return LogUnavailable(failure.reason)
    if failure.kind is Kind.CONFLICT:
        refused = next(append for append in appends if append.expect is not None)
        return AppendConflict(refused.subject.name, refused.expect or 0, failure.actual)
    return AppendFailed(failure.reason)
