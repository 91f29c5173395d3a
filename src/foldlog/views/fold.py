"""One subject's fold, with its place in the log; and folds of a subject's records as they are."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from foldlog.envelope import CLEARED, Position, Recorded, unpack
from foldlog.errors import LogCorrupt
from foldlog.kind import Kind
from foldlog.log.port import Log, Record, Stored
from foldlog.subjects import Subject
from foldlog_projections.fold import Folded, start, step

S = TypeVar("S")


@dataclass(slots=True, eq=False, repr=False)
class Fold(Generic[S]):
    """A fold that has every record of its subject up to sequence `applied`.

    `last` is the position of its last envelope.
    """

    projection: Kind[S]
    subject: Subject
    folded: Folded[S] = field(init=False)
    applied: int = field(default=0, init=False)
    last: Position | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.folded = start(self.projection)

    def advance(self, envelopes: Sequence[Recorded], subject: str) -> None:
        """Fold in the envelopes of whole records of a subject, which follow without a gap.

        A fork begins with records of its origin: `subject` is the name of the one that has them.

        Raises LogCorrupt: a payload is not what its type says. `applied` stays, but envelopes
        before that one may have taken effect.
        """
        projection, folded = self.projection, self.folded
        try:
            for envelope in envelopes:  # in the end it is the last, or the one at fault
                step(projection, folded, envelope)
        except msgspec.MsgspecError as error:
            raise LogCorrupt(subject, envelope.seq, str(error)) from error
        self.applied = envelope.seq
        self.last = Position(envelope.seq, envelope.index, envelope.id)


def stepped(kind: Kind[S], folded: Folded[S], envelope: Recorded, subject: str) -> bool:
    """Fold one envelope in, as `step`. LogCorrupt: its payload is not what its type says."""
    try:
        return step(kind, folded, envelope)
    except msgspec.MsgspecError as error:
        raise LogCorrupt(subject, envelope.seq, str(error)) from error


async def read_all(log: Log, subject: Subject, after: int = 0) -> list[Record]:
    """Return every record of a subject after a sequence."""
    async with aclosing(log.read(subject, after=after)) as pages:
        return [record async for records in pages for record in records]


async def refold(log: Log, projection: Kind[S], subject: Subject) -> Folded[S]:
    """Fold every record of `subject`, whatever view of it is in memory."""
    fold = Fold(projection, subject)
    async with aclosing(log.read(subject)) as pages:
        async for records in pages:
            for record in records:
                fold.advance(record.envelopes, record.subject)
    return fold.folded


def holds(position: Position, first: Record) -> bool:
    """Whether the log holds an envelope, given its first record at or after that sequence.

    A subject that was cleared meanwhile begins with the clearing instead.
    """
    if first.seq != position.seq:
        return first.envelopes[0].type == CLEARED
    envelopes = first.envelopes
    return position.index < len(envelopes) and envelopes[position.index].position == position


async def readable(log: Log, subject: Subject) -> AsyncGenerator[list[Recorded]]:
    """Yield what can be read of a subject, in order; for clearing, which has to go on.

    Records that cannot be read are passed over. From the first of them on it scans the whole shard.
    """
    after = 0
    try:
        async with aclosing(log.read(subject)) as pages:
            async for records in pages:
                yield [envelope for record in records for envelope in record.envelopes]
                after = records[-1].seq
        return
    except LogCorrupt:
        pass
    async with aclosing(scan_readable(log, subject.shard, after, lambda _: None)) as scanned:
        async for page in scanned:
            for stored in page:
                if stored.subject == subject.name:
                    with suppress(msgspec.MsgspecError):
                        yield unpack(stored.data, stored.seq, stored.time)


async def scan_readable(
    log: Log, shard: int, after: int, pass_over: Callable[[LogCorrupt], object]
) -> AsyncGenerator[list[Stored]]:
    """Yield what a shard stores after a sequence; `pass_over` is given what cannot be read."""
    while True:
        try:
            async with aclosing(log.scan(shard, after=after)) as pages:
                async for page in pages:
                    yield page
                    after = page[-1].seq
            return
        except LogCorrupt as error:
            pass_over(error)
            after = error.sequence


async def salvage(log: Log, projection: Kind[S], subject: Subject) -> Folded[S]:
    """Fold what can be read of a subject."""
    folded = start(projection)
    async with aclosing(readable(log, subject)) as pages:
        async for envelopes in pages:
            for envelope in envelopes:
                with suppress(msgspec.MsgspecError, LogCorrupt):
                    step(projection, folded, envelope)
    return folded
