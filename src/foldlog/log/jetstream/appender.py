"""Group commit, the write path of one stream: while one group is in flight the next gathers.

A group takes half of the active writers; the other half prepare the next one meanwhile (ADR 0004).
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from foldlog.envelope import pack
from foldlog.errors import (
    AppendConflict,
    FoldlogError,
    LogUnavailable,
    PayloadTooLarge,
    StoreClosed,
)
from foldlog.log.jetstream.gate import Gate
from foldlog.log.jetstream.publisher import (
    CLOSED_IN_FLIGHT,
    Outcome,
    Publication,
    Publisher,
    are_stored,
    stored_at,
)
from foldlog.log.jetstream.stream import StreamClient
from foldlog.log.packing import (
    MAX_BATCH_MESSAGES,
    OVERHEAD,
    RECORD_BYTES,
    Batch,
    check_atomic,
    sizes_of,
)
from foldlog.log.port import Append
from foldlog.subjects import Subject

_log: Final = logging.getLogger("foldlog.append")

MAX_PENDING_BYTES: Final = 64 * 1024 * 1024
"""What may be queued and in flight to one stream; a writer beyond it waits for space."""

_BYTES: Final = attrgetter("bytes")
_DEADLINE: Final = attrgetter("deadline")

_ALONE_AT_ONCE: Final = 32
"""Compare-and-set appends that go alone, at once; the server takes 50 batches a stream."""


class GroupCommit(NamedTuple):
    """A group of records that was published. `bytes` of their bodies, `stored` of its records."""

    records: int
    stored: int
    bytes: int
    seconds: float


OnGroup = Callable[[GroupCommit], None]


class BackPressure:
    """Bytes that writers take and the write path gives back, first come, first served.

    What exceeds `limit` by itself is let in when nothing else is there.
    """

    def __init__(self, limit: int) -> None:
        self.used: int = 0
        self._limit = limit
        self._waiting = 0
        self._turn = asyncio.Lock()
        self._given = asyncio.Event()
        self._closed = False

    def close(self) -> None:
        """End every wait with StoreClosed."""
        self._closed = True
        self._given.set()

    def take(self, size: int) -> bool:
        """Take `size` bytes if they fit and nobody waits; return whether they were taken."""
        if self._waiting or (self.used and self.used + size > self._limit):
            return False
        self.used += size
        return True

    async def wait(self, size: int) -> None:
        """Take `size` bytes when it is this caller's turn. A cancelled caller has taken nothing."""
        self._waiting += 1
        try:
            async with self._turn:
                while not self._closed and self.used and self.used + size > self._limit:
                    self._given.clear()
                    await self._given.wait()
                if self._closed:
                    raise StoreClosed
                self.used += size
        finally:
            self._waiting -= 1

    def give(self, size: int) -> None:
        """Give `size` bytes back, and let waiting writers in."""
        self.used -= size
        self._given.set()


class _Queued(msgspec.Struct, eq=False):
    """An append and the caller who waits for it."""

    appends: Sequence[Append]
    sizes: list[int]
    bytes: int
    atomic: bool
    deadline: float
    done: asyncio.Future[list[int]]
    spans: list[tuple[int, int]] = []


class _Lane(msgspec.Struct, eq=False):
    """A queue, and the tasks that publish from it. `latest`: the appends of the latest group."""

    most_tasks: int = 1
    queue: deque[_Queued] = msgspec.field(default_factory=deque)
    tasks: set[asyncio.Task[None]] = msgspec.field(default_factory=set)
    latest: int = 0


