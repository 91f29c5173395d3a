"""Publishing a group of records until the outcome of each is known, or time is up.

A group goes as plain publishes side by side or as one atomic batch, whichever has been cheaper
here. When the connection breaks or time passes after sending, the records are published again,
each with the message id it had: the server stores what is missing and acknowledges what is there.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from foldlog.errors import LogRewound, LogUnavailable, StoreClosed
from foldlog.log.jetstream import wire
from foldlog.log.jetstream.batching import BatchChooser
from foldlog.log.jetstream.client import Outgoing
from foldlog.log.jetstream.connection import Connection, ReplyLost
from foldlog.log.jetstream.gate import Gate
from foldlog.log.jetstream.outcomes import (
    CLOSED_IN_FLIGHT,
    Failure,
    Kind,
    Outcome,
    Undecided,
    conflicts,
    doubted,
    outcome,
    settled,
)
from foldlog.log.jetstream.parser import parse_headers
from foldlog.log.jetstream.requests import ask, found_message
from foldlog.log.jetstream.streams import DUPLICATE_SECONDS

_RETRY_PAUSE: Final = 0.05
"""Seconds between attempts while a stream has no leader or a batch was lost half-way."""

_FIRST_PATIENCE: Final = 2.5
"""Seconds that the first attempt waits for its reply, each further one twice as long. A leader that
is killed or deposed answers nobody, and the next one may be there long before time is up."""

_LATEST_RETRY: Final = DUPLICATE_SECONDS / 2
"""Seconds after the first attempt from which on none is made: it might be stored twice."""


class Message(NamedTuple):
    """One record on its way; `expect` is the last sequence that its subject must have."""

    subject: str
    payload: bytes
    id: str
    expect: int | None = None

    def outgoing(self, *more: str) -> Outgoing:
        """The message with the headers of a plain publish, and `more` lines of them."""
        lines = ["NATS/1.0", f"Nats-Msg-Id: {self.id}", *more]
        if self.expect is not None:
            lines.append(f"Nats-Expected-Last-Subject-Sequence: {self.expect}")
        return Outgoing(self.subject, self.payload, "\r\n".join([*lines, "\r\n"]).encode())


class Group(NamedTuple):
    """A group of records that was published. `bytes` of their bodies, `stored` of its records."""

    records: int
    stored: int
    bytes: int
    seconds: float


OnGroup = Callable[[Group], None]


class Publisher:
    """Publishes to one stream.

    Args:
        on_incomplete: called when the server could not keep a batch until its end; it may put
            right what is in the way before the next attempt.
        gate: lets nothing pass before the stream was checked; learns of what is acked.

    Attributes:
        on_group: called after each group, if it is there.
    """

    def __init__(
        self,
        connection: Connection,
        stream: str,
        gate: Gate,
        *,
        on_incomplete: Callable[[], None] = lambda: None,
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._chooser = BatchChooser()
        self._on_incomplete = on_incomplete
        self._gate = gate
        self.on_group: OnGroup | None = None

    async def store(
        self, messages: list[Message], *, atomic: bool, deadline: float
    ) -> list[Outcome]:
        """Publish at most 1,000 messages; return the outcome of each, by `deadline`.

        Raises:
            StoreClosed: the connection was closed before anything was sent.
            LogRewound: nothing was sent, for the log has lost what it held: see `Gate`.
        """
        if self.on_group is None:
            return await self._store(messages, atomic=atomic, deadline=deadline)
        began = time.perf_counter()
        outcomes = await self._store(messages, atomic=atomic, deadline=deadline)
        stored = sum(isinstance(found, int) for found in outcomes)
        size = sum(len(message.payload) for message in messages)
        self.on_group(Group(len(messages), stored, size, time.perf_counter() - began))
        return outcomes

    async def _store(
        self, messages: list[Message], *, atomic: bool, deadline: float
    ) -> list[Outcome]:
        in_doubt, reason, longest = False, "time is up", _FIRST_PATIENCE
        as_batch = self._goes_as_batch(messages, atomic=atomic)
        outcomes: list[Outcome | None] = [None] * len(messages)
        while True:
            now = asyncio.get_running_loop().time()
            left = deadline - now
            try:
                await self._connection.ready(left)
                if left <= 0:
                    raise LogUnavailable(reason)
                if not self._gate.passes_appends:
                    await self._gate.check_before_append(left)
                    continue
                began = time.perf_counter()
                # Half of what is left, so that the other half can settle a lost reply.
                patience = min(longest, left / 2, _LATEST_RETRY / 2)
                if as_batch:
                    outcomes = list(await self._publish_batch(messages, timeout=patience))
                else:
                    await self._publish_each(messages, outcomes, timeout=patience)
                if len(messages) > 1:  # alone, it pays the round trip that a group shares
                    cost = time.perf_counter() - began
                    self._chooser.learn(len(messages), cost, as_batch=as_batch)
            except ReplyLost:
                if not in_doubt:
                    deadline = min(deadline, now + _LATEST_RETRY)
                in_doubt = True
                longest *= 2
                as_batch = as_batch and (atomic or _share_a_subject(messages))
                await asyncio.sleep(_RETRY_PAUSE)
            except StoreClosed:
                if not in_doubt:
                    raise
                return _ended(outcomes, CLOSED_IN_FLIGHT)
            except LogRewound as lost:
                if not in_doubt and not any(outcomes):
                    raise
                return _ended(outcomes, Failure(Kind.UNKNOWN, str(lost)))
            except LogUnavailable as error:
                if asyncio.get_running_loop().time() + _RETRY_PAUSE >= deadline:
                    kind = Kind.UNKNOWN if in_doubt else Kind.UNREACHABLE
                    return _ended(outcomes, Failure(kind, str(error)))
                await asyncio.sleep(_RETRY_PAUSE)
            except Undecided as undecided:
                if undecided.duplicate:  # complete one by one what is stored in part
                    in_doubt = True
                    as_batch = False
                    await asyncio.sleep(0)
                else:
                    self._on_incomplete()
                    as_batch = atomic or _share_a_subject(messages)
                    reason = "the server could not keep a batch until its end"
                    await asyncio.sleep(_RETRY_PAUSE)
            known = [found for found in outcomes if found is not None]
            if len(known) == len(messages):
                if isinstance(known[-1], int):
                    self._gate.appended(known[-1])
                if not in_doubt:
                    return known
                settled = await self._settled(messages, known, deadline)
                if settled is not None:
                    return settled
                outcomes = [o if isinstance(o, int) else None for o in outcomes]
                await asyncio.sleep(_RETRY_PAUSE)

    async def _settled(
        self, messages: list[Message], outcomes: list[Outcome], deadline: float
    ) -> list[Outcome] | None:
        """What outcomes mean where an earlier attempt may be stored; None while that is open."""
        if not any(conflicts(found) for found in outcomes):
            return [doubted(found) for found in outcomes]
        for index, message in enumerate(messages):
            if message.expect is None:
                continue
            left = deadline - asyncio.get_running_loop().time()
            try:
                # What stands directly behind the expected sequence tells: nothing else can ever
                # have been stored there. Without replicas a server compares that sequence before
                # it looks at the message id, so the mismatch may be with this very message.
                answer = await ask(
                    self._connection,
                    f"STREAM.MSG.GET.{self._stream}",
                    wire.MessageAnswer,
                    {"seq": message.expect + 1, "next_by_subj": message.subject},
                    timeout=max(left, _RETRY_PAUSE),
                )
                stands = found_message(answer)
            except (LogUnavailable, StoreClosed):
                return None
            if stands is not None:
                is_ours = parse_headers(stands.hdrs).get("Nats-Msg-Id", "") == message.id
                first = stands.seq - index if is_ours else None
                return [settled(found, n, first) for n, found in enumerate(outcomes)]
        return None

    def _goes_as_batch(self, messages: list[Message], *, atomic: bool) -> bool:
        if len(messages) == 1:
            return False
        if atomic or self._chooser.prefers_batch(len(messages)):
            return True
        return _share_a_subject(messages)

    async def _publish_each(
        self, messages: list[Message], outcomes: list[Outcome | None], *, timeout: float
    ) -> None:
        """Publish what has no outcome yet, side by side, and note the outcomes that come."""
        missing = [index for index, found in enumerate(outcomes) if found is None]
        replies = await self._connection.request_each(
            [messages[index].outgoing() for index in missing], timeout=timeout
        )
        problem: LogUnavailable | Undecided | None = None
        for index, reply in zip(missing, replies, strict=True):
            try:
                outcomes[index] = outcome(reply)
            except ReplyLost as lost:
                problem = lost  # doubt outweighs whatever else went wrong
            except (LogUnavailable, Undecided) as other:
                problem = problem or other
        if problem is not None:
            raise problem

    async def _publish_batch(
        self, messages: list[Message], *, timeout: float
    ) -> list[int] | list[Failure]:
        batch = f"Nats-Batch-Id: {secrets.token_hex(12)}"
        *body, final = messages
        outgoing = [
            message.outgoing(batch, f"Nats-Batch-Sequence: {number}")
            for number, message in enumerate(body, 1)
        ]
        commit = f"Nats-Batch-Sequence: {len(messages)}\r\nNats-Batch-Commit: 1"
        outgoing.append(final.outgoing(batch, commit))
        last = outcome(await self._connection.request_last(outgoing, timeout=timeout))
        if isinstance(last, Failure):
            return [last] * len(messages)
        return list(range(last - len(messages) + 1, last + 1))


def _ended(outcomes: Sequence[Outcome | None], otherwise: Failure) -> list[Outcome]:
    """The outcomes that are known; of all others, that one."""
    return [found if found is not None else otherwise for found in outcomes]


def _share_a_subject(messages: list[Message]) -> bool:
    """Whether two messages are of one subject.

    Side by side, one of the two could fail alone and be stored late, out of order; in a batch it
    cannot.
    """
    return len({message.subject for message in messages}) < len(messages)
