"""A port over a log that reads through forks: subjects that begin with another subject's records.

A forked subject's first envelope names that subject, of its own family and shard, and how far its
records belong to the fork. Sequences ascend throughout, because the fork came later.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
from msgspec.structs import replace

from foldlog.envelope import FORKED, Draft, Writer
from foldlog.errors import LogCorrupt
from foldlog.log.past import cut, until
from foldlog.log.port import Append, Log, Record
from foldlog.log.relay import Relay
from foldlog.position import Reach
from foldlog.subjects import Branch, Subject


class Forked(msgspec.Struct, frozen=True, omit_defaults=True):
    """`subject.forked`: the fork begins with the records of these keys, up to that reach."""

    keys: tuple[str, ...]
    seq: int
    index: int | None = None

    @property
    def reach(self) -> Reach:
        """How far the other subject's records belong to the fork."""
        return Reach(self.seq, self.index)


_decoder = msgspec.msgpack.Decoder(Forked)


class ForkedLog(Relay):
    """`below`, whose `read` and `last` see through forks; `scan` yields what is stored.

    Drafts that have no writer yet are stamped as those of `writer` when they are appended.
    """

    def __init__(self, below: Log, writer: Writer | None = None) -> None:
        super().__init__(below)
        self.writer: Writer = writer or Writer()

    def stamped(
        self, subject: Subject, drafts: Sequence[Draft], expect: int | None = None, known: int = 0
    ) -> Append:
        """Return an append of numbered drafts. Call it in the order of saves.

        `known`: a sequence of its shard that the caller has seen, if the log below has not.
        """
        if drafts[0].writer:
            return Append(subject, tuple(drafts), expect)
        keys = subject.keys if subject.is_hashed else None
        known = max(known, self.below.known(subject.shard))
        return Append(subject, self.writer.stamped(drafts, known, keys), expect)

    def append(
        self, appends: Sequence[Append], *, atomic: bool = False
    ) -> Coroutine[Any, Any, list[int]]:
        stamped = [self.stamped(each.subject, each.drafts, each.expect) for each in appends]
        return self.below.append(stamped, atomic=atomic)

    async def read(
        self, subject: Subject | Branch, *, after: int = 0, strong: bool = True
    ) -> AsyncGenerator[list[Record]]:
        """Of a fork, the shared records come first, in pages of their own.

        Raises:
            PastErased: what it shares was removed from the log.
        """
        is_first = True
        async with aclosing(self.below.read(subject, after=after, strong=strong)) as pages:
            async for records in pages:
                if is_first and (fork := forked(subject, records[0])) is not None:
                    parent = self._parent(subject, fork)
                    shared = until(self.read(parent, after=after), parent, fork.reach)
                    async with aclosing(shared):
                        async for page in shared:
                            yield page
                is_first = False
                yield records

    async def last(
        self, subject: Subject, *, strong: bool = True, upto: int | None = None
    ) -> Record | None:
        """Of a fork without records of its own: the last that it shares, and what makes it a fork,
        as one record at the fork's place.
        """
        record = await self.below.last(subject, strong=strong, upto=upto)
        fork = None if record is None else forked(subject, record)
        if record is None or fork is None or len(record.envelopes) > 1:
            return record
        parent = self.namespace.subject(subject.family, *fork.keys)
        shared = await self.last(parent, upto=fork.seq)
        if shared is None:
            return record
        return replace(record, envelopes=[*cut(shared, fork.reach).envelopes, *record.envelopes])

    def _parent(self, subject: Subject | Branch, fork: Forked) -> Subject | Branch:
        if isinstance(subject, Branch):  # each of its subjects was forked
            return self.namespace.branch(subject.family, *fork.keys[:-1])
        return self.namespace.subject(subject.family, *fork.keys)


def forked(subject: Subject | Branch, record: Record) -> Forked | None:
    """Return where a record says that its subject comes from; None if it says nothing."""
    first = record.envelopes[0]
    if first.type != FORKED:
        return None
    try:
        return _decoder.decode(first.payload)
    except msgspec.MsgspecError as error:
        raise LogCorrupt(subject.name, record.seq, str(error)) from error


async def origin_of(log: Log, subject: Subject) -> Subject | None:
    """Return the subject whose records a forked one begins with; None if it was not forked.

    Raises:
        LogUnavailable, LogCorrupt: the log did not answer, or its first record cannot be read.
    """
    async with aclosing(log.read(subject)) as pages:
        async for records in pages:
            fork = forked(subject, records[0])
            return None if fork is None else log.namespace.subject(subject.family, *fork.keys)
    return None
