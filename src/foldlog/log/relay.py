"""A log that passes every call on to another log: the base of those that change one thing."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from typing import Any

from foldlog.log.incarnation import Loss
from foldlog.log.port import Append, Log, LogInfo, OnRecord, Record, Stored, Unfollow
from foldlog.subjects import Branch, Namespace, Subject


class Relay:
    """Passes every call on to `below`, which it does not own. See the port for all methods."""

    def __init__(self, below: Log) -> None:
        self.below = below
        # Each read from memory asks for the epoch: past those that only pass it on. Who counts
        # epochs of its own names itself.
        self._counts_epochs: Log = below._counts_epochs if isinstance(below, Relay) else below

    @property
    def namespace(self) -> Namespace:
        return self.below.namespace

    @property
    def epoch(self) -> int:
        return self._counts_epochs.epoch

    def on_epoch(self, notify: Callable[[], None]) -> None:
        self.below.on_epoch(notify)

    def known(self, shard: int) -> int:
        return self.below.known(shard)

    def append(
        self, appends: Sequence[Append], *, atomic: bool = False
    ) -> Coroutine[Any, Any, list[int]]:
        return self.below.append(appends, atomic=atomic)

    async def restore(
        self, shard: int, records: Sequence[tuple[Subject, bytes, str]], *, after: int
    ) -> None:
        await self.below.restore(shard, records, after=after)

    def read(
        self, subject: Subject | Branch, *, after: int = 0, strong: bool = True
    ) -> AsyncGenerator[list[Record]]:
        return self.below.read(subject, after=after, strong=strong)

    async def last(
        self, subject: Subject, *, strong: bool = True, upto: int | None = None
    ) -> Record | None:
        return await self.below.last(subject, strong=strong, upto=upto)

    async def are_absent(self, subjects: Sequence[Subject]) -> bool:
        return await self.below.are_absent(subjects)

    def scan(
        self, shard: int, *, after: int = 0, only: Sequence[str] = ()
    ) -> AsyncGenerator[list[Stored]]:
        return self.below.scan(shard, after=after, only=only)

    async def subjects(
        self, family: str | None = None, shard: int | None = None
    ) -> dict[Subject, int]:
        return await self.below.subjects(family, shard)

    async def stored(self, shard: int, seq: int) -> Stored | None:
        return await self.below.stored(shard, seq)

    async def sequence_at(self, shard: int, time: dt.datetime) -> int:
        return await self.below.sequence_at(shard, time)

    async def heads(self) -> list[int]:
        return await self.below.heads()

    async def barrier(self, shard: int) -> None:
        await self.below.barrier(shard)

    async def follow(self, subject: Subject | Branch, on_record: OnRecord) -> Unfollow:
        return await self.below.follow(subject, on_record)

    async def purge(
        self, which: Subject | Branch | int, *, before: int, overwrite: bool = True
    ) -> None:
        await self.below.purge(which, before=before, overwrite=overwrite)

    async def check(self) -> list[Loss]:
        return await self.below.check()

    async def accept(self) -> None:
        await self.below.accept()

    async def info(self) -> LogInfo:
        return await self.below.info()

    async def close(self) -> None:
        """Does nothing: the log below belongs to its maker."""