class Appender:
    """Appends to one stream, in order. Lives until `close`.

    `stage`: see `Publisher`. `on_group` is called after each group, if it is there.
    """

    def __init__(
        self, stream: StreamClient, gate: Gate, stage: Callable[[], None] | None = None
    ) -> None:
        self._stream = stream
        self._publisher = Publisher(stream, gate, stage)
        self._pressure = BackPressure(MAX_PENDING_BYTES)
        self._saves = _Lane()
        # One mismatch fails a whole batch. So compare-and-sets share theirs with none but their
        # like, on other subjects; where it failed, and where two compete, they go alone.
        self._decisions = _Lane()
        self._alone = _Lane(_ALONE_AT_ONCE)
        self._lanes = (self._saves, self._decisions, self._alone)
        self._closed = False
        self.on_group: OnGroup | None = None

    @property
    def pending_bytes(self) -> int:
        """What is queued and in flight now."""
        return self._pressure.used

    async def append(self, appends: Sequence[Append], *, atomic: bool) -> list[int]:
        """All subjects must belong to this stream."""
        sizes = sizes_of(appends, self._stream.connection.max_payload)
        if atomic:
            check_atomic(appends, self._record_bytes)
        if self._closed:
            raise StoreClosed
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[int]] = loop.create_future()
        deadline = time.monotonic() + self._stream.timeout
        waiting = _Queued(appends, sizes, sum(sizes), atomic, deadline, done)
        decides = atomic and any(append.expect is not None for append in appends)
        lane = self._decisions if decides else self._saves
        # Tasks begin at the loop, not on the stack of a caller who may be close to the
        # interpreter's recursion limit.
        if not lane.queue:
            loop.call_soon(self._begin, lane)
        if not self._pressure.take(waiting.bytes):
            await self._pressure.wait(waiting.bytes)
            loop.call_soon(self._begin, lane)
        lane.queue.append(waiting)
        return await done

    async def restore(self, records: Sequence[tuple[Subject, bytes, str]], *, after: int) -> None:
        """See `Log.restore`. It waits for no other append, and no other one for it."""
        for subject, data, _ in records:
            if len(data) > (limit := self._stream.connection.max_payload):
                raise PayloadTooLarge(f"a record of {subject.name:.80}", len(data), limit)
        group = os.urandom(12).hex()
        messages = [
            Publication(subject.name, data, f"{group}-{n}", after=None if n else after, time=time)
            for n, (subject, data, time) in enumerate(records)
        ]
        deadline = time.monotonic() + self._stream.timeout
        outcomes = await self._publisher.store(messages, atomic=True, deadline=deadline)
        appends = [Append(subject, (), after) for subject, *_ in records]
        stored_at(appends, [(n, n) for n in range(len(records))], outcomes)

    async def close(self) -> None:
        """Let queued appends finish within their time, then stop. Idempotent."""
        self._closed = True
        self._pressure.close()
        await asyncio.sleep(0)  # what is about to begin has begun
        try:
            async with asyncio.timeout(self._stream.timeout):
                while tasks := [task for lane in self._lanes for task in lane.tasks]:
                    await asyncio.wait(tasks)
        except TimeoutError:
            pass  # the callers of these learn it below
        finally:
            ending = [task for lane in self._lanes for task in lane.tasks]
            for task in ending:
                task.cancel()
            for lane in self._lanes:
                while lane.queue:
                    self._end_unsent(lane.queue.popleft(), StoreClosed())
        if ending:
            await asyncio.wait(ending)

    def _begin(self, lane: _Lane) -> None:
        for _ in range(min(len(lane.queue), lane.most_tasks - len(lane.tasks))):
            task = asyncio.create_task(self._run(lane), name="foldlog-appender")
            lane.tasks.add(task)
            task.add_done_callback(lane.tasks.discard)

    async def _run(self, lane: _Lane) -> None:
        loop = asyncio.get_running_loop()
        while lane.queue:
            riders, outcomes = list[_Queued](), list[Outcome]()
            batch = Batch(self._record_bytes)
            messages: list[Publication] = []
            try:
                self._take(lane, riders, batch)
                messages = _messages(batch)
                deadline = max(map(_DEADLINE, riders), default=0.0)
                # A group that holds an atomic append fits in one batch; a bulk append may not.
                for start in range(0, len(messages), MAX_BATCH_MESSAGES):
                    part = messages[start : start + MAX_BATCH_MESSAGES]
                    if start:  # each part has a time of its own
                        deadline = time.monotonic() + self._stream.timeout
                    began = time.perf_counter()
                    found = await self._publisher.store(
                        part, atomic=batch.is_indivisible, deadline=deadline
                    )
                    outcomes += found
                    if self.on_group is not None or _log.isEnabledFor(logging.DEBUG):
                        self._report(part, found, time.perf_counter() - began)
                    if not are_stored(found):  # what follows must not overtake it
                        unsent = LogUnavailable("what comes before it was not stored")
                        outcomes += [unsent] * (len(messages) - len(outcomes))
                        break
            except asyncio.CancelledError:
                left = len(messages) - len(outcomes)
                _settle(riders, [*outcomes, *[CLOSED_IN_FLIGHT] * left])
                raise
            except Exception as error:  # noqa: BLE001 - handed to every caller of this group
                for rider in riders:
                    _fail(rider, error)
            else:
                if len(riders) > 1 and all(isinstance(each, AppendConflict) for each in outcomes):
                    self._alone.queue += riders
                    riders.clear()
                    self._begin(self._alone)
                elif lane.queue:  # the next group goes first: callers would only wait for it
                    loop.call_soon(_settle, riders, outcomes)
                else:
                    _settle(riders, outcomes)
            finally:
                # Where an append could not be added to the batch, that has not counted it.
                self._pressure.give(sum(map(_BYTES, riders)))

    def _report(
        self, sent: Sequence[Publication], outcomes: Sequence[Outcome], seconds: float
    ) -> None:
        stored = sum(isinstance(found, int) for found in outcomes)
        size = sum(len(each.payload) for each in sent)
        group = GroupCommit(len(sent), stored, size, seconds)
        _log.debug(
            "group to %s: %d of %d records stored, %d bytes, in %.4f s",
            *(self._stream.name, stored, len(sent), size, seconds),
        )
        if self.on_group is not None:
            self.on_group(group)

    def _take(self, lane: _Lane, riders: list[_Queued], batch: Batch) -> None:
        """Move appends from the queue to `riders` and `batch`: as many as make one group."""
        now = time.monotonic()
        # Those of the latest group are likely to be back while this one is in flight.
        most = 1 if lane is self._alone else (lane.latest + len(lane.queue) + 1) // 2
        decided = set[str]()
        while lane.queue and len(riders) < most:
            waiting = lane.queue.popleft()
            if waiting.done.done() or waiting.deadline < now:  # cancelled, or late
                self._end_unsent(waiting, LogUnavailable("not sent in time: the log is away"))
                continue
            if lane is self._decisions:
                subjects = {append.subject.name for append in waiting.appends}
                if decided & subjects:
                    self._alone.queue.append(waiting)
                    self._begin(self._alone)
                    continue
                decided |= subjects
            riders.append(waiting)
            spans = batch.add(waiting.appends, waiting.sizes)
            if spans is None:
                lane.queue.appendleft(riders.pop())
                break
            waiting.spans = spans
            if waiting.atomic:
                batch.expects.update((each.subject.name, each.expect) for each in waiting.appends)
                # It is one message otherwise.
                if len({index for span in spans for index in span}) > 1:
                    batch.is_indivisible = True
        lane.latest = len(riders)

    def _end_unsent(self, waiting: _Queued, error: BaseException) -> None:
        self._pressure.give(waiting.bytes)
        _fail(waiting, error)

    @property
    def _record_bytes(self) -> int:
        return min(RECORD_BYTES, self._stream.connection.max_payload - OVERHEAD)


def _messages(batch: Batch) -> list[Publication]:
    group = os.urandom(12).hex()
    return [
        # Only a subject's first record can stand where `expect` says.
        Publication(name, pack(drafts), f"{group}-{number}", batch.expects.pop(name, None))
        for number, (name, drafts) in enumerate(batch.records)
    ]


def _fail(waiting: _Queued, error: BaseException) -> None:
    if not waiting.done.done():
        waiting.done.set_exception(error)


def _settle(riders: Sequence[_Queued], outcomes: Sequence[Outcome]) -> None:
    stored = outcomes if are_stored(outcomes) else None
    for rider in riders:
        if rider.done.done():
            continue
        if stored is not None:
            rider.done.set_result([stored[last] for _, last in rider.spans])
            continue
        try:
            rider.done.set_result(stored_at(rider.appends, rider.spans, outcomes))
        except FoldlogError as error:
            rider.done.set_exception(error)
