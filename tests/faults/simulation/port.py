"""The log port over a simulated stream: keeps the storage promise, and nothing beyond it.

Whatever `foldlog.log.port` leaves open happens here: an append whose outcome is not known is
stored, or not, or later; a push is lost, repeated or late; a read fails half-way.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence

from msgspec.structs import replace

from foldlog.envelope import pack, unpack
from foldlog.errors import (
    AppendConflict,
    AppendUnknown,
    LogCorrupt,
    LogTimeout,
    LogUnavailable,
)
from foldlog.log import port
from foldlog.log.packing import check_atomic
from foldlog.log.port import Append, LogInfo, OnRecord, Record, Unfollow
from foldlog.subjects import Branch, Namespace, Subject, matching
from foldlog_projections.registry import KINDS
from tests.faults.simulation.faults import Faults
from tests.faults.simulation.stream import REPLICAS, Stored, Stream

TIMEOUT = 5.0
_ROUND_TRIP = 0.002
LATEST = {projection.name for projection in KINDS if projection.latest_only}


class SimulatedLog:
    """One client's log. Several share a stream."""

    def __init__(self, stream: Stream, rng: random.Random, faults: Faults) -> None:
        self.namespace = Namespace()
        self.faults = faults
        self.epoch = 0
        self.stream = stream
        self._rng = rng
        self._connected = asyncio.Event()
        self._connected.set()
        self._turns: dict[str, asyncio.Event] = {}
        self._followers: dict[str, list[OnRecord]] = defaultdict(list)
        self._notify: list[Callable[[], None]] = []
        stream.listeners.append(self._push)

    def known(self, shard: int) -> int:
        """See the port. It remembers nothing of what it was told."""
        return 0

    # --- appending ------------------------------------------------------------------------------

    async def append(self, appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        """See the port."""
        if atomic:
            check_atomic(appends)
            return await self._append(appends)
        before = [self._turns.get(append.subject.name) for append in appends]
        turn = asyncio.Event()
        self._turns |= {append.subject.name: turn for append in appends}
        try:
            for earlier in before:
                if earlier is not None:
                    await earlier.wait()
            return await self._append(appends)
        finally:
            turn.set()

    async def _append(self, appends: Sequence[Append]) -> list[int]:
        loop = asyncio.get_running_loop()
        self._maybe_break()
        try:
            async with asyncio.timeout(TIMEOUT):
                await self._connected.wait()
                await self.stream.elected.wait()
        except TimeoutError:
            raise LogUnavailable("nobody takes it") from None
        # Once it is on its way, it arrives whether its caller waits or not.
        done: asyncio.Future[list[int]] = loop.create_future()
        arrival = self._rng.random() * _ROUND_TRIP
        if self._happens(self.faults.refused):
            loop.call_later(arrival, _fail, done, LogUnavailable("refused"))
        elif self._happens(self.faults.vanished):
            pass
        elif self._happens(self.faults.ghost):
            loop.call_later(self._rng.random() * 6 * TIMEOUT, self._arrive, appends, None)
        else:
            told = None if self._happens(self.faults.lost_ack) else done
            # What is retried too late is stored twice. Where only the last record counts, that
            # would undo what came between; the JetStream log does not retry that late.
            folded = all(append.subject.family not in LATEST for append in appends)
            again = folded and self._happens(self.faults.twice)
            loop.call_later(arrival, self._arrive, appends, told, again)
        try:
            async with asyncio.timeout(TIMEOUT):
                return await done
        except TimeoutError:
            raise self.unknown(appends) from None

    def unknown(self, appends: Sequence[Append]) -> AppendUnknown:
        """What a caller is told who was told nothing in time."""
        return AppendUnknown([d.id for a in appends for d in a.drafts], "no ack came")

    def _arrive(
        self,
        appends: Sequence[Append],
        done: asyncio.Future[list[int]] | None,
        again: bool = False,
    ) -> None:
        if not self.stream.elected.is_set():
            if done is None:  # it waits on its way
                asyncio.get_running_loop().call_later(1.0, self._arrive, appends, None)
            return
        ended = self.commit(appends)
        if again and not isinstance(ended, AppendConflict):
            later = self._rng.random() * 150
            asyncio.get_running_loop().call_later(later, self._arrive, appends, None)
        if done is None:
            return
        back = self._rng.random() * _ROUND_TRIP
        if isinstance(ended, AppendConflict):
            asyncio.get_running_loop().call_later(back, _fail, done, ended)
        else:
            asyncio.get_running_loop().call_later(back, _succeed, done, ended)

    def commit(self, appends: Sequence[Append]) -> list[int] | AppendConflict:
        """Store them, or say why not."""
        for append in appends:
            actual = self.stream.head(append.subject.name)
            if append.expect is not None:
                if self._happens(self.faults.busy):
                    return AppendConflict(append.subject.name, append.expect, None)
                if append.expect != actual:
                    return AppendConflict(append.subject.name, append.expect, actual)
        seqs = []
        for append in appends:
            stored = self.stream.store(append.subject.name, pack(append.drafts))
            if self._happens(self.faults.damaged):
                self.stream.unreadable.add(stored.seq)
            seqs.append(stored.seq)
        return seqs

    # --- reading --------------------------------------------------------------------------------

    async def read(
        self, subject: Subject, *, after: int = 0, strong: bool = True
    ) -> AsyncGenerator[list[Record]]:
        """See the port."""
        head = await self._head(subject, strong)
        while True:
            found = await self._page(subject, after, self._rng.randrange(REPLICAS), strong)
            if found:
                after = found[-1].seq
                if records := self._records(found):
                    yield records
            if after >= head:
                return

    async def _head(self, subject: Subject, strong: bool) -> int:
        if strong:
            await self._leader()
            return self.stream.head(subject.name)
        await self._reach()
        known = self.stream.read(subject.name, 0, self._rng.randrange(REPLICAS))
        return known[-1].seq if known else 0

    async def _page(self, subject: Subject, after: int, replica: int, strong: bool) -> list[Stored]:
        deadline = asyncio.get_running_loop().time() + TIMEOUT
        while True:
            await self._reach()
            if self._happens(self.faults.failed_read):
                raise LogUnavailable("cut short")
            found = self.stream.read(subject.name, after, replica)
            if found or not self.stream.read(subject.name, after):
                return found[: self._rng.randint(1, 4)]
            if asyncio.get_running_loop().time() > deadline:
                raise LogTimeout("waiting for a replica", TIMEOUT)
            await asyncio.sleep(0.02)

    async def last(
        self, subject: Subject, *, strong: bool = True, upto: int | None = None
    ) -> Record | None:
        """See the port."""
        if strong:
            await self._leader()
        else:
            await self._reach()
        replica = 0 if strong else self._rng.randrange(REPLICAS)
        found = self.stream.read(subject.name, 0, replica)
        found = [stored for stored in found if upto is None or stored.seq <= upto]
        return self._record(found[-1]) if found else None

    async def are_absent(self, subjects: Sequence[Subject]) -> bool:
        """See the port: the leader can tell."""
        await self._leader()
        return not any(self.stream.read(each.name, 0, 0) for each in subjects)

    def _records(self, found: Sequence[Stored]) -> list[Record]:
        return [self._record(stored) for stored in found]

    def _record(self, stored: Stored) -> Record:
        if stored.seq in self.stream.unreadable:
            raise LogCorrupt(self.namespace.stream(0), stored.seq, "damaged")
        envelopes = unpack(stored.data, stored.seq, stored.time)
        return Record(stored.seq, envelopes, subject=stored.subject)

    async def _leader(self) -> None:
        await self._reach()
        try:
            async with asyncio.timeout(TIMEOUT):
                await self.stream.elected.wait()
        except TimeoutError:
            raise LogTimeout("asking the leader", TIMEOUT) from None

    async def _reach(self) -> None:
        self._maybe_break()
        await asyncio.sleep(self._rng.random() * _ROUND_TRIP)
        try:
            async with asyncio.timeout(TIMEOUT):
                await self._connected.wait()
        except TimeoutError:
            raise LogUnavailable("not connected") from None

    # --- pushing --------------------------------------------------------------------------------

    async def follow(self, subject: Subject, on_record: OnRecord) -> Unfollow:
        """See the port."""
        await self._reach()
        self._followers[subject.name].append(on_record)

        async def unfollow() -> None:
            self._followers[subject.name].remove(on_record)

        return unfollow

    @property
    def following(self) -> int:
        """How many are being told of something."""
        return sum(map(len, self._followers.values()))

    def _push(self, stored: Stored) -> None:
        if not self._followers.get(stored.subject):
            return
        if not self._connected.is_set() or self._happens(self.faults.dropped):
            return
        loop = asyncio.get_running_loop()
        for _ in range(2 if self._happens(self.faults.repeated) else 1):
            delay = self._rng.random() * _ROUND_TRIP
            if self._happens(self.faults.late):
                delay += self._rng.random() * 10
            loop.call_later(delay, self._deliver, stored, self.epoch)

    def _deliver(self, stored: Stored, epoch: int) -> None:
        if epoch != self.epoch:
            return  # it was on the connection that broke
        try:
            record = replace(self._record(stored), previous=stored.previous)
        except LogCorrupt:
            self._miss()
            return
        for on_record in list(self._followers.get(stored.subject, ())):
            on_record(record)

    def on_epoch(self, notify: Callable[[], None]) -> None:
        """See the port."""
        self._notify.append(notify)

    def _miss(self) -> None:
        self.epoch += 1
        for notify in self._notify:
            notify()

    def _maybe_break(self) -> None:
        if self._happens(self.faults.cut / 4) and self._connected.is_set():
            self._connected.clear()
            self._miss()
            away = self._rng.choice([0.1, 1.0, 8.0])
            asyncio.get_running_loop().call_later(away, self._reconnect)
        if self._happens(self.faults.election / 20) and self.stream.elected.is_set():
            self.stream.elect(self._rng.choice([0.5, 4.0, 12.0]))

    def _reconnect(self) -> None:
        self._connected.set()
        self._miss()

    def _happens(self, chance: float) -> bool:
        return chance > 0 and self._rng.random() < chance

    # --- the rest of the port -------------------------------------------------------------------

    async def purge(
        self, which: Subject | Branch | int, *, before: int, overwrite: bool = True
    ) -> None:
        """See the port."""
        await self._leader()
        for name in self.stream.subjects():
            if isinstance(which, Branch):
                is_meant = which.holds(name)
            else:
                is_meant = isinstance(which, int) or name == which.name
            if is_meant:
                self.stream.purge(name, before)

    async def subjects(
        self, family: str | None = None, shard: int | None = None
    ) -> dict[Subject, int]:
        """See the port."""
        await self._leader()
        counts = {name: len(self.stream.read(name)) for name in self.stream.subjects()}
        found = {self.namespace.parse(name): count for name, count in counts.items()}
        return {s: count for s, count in found.items() if s and family in (None, s.family)}

    async def scan(
        self, shard: int, *, after: int = 0, only: Sequence[str] = ()
    ) -> AsyncGenerator[list[port.Stored]]:
        """See the port."""
        await self._leader()
        names = filter(matching(only), self.stream.subjects())
        found = [each for name in names for each in self.stream.read(name, after)]
        for stored in sorted(found):
            yield [port.Stored(stored.subject, stored.seq, stored.time, stored.data)]

    async def barrier(self, shard: int) -> None:
        """See the port. Nobody here is deposed without knowing it."""
        await self._leader()

    async def info(self) -> LogInfo:
        """See the port."""
        return LogInfo("simulated:", "", 0, 1024 * 1024, _ROUND_TRIP)

    async def close(self) -> None:
        """See the port."""
        if self._push in self.stream.listeners:
            self.stream.listeners.remove(self._push)


def _succeed(done: asyncio.Future[list[int]], seqs: list[int]) -> None:
    if not done.done():
        done.set_result(seqs)


def _fail(done: asyncio.Future[list[int]], error: Exception) -> None:
    if not done.done():
        done.set_exception(error)
