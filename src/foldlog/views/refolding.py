"""Folding all subjects of a shard from the log, in one scan, within bounded memory.

A scan brings the records of all subjects in the order of the log. A subject's folds are in memory
from its first record to its last, which is known by count. Where what was written side by side is
more than may be, sequences let go of their pages; where that is not enough, the folds begun last
are given up, and made in another scan.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from foldlog.envelope import FORKED, unpack
from foldlog.errors import LogCorrupt
from foldlog.log.port import Log, Record, Stored
from foldlog.subjects import Subject
from foldlog.views.fold import Fold
from foldlog_projections.fold import Projection
from foldlog_projections.items import Items

MAX_BYTES: Final = 256 * 1024 * 1024
"""What the folds in memory may take, by estimate."""

_ENVELOPE_BYTES: Final = 500
_ID_BYTES: Final = 250
_EMPTY_BYTES: Final = 1000

_MOST_SEEN: Final = 1024
"""Ids that a fold of which the last envelope stands needs at most."""

FoldsOf = Callable[[str], Sequence[Projection[Any]]]
"""The projections of a family, by its name; none for a family without views."""


@dataclass(slots=True)
class Refolded:
    """A subject and its folds.

    `records` went into the folds; `expected` says how many the log counted. Fewer are there where
    some were purged meanwhile, or cannot be read. `seq` is where the last one stands.
    """

    subject: Subject
    folds: list[Fold[Any]]
    expected: int
    first: int
    records: int = 0
    envelopes: int = 0
    seq: int = 0
    bytes: int = _EMPTY_BYTES

    def advance(self, record: Record) -> None:
        """Fold a record into each fold.

        Raises:
            LogCorrupt: one of them fails on it; the others have it.
        """
        self.records += 1
        self.envelopes += len(record.envelopes)
        self.seq = record.seq
        failure: LogCorrupt | None = None
        for fold in self.folds:
            try:
                fold.advance(record)
            except LogCorrupt as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def shrink(self) -> None:
        """Let go of what the log has, and can be done without."""
        for fold in self.folds:
            if isinstance(fold.folded.state, Items):
                if fold.folded.state.release():
                    self.bytes = _EMPTY_BYTES + _ID_BYTES * self.envelopes
            elif fold.projection.latest_only and len(fold.folded.seen) > _MOST_SEEN:
                fold.folded.seen.clear()
                self.bytes = _EMPTY_BYTES


@dataclass(frozen=True, slots=True)
class Refolding:
    """How the subjects of a log are folded.

    Args:
        keeps: whether the pages of a subject's sequences stay in memory, however many there are.
        spare: called with what cannot be read, which is then passed over. None: it is raised.
    """

    log: Log
    folds_of: FoldsOf
    keeps: Callable[[Subject], bool] = lambda subject: False
    spare: Callable[[LogCorrupt], None] | None = None
    max_bytes: int = MAX_BYTES

    async def shard(self, shard: int, counts: Mapping[str, int]) -> AsyncGenerator[list[Refolded]]:
        """Yield, after each page of the log, the subjects whose last record was on it.

        Args:
            counts: how many records each subject holds, by name. Others are passed over.

        Raises:
            LogUnavailable: the log could not be read.
            LogCorrupt: a record cannot be read, and none is to be spared.
        """
        after = 0
        while counts:
            forks: list[Refolded] = []
            deferred: dict[str, int] = {}
            async with aclosing(self._scanned(shard, after, counts, forks, deferred)) as pages:
                async for whole in pages:
                    yield whole
            for fork in forks:  # no scan brings what a fork shares with its origin
                yield [await self._read(fork)]
            counts = {name: counts[name] for name in deferred}
            after = min(deferred.values(), default=1) - 1

    async def _scanned(
        self,
        shard: int,
        after: int,
        counts: Mapping[str, int],
        forks: list[Refolded],
        deferred: dict[str, int],
    ) -> AsyncGenerator[list[Refolded]]:
        """One scan. `deferred` gets the first records of subjects that are left to another."""
        left = dict(counts)
        opened: dict[str, Refolded] = {}
        size = 0
        async with aclosing(self._pages(shard, after)) as pages:
            async for page in pages:
                whole: list[Refolded] = []
                for stored in page:
                    name = stored.subject
                    if name not in left:
                        continue
                    try:
                        record = _record(stored)
                        subject = opened.get(name)
                        if subject is None:
                            subject = self._opened(shard, name, record, left[name])
                            if record.envelopes[0].type == FORKED:
                                forks.append(subject)
                                del left[name]
                                continue
                            opened[name] = subject
                        grown = len(stored.data) + _ENVELOPE_BYTES * len(record.envelopes)
                        subject.bytes += grown
                        size += grown
                        subject.advance(record)
                    except LogCorrupt as error:
                        self._spare(error)
                    if (subject := opened.get(name)) and subject.records == subject.expected:
                        size -= subject.bytes - _EMPTY_BYTES
                        whole.append(subject)
                        del opened[name], left[name]
                if size > self.max_bytes:
                    self._make_room(opened, left, deferred)
                    size = sum(each.bytes - _EMPTY_BYTES for each in opened.values())
                yield whole
        yield list(opened.values())  # what was purged meanwhile, or cannot be read

    async def _pages(self, shard: int, after: int) -> AsyncGenerator[list[Stored]]:
        """All that is stored after a sequence, but for what cannot be read and is spared."""
        while True:
            try:
                async with aclosing(self.log.scan(shard, after=after)) as pages:
                    async for page in pages:
                        yield page
                        after = page[-1].seq
                return
            except LogCorrupt as error:
                self._spare(error)
                after = error.sequence

    def _make_room(
        self, opened: dict[str, Refolded], left: dict[str, int], deferred: dict[str, int]
    ) -> None:
        for each in opened.values():
            if not self.keeps(each.subject):
                each.shrink()
        size = sum(each.bytes for each in opened.values())
        while size > self.max_bytes // 2 and len(opened) > 1:
            name, last = opened.popitem()
            size -= last.bytes
            deferred[name] = last.first
            del left[name]

    async def _read(self, fork: Refolded) -> Refolded:
        """Fold a fork by reading it: the log brings along what it shares."""
        try:
            async with aclosing(self.log.read(fork.subject)) as pages:
                async for page in pages:
                    for record in page:
                        try:
                            fork.advance(record)
                        except LogCorrupt as error:
                            self._spare(error)
        except LogCorrupt as error:
            self._spare(error)
        fork.records = max(fork.records, fork.expected)
        return fork

    def _opened(self, shard: int, name: str, record: Record, expected: int) -> Refolded:
        subject = self.log.namespace.parse(name)
        if subject is None:
            keys = record.envelopes[-1].keys
            if not keys:
                raise LogCorrupt(name, record.seq, "no keys")
            subject = Subject(name, shard, tuple(keys))
        folds = [Fold(each, subject) for each in self.folds_of(subject.family)]
        return Refolded(subject, folds, expected, record.seq)

    def _spare(self, error: LogCorrupt) -> None:
        if self.spare is None:
            raise error
        self.spare(error)


def _record(stored: Stored) -> Record:
    try:
        return Record(stored.seq, unpack(stored.data, stored.seq, stored.time))
    except msgspec.MsgspecError as error:
        raise LogCorrupt(stored.subject, stored.seq, str(error)) from error
