"""Reading past what cannot be read: for clearing, erasing and listing, which have to go on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import TypeVar

import msgspec

from foldlog.envelope import Recorded, unpack
from foldlog.errors import LogCorrupt
from foldlog.log.port import Log
from foldlog.subjects import Subject
from foldlog_projections.fold import Folded, Projection, start, step

S = TypeVar("S")


async def readable(log: Log, subject: Subject) -> AsyncGenerator[list[Recorded]]:
    """Yield what can be read of a subject, in order; records that cannot are passed over.

    From the first of those on it scans the whole shard.

    Raises:
        LogUnavailable: the log could not be read.
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
    while True:
        try:
            async with aclosing(log.scan(subject.shard, after=after)) as scanned:
                async for page in scanned:
                    for stored in page:
                        if stored.subject == subject.name:
                            with suppress(msgspec.MsgspecError):
                                yield unpack(stored.data, stored.seq, stored.time)
                    after = page[-1].seq
            return
        except LogCorrupt as error:
            after = error.sequence


async def salvage(log: Log, projection: Projection[S], subject: Subject) -> Folded[S]:
    """Fold what can be read of a subject. Errors as `readable`."""
    folded = start(projection)
    async with aclosing(readable(log, subject)) as pages:
        async for envelopes in pages:
            for envelope in envelopes:
                with suppress(msgspec.MsgspecError, LogCorrupt):
                    step(projection, folded, envelope)
    return folded
