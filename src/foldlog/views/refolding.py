"""Folding every subject of a shard from the log, in one scan, within bounded memory.

A scan brings the records of all subjects in the order of the log. Those of one subject are put
aside and folded at once, which is several times as fast as one by one. The log's counts say which
record of a subject is its last. Beyond `MAX_BYTES`, the subjects that came last are left to another
scan.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from foldlog.envelope import FORKED, Recorded
from foldlog.errors import LogCorrupt
from foldlog.kind import Kind
from foldlog.log.port import Log, Stored
from foldlog.subjects import Subject
from foldlog.views.fold import Fold, scan_readable
from foldlog_projections.items import Items

MAX_BYTES: Final = 256 * 1024 * 1024
"""What records and folds in memory may take, by estimate."""

_BATCH: Final = 128
"""Records of a subject that are folded at once."""

_RECORD_BYTES: Final = 700
_ID_BYTES: Final = 250

_MOST_SEEN: Final = 1024
"""Ids that the fold of a last envelope keeps."""


@dataclass(slots=True)
class Refolded:
    """A subject and its folds, of `records` records that hold `envelopes` envelopes.

    `first` is the sequence of the first one. `expected` is how many the log counted: more than
    `records` where some were purged meanwhile or cannot be read. `folded` have come.
    """

    subject: Subject
    folds: list[Fold[Any]]
    first: int
    expected: int
    folded: int = 0
    waiting: list[Stored] = field(default_factory=list)
    records: int = 0
    envelopes: int = 0
    bytes: int = 0
    is_fork: bool = False

    def shrink(self) -> None:
        """Let go of pages and ids that the log has."""
        for fold in self.folds:
            state = fold.folded.state
            if isinstance(state, Items) and state.release():
                self.bytes = _ID_BYTES * self.envelopes
            elif fold.projection.latest_only and len(fold.folded.seen) > _MOST_SEEN:
                fold.folded.seen.clear()
                self.bytes = 0


@dataclass(frozen=True, slots=True)
class Refolding:
    """How the subjects of a log are folded.

    Args:
        projections: the folds of a subject.
        keeps: whether the pages of a subject's sequences stay in memory, to be compared.
        pass_over: called with an error for each record that cannot be read or folded, which is
            then passed over. It may raise the error.
    """

    log: Log
    projections: Callable[[Subject], Sequence[Kind[Any]]]
    keeps: Callable[[Subject], bool]
    pass_over: Callable[[LogCorrupt], None]
    max_bytes: int = MAX_BYTES

    async def shard(
        self, shard: int, counts: Mapping[Subject, int]
    ) -> AsyncGenerator[list[Refolded]]:
        """Yield, after each page of the log, the subjects whose last record was on it.

        Args:
            counts: how many records each subject of the shard holds. Others are passed over.
        """
        unseen, after = {each.name: each for each in counts}, 0
        while unseen:
            opened: dict[str, Refolded] = {}
            deferred: list[Refolded] = []
            grown = 0
            async with aclosing(scan_readable(self.log, shard, after, self.pass_over)) as pages:
                async for page in pages:
                    whole: list[Refolded] = []
                    for stored in page:
                        found = opened.get(stored.subject)
                        if found is None:
                            if (subject := unseen.pop(stored.subject, None)) is None:
                                continue
                            folds = [Fold(each, subject) for each in self.projections(subject)]
                            found = Refolded(subject, folds, stored.seq, counts[subject])
                            opened[stored.subject] = found
                        found.waiting.append(stored)
                        grown += len(stored.data) + _RECORD_BYTES
                        if len(found.waiting) == min(found.expected - found.folded, _BATCH):
                            self._fold(found)
                            if found.folded == found.expected:
                                whole.append(await self._finished(opened.pop(stored.subject)))
                    if grown > self.max_bytes // 4:
                        grown = 0
                        deferred += self._make_room(opened)
                    yield whole
            yield [await self._finished(each) for each in opened.values()]  # some was purged
            unseen = {each.subject.name: each.subject for each in deferred}
            after = min((each.first for each in deferred), default=1) - 1

    def _make_room(self, opened: dict[str, Refolded]) -> list[Refolded]:
        """Take out the subjects that came last and exceed the memory, for another scan."""
        for found in opened.values():
            self._fold(found)
        size, deferred = sum(each.bytes for each in opened.values()), []
        while size > self.max_bytes // 2 and len(opened) > 1:
            deferred.append(opened.popitem()[1])
            size -= deferred[-1].bytes
        return deferred

    def _fold(self, found: Refolded) -> None:
        """Fold the records that wait."""
        waiting, found.waiting = found.waiting, []
        found.folded += len(waiting)
        envelopes: list[Recorded] = []
        for stored in waiting:
            found.bytes += len(stored.data) + _RECORD_BYTES
            try:
                envelopes += stored.record().envelopes
                found.records += 1
            except LogCorrupt as error:
                self.pass_over(error)
        if envelopes and not found.envelopes:
            found.is_fork = envelopes[0].type == FORKED
        if envelopes and not found.is_fork:
            self._advance(found, envelopes, found.subject.name)
            if not self.keeps(found.subject):
                found.shrink()

    def _advance(self, found: Refolded, envelopes: list[Recorded], subject: str) -> None:
        found.envelopes += len(envelopes)
        for fold in found.folds:
            left = envelopes
            while left:
                try:
                    fold.advance(left, subject)
                    break
                except LogCorrupt as error:
                    self.pass_over(error)
                    left = [each for each in left if each.seq > error.sequence]

    async def _finished(self, found: Refolded) -> Refolded:
        """Fold what waits. A fork is read: no scan brings what it shares with its origin."""
        self._fold(found)
        if found.is_fork:
            try:
                async with aclosing(self.log.read(found.subject)) as pages:
                    async for records in pages:
                        for record in records:
                            self._advance(found, record.envelopes, record.subject)
            except LogCorrupt as error:
                self.pass_over(error)
        return found
