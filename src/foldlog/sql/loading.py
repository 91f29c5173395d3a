"""The rows of tables, from the records of the log: each once, as reads of the store have it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import msgspec

from foldlog.envelope import CLEARED, FORKED, Recorded
from foldlog.errors import LogCorrupt
from foldlog.log.past import cut
from foldlog.position import LogPosition
from foldlog.sql.errors import SqlOutOfMemory
from foldlog.sql.frames import Forget, Rows
from foldlog.sql.sources import Source
from foldlog.store.core import core_of
from foldlog.subjects import Subject
from foldlog.views.fold import refold
from foldlog_projections.fold import Folded, start, step

if TYPE_CHECKING:
    from foldlog.store.store import BaseStore

_PAGE: Final = 2_000
_PAGE_BYTES: Final = 1024 * 1024
_ID_BYTES: Final = 250
"""What an envelope's id costs among those seen."""

Place = tuple[int, tuple[str, ...]]
"""A view of a kind: its shard and its keys."""


async def load(
    store: BaseStore, sources: Sequence[Source], until: LogPosition, max_bytes: int
) -> AsyncGenerator[Rows | Forget]:
    """Yield the rows of some tables, up to a position.

    Raises:
        SqlOutOfMemory: what has to be remembered of the log takes more than `max_bytes`.
        LogUnavailable, LogCorrupt: the log could not be read.
    """
    loadings = [_Loading(each) for each in sources]
    of: dict[str, list[_Loading]] = defaultdict(list)
    for each in loadings:
        of[each.source.fold.family].append(each)
    if not of:
        return
    async with aclosing(store.records(kinds=list(of), until=until)) as records:
        async for record in records:
            for loading in of[record.kind]:
                loading.take((record.shard, record.keys), record.envelopes)
                for message in loading.taken():
                    yield message
            if sum([each.bytes for each in loadings]) > max_bytes:
                raise SqlOutOfMemory(max_bytes)
    async for subject, envelopes in _in_part(store, until):
        for loading in of[subject.family]:
            loading.take((subject.shard, subject.keys), envelopes)
    past = core_of(store).log_at(until)
    for loading in loadings:
        kind, rows_of = loading.source.fold, loading.source.rows_of
        if rows_of is not None:
            for place in loading.forks:
                subject = core_of(store).subject(kind.family, *place[1])
                loading.folds[place] = await refold(past, kind, subject)
            for place, folded in loading.folds.items():
                loading.add(place, rows_of(folded.state))
                for message in loading.taken():
                    yield message
        loading.flush()
        for message in loading.taken():
            yield message


async def _in_part(
    store: BaseStore, until: LogPosition
) -> AsyncGenerator[tuple[Subject, list[Recorded]]]:
    """Yield what a position includes of records that it includes in part, which no scan brings."""
    core = core_of(store)
    log = core.log if core.past is None else core.past.below
    for shard, reach in enumerate(until.shards):
        stored = None if reach.index is None else await log.stored(shard, reach.seq)
        if stored is not None:
            envelopes = cut(stored.record(), reach).envelopes
            keys = envelopes[0].keys or ()
            yield (
                log.namespace.parse(stored.subject) or Subject(stored.subject, shard, keys),
                envelopes,
            )


class _Loading:
    """The rows of one table, as far as the log was read. `bytes` is what it remembers, roughly."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.folds: dict[Place, Folded[Any]] = {}
        self.forks: dict[Place, None] = {}
        self.bytes = 0
        self._rows: list[tuple[Any, ...]] = []
        self._rows_bytes = 0
        self._sent: list[Rows | Forget] = []

    def take(self, place: Place, envelopes: Sequence[Recorded]) -> None:
        """Fold a record of a view in."""
        if place in self.forks:
            return
        folded = self.folds.get(place)
        if folded is None:
            folded = self.folds[place] = start(self.source.fold)
            self.bytes += 4 * _ID_BYTES
        for envelope in envelopes:
            if envelope.type == FORKED and self.source.rows_of is not None:
                self.forks[place] = None  # what it shares with its origin is no record of its own
                del self.folds[place]
                return
            self._step(place, folded, envelope)

    def _step(self, place: Place, folded: Folded[Any], envelope: Recorded) -> None:
        if envelope.type == CLEARED and folded.seen and self.source.rows_of is None:
            self.flush()
            self._sent.append(Forget(self.source.table.name, place[1]))
        try:
            step(self.source.fold, folded, envelope)
        except msgspec.MsgspecError as error:
            raise LogCorrupt(envelope.type, envelope.seq, str(error)) from error
        self.bytes += _ID_BYTES
        if self.source.rows_of is not None:
            self.bytes += len(envelope.payload)
        elif folded.state:
            self.add(place, folded.state)
            folded.state = []

    def add(self, place: Place, envelopes: Iterable[Recorded]) -> None:
        """Add rows of a view."""
        shard, keys = place
        for e in envelopes:
            self._rows.append((*keys, shard, e.seq, e.time, e.id, e.type, e.ts, e.payload))
            self._rows_bytes += len(e.payload)
            if len(self._rows) >= _PAGE or self._rows_bytes >= _PAGE_BYTES:
                self.flush()

    def taken(self) -> list[Rows | Forget]:
        """What is to be sent by now, in order."""
        sent, self._sent = self._sent, []
        return sent

    def flush(self) -> None:
        """Have what there is sent, page full or not."""
        if self._rows:
            self._sent.append(Rows(self.source.table.name, self._rows))
        self._rows, self._rows_bytes = [], 0
