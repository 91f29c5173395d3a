"""Loading a fold that keeps only the last envelope of its subject, without reading all of it."""

from __future__ import annotations

import math
import sys
from contextlib import aclosing
from typing import Any, Final, Generic, NamedTuple, TypeVar

from foldlog.envelope import CLEARED, FORKED, Position, Recorded
from foldlog.kind import Kind
from foldlog.log.port import Log, Record
from foldlog.subjects import Subject
from foldlog.views.fold import stepped
from foldlog_projections.fold import Folded, start

S = TypeVar("S")


class Latest(NamedTuple, Generic[S]):
    """A fold of the end of a subject.

    It has every envelope after sequence `floor`: one whose writer knew of less may have been
    overtaken by what is not in it. The subject ends at sequence `head`, with the envelope at
    `last`; 0 and None for an empty one.
    """

    folded: Folded[S]
    head: int
    last: Position | None
    floor: int


async def read_latest(
    log: Log,
    projection: Kind[S],
    subject: Subject,
    *,
    strong: bool = True,
    upto: tuple[int, float] | None = None,
    unless: int = 0,
) -> Latest[S]:
    """Return what stands at the end of a subject, mostly by one request for its last record.

    What a writer drafts after an envelope is stored behind what it knew of when it drafted that
    one. So only records after that can have overtaken it, and they are read, too.

    Args:
        upto: only what stands at or before that sequence and index.
        unless: where the subject still ends there, its records are not folded again.
    """

    async def after(seq: int) -> list[Record]:
        async with aclosing(log.read(subject, after=seq, strong=strong)) as pages:
            found = [each async for page in pages for each in page]
        return found if upto is None else [each for each in found if each.seq <= upto[0]]

    if upto is None:
        record = await log.last(subject, strong=strong)
    else:
        record = await log.last(subject, strong=strong, upto=upto[0])
    if record is None:
        return Latest(start(projection), 0, None, 0)
    records, floor = [record], record.envelopes[0].seq - 1
    if record.seq == unless:
        return Latest(start(projection), record.seq, record.envelopes[-1].position, floor)
    while _is_beside(projection, records[0]):
        earlier = await log.last(subject, strong=strong, upto=records[0].seq - 1)
        if earlier is None:  # a fork, which shares what is before
            records, floor = await after(0) or records, 0
            break
        records, floor = [earlier, *records], earlier.envelopes[0].seq - 1
    while True:
        folded, standing = _fold(projection, subject, records, upto or _EVERYTHING)
        needed = floor if standing is None else _known(standing)
        if needed >= floor:
            last = records[-1]
            return Latest(folded, last.seq, last.envelopes[-1].position, floor)
        records, floor = await after(needed) or records, needed


def _fold(
    projection: Kind[S],
    subject: Subject,
    records: list[Record],
    upto: tuple[int, float],
) -> tuple[Folded[S], Recorded | None]:
    """The fold of some records, and the envelope that stands at its end, if any does."""
    folded, standing = start(projection), None
    for record in records:
        for envelope in record.envelopes:
            if (envelope.seq, envelope.index) > upto:
                break
            has_effect = stepped(projection, folded, envelope, subject.name)
            if has_effect and envelope.type not in projection.beside:
                standing = None if envelope.type == CLEARED else envelope
    return folded, standing


def _is_beside(projection: Kind[Any], record: Record) -> bool:
    """Whether what stands before a record gives the state."""
    types = {each.type for each in record.envelopes} - {FORKED}
    return bool(types) and types <= projection.beside


def knows(record: Record) -> int:
    """Up to which sequence the writers of all its envelopes knew the log when they drafted them."""
    return min(map(_known, record.envelopes))


def _known(envelope: Recorded) -> int:
    """The sequence behind which all stands that its writer drafted later.

    What is not overtaken by anything knows of all that is before it.
    """
    return envelope.seq - 1 if envelope.type == CLEARED else envelope.known


_EVERYTHING: Final = (sys.maxsize, math.inf)
