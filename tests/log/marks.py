"""A log that can lose records, and marks in memory, to hold one against the other."""

from __future__ import annotations

import asyncio

import msgspec

from foldlog.envelope import draft
from foldlog.errors import AppendFailed, LogUnavailable
from foldlog.log.marks import Mark
from foldlog.log.memory import MemoryLog
from foldlog.log.port import Append
from foldlog.log.watermark import Watermarked
from foldlog.subjects import Subject


class MemoryMarks:
    """Marks in memory. `refusing`, `away`: what a server may do instead."""

    def __init__(self) -> None:
        self.stored: dict[int, tuple[bytes, int]] = {}
        self.refusing = False
        self.away = False

    async def mark(self, shard: int) -> tuple[bytes | None, int]:
        await asyncio.sleep(0)
        return self.stored.get(shard, (None, 0))

    async def put_mark(self, shard: int, data: bytes, revision: int) -> bool:
        await asyncio.sleep(0)
        if self.refusing:
            raise AppendFailed("no space left")
        if self.away:
            raise LogUnavailable("away")
        if self.stored.get(shard, (None, 0))[1] != revision:
            return False
        self.stored[shard] = data, revision + 1
        return True

    async def drop_mark(self, shard: int) -> None:
        self.stored.pop(shard, None)

    def of(self, shard: int = 0) -> Mark:
        return msgspec.json.decode(self.stored[shard][0], type=Mark)


class Lossy(MemoryLog):
    """A log that can lose records, as a server may whose files were damaged."""

    missed = 0

    @property
    def epoch(self) -> int:
        return self.missed

    def lose(self, subject: Subject, *numbers: int) -> None:
        self._stored[subject] = [
            record for n, record in enumerate(self._stored[subject]) if n not in numbers
        ]
        self.missed += 1

    def cut(self, subject: Subject, kept: int) -> None:
        self._stored[subject] = self._stored[subject][:kept]
        self._heads[subject.shard] = kept
        self.missed += 1


def where(log: MemoryLog, key: str = "s") -> Subject:
    return log.namespace.subject("updates", key)


async def save(log: Watermarked, count: int, key: str = "s") -> None:
    for n in range(count):
        envelope = draft("test.made", b"\xc0", id=f"{key}{n}")
        await log.append([Append(log.namespace.subject("updates", key), (envelope,))])


async def read(log: Watermarked, key: str = "s") -> int:
    subject = log.namespace.subject("updates", key)
    return sum([len(page) async for page in log.read(subject)])


async def marked(below: Lossy, marks: MemoryMarks, count: int = 5) -> None:
    log = Watermarked(below, marks)
    await save(log, count)
    await log.close()
    assert marks.of() == Mark(count, count)
