"""Folding all subjects of a shard from the log, beside whatever is served meanwhile."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from foldlog.errors import LogCorrupt
from foldlog.log.port import Log
from foldlog.views.folding import Apart, Folding, Whole
from foldlog.views.view import View

Prepare = Callable[[set[str]], Awaitable[None]]
"""Called with the names of subjects before their first record is folded."""


async def refolded(
    log: Log, folding: Folding, *, after: int = 0, prepare: Prepare | None = None
) -> AsyncGenerator[list[Whole]]:
    """Yield, after each page of the log, the subjects that are whole with it.

    `after`: the sequence after which the first pass begins.

    Raises:
        LogUnavailable: the log could not be read.
        LogCorrupt: a record cannot be read, and the folding does not spare it.
    """
    start: int | None = after
    while start is not None:
        async for whole in _pass(log, folding, start, prepare):
            yield whole
        yield folding.rest()
        start = folding.next_pass()
    while folding.apart:
        read = await _read(log, folding, folding.apart[0])
        del folding.apart[0]
        yield [read]


async def _read(log: Log, folding: Folding, apart: Apart) -> Whole:
    """Fold one subject by reading it: the log brings along what it shares with another."""
    subject, expected, _ = apart
    views = [View(each, subject, _unaccounted) for each in folding.folds_of(subject.family)]
    records = envelopes = 0
    try:
        async with aclosing(log.read(subject)) as pages:
            async for page in pages:
                records += len(page)
                envelopes += sum(len(record.envelopes) for record in page)
                for record in page:
                    try:
                        folding.advance(subject, views, record)
                    except LogCorrupt as error:
                        _spare(folding, error)
    except LogCorrupt as error:
        _spare(folding, error)
    folding.tally.records += expected
    folding.tally.envelopes += envelopes
    seq = max((view.applied for view in views), default=0)
    return Whole(subject, views, max(records, expected), expected, envelopes, seq)


def _spare(folding: Folding, error: LogCorrupt) -> None:
    if folding.spare is None:
        raise error
    folding.spare(error)


def _unaccounted(view: View[Any], by: int) -> None:
    """One at a time: they need no bound."""


async def _pass(
    log: Log, folding: Folding, start: int, prepare: Prepare | None
) -> AsyncGenerator[list[Whole]]:
    after: int | None = start
    while after is not None:
        try:
            async with aclosing(log.scan(folding.shard, after=after)) as pages:
                async for page in pages:
                    after = page[-1].seq
                    if prepare is not None and (names := folding.unopened(page)):
                        await prepare(names)
                    yield folding.take(page)
            after = None
        except LogCorrupt as error:
            if folding.spare is None:
                raise
            # Only the scan itself raises here: what `take` cannot read it spares.
            folding.spare(error)
            after = error.sequence
