"""Folding a subject anew, beside whatever view of it is hot."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import msgspec

from foldlog.errors import LogCorrupt
from foldlog.log.port import Log
from foldlog.subjects import Subject
from foldlog_projections.fold import Folded, Projection, start, step

S = TypeVar("S")


class Refolded(NamedTuple, Generic[S]):
    """A fold of a whole subject, and how many envelopes went into it."""

    folded: Folded[S]
    envelopes: int


async def refold(log: Log, projection: Projection[S], subject: Subject) -> Refolded[S]:
    """Fold every record of `subject`.

    Raises:
        LogUnavailable, LogCorrupt: the log could not be read whole.
    """
    folded, envelopes = start(projection), 0
    async for records in log.read(subject):
        for record in records:
            envelopes += len(record.envelopes)
            for envelope in record.envelopes:
                try:
                    step(projection, folded, envelope)
                except msgspec.MsgspecError as error:
                    raise LogCorrupt(subject.name, record.seq, str(error)) from error
    return Refolded(folded, envelopes)
