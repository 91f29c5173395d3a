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

import msgspec

from foldlog.envelope import FORKED, Recorded, unpack
from foldlog.errors import LogCorrupt
from foldlog.log.port import Log, Stored
from foldlog.subjects import Subject
from foldlog.views.fold import Fold
from foldlog_projections.fold import Projection
from foldlog_projections.items import Items

MAX_BYTES: Final = 256 * 1024 * 1024
"""What records and folds in memory may take, by estimate."""

_BATCH: Final = 128
"""Records of a subject that are folded at once."""

_RECORD_BYTES: Final = 700
_ID_BYTES: Final = 250

_MOST_SEEN: Final = 1024
"""Ids that the fold of a last envelope keeps."""

FoldsOf = Callable[[str], Sequence[Projection[Any]]]
"""The projections of a family, by its name; none for a family without views."""


@dataclass(slots=True)
class Refolded:
    """A subject and its folds, of `records` records that hold `envelopes` envelopes.

    `first` is the sequence of the first one. `expected` is how many the log counted: more than
    `records` where some were purged meanwhile or cannot be read. `missing` have not been folded.
    """

    name: str
    first: int
    expected: int
    missing: int
    subject: Subject | None = None
    folds: list[Fold[Any]] = field(default_factory=list)
    waiting: list[Stored] = field(default_factory=list)
    records: int = 0
    envelopes: int = 0
    bytes: int = 0
    seq: int = 0
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
        keeps: whether the pages of a subject's sequences stay in memory, to be compared.
        pass_over: called with an error for each record that cannot be read or folded, which is
            then passed over. It may raise the error.
    """

    log: Log
    folds_of: FoldsOf
    keeps: Callable[[Subject], bool]
    pass_over: Callable[[LogCorrupt], None]
    max_bytes: int = MAX_BYTES

    async def shard(self, shard: int, counts: Mapping[str, int]) -> AsyncGenerator[list[Refolded]]:
        """Yield, after each page of the log, the subjects whose last record was on it.

        Args:
            counts: how many records each subject holds, by name. Others are passed over.
        """
        after = 0
        while counts:
            deferred: dict[str, int] = {}
            async with aclosing(self._scan(shard, after, dict(counts), deferred)) as pages:
                async for whole in pages:
                    yield whole
            counts = {name: counts[name] for name in deferred}
            after = min(deferred.values(), default=1) - 1

    async def _scan(
        self, shard: int, after: int, unseen: dict[str, int], deferred: dict[str, int]
    ) -> AsyncGenerator[list[Refolded]]:
        """One scan. `deferred` gets the first sequences of subjects that are left to another."""
        opened: dict[str, Refolded] = {}
        size = 0
        async with aclosing(self._pages(shard, after)) as pages:
            async for page in pages:
                whole: list[Refolded] = []
                for stored in page:
                    name = stored.subject
                    found = opened.get(name)
                    if found is None:
                        expected = unseen.pop(name, 0)
                        if not expected:
                            continue
                        found = opened[name] = Refolded(name, stored.seq, expected, expected)
                    found.waiting.append(stored)
                    grown = len(stored.data) + _RECORD_BYTES
                    found.bytes += grown
                    size += grown
                    if len(found.waiting) == min(found.missing, _BATCH):
                        size -= found.bytes
                        self._fold(shard, found)
                        if found.missing:
                            size += found.bytes
                        else:
                            whole.append(opened.pop(name))
                            await self._read_fork(found)
                if size > self.max_bytes:
                    size = self._make_room(shard, opened, deferred)
                yield whole
        for found in opened.values():  # some was purged meanwhile
            self._fold(shard, found)
            await self._read_fork(found)
        yield list(opened.values())

    async def _pages(self, shard: int, after: int) -> AsyncGenerator[list[Stored]]:
        """All that is stored after a sequence, but for what cannot be read."""
        while True:
            try:
                async with aclosing(self.log.scan(shard, after=after)) as pages:
                    async for page in pages:
                        yield page
                        after = page[-1].seq
                return
            except LogCorrupt as error:
                self.pass_over(error)
                after = error.sequence

    def _make_room(self, shard: int, opened: dict[str, Refolded], deferred: dict[str, int]) -> int:
        """Leave the subjects that came last to another scan; return the size of the rest."""
        for found in opened.values():
            self._fold(shard, found)
        size = sum(found.bytes for found in opened.values())
        while size > self.max_bytes // 2 and len(opened) > 1:
            name, found = opened.popitem()
            size -= found.bytes
            deferred[name] = found.first
        return size

    def _fold(self, shard: int, found: Refolded) -> None:
        """Fold the records that wait."""
        waiting, found.waiting = found.waiting, []
        found.missing -= len(waiting)
        envelopes: list[Recorded] = []
        for stored in waiting:
            try:
                envelopes += unpack(stored.data, stored.seq, stored.time)
                found.records += 1
            except msgspec.MsgspecError as error:
                self.pass_over(LogCorrupt(stored.subject, stored.seq, str(error)))
        if not envelopes:
            return
        if found.subject is None:
            found.subject = self._subject(shard, found.name, envelopes[0])
            if found.subject is None:
                return
            found.is_fork = envelopes[0].type == FORKED
            found.folds = [
                Fold(each, found.subject) for each in self.folds_of(found.subject.family)
            ]
        if not found.is_fork:
            self._advance(found, envelopes)
            if not self.keeps(found.subject):
                found.shrink()

    def _advance(self, found: Refolded, envelopes: list[Recorded]) -> None:
        found.envelopes += len(envelopes)
        found.seq = envelopes[-1].seq
        for fold in found.folds:
            left = envelopes
            while left:
                try:
                    fold.advance(left)
                    break
                except LogCorrupt as error:
                    self.pass_over(error)
                    left = [each for each in left if each.seq > error.sequence]

    async def _read_fork(self, found: Refolded) -> None:
        """Fold a fork by reading it: no scan brings what it shares with its origin."""
        if not found.is_fork or found.subject is None:
            return
        try:
            async with aclosing(self.log.read(found.subject)) as pages:
                async for records in pages:
                    for record in records:
                        self._advance(found, record.envelopes)
        except LogCorrupt as error:
            self.pass_over(error)

    def _subject(self, shard: int, name: str, envelope: Recorded) -> Subject | None:
        subject = self.log.namespace.parse(name)
        if subject is None and envelope.keys:
            subject = Subject(name, shard, tuple(envelope.keys))
        if subject is None:
            self.pass_over(LogCorrupt(name, envelope.seq, "no keys"))
        return subject
