"""A log of the tests' own: memory, with pushes and reads that a test may bend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from foldlog.envelope import draft
from foldlog.errors import LogUnavailable
from foldlog.log.memory import MemoryLog
from foldlog.log.port import Append, OnRecord, Record, Unfollow
from foldlog.subjects import Subject
from foldlog.views import Views
from foldlog_projections.updates import kind as updates


class Log(MemoryLog):
    """A memory log that counts reads, and whose pushes pass through `push`."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.away = False
        self.pushes = 0
        self.missed = 0
        self.followed = 0
        self.push: Callable[[OnRecord, Record], None] = lambda on_record, record: on_record(record)

    @property
    def epoch(self) -> int:
        return self.missed

    def read(self, subject: Subject, *, after: int = 0, strong: bool = True) -> Any:
        self.reads += 1
        if self.away:
            raise LogUnavailable("away")
        return super().read(subject, after=after, strong=strong)

    def restore(self, subject: Subject, kept: int) -> None:
        """Be as after `kept` records, all of `subject`: an older backup was put back."""
        self._stored[subject] = self._stored[subject][:kept]
        self._heads[subject.shard] = kept

    async def follow(self, subject: Subject, on_record: OnRecord) -> Unfollow:
        def pushed(record: Record) -> None:
            self.pushes += 1
            self.push(on_record, record)

        unfollow = await super().follow(subject, pushed)
        self.followed += 1

        async def counted() -> None:
            self.followed -= 1
            await unfollow()

        return counted


def subject(key: str = "s") -> Subject:
    return MemoryLog().namespace.subject("updates", key)


async def save(log: Log, *ids: str, key: str = "s", size: int = 1, task: str = "t") -> int:
    """Append envelopes as one record; return where it stands."""
    payload = msgspec.msgpack.encode({"task_id": task, "content": b"x" * size})
    drafts = tuple(draft("x", payload, id=id) for id in ids)
    return (await log.append([Append(subject(key), drafts)]))[-1]


async def read(views: Views, consistency: Any = "session", key: str = "s") -> list[str]:
    folded = await views.read(updates, subject(key), consistency)
    return [item.id for item in folded.state]


def dropped(on_record: OnRecord, record: Record) -> None:
    """A push that is lost on its way."""


def is_hot(views: Views, subject: Subject) -> bool:
    """Whether reads of `subject` are answered from memory."""
    return views.peek(updates, subject) is not None
