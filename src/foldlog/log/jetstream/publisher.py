"""Publishing a group of records until the outcome of each is known, or time is up (ADR 0004).

Where an ack is lost, a record is published again with the message id that it had: the server
stores it if it is missing, and acknowledges it if it is there.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple, TypeGuard

import msgspec
from nats.aio.msg import Msg

from foldlog.errors import (
    AppendConflict,
    AppendFailed,
    AppendUnknown,
    LogRewound,
    LogUnavailable,
    StoreClosed,
)
from foldlog.log.jetstream import wire
from foldlog.log.jetstream.client import Outgoing, parse_headers
from foldlog.log.jetstream.connection import Connection, status_of
from foldlog.log.jetstream.gate import Gate
from foldlog.log.jetstream.server_details import LAST_SEQUENCE
from foldlog.log.jetstream.stream import DUPLICATE_SECONDS, ask, found_message
from foldlog.log.port import Append

_BATCH_FROM: Final = 32
"""Messages from which on a batch costs less than publishes, on a server that stages on disk."""

_BATCH_FROM_IN_MEMORY: Final = 2
"""The same where batches are staged in memory."""

_RETRY_PAUSE: Final = 0.05
"""Seconds between attempts."""

_FIRST_PATIENCE: Final = 2.5
"""Seconds that the first attempt waits for its replies, each further one twice as long. A leader
that was killed answers nobody, and the next one may be there long before time is up."""

_LATEST_RETRY: Final = DUPLICATE_SECONDS / 2
"""Seconds after the first doubtful attempt from which on none is made: it might be stored twice."""


class Kind(Enum):
    """Why a message was not stored, or is not known to be. The last two may be tried again."""

    CONFLICT = auto()
    REFUSED = auto()
    UNREACHABLE = auto()
    UNKNOWN = auto()


class Failure(NamedTuple):
    """A message without a sequence. `actual`: where the subject ends, after a conflict."""

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
    """Return what the reply to one attempt says of that attempt, where one came."""
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


class Message(msgspec.Struct, frozen=True, gc=False):
    """One record on its way; `expect` is the last sequence that its subject must have.

    `after`: the last sequence that the stream must have; only of a batch's first message.
    """

    subject: str
    payload: bytes
    id: str
    expect: int | None = None
    after: int | None = None

    def outgoing(self, *more: str) -> Outgoing:
        """Return it with the headers of a plain publish, and `more` lines of them."""
        lines = ["NATS/1.0", f"Nats-Msg-Id: {self.id}", *more]
        if self.expect is not None:
            lines.append(f"Nats-Expected-Last-Subject-Sequence: {self.expect}")
        if self.after is not None:
            lines.append(f"Nats-Expected-Last-Sequence: {self.after}")
        return Outgoing(self.subject, self.payload, "\r\n".join([*lines, "\r\n"]).encode())


class Publisher:
    """Publishes to one stream.

    `stage` has batches staged in memory, and is called again when the server could not keep one
    until its end. None: the server stages them on its disk.
    """

    def __init__(
        self, connection: Connection, stream: str, gate: Gate, stage: Callable[[], None] | None
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._gate = gate
        self._stage = stage
        self._batch_from = _BATCH_FROM if stage is None else _BATCH_FROM_IN_MEMORY

    async def store(
        self, messages: Sequence[Message], *, atomic: bool, deadline: float
    ) -> list[Outcome]:
        """Publish at most 1,000 messages; return the outcome of each, by `deadline`.

        Raises:
            StoreClosed: the connection was closed before anything was sent.
            LogRewound: nothing was sent, for the log has lost what it held: see `Gate`.
            AppendFailed: nothing was sent, for a message is larger than this server takes.
        """
        loop = asyncio.get_running_loop()
        outcomes: list[Outcome] = [UNSENT] * len(messages)
        as_batch = len(messages) > 1 and (atomic or len(messages) >= self._batch_from)
        patience = _FIRST_PATIENCE
        while (left := deadline - (began := loop.time())) > 0:
            units = [range(len(messages))] if as_batch else next_units(messages, outcomes)
            try:
                await self._connection.ready(left)
                if not self._gate.passes_appends:
                    await self._gate.check_before_append(left)
                    continue
                replies = await self._connection.request_each(
                    requests_for(messages, units),
                    asks=len(units),
                    # Half of what is left, so that the other half can settle a lost reply.
                    timeout=min(patience, left / 2, _LATEST_RETRY / 2),
                )
                found = [read_reply(reply) for reply in replies]
            except (StoreClosed, LogRewound, AppendFailed) as error:
                if all(isinstance(o, Failure) and o.kind is Kind.UNREACHABLE for o in outcomes):
                    raise
                return [o._replace(reason=str(error)) if is_open(o) else o for o in outcomes]
            except LogUnavailable as error:
                found = [Failure(Kind.UNREACHABLE, str(error))] * len(units)
            for unit, result in zip(units, found, strict=True):
                if is_conflict(result) and is_unknown(outcomes[unit[0]]):
                    result = await self._read_back([messages[n] for n in unit], result, deadline)
                note(outcomes, unit, result)
                if isinstance(result, int):
                    self._gate.appended(result)
            still_open = [each for each in outcomes if is_open(each)]
            if not still_open:
                return outcomes
            if not any(is_open(outcomes[unit[0]]) for unit in units):
                continue  # with the next messages of the same subjects
            codes = {each.code for each in still_open}
            if wire.BATCH_INCOMPLETE in codes and self._stage is not None:
                self._stage()
            # What must not be torn is not, until the server says that a part of it is stored.
            as_batch = as_batch and atomic and wire.DUPLICATE_IN_BATCH not in codes
            if any(map(is_unknown, still_open)):
                deadline = min(deadline, began + _LATEST_RETRY)
                patience *= 2
            await asyncio.sleep(min(_RETRY_PAUSE, max(deadline - loop.time(), 0)))
        return outcomes

    async def _read_back(
        self, unit: Sequence[Message], conflict: Failure, deadline: float
    ) -> Outcome:
        """Return what a conflict means where an earlier attempt may be stored.

        Without replicas a server compares sequences before message ids, so the mismatch may be with
        this very message: then it stands next in the subject after the expected sequence.
        """
        for message in unit:
            if message.expect is None:
                continue
            left = deadline - asyncio.get_running_loop().time()
            try:
                answer = await ask(
                    self._connection,
                    f"STREAM.MSG.GET.{self._stream}",
                    wire.MessageAnswer,
                    {"seq": message.expect + 1, "next_by_subj": message.subject},
                    timeout=max(left, _RETRY_PAUSE),
                )
                stands = found_message(answer)
            except (LogUnavailable, StoreClosed):
                break
            if stands is None:
                continue
            if parse_headers(stands.hdrs).get("Nats-Msg-Id", "") != message.id:
                return conflict
            if len(unit) == 1:
                return stands.seq
            return Failure(Kind.UNKNOWN, conflict.reason, wire.DUPLICATE_IN_BATCH)
        return Failure(Kind.UNKNOWN, conflict.reason)


def next_units(messages: Sequence[Message], outcomes: Sequence[Outcome]) -> list[tuple[int, ...]]:
    """Return what to publish side by side: the first message of each subject that is still open.

    The second could be stored although the first was not, and so out of order.
    """
    first: dict[str, int] = {}
    for index, (message, found) in enumerate(zip(messages, outcomes, strict=True)):
        if is_open(found):
            first.setdefault(message.subject, index)
    return [(index,) for index in first.values()]


def requests_for(messages: Sequence[Message], units: Sequence[Sequence[int]]) -> list[Outgoing]:
    """Return what to send: each unit is one message, or there is one unit, an atomic batch."""
    if len(units[0]) == 1:
        return [messages[index].outgoing() for (index,) in units]
    batch = f"Nats-Batch-Id: {os.urandom(12).hex()}"
    outgoing = [
        message.outgoing(batch, f"Nats-Batch-Sequence: {number}")
        for number, message in enumerate(messages[:-1], 1)
    ]
    last = f"Nats-Batch-Sequence: {len(messages)}"
    outgoing.append(messages[-1].outgoing(batch, last, "Nats-Batch-Commit: 1"))
    return outgoing


def note(outcomes: list[Outcome], unit: Sequence[int], result: Outcome) -> None:
    """Enter the result of an attempt. A refusal of it says nothing of an earlier one in doubt."""
    for behind, index in enumerate(reversed(unit)):
        if isinstance(result, int):
            outcomes[index] = result - behind
        elif is_unknown(outcomes[index]) and result.kind is not Kind.CONFLICT:
            outcomes[index] = result._replace(kind=Kind.UNKNOWN)
        else:
            outcomes[index] = result


def verdict(
    appends: Sequence[Append], spans: Sequence[tuple[int, int]], outcomes: Sequence[Outcome]
) -> list[int] | Exception:
    """Return the sequences at which appends end, or the port's error for all of them.

    `spans` are the indexes of the first and last message of each append.
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
