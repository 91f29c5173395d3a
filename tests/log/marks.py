"""One shard in memory that can lose records, and the mark next to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from foldlog.errors import AppendFailed, FoldlogError, LogUnavailable
from foldlog.log.incarnation import Mark, Shard
from foldlog.log.jetstream.appender import Appender
from foldlog.log.jetstream.gate import Gate
from foldlog.log.jetstream.stream import StreamClient


class FakeShard:
    """What `StreamMarks` asks of a server. Several gates may share one.

    Attributes:
        held: the sequences of its records.
        behind: how many of its last records its leader does not know, until it is confirmed.
        refusing, away, unreadable: what a server may do with marks instead.
        before_describing: called once, before the shard is described the next time.
    """

    def __init__(self, count: int = 0) -> None:
        self.held = list(range(1, count + 1))
        self.last_seq = count
        self.created = "2026-01-01T00:00:00Z"
        self.replicas = 1
        self.behind = 0
        self.confirmed = 0
        self.asked = 0
        self.reconnects = 0
        self.mark: Mark | None = None
        self.revision = 0
        self.refusing = self.away = self.unreadable = False
        self.before_describing: Callable[[], Awaitable[None]] | None = None

    async def describe(self) -> Shard:
        self.asked += 1
        await asyncio.sleep(0)
        before, self.before_describing = self.before_describing, None
        if before is not None:
            await before()
        last_seq = self.last_seq - self.behind
        return Shard("S", self.created, last_seq, len(self.held), self.replicas)

    async def confirm_leader(self) -> None:
        self.confirmed += 1
        self.behind = 0

    async def get(self) -> tuple[Mark, int]:
        await asyncio.sleep(0)
        if self.mark is None or self.unreadable:
            return Mark(), 0
        return self.mark, self.revision

    async def put(self, mark: Mark, revision: int) -> bool:
        await asyncio.sleep(0)
        if self.refusing:
            raise AppendFailed("no space left")
        if self.away:
            raise LogUnavailable("away")
        if (0 if self.mark is None else self.revision) != revision:
            return False
        self.mark, self.revision = mark, self.revision + 1
        return True

    async def drop(self) -> None:
        self.mark = None

    def append(self, gate: Gate | None, count: int = 1) -> None:
        """Store records, of the process with that gate or of another one."""
        for _ in range(count):
            self.last_seq += 1
            self.held.append(self.last_seq)
            if gate is not None:
                gate.appended(self.last_seq)

    async def purge(self, gate: Gate, before: int) -> None:
        """Remove records below `before`, as the log does."""
        await gate.announce_purge()
        self.held = [seq for seq in self.held if seq >= before]

    def lose(self, *seqs: int) -> None:
        """Be without some records after the connection has come back."""
        self.held = [seq for seq in self.held if seq not in seqs]
        self.reconnects += 1

    def cut(self, last_seq: int) -> None:
        """End earlier after the connection has come back."""
        self.held = [seq for seq in self.held if seq <= last_seq]
        self.last_seq = last_seq
        self.reconnects += 1


async def opened(shard: FakeShard, now: float = 1e9) -> Gate:
    """A gate of a process that has just opened the log, whose clock says `now`."""
    marks: Any = shard
    gate = Gate(marks, clock=lambda: now)
    await gate.open()
    return gate


async def marked(count: int = 5) -> FakeShard:
    """A shard of so many records, whose writer has closed the log."""
    shard = FakeShard()
    gate = await opened(shard)
    shard.append(gate, count)
    await gate.close()
    assert shard.mark is not None
    assert (shard.mark.seq, shard.mark.messages) == (count, count)
    return shard


class FakeGate:
    """What the write path and the read path ask of a gate.

    Attributes:
        found: what the next checks give, one after the other; then nothing.
        is_open: whether nothing need be checked; after each check it is.
        known: as of a gate.
    """

    def __init__(self, *found: FoldlogError | Callable[[], Awaitable[None]]) -> None:
        self.found = list(found)
        self.is_open = not found
        self.checks = 0
        self.known = 0

    @property
    def passes_appends(self) -> bool:
        return self.is_open

    passes_reads = passes_appends

    def appended(self, seq: int) -> None:
        self.known = max(self.known, seq)

    seen = appended

    async def check_before_read(self) -> None:
        self.checks += 1
        await asyncio.sleep(0)
        found = self.found.pop(0) if self.found else None
        if isinstance(found, FoldlogError):
            raise found
        if found is not None:
            await found()
        self.is_open = True

    async def check_before_append(self, timeout: float) -> None:
        await self.check_before_read()


def open_appender(
    server: object,
    gate: FakeGate | None = None,
    *,
    timeout: float = 5,
    stage: Callable[[], None] | None = None,
) -> Appender:
    """An appender to a scripted server."""
    connection: Any = server
    gated: Any = gate or FakeGate()
    return Appender(StreamClient(connection, "STREAM", timeout=timeout), gated, stage)
