"""Subjects that begin with what another subject held: a port that reads through forks.

A forked subject's first envelope names another subject of its family and shard, and how far of it
belongs here. Nothing is copied: whoever reads the fork reads that first, then what follows. As both
are on one shard, and the fork was made later, sequences ascend throughout.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from foldlog.envelope import FORKED, Writer
from foldlog.errors import LogCorrupt
from foldlog.log.past import cut, until
from foldlog.log.port import Append, Log, OnRecord, Record, Unfollow
from foldlog.log.relay import Relay
from foldlog.position import Reach
from foldlog.subjects import Subject


class Forked(msgspec.Struct, frozen=True, omit_defaults=True):
    """`subject.forked`: what the subject of these keys held at that reach comes first."""

    keys: tuple[str, ...]
    seq: int
    index: int | None = None

    @property
    def reach(self) -> Reach:
        """How far of the other subject belongs to the fork."""
        return Reach(self.seq, self.index)


_decoder = msgspec.msgpack.Decoder(Forked)


class ForkedLog(Relay):
    """`below`, whose `read` and `last` see through forks. `scan` tells what is stored.

    What is appended here is stamped as the drafts of `writer`, but for what is already.
    """

    def __init__(self, below: Log, writer: Writer | None = None) -> None:
        super().__init__(below)
        self.writer = writer or Writer()

    def stamped(self, append: Append, known: int = 0) -> Append:
        """An append whose drafts are numbered; called in the order of saves.

        `known`: a sequence of its shard that the caller has seen, if the log below has not.
        """
        subject, drafts, expect = append.subject, append.drafts, append.expect
        if drafts[0].writer:
            return append
        keys = subject.keys if subject.is_hashed else None
        known = max(known, self.below.known(subject.shard))
        return Append(subject, self.writer.stamped(drafts, known, keys), expect)

    def append(
        self, appends: Sequence[Append], *, atomic: bool = False
    ) -> Coroutine[Any, Any, list[int]]:
        return self.below.append(list(map(self.stamped, appends)), atomic=atomic)

    async def read(
        self, subject: Subject, *, after: int = 0, upto: int | None = None, strong: bool = True
    ) -> AsyncGenerator[list[Record]]:
        """Of a fork, the shared records come first, in pages of their own.

        Raises:
            PastErased: what it shares was removed from the log.
        """
        is_first = True
        async with aclosing(
            self.below.read(subject, after=after, upto=upto, strong=strong)
        ) as pages:
            async for records in pages:
                if is_first:
                    async with aclosing(self._shared(subject, records[0], after, upto)) as shared:
                        async for page in shared:
                            yield page
                is_first = False
                yield records
        if is_first and upto is not None and after < upto:
            # The record that says that it is a fork may stand behind all that was asked for.
            async with aclosing(self.below.read(subject, after=upto, strong=strong)) as pages:
                async for records in pages:
                    async with aclosing(self._shared(subject, records[0], after, upto)) as shared:
                        async for page in shared:
                            yield page
                    return

    async def last(
        self, subject: Subject, *, strong: bool = True, upto: int | None = None
    ) -> Record | None:
        """Of a fork with nothing of its own yet: what it shares, in its own place."""
        record = await self.below.last(subject, strong=strong, upto=upto)
        fork = None if record is None else forked(subject, record)
        if record is None or fork is None or len(record.envelopes) > 1:
            return record
        shared = await self.last(self._parent(subject, fork), upto=fork.seq)
        if shared is None:
            return record
        return record._replace(envelopes=cut(shared, fork.reach).envelopes)

    async def follow(self, subject: Subject, on_record: OnRecord) -> Unfollow:
        """That a subject is a fork comes without `previous`: read the log."""

        def on_any(record: Record) -> None:
            is_fork = record.envelopes[0].type == FORKED
            on_record(record._replace(previous=None) if is_fork else record)

        return await self.below.follow(subject, on_any)

    async def _shared(
        self, subject: Subject, first: Record, after: int, upto: int | None
    ) -> AsyncGenerator[list[Record]]:
        """Yield what the subject of that first record shares with another, if it is a fork."""
        if (fork := forked(subject, first)) is None:
            return
        parent = self._parent(subject, fork)
        async with (
            aclosing(self.read(parent, after=after, upto=upto)) as pages,
            aclosing(until(pages, parent, fork.reach)) as kept,
        ):
            async for records in kept:
                yield records

    def _parent(self, subject: Subject, fork: Forked) -> Subject:
        return self.namespace.subject(subject.family, *fork.keys)


def forked(subject: Subject, record: Record) -> Forked | None:
    """What a record says of where its subject comes from; None if it says nothing.

    Raises:
        LogCorrupt: it cannot be read.
    """
    first = record.envelopes[0]
    if first.type != FORKED:
        return None
    try:
        return _decoder.decode(first.payload)
    except msgspec.MsgspecError as error:
        raise LogCorrupt(subject.name, record.seq, str(error)) from error
