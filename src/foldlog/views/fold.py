"""One subject's fold, with its place in the log."""

from __future__ import annotations

from contextlib import aclosing
from typing import Generic, TypeVar

import msgspec

from foldlog.envelope import CLEARED, Position
from foldlog.errors import LogCorrupt
from foldlog.log.port import Log, Record
from foldlog.subjects import Subject
from foldlog_projections.fold import Folded, Projection, start, step

S = TypeVar("S")


class Fold(Generic[S]):
    """A fold that has every record of its subject up to sequence `applied`.

    `last` is where the last envelope of these stands.
    """

    __slots__ = ("applied", "folded", "last", "projection", "subject")

    def __init__(self, projection: Projection[S], subject: Subject) -> None:
        self.projection = projection
        self.subject = subject
        self.folded: Folded[S] = start(projection)
        self.applied = 0
        self.last: Position | None = None

    def advance(self, record: Record) -> None:
        """Fold in a record, if it is new. No record may be missing before it.

        Raises:
            LogCorrupt: a payload is not what its type says. The fold stays before the record, but
                some of its envelopes may have taken effect.
        """
        if record.seq <= self.applied:
            return
        projection, folded = self.projection, self.folded
        try:
            for envelope in record.envelopes:
                step(projection, folded, envelope)
        except msgspec.MsgspecError as error:
            raise LogCorrupt(self.subject.name, record.seq, str(error)) from error
        self.applied = record.seq
        self.last = record.envelopes[-1].position


async def refold(log: Log, projection: Projection[S], subject: Subject) -> Folded[S]:
    """Fold every record of `subject`, beside whatever view of it is hot.

    Raises:
        LogUnavailable, LogCorrupt: the log could not be read whole.
    """
    fold = Fold(projection, subject)
    async with aclosing(log.read(subject)) as pages:
        async for records in pages:
            for record in records:
                fold.advance(record)
    return fold.folded


def continues(ground: Position, first: Record, *, within: bool = False) -> bool:
    """Whether a log whose first record from `ground` on is `first` is the one that was applied.

    Where the subject was cleared meanwhile, it begins with that. `within`: the ground may stand
    inside its record, which will then be applied again.
    """
    if first.seq != ground.seq:
        return first.envelopes[0].type == CLEARED
    if not within:
        return first.envelopes[-1].position == ground
    return ground.index < len(first.envelopes) and (
        first.envelopes[ground.index].position == ground
    )


def precedes(ground: Position, last: Position | None) -> bool:
    """Whether a log that ends with `last` can be the one that was applied, or follow it."""
    return last is not None and (last.seq > ground.seq or last == ground)
