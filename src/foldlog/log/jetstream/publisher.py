"""Publishing a group of records until the outcome of each is known, or time is up (ADR 0004).

Where an ack is lost, a record is published again with the message id that it had: the server
stores it if it is missing, and acknowledges it if it is there.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, TypeGuard, TypeVar

import msgspec
from nats.aio.msg import Msg

from foldlog.errors import (
    AppendConflict,
    AppendFailed,
    AppendUnknown,
    FoldlogError,
    LogRewound,
    LogUnavailable,
    StoreClosed,
)
from foldlog.log.jetstream import wire
from foldlog.log.jetstream.asking import PAUSE, Asking
from foldlog.log.jetstream.client import Outgoing, parse_headers
from foldlog.log.jetstream.connection import ReplyLost, status_of
from foldlog.log.jetstream.gate import Gate
from foldlog.log.jetstream.server_details import LAST_SEQUENCE
from foldlog.log.jetstream.stream import DUPLICATE_SECONDS, StreamClient
from foldlog.log.port import Append

E = TypeVar("E", bound=FoldlogError)

_BATCH_FROM: Final = 32
"""Messages from which on a batch costs less than publishes, on a server that stages on disk."""

_BATCH_FROM_IN_MEMORY: Final = 2
"""The same where batches are staged in memory."""

_FIRST_PATIENCE: Final = 2.5
"""Seconds that the first attempt waits for its replies, each further one twice as long. A leader
that was killed answers nobody, and the next one may be there long before time is up."""

_LATEST_RETRY: Final = DUPLICATE_SECONDS / 2
"""Seconds after the first doubtful attempt from which on none is made: it might be stored twice."""


class BatchLost(LogUnavailable):
    """The server could not keep a batch until its end. Nothing of it is stored."""

    page: ClassVar[str] = LogUnavailable.page


class BatchStored(ReplyLost):
    """Messages of a batch are stored already: some of them, or all."""

    page: ClassVar[str] = LogUnavailable.page


Outcome = int | FoldlogError
"""The sequence at which a message is stored, or why it is not: a LogUnavailable if another attempt
may still store it, a ReplyLost among them if it may be stored already."""

CLOSED_IN_FLIGHT: Final = ReplyLost("closed while it was in flight")

_ack_decoder = msgspec.json.Decoder(wire.PubAck)


class Publication(msgspec.Struct, frozen=True, gc=False):
    """One record on its way; `expect` is the last sequence that its subject must have.

    `after`: the last sequence that the stream must have; only of a batch's first message. `time`:
    when another log stored it first, RFC 3339.
    """

    subject: str
    payload: bytes
    id: str
    expect: int | None = None
    after: int | None = None
    time: str = ""

    @property
    def expected(self) -> int | None:
        """The last sequence of its subject, or of the stream, that it depends on."""
        return self.after if self.expect is None else self.expect

    def outgoing(self, *more: str) -> Outgoing:
        """Return it with the headers of a plain publish, and `more` lines of them."""
        lines = ["NATS/1.0", f"Nats-Msg-Id: {self.id}", *more]
        if self.expect is not None:
            lines.append(f"Nats-Expected-Last-Subject-Sequence: {self.expect}")
        if self.after is not None:
            lines.append(f"Nats-Expected-Last-Sequence: {self.after}")
        if self.time:
            lines.append(f"{wire.FIRST_TIME}: {self.time}")
        return Outgoing(self.subject, self.payload, "\r\n".join([*lines, "\r\n"]).encode())


def read_reply(reply: Msg | None, unit: Sequence[int], messages: Sequence[Publication]) -> Outcome:
    """Return what the reply to one attempt at some messages says of it, where one came."""
    if reply is None:
        return ReplyLost("no reply came")
    if status_of(reply) == "503":
        return LogUnavailable("nobody serves the stream")
    ack = _ack_decoder.decode(reply.data)
    if ack.error is None:
        return ack.seq
    reason, code = ack.error.description, ack.error.err_code
    if code in wire.WRONG_LAST:
        found = LAST_SEQUENCE.search(reason)
        expecting = next(messages[n] for n in unit if messages[n].expected is not None)
        actual = int(found[1]) if found else None
        return AppendConflict(expecting.subject, expecting.expected or 0, actual)
    if code == wire.DUPLICATE_IN_BATCH:
        return BatchStored(reason)
    if code == wire.DUPLICATE_IN_PROCESS:
        return ReplyLost(reason)
    if code == wire.BATCH_INCOMPLETE:
        return BatchLost("the server could not keep a batch until its end")
    if ack.error.code == wire.NO_LEADER:
        return LogUnavailable(reason)
    return AppendFailed(f"{reason} ({code})")


class Publisher:
    """Publishes to one stream.

    `stage` has batches staged in memory, and is called again when the server could not keep one
    until its end. None: the server stages them on its disk.
    """

    def __init__(self, stream: StreamClient, gate: Gate, stage: Callable[[], None] | None) -> None:
        self._stream = stream
        self._gate = gate
        self._stage = stage
        self._batch_from = _BATCH_FROM if stage is None else _BATCH_FROM_IN_MEMORY

    async def store(
        self, messages: Sequence[Publication], *, atomic: bool, deadline: float
    ) -> list[Outcome]:
        """Publish at most 1,000 messages; return the outcome of each, by `deadline`.

        Among them are StoreClosed if the connection was closed, LogRewound if the log has lost what
        it held (see `Gate`), AppendFailed if a message is larger than this server takes.
        """
        outcomes: list[Outcome] = [LogUnavailable("time is up")] * len(messages)
        as_batch = len(messages) > 1 and (atomic or len(messages) >= self._batch_from)
        asking = Asking(self._stream.connection, deadline, _FIRST_PATIENCE)
        try:
            while (left := asking.deadline - time.monotonic()) > 0:
                units = [range(len(messages))] if as_batch else next_units(messages, outcomes)
                try:
                    if not self._gate.passes_appends:
                        await self._gate.check_before_append(left)
                        continue
                    replies = await self._stream.connection.request_each(
                        requests_for(messages, units),
                        asks=len(units),
                        # Half of what is left, so that the other half can settle a lost reply.
                        timeout=min(asking.patience, left / 2, _LATEST_RETRY / 2),
                    )
                    found = list(map(read_reply, replies, units, itertools.repeat(messages)))
                except LogUnavailable as error:  # nothing was sent
                    found = [LogUnavailable(str(error))] * len(units)
                for unit, result in zip(units, found, strict=True):
                    in_doubt = isinstance(outcomes[unit[0]], ReplyLost)
                    if in_doubt and isinstance(result, AppendConflict):
                        tried = [messages[index] for index in unit]
                        result = await self._read_back(tried, result, deadline)
                    note(outcomes, unit, result)
                    if isinstance(result, int):
                        self._gate.appended(result)
                still_open = [each for each in outcomes if isinstance(each, LogUnavailable)]
                if not still_open:
                    break
                if not any(isinstance(outcomes[unit[0]], LogUnavailable) for unit in units):
                    continue  # with the next messages of the same subjects
                if BatchLost in map(type, still_open) and self._stage is not None:
                    self._stage()
                # What must not be torn is not, until the server says that a part of it is stored.
                as_batch = as_batch and atomic and BatchStored not in map(type, still_open)
                worst = _worst(still_open)
                if isinstance(worst, ReplyLost):
                    asking.deadline -= max(left - _LATEST_RETRY, 0)  # counted from this attempt
                await asking.again(worst)
        except (StoreClosed, LogRewound, AppendFailed, LogUnavailable) as error:
            for index, each in enumerate(outcomes):
                if isinstance(each, LogUnavailable):
                    outcomes[index] = _after(each, error)
        return outcomes

    async def _read_back(
        self, unit: Sequence[Publication], conflict: AppendConflict, deadline: float
    ) -> Outcome:
        """Return what a conflict means where an earlier attempt may be stored.

        Without replicas a server compares sequences before message ids, so the mismatch may be with
        this very message: then it stands next in the subject after the expected sequence.
        """
        for message in unit:
            if message.expect is None:
                continue
            request = {"seq": message.expect + 1, "next_by_subj": message.subject}
            try:
                stands = await self._stream.find(request, max(deadline, time.monotonic() + PAUSE))
            except (LogUnavailable, StoreClosed):
                break
            if stands is None:
                continue
            if parse_headers(stands.hdrs).get("Nats-Msg-Id", "") != message.id:
                return conflict
            if len(unit) == 1:
                return stands.seq
            return BatchStored(conflict.reason)
        return ReplyLost(conflict.reason)


def next_units(
    messages: Sequence[Publication], outcomes: Sequence[Outcome]
) -> list[tuple[int, ...]]:
    """Return what to publish side by side: the first message of each subject that is still open.

    The second could be stored although the first was not, and so out of order.
    """
    first: dict[str, int] = {}
    for index, (message, found) in enumerate(zip(messages, outcomes, strict=True)):
        if isinstance(found, LogUnavailable):
            first.setdefault(message.subject, index)
    return list(zip(first.values(), strict=True))


def requests_for(messages: Sequence[Publication], units: Sequence[Sequence[int]]) -> list[Outgoing]:
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
        else:
            outcomes[index] = _after(outcomes[index], result)


def are_stored(outcomes: Sequence[Outcome]) -> TypeGuard[Sequence[int]]:
    """Whether all of them are sequences."""
    return {int}.issuperset(map(type, outcomes))


def stored_at(
    appends: Sequence[Append], spans: Sequence[tuple[int, int]], outcomes: Sequence[Outcome]
) -> list[int]:
    """Return the sequences at which appends end, or raise the port's error for all of them.

    `spans` are the indexes of the first and last message of each append.
    """
    found = [each for first, last in spans for each in outcomes[first : last + 1]]
    failures = [each for each in found if not isinstance(each, int)]
    if not failures:
        return [end for _, last in spans if isinstance(end := outcomes[last], int)]
    failure = _worst(failures)
    if isinstance(failure, ReplyLost) or len(failures) < len(found):
        ids = [draft.id for append in appends for draft in append.drafts]
        raise AppendUnknown(ids, _reason(failure))
    raise failure


def _worst(failures: Sequence[E]) -> E:
    """Return the failure that decides for all: one that leaves a message in doubt."""
    return next((each for each in failures if isinstance(each, ReplyLost)), failures[0])


def _after(earlier: Outcome, later: FoldlogError) -> FoldlogError:
    """Return how a message has failed in two attempts: the first one may have stored it.

    A conflict decides for both: it was made sure that it is with another message.
    """
    if not isinstance(earlier, ReplyLost) or isinstance(later, ReplyLost | AppendConflict):
        return later
    return ReplyLost(_reason(later))


def _reason(error: FoldlogError) -> str:
    return error.reason if isinstance(error, AppendFailed) else str(error)
