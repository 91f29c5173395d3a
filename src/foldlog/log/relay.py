"""A log that is another log: what changes one thing about a log begins here."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from typing import Any

from foldlog.log.incarnation import Loss
from foldlog.log.port import (
    Append,
    Log,
    LogInfo,
    OnRecord,
    Record,
    Stored,
    Unfollow,
)
from foldlog.subjects import Branch, Namespace, Subject


class Relay:
    """Does whatever it is asked with `below`, which it does not own: see the port for all of it."""

    def __init__(self, below: Log) -> None:
        self.below = below

    @property
    def namespace(self) -> Namespace:
        return self.below.namespace

    @property
    def epoch(self) -> int:
        return self.below.epoch

    def known(self, shard: int) -> int:
        return self.below.known(shard)

    def append(
        self, appends: Sequence[Append], *, atomic: bool = False
    ) -> Coroutine[Any, Any, list[int]]:
        return self.below.append(appends, atomic=atomic)

    def read(
        self, subject: Subject, *, after: int = 0, upto: int | None = None, strong: bool = True
    ) -> AsyncGenerator[list[Record]]:
        return self.below.read(subject, after=after, upto=upto, strong=strong)

    def scan(self, shard: int, *, after: int = 0) -> AsyncGenerator[list[Stored]]:
        return self.below.scan(shard, after=after)

    async def counts(self, shard: int) -> dict[str, int]:
        return await self.below.counts(shard)

    async def last(
        self, subject: Subject, *, strong: bool = True, upto: int | None = None
    ) -> Record | None:
        return await self.below.last(subject, strong=strong, upto=upto)

    def lasts(self, branch: Branch) -> AsyncGenerator[list[Stored]]:
        return self.below.lasts(branch)

    async def barrier(self, shard: int) -> None:
        await self.below.barrier(shard)

    async def stored(self, shard: int, seq: int) -> Stored | None:
        return await self.below.stored(shard, seq)

    async def sequence_at(self, shard: int, time: dt.datetime) -> int:
        return await self.below.sequence_at(shard, time)

    async def follow(self, subject: Subject, on_record: OnRecord) -> Unfollow:
        return await self.below.follow(subject, on_record)

    async def purge(self, which: Subject | Branch | int, *, before: int) -> None:
        await self.below.purge(which, before=before)

    async def check(self) -> list[Loss]:
        return await self.below.check()

    async def accept(self) -> None:
        await self.below.accept()

    async def subjects(self, family: str | None = None) -> list[Subject]:
        return await self.below.subjects(family)

    async def heads(self) -> list[int]:
        return await self.below.heads()

    async def info(self) -> LogInfo:
        return await self.below.info()

    def on_epoch(self, notify: Callable[[], None]) -> None:
        self.below.on_epoch(notify)

    async def close(self) -> None:
        """Does nothing: the log below belongs to whoever made it."""
