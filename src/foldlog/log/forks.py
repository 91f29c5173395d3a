"""A port over a log that reads through forks: subjects that begin with another subject's records.

A forked subject's first envelope names that subject, of its own family and shard, and how far its
records belong to the fork. Sequences ascend throughout, because the fork came later.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Any, Final, overload

import msgspec
from msgspec.structs import replace

from foldlog.envelope import FORKED, Draft, Writer
from foldlog.errors import InvalidId, LogCorrupt
from foldlog.log.past import cut, until
from foldlog.log.port import Append, Log, Record
from foldlog.log.relay import Relay
from foldlog.position import Reach
from foldlog.subjects import Branch, Namespace, Subject

DEEPEST: Final = 1_000
"""Forks of forks that are read: each level is a request."""


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
        async with AsyncExitStack() as stack:
            levels = list[tuple[list[Record], AsyncGenerator[list[Record]]]]()
            pages = self.below.read(subject, after=after, strong=strong)
            while True:
                await stack.enter_async_context(aclosing(pages))
                first = await anext(pages, None)
                if first is None:
                    break
                levels.append((first, pages))
                fork = forked(self.namespace, subject, first[0], len(levels))
                if fork is None:
                    break
                subject, reach = fork
                pages = until(self.below.read(subject, after=after), subject, reach)
            for first, pages in reversed(levels):
                yield first
                async for records in pages:
                    yield records

    async def last(
        self, subject: Subject, *, strong: bool = True, upto: int | None = None
    ) -> Record | None:
        """Of a fork without records of its own: the last that it shares, and what makes it a fork,
        as one record at the fork's place.
        """
        levels = list[tuple[Record, Reach]]()
        found = await self.below.last(subject, strong=strong, upto=upto)
        while found is not None and len(found.envelopes) == 1:
            fork = forked(self.namespace, subject, found, len(levels) + 1)
            if fork is None:
                break
            levels.append((found, fork[1]))
            subject, reach = fork
            found = await self.below.last(subject, upto=reach.seq)
        for record, reach in reversed(levels):
            shared = [] if found is None else cut(found, reach).envelopes
            found = replace(record, envelopes=[*shared, *record.envelopes])
        return found


@overload
def forked(
    namespace: Namespace, subject: Subject, record: Record, depth: int
) -> tuple[Subject, Reach] | None: ...


@overload
def forked(
    namespace: Namespace, subject: Subject | Branch, record: Record, depth: int
) -> tuple[Subject | Branch, Reach] | None: ...


def forked(
    namespace: Namespace, subject: Subject | Branch, record: Record, depth: int
) -> tuple[Subject | Branch, Reach] | None:
    """Return where the first record of a subject says that it comes from; None if it says nothing.

    Args:
        depth: how many subjects were read to come here.

    Raises:
        LogCorrupt: it says what no fork says. What it names ends before it, so that no circle
            is followed.
    """
    first = record.envelopes[0]
    if first.type != FORKED:
        return None
    origin: Subject | Branch
    try:
        fork = _decoder.decode(first.payload)
        if isinstance(subject, Branch):  # each of its subjects was forked
            origin = namespace.branch(subject.family, *fork.keys[:-1])
        else:
            origin = namespace.subject(subject.family, *fork.keys)
    except (msgspec.MsgspecError, InvalidId, TypeError, IndexError) as error:
        raise LogCorrupt(subject.name, record.seq, f"no fork: {error}") from error
    if origin.shard != subject.shard or fork.seq >= record.seq:
        reason = f"no fork: it names {origin.name} up to sequence {fork.seq}"
        raise LogCorrupt(subject.name, record.seq, reason)
    if depth > DEEPEST:
        raise LogCorrupt(subject.name, record.seq, f"a fork of forks, more than {DEEPEST} deep")
    return origin, fork.reach


async def origins(log: Log, subject: Subject) -> AsyncGenerator[Subject]:
    """Yield a subject, and those whose records it begins with, the nearest first.

    Raises:
        LogUnavailable, LogCorrupt: the log did not answer, or a first record cannot be read.
    """
    reach: Reach | None = None
    for depth in itertools.count(1):
        yield subject
        async with aclosing(log.read(subject)) as pages:
            records = await anext(pages, None)
        if records is None or (reach is not None and records[0].seq > reach.seq):
            return
        fork = forked(log.namespace, subject, records[0], depth)
        if fork is None:
            return
        subject, reach = fork
