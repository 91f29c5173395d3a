"""The processes of promise 0: several connections to one log in memory, with a store on each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

import foldlog
from foldlog import Store
from foldlog.envelope import CLEARED
from foldlog.log.memory import MemoryLog
from foldlog.log.port import Append, OnRecord, Record, Unfollow
from foldlog.subjects import Branch, Subject
from foldlog_projections import lineage
from tests.property.promise_model import KINDS, SHAPES, Effect, Place, Shape

UNREPEATABLE = {CLEARED, lineage.BEGAN, lineage.FORKED, lineage.ENDED, lineage.CLEARED}
"""Types of what removes and forks. It is appended where a subject ends, or marks a moment."""


class Client(MemoryLog):
    """One process's connection to a log that others share.

    It knows of the log what it was told, as the client of a server does, and keeps what it sent.
    While it is `away`, no push reaches it; while it is `held`, its appends wait.
    """

    def __init__(self, shared: MemoryLog) -> None:
        vars(self).update(vars(shared))  # the same records and followers, and whatever comes there
        self.shared = shared
        self.told = list(self._heads)
        self.sent: list[tuple[list[Append], bool]] = []
        self.is_away = False
        self.held: asyncio.Event | None = None
        self.reached = asyncio.Event()

    def known(self, shard: int) -> int:
        return self.told[shard]

    def tell(self, shard: int, seq: int) -> None:
        """Note that this process has seen a record."""
        self.told[shard] = max(self.told[shard], seq)

    async def append(self, appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        self.reached.set()
        if self.held is not None:
            await self.held.wait()
        seqs = await super().append(appends, atomic=atomic)
        for append, seq in zip(appends, seqs, strict=True):
            self.tell(append.subject.shard, seq)
        if not any(draft.type in UNREPEATABLE for each in appends for draft in each.drafts):
            self.sent.append((list(appends), atomic))
        return seqs

    async def read(
        self, subject: Subject | Branch, *, after: int = 0, strong: bool = True
    ) -> AsyncGenerator[list[Record]]:
        async for page in super().read(subject, after=after, strong=strong):
            self.tell(0, page[-1].seq)
            yield page

    async def last(
        self, subject: Subject, *, strong: bool = True, upto: int | None = None
    ) -> Record | None:
        record = await super().last(subject, strong=strong, upto=upto)
        if record is not None:
            self.tell(0, record.seq)
        return record

    async def follow(self, subject: Subject | Branch, on_record: OnRecord) -> Unfollow:
        def on_push(record: Record) -> None:
            if not self.is_away:
                self.tell(0, record.seq)
                on_record(record)

        return await super().follow(subject, on_push)


class Process:
    """One process: a store, and the views in which it has seen the last save and clearing."""

    def __init__(self, name: str, shared: MemoryLog, max_hot_bytes: int) -> None:
        self.name = name
        self.client = Client(shared)
        self.store: Store = foldlog.memory_store(
            log=self.client, kinds=KINDS, max_hot_bytes=max_hot_bytes
        )
        self.current: set[Place] = set()
        self.aware: set[Place] = set()


class Abandoned(Exception):
    """What a caller's own code raises inside a block."""


class Call:
    """A call that saves."""

    async def make(self) -> None:
        raise NotImplementedError


class Saving(Call):
    """One save."""

    def __init__(self, shape: Shape, process: Process, place: Place, effect: Effect) -> None:
        self._shape, self._process, self._place, self._effect = shape, process, place, effect

    async def make(self) -> None:
        effect = self._effect
        await self._shape.save(self._process.store, self._place.session, effect.id, effect.content)


class Block(Call):
    """Several saves in `atomic()`."""

    def __init__(
        self, process: Process, saves: Sequence[tuple[Place, Effect]], fails: bool
    ) -> None:
        self._process, self._saves, self._fails = process, saves, fails

    async def make(self) -> None:
        store = self._process.store
        async with store.atomic():
            for place, effect in self._saves:
                await Saving(SHAPES[place.shape], self._process, place, effect).make()
            if self._fails:
                raise Abandoned
