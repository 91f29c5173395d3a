"""Group commit: the write path of one stream.

Concurrent appends wait for no timer: while one group is in flight the next gathers, and envelopes
of one subject share a record. A group takes half of those who append, so that one half is encoded
while the server stores the other.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from foldlog.envelope import pack
from foldlog.errors import LogUnavailable, StoreClosed
from foldlog.log.jetstream.backpressure import BackPressure
from foldlog.log.jetstream.connection import Connection
from foldlog.log.jetstream.gate import Gate
from foldlog.log.jetstream.outcomes import CLOSED_IN_FLIGHT, Failure, Kind, Outcome, verdict
from foldlog.log.jetstream.publisher import Message, Publisher
from foldlog.log.packing import (
    MAX_BATCH_MESSAGES,
    OVERHEAD,
    RECORD_BYTES,
    Batch,
    check_atomic,
    sizes_of,
)
from foldlog.log.port import Append

MAX_PENDING_BYTES: Final = 64 * 1024 * 1024
"""What may be queued and in flight to one stream; a writer beyond it waits until there is room."""

_EXCLUSIVE_IN_FLIGHT: Final = 32
"""Compare-and-set appends under way at once; the server takes 50 batches a stream."""


class _Waiting(msgspec.Struct, eq=False):
    """An append and the caller who waits for it."""

    appends: Sequence[Append]
    sizes: list[int]
    atomic: bool
    deadline: float
    done: asyncio.Future[list[int]]
    spans: list[tuple[int, int]] = []


class Appender:
    """Appends to one stream, in order. Its task lives from the first append until `close`."""

    def __init__(
        self,
        connection: Connection,
        stream: str,
        gate: Gate,
        *,
        timeout: float,
        on_incomplete: Callable[[], None] = lambda: None,
    ) -> None:
        self._connection = connection
        self._timeout = timeout
        self.publisher = Publisher(connection, stream, gate, on_incomplete=on_incomplete)
        self._queue: deque[_Waiting] = deque()
        self._pressure = BackPressure(MAX_PENDING_BYTES)
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._pump: asyncio.Task[None] | None = None
        self._riders = 0  # of the latest group
        self._riding: list[_Waiting] = []
        self._exclusive_queue: deque[_Waiting] = deque()
        self._exclusive_tasks: set[asyncio.Task[None]] = set()
        self._exclusive = asyncio.Semaphore(_EXCLUSIVE_IN_FLIGHT)
        self._closed = False

    @property
    def pending_bytes(self) -> int:
        """What is queued and in flight now; see MAX_PENDING_BYTES."""
        return self._pressure.used

    async def append(self, appends: Sequence[Append], *, atomic: bool) -> list[int]:
        """All subjects must belong to this stream."""
        sizes = sizes_of(appends, self._connection.max_payload)
        if atomic:
            check_atomic(appends, self._record_bytes)
        if self._closed:
            raise StoreClosed
        loop = asyncio.get_running_loop()
        waiting = _Waiting(
            appends, sizes, atomic, loop.time() + self._timeout, loop.create_future()
        )
        # A compare-and-set must not share a batch, which one mismatch would fail for everybody; and
        # its order is decided by what it expects, so it need not wait for those before it.
        exclusive = atomic and any(append.expect is not None for append in appends)
        queue = self._exclusive_queue if exclusive else self._queue
        # Whatever wakes a task begins at the loop, not on the stack of a caller who may be close to
        # the interpreter's recursion limit: an error in the middle of that would leave it asleep.
        if not queue:
            loop.call_soon(self._begin)
        size = sum(sizes)
        if not self._pressure.take(size):
            await self._pressure.wait(size)
            loop.call_soon(self._begin)
        queue.append(waiting)
        return await waiting.done

    async def close(self) -> None:
        """Let queued appends finish within their time, then stop. Idempotent."""
        self._closed = True
        self._pressure.close()
        await asyncio.sleep(0)  # what is about to begin has begun
        idle = asyncio.ensure_future(self._idle.wait())
        try:
            await asyncio.wait([idle, *self._exclusive_tasks], timeout=self._timeout)
        finally:
            pump = [] if self._pump is None else [self._pump]
            ending = [idle, *pump, *self._exclusive_tasks]
            for task in ending:
                task.cancel()
        await asyncio.wait(ending)
        self._fail_waiting(StoreClosed())

    def _begin(self) -> None:
        while self._exclusive_queue:
            self._begin_exclusive(self._exclusive_queue.popleft())
        if not self._queue:
            return
        self._idle.clear()
        self._wake.set()
        if self._pump is None:
            self._pump = asyncio.create_task(self._run(), name="foldlog-appender")
            self._pump.add_done_callback(self._ended)

    def _ended(self, pump: asyncio.Task[None]) -> None:
        """Leave nobody waiting for a task that an unexpected error has ended."""
        self._pump = None
        self._idle.set()
        if not pump.cancelled() and (error := pump.exception()) is not None:
            self._fail_waiting(error)

    def _fail_waiting(self, error: BaseException) -> None:
        for rider in self._riding:
            _fail(rider, error)
        for queue in (self._queue, self._exclusive_queue):
            while queue:
                self._end(queue.popleft(), error)

    def _end(self, waiting: _Waiting, error: BaseException) -> None:
        """Give back what an append takes up; `error` is for its caller, if nobody told it more."""
        self._pressure.give(sum(waiting.sizes))
        _fail(waiting, error)

    def _begin_exclusive(self, waiting: _Waiting) -> None:
        task = asyncio.create_task(self._append_exclusive(waiting), name="foldlog-append")
        self._exclusive_tasks.add(task)

        def end(task: asyncio.Task[None]) -> None:
            self._exclusive_tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            self._end(waiting, error or StoreClosed())

        task.add_done_callback(end)

    async def _append_exclusive(self, waiting: _Waiting) -> None:
        async with self._exclusive:
            if not waiting.done.done():  # else its caller is gone
                batch = Batch(self._record_bytes)
                waiting.spans = batch.add(waiting.appends, waiting.sizes) or []
                await self._commit(batch, [waiting])

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                batch, riders = self._take()
                if riders:
                    try:
                        await self._commit(batch, riders)
                    finally:
                        self._pressure.give(batch.bytes)
            self._idle.set()

    def _take(self) -> tuple[Batch, list[_Waiting]]:
        batch = Batch(self._record_bytes)
        self._riding = riders = list[_Waiting]()
        now = asyncio.get_running_loop().time()
        # Those of the latest group are likely to be back while this one is in flight.
        most = (self._riders + len(self._queue) + 1) // 2
        while self._queue and len(riders) < most:
            waiting = self._queue[0]
            if waiting.done.done() or waiting.deadline < now:
                self._queue.popleft()  # late, or its caller was cancelled before it was sent
                self._end(waiting, LogUnavailable("not sent in time: the log is away"))
                continue
            spans = batch.add(waiting.appends, waiting.sizes)
            if spans is None:
                break
            waiting.spans = spans
            riders.append(self._queue.popleft())
        self._riders = len(riders)
        return batch, riders

    @property
    def _record_bytes(self) -> int:
        return min(RECORD_BYTES, self._connection.max_payload - OVERHEAD)

    async def _commit(self, batch: Batch, riders: list[_Waiting]) -> None:
        messages, outcomes = list[Message](), list[Outcome]()
        try:
            messages = _messages(batch, riders)
            atomic = any(rider.atomic for rider in riders)
            deadline = max(rider.deadline for rider in riders)
            # A group that holds an atomic append fits in one batch; a bulk append may not.
            for start in range(0, len(messages), MAX_BATCH_MESSAGES):
                part = messages[start : start + MAX_BATCH_MESSAGES]
                if start:  # each part has a time of its own
                    deadline = asyncio.get_running_loop().time() + self._timeout
                outcomes += await self.publisher.store(part, atomic=atomic, deadline=deadline)
        except asyncio.CancelledError:
            left = len(messages) - len(outcomes)
            _tell(riders, [*outcomes, *[CLOSED_IN_FLIGHT] * left])
            raise
        except Exception as error:  # noqa: BLE001 - handed to everyone who waits for this batch
            if outcomes:  # of a bulk append, which is stored up to here
                unsent = Failure(Kind.UNREACHABLE, str(error))
                _tell(riders, [*outcomes, *[unsent] * (len(messages) - len(outcomes))])
                return
            for rider in riders:
                _fail(rider, error)
            return
        if self._queue:  # the next group goes first: those told now would only wait for it
            asyncio.get_running_loop().call_soon(_tell, riders, outcomes)
        else:
            _tell(riders, outcomes)


def _messages(batch: Batch, riders: Sequence[_Waiting]) -> list[Message]:
    expects = {
        append.subject.name: append.expect
        for rider in riders
        if rider.atomic
        for append in rider.appends
    }
    group = secrets.token_hex(12)
    return [
        # Only a subject's first record can stand where `expect` says.
        Message(name, pack(drafts), f"{group}-{number}", expects.pop(name, None))
        for number, (name, drafts) in enumerate(batch.records)
    ]


def _fail(waiting: _Waiting, error: BaseException) -> None:
    if not waiting.done.done():
        waiting.done.set_exception(error)


def _tell(riders: Sequence[_Waiting], outcomes: Sequence[Outcome]) -> None:
    all_stored = Failure not in map(type, outcomes)
    for rider in riders:
        if rider.done.done():
            continue
        if all_stored:
            rider.done.set_result([outcomes[last] for _, last in rider.spans])  # type: ignore[misc]
            continue
        found = verdict(rider.appends, rider.spans, outcomes)
        if isinstance(found, Exception):
            rider.done.set_exception(found)
        else:
            rider.done.set_result(found)
