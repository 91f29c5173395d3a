"""The log in memory, with the contract and the bytes of the log on JetStream."""

from __future__ import annotations

import asyncio
import datetime as dt
import heapq
import secrets
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Final

from foldlog.batches import in_batches
from foldlog.envelope import Draft, pack
from foldlog.errors import AppendConflict
from foldlog.log.blobs import Blobs
from foldlog.log.incarnation import Loss
from foldlog.log.packing import check_atomic, sizes_of, split
from foldlog.log.port import (
    Append,
    LogInfo,
    OnRecord,
    Record,
    Stored,
    StreamInfo,
    Unfollow,
)
from foldlog.log.side import MemorySide
from foldlog.log.snapshots import SnapshotStore
from foldlog.log.timers import MemoryTimers, Timers
from foldlog.subjects import Branch, Namespace, Subject, checked_filter, matching

MAX_PAYLOAD: Final = 8 * 1024 * 1024
"""Bytes a message may hold, as on the embedded server."""

_PAGE: Final = 1000


class MemoryLog:
    """A log that lasts as long as the object. Several stores may share one; `close` keeps it."""

    def __init__(self, namespace: Namespace | None = None) -> None:
        self.namespace: Namespace = namespace or Namespace()
        side, identity = MemorySide(), secrets.token_hex(8)
        self.blobs: Blobs = Blobs(side, self.namespace)
        self.timers: Timers = MemoryTimers()
        self.snapshots: SnapshotStore = SnapshotStore(side, self.namespace, lambda shard: identity)
        self._heads = [0] * self.namespace.shards
        self._stored: dict[Subject, list[Stored]] = defaultdict(list)
        self._followers: dict[Subject | Branch, list[OnRecord]] = defaultdict(list)
        self._branches: list[Branch] = []

    @property
    def epoch(self) -> int:
        """Always 0: no push is ever missed."""
        return 0

    def known(self, shard: int) -> int:
        return self._heads[shard]

    async def append(self, appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        """Every append is atomic here."""
        # As on a server, every call suspends, so that code that relies on the opposite fails here.
        await asyncio.sleep(0)
        sizes_of(appends, MAX_PAYLOAD)
        if atomic:
            check_atomic(appends)
        for append in appends:
            actual = self._end(append.subject)
            if append.expect is not None and append.expect != actual:
                raise AppendConflict(append.subject.name, append.expect, actual)
        return [
            [self._store(append.subject, record) for record in split(append.drafts)][-1]
            for append in appends
        ]

    async def restore(
        self, shard: int, records: Sequence[tuple[Subject, bytes, str]], *, after: int
    ) -> None:
        await asyncio.sleep(0)
        if self._heads[shard] != after:
            raise AppendConflict(self.namespace.stream(shard), after, self._heads[shard])
        for subject, data, time in records:
            self._put(subject, data, time)

    async def read(
        self, subject: Subject | Branch, *, after: int = 0, strong: bool = True
    ) -> AsyncGenerator[list[Record]]:
        await asyncio.sleep(0)
        stored = (
            list(heapq.merge(*map(self._stored.__getitem__, self._below(subject)), key=_seq))
            if isinstance(subject, Branch)
            else self._stored.get(subject, [])
        )
        for page in in_batches(stored[bisect_right(stored, after, key=_seq) :], _PAGE):
            yield [each.record() for each in page]

    async def last(
        self, subject: Subject, *, strong: bool = True, upto: int | None = None
    ) -> Record | None:
        await asyncio.sleep(0)
        stored = self._stored.get(subject, [])
        count = len(stored) if upto is None else bisect_right(stored, upto, key=_seq)
        return stored[count - 1].record() if count else None

    async def are_absent(self, subjects: Sequence[Subject]) -> bool:
        await asyncio.sleep(0)
        return not any(self._stored.get(each) for each in subjects)

    async def scan(
        self, shard: int, *, after: int = 0, only: Sequence[str] = ()
    ) -> AsyncGenerator[list[Stored]]:
        await asyncio.sleep(0)
        is_meant = matching(only)
        found = [each for each in self._of(shard) if each.seq > after and is_meant(each.subject)]
        for page in in_batches(found, _PAGE):
            yield [*page]

    async def subjects(
        self, family: str | None = None, shard: int | None = None
    ) -> dict[Subject, int]:
        await asyncio.sleep(0)
        return {
            subject: len(stored)
            for subject, stored in sorted(self._stored.items(), key=lambda each: each[0].shard)
            if family in (None, subject.family) and shard in (None, subject.shard)
        }

    async def stored(self, shard: int, seq: int) -> Stored | None:
        await asyncio.sleep(0)
        return next((each for each in self._of(shard) if each.seq == seq), None)

    async def sequence_at(self, shard: int, time: dt.datetime) -> int:
        await asyncio.sleep(0)
        later = (e.seq for e in self._of(shard) if dt.datetime.fromisoformat(e.time) > time)
        return next(later, self._heads[shard] + 1) - 1

    async def barrier(self, shard: int) -> None:
        """There is no other leader."""
        await asyncio.sleep(0)

    async def follow(self, subject: Subject | Branch, on_record: OnRecord) -> Unfollow:
        """Records are pushed before their append returns, as JetStream does."""
        self._followers[subject].append(on_record)
        if isinstance(subject, Branch):
            self._branches.append(subject)

        async def unfollow() -> None:
            self._followers[subject].remove(on_record)
            if not self._followers[subject]:
                del self._followers[subject]
            if isinstance(subject, Branch):
                self._branches.remove(subject)

        return unfollow

    async def purge(
        self, which: Subject | Branch | int, *, before: int, overwrite: bool = True
    ) -> None:
        if isinstance(which, Branch):
            checked_filter(which.name)
            subjects = self._below(which)
        elif isinstance(which, int):
            subjects = [subject for subject in self._stored if subject.shard == which]
        else:
            subjects = [which]
        for subject in subjects:
            stored = self._stored.pop(subject, [])
            if kept := stored[bisect_left(stored, before, key=_seq) :]:
                self._stored[subject] = kept

    async def check(self) -> list[Loss]:
        """Memory loses nothing."""
        return []

    async def accept(self) -> None:
        """Nothing was lost."""

    async def heads(self) -> list[int]:
        await asyncio.sleep(0)
        return list(self._heads)

    async def info(self) -> LogInfo:
        """There is no server, and one stream a shard without replicas."""
        return LogInfo("memory:", "", 0, MAX_PAYLOAD, 0.0, tuple(self._streams()))

    def _streams(self) -> Iterator[StreamInfo]:
        for shard, head in enumerate(self._heads):
            held = self._of(shard)
            yield StreamInfo(
                name=self.namespace.stream(shard),
                shard=shard,
                messages=len(held),
                bytes=sum(len(each.data) for each in held),
                subjects=len({each.subject for each in held}),
                first_seq=held[0].seq if held else 0,
                last_seq=head,
                replicas=1,
                leader=None,
                peers_lag={},
            )

    def on_epoch(self, notify: Callable[[], None]) -> None:
        """It never grows."""

    async def close(self) -> None:
        """Does nothing: the log belongs to its maker."""

    def _store(self, subject: Subject, drafts: Sequence[Draft]) -> int:
        return self._put(subject, pack(drafts))

    def _put(self, subject: Subject, data: bytes, time: str = "") -> int:
        self._heads[subject.shard] = seq = self._heads[subject.shard] + 1
        time = time or dt.datetime.now(dt.UTC).isoformat()
        stored = Stored(subject.name, seq, time, data)
        previous = self._end(subject)
        self._stored[subject].append(stored)
        branches = [each for each in self._branches if each.holds(subject.name)]
        found: list[Subject | Branch] = [subject, *dict.fromkeys(branches)]
        for followed in found:
            for on_record in list(self._followers.get(followed, ())):
                on_record(stored.record(previous))
        return seq

    def _below(self, branch: Branch) -> list[Subject]:
        return [subject for subject in self._stored if branch.holds(subject.name)]

    def _end(self, subject: Subject) -> int:
        """Where a subject ends, 0 for one without records."""
        stored = self._stored.get(subject)
        return stored[-1].seq if stored else 0

    def _of(self, shard: int) -> list[Stored]:
        """All that a shard stores, in order."""
        held = (stored for subject, stored in self._stored.items() if subject.shard == shard)
        return list(heapq.merge(*held, key=_seq))


def _seq(stored: Stored) -> int:
    return stored.seq
