"""Group commit: the write path of one stream.

Concurrent appends wait for no timer. While one group is in flight the next gathers, and envelopes
of one subject share a record. A group goes as plain publishes side by side or as one atomic batch,
whichever has been cheaper here. The batch is only a vehicle then; an atomic append alone relies on
its all-or-nothing.

How an append ends:
1. The ack says stored: committed.
2. The ack says refused, or nothing was sent: not committed.
3. The connection broke or time passed after sending: the records are published again, each with
   the message id it had. The server stores what is missing and acknowledges what is there, so
   that the outcome is known. If time runs out before that: unknown.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

import msgspec
from nats.aio.msg import Msg

from foldlog.envelope import pack
from foldlog.errors import AppendConflict, AppendFailed, AppendUnknown, LogUnavailable, StoreClosed
from foldlog.log.jetstream import wire
from foldlog.log.jetstream.connection import Connection, ReplyLost, status_of
from foldlog.log.jetstream.vehicle import Vehicle
from foldlog.log.packing import (
    MAX_BATCH_MESSAGES,
    OVERHEAD,
    RECORD_BYTES,
    Batch,
    check_atomic,
    sizes_of,
)
from foldlog.log.port import Append

_RETRY_PAUSE: Final = 0.05
"""Seconds between attempts while a stream has no leader or a batch was lost half-way."""

_EXCLUSIVE_IN_FLIGHT: Final = 32
"""Compare-and-set appends under way at once; the server takes 50 batches a stream."""

_ack_decoder = msgspec.json.Decoder(wire.PubAck)
_LAST_SEQUENCE = re.compile(r"wrong last sequence: (\d+)")


class _Kind(Enum):
    CONFLICT = auto()
    REFUSED = auto()
    UNREACHABLE = auto()
    UNKNOWN = auto()


class _Failure(NamedTuple):
    kind: _Kind
    reason: str
    actual: int | None = None


class _Message(NamedTuple):
    subject: str
    payload: bytes
    id: str
    expect: int | None = None

    @property
    def headers(self) -> dict[str, str]:
        headers = {"Nats-Msg-Id": self.id}
        if self.expect is not None:
            headers["Nats-Expected-Last-Subject-Sequence"] = str(self.expect)
        return headers


_Outcome = int | _Failure
_CLOSED_IN_FLIGHT: Final = _Failure(_Kind.UNKNOWN, "closed while it was in flight")


@dataclass(slots=True, eq=False)
class _Waiting:
    appends: Sequence[Append]
    sizes: list[int]
    atomic: bool
    deadline: float
    done: asyncio.Future[list[int]]
    spans: list[tuple[int, int]] | None = None


class Appender:
    """Appends to one stream, in order. Its task lives from the first append until `close`."""

    def __init__(self, connection: Connection, *, timeout: float) -> None:
        self._connection = connection
        self._timeout = timeout
        self._queue: deque[_Waiting] = deque()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._pump: asyncio.Task[None] | None = None
        self._vehicle = Vehicle()
        self._exclusive = asyncio.Semaphore(_EXCLUSIVE_IN_FLIGHT)
        self._closed = False

    async def append(self, appends: Sequence[Append], *, atomic: bool) -> list[int]:
        """See the port. All subjects must belong to this stream."""
        sizes = sizes_of(appends, self._connection.max_payload)
        if atomic:
            check_atomic(appends, self._record_bytes)
        if self._closed:
            raise StoreClosed
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[int]] = loop.create_future()
        waiting = _Waiting(appends, sizes, atomic, loop.time() + self._timeout, done)
        if atomic and any(append.expect is not None for append in appends):
            # Its order is decided by what it expects, so it need not queue; and it must not share
            # a batch, which one mismatch would fail for everybody.
            async with self._exclusive:
                try:
                    await self._commit(self._new_batch(), [waiting])
                except asyncio.CancelledError:
                    done.exception()  # the one who would be told is gone
                    raise
            return await done
        if not self._queue:
            self._idle.clear()
            self._wake.set()
        self._queue.append(waiting)
        if self._pump is None:
            self._pump = asyncio.create_task(self._run(), name="foldlog-appender")
        return await done

    async def close(self) -> None:
        """Let queued appends finish within their time, then stop. Idempotent."""
        self._closed = True
        if self._pump is None:
            return
        try:
            async with asyncio.timeout(self._timeout):
                await self._idle.wait()
        except TimeoutError:
            pass  # what still waits is told below
        self._pump.cancel()
        await asyncio.wait([self._pump])
        for waiting in self._queue:
            if not waiting.done.done():
                waiting.done.set_exception(StoreClosed())

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                batch, riders = self._take()
                if riders:
                    await self._commit(batch, riders)
            self._idle.set()

    def _take(self) -> tuple[Batch, list[_Waiting]]:
        batch, riders = self._new_batch(), list[_Waiting]()
        now = asyncio.get_running_loop().time()
        while self._queue:
            waiting = self._queue[0]
            if waiting.done.done():  # its caller was cancelled before it was sent
                self._queue.popleft()
                continue
            if waiting.deadline < now:
                self._queue.popleft()
                waiting.done.set_exception(LogUnavailable("not sent in time: the log is away"))
                continue
            spans = batch.add(waiting.appends, waiting.sizes)
            if spans is None:
                break
            waiting.spans = spans
            riders.append(self._queue.popleft())
        return batch, riders

    @property
    def _record_bytes(self) -> int:
        return min(RECORD_BYTES, self._connection.max_payload - OVERHEAD)

    def _new_batch(self) -> Batch:
        return Batch(self._record_bytes)

    async def _commit(self, batch: Batch, riders: list[_Waiting]) -> None:
        for rider in riders:
            if rider.spans is None:
                rider.spans = batch.add(rider.appends, rider.sizes)
        expects = {a.subject: a.expect for rider in riders for a in rider.appends}
        messages = [
            # Only a subject's first record can stand where `expect` says.
            _Message(subject.name, pack(drafts), secrets.token_hex(12), expects.pop(subject, None))
            for subject, drafts in batch.records
        ]
        atomic = any(rider.atomic for rider in riders)
        deadline = max(rider.deadline for rider in riders)
        outcomes: list[_Outcome] = []
        try:
            # A group that holds an atomic append fits in one batch; a bulk append may not.
            for start in range(0, len(messages), MAX_BATCH_MESSAGES):
                part = messages[start : start + MAX_BATCH_MESSAGES]
                if start:  # each part has a time of its own
                    deadline = asyncio.get_running_loop().time() + self._timeout
                outcomes += await self._store(part, atomic=atomic, deadline=deadline)
        except asyncio.CancelledError:
            left = len(messages) - len(outcomes)
            _tell(riders, [*outcomes, *[_CLOSED_IN_FLIGHT] * left])
            raise
        except Exception as error:  # noqa: BLE001 - handed to everyone who waits for this batch
            for rider in riders:
                if not rider.done.done():
                    rider.done.set_exception(error)
            return
        _tell(riders, outcomes)

    async def _store(
        self, messages: list[_Message], *, atomic: bool, deadline: float
    ) -> list[_Outcome]:
        """Publish until every message has an outcome or time is up."""
        in_doubt = False
        as_batch = self._goes_as_batch(messages, atomic=atomic)
        outcomes: list[_Outcome | None] = [None] * len(messages)
        while True:
            left = deadline - asyncio.get_running_loop().time()
            try:
                await self._connection.ready(left)
                if left <= 0:
                    raise LogUnavailable("time is up")
                began = time.perf_counter()
                # Half of what is left, so that the other half can settle a lost reply.
                if as_batch:
                    outcomes = list(await self._publish_batch(messages, timeout=left / 2))
                else:
                    await self._publish_each(messages, outcomes, timeout=left / 2)
                cost = time.perf_counter() - began
                if len(messages) > 1:  # alone, it pays the round trip that a group shares
                    self._vehicle.learn(len(messages), cost, as_batch=as_batch)
            except ReplyLost:
                in_doubt = True
                as_batch = as_batch and atomic
                await asyncio.sleep(_RETRY_PAUSE)
            except StoreClosed:
                if not in_doubt:
                    raise
                return [o if o is not None else _CLOSED_IN_FLIGHT for o in outcomes]
            except LogUnavailable as error:
                if asyncio.get_running_loop().time() + _RETRY_PAUSE >= deadline:
                    kind = _Kind.UNKNOWN if in_doubt else _Kind.UNREACHABLE
                    return [o if o is not None else _Failure(kind, str(error)) for o in outcomes]
                await asyncio.sleep(_RETRY_PAUSE)
            except _Again as again:
                # A duplicate id means that the batch, or part of it, is stored: complete it one
                # by one. Anything else means that none of it is.
                in_doubt = in_doubt or again.duplicate
                as_batch = as_batch and not again.duplicate
                await asyncio.sleep(0 if again.duplicate else _RETRY_PAUSE)
            if all(outcome is not None for outcome in outcomes):
                return [_doubted(o) if in_doubt else o for o in outcomes if o is not None]

    def _goes_as_batch(self, messages: list[_Message], *, atomic: bool) -> bool:
        if len(messages) == 1:
            return False
        if atomic or self._vehicle.prefers_batch(len(messages)):
            return True
        # Side by side, one of two records of a subject could fail alone and be stored late, out
        # of order; in a batch it cannot.
        return len({message.subject for message in messages}) < len(messages)

    async def _publish_each(
        self, messages: list[_Message], outcomes: list[_Outcome | None], *, timeout: float
    ) -> None:
        """Publish what has no outcome yet, side by side, and note the outcomes that come."""
        missing = [index for index, outcome in enumerate(outcomes) if outcome is None]
        replies = await self._connection.request_each(
            [(messages[i].subject, messages[i].payload, messages[i].headers) for i in missing],
            timeout=timeout,
        )
        problem: LogUnavailable | _Again | None = None
        for index, reply in zip(missing, replies, strict=True):
            try:
                outcomes[index] = _outcome(reply)
            except ReplyLost as lost:
                problem = lost  # doubt outweighs whatever else went wrong
            except (LogUnavailable, _Again) as other:
                problem = problem or other
        if problem is not None:
            raise problem

    async def _publish_batch(
        self, messages: list[_Message], *, timeout: float
    ) -> list[int] | list[_Failure]:
        batch_id = secrets.token_hex(12)
        *body, final = messages
        for number, message in enumerate(body, 1):
            await self._connection.publish(
                message.subject, message.payload, _in_batch(message, batch_id, number)
            )
        headers = _in_batch(final, batch_id, len(messages))
        headers["Nats-Batch-Commit"] = "1"
        reply = await self._connection.request(
            final.subject, final.payload, headers=headers, timeout=timeout
        )
        last = _outcome(reply)
        if isinstance(last, _Failure):
            return [last] * len(messages)
        return list(range(last - len(messages) + 1, last + 1))


class _Again(Exception):
    def __init__(self, *, duplicate: bool) -> None:
        super().__init__()
        self.duplicate = duplicate


def _in_batch(message: _Message, batch_id: str, number: int) -> dict[str, str]:
    headers = message.headers
    headers["Nats-Batch-Id"] = batch_id
    headers["Nats-Batch-Sequence"] = str(number)
    return headers


def _doubted(outcome: _Outcome) -> _Outcome:
    """What an outcome means for a message whose first attempt may still be under way.

    A stored message answers "duplicate" before anything else is looked at, so a mismatch that
    names the sequence is final; any other refusal may be of the second attempt alone.
    """
    if isinstance(outcome, int) or outcome.actual is not None:
        return outcome
    return _Failure(_Kind.UNKNOWN, outcome.reason)


def _outcome(reply: Msg | None) -> _Outcome:
    """What the reply to a publish says. Raises as `_failure`, and ReplyLost where there is none."""
    if reply is None:
        raise ReplyLost("no reply came")
    if status_of(reply) == "503":
        raise LogUnavailable("nobody serves the stream")
    ack = _ack_decoder.decode(reply.data)
    return ack.seq if ack.error is None else _failure(ack.error)


def _failure(error: wire.ApiError) -> _Failure:
    """What an error ack means.

    Raises:
        ReplyLost: an earlier attempt is still being decided.
        _Again: nothing is decided yet; another attempt may succeed.
        LogUnavailable: the stream cannot take writes now.
    """
    if error.err_code in (wire.WRONG_LAST_SEQUENCE, wire.WRONG_LAST_SEQUENCE_OR_BUSY):
        found = _LAST_SEQUENCE.search(error.description)
        return _Failure(_Kind.CONFLICT, error.description, int(found[1]) if found else None)
    if error.err_code in (wire.DUPLICATE_IN_BATCH, wire.BATCH_INCOMPLETE):
        raise _Again(duplicate=error.err_code == wire.DUPLICATE_IN_BATCH)
    if error.err_code == wire.DUPLICATE_IN_PROCESS:
        raise ReplyLost(error.description)
    if error.code == 503:
        raise LogUnavailable(error.description)
    return _Failure(_Kind.REFUSED, f"{error.description} ({error.err_code})")


def _tell(riders: Sequence[_Waiting], outcomes: Sequence[_Outcome]) -> None:
    if all(isinstance(outcome, int) for outcome in outcomes):
        for rider in riders:
            if not rider.done.done():
                rider.done.set_result([outcomes[last] for _, last in rider.spans or ()])  # type: ignore[misc]
        return
    for rider in riders:
        if rider.done.done():
            continue
        failures = [
            outcome
            for first, last in rider.spans or ()
            for outcome in outcomes[first : last + 1]
            if isinstance(outcome, _Failure)
        ]
        if not failures:
            seqs = [outcomes[last] for _, last in rider.spans or ()]
            rider.done.set_result([seq for seq in seqs if isinstance(seq, int)])
        else:
            stored = sum(last - first + 1 for first, last in rider.spans or ()) - len(failures)
            rider.done.set_exception(_error(rider, failures[0], partly=stored > 0))


def _error(rider: _Waiting, failure: _Failure, *, partly: bool) -> Exception:
    if failure.kind is _Kind.UNKNOWN or partly:
        ids = [draft.id for append in rider.appends for draft in append.drafts]
        return AppendUnknown(ids, failure.reason)
    if failure.kind is _Kind.UNREACHABLE:
        return LogUnavailable(failure.reason)
    if failure.kind is _Kind.CONFLICT:
        subject, _, expect = next(a for a in rider.appends if a.expect is not None)
        return AppendConflict(subject.name, expect or 0, failure.actual)
    return AppendFailed(failure.reason)
