"""Folding a whole shard in passes: every subject from its first record, within bounded memory.

A scan brings the records of all subjects in the order of the log. A subject's folds are open from
its first record to its last, which is known by count; then they are handed over and forgotten, so
that what is in memory is what was written side by side. Where even that is more than may be,
sequences let go of their pages; where that is not enough, the folds opened last are *deferred* to
another pass, which begins where the first of them does.

No I/O here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from foldlog.envelope import FORKED, unpack
from foldlog.errors import LogCorrupt
from foldlog.log.port import Record, Stored
from foldlog.subjects import Namespace, Subject
from foldlog.views.view import View
from foldlog_projections.fold import Projection

MAX_BYTES: Final = 256 * 1024 * 1024
"""What the open folds of a pass may take together, by estimate."""

FoldsOf = Callable[[str], Sequence[Projection[Any]]]
"""The projections of a family, by its name; none for a family without views."""

AtGround = Callable[[View[Any], Record], None]


class Apart(NamedTuple):
    """A subject that is to be read by itself; `first` is the sequence of its first record."""

    subject: Subject
    expected: int
    first: int


class Whole(NamedTuple):
    """A subject that was folded from its first record to its last.

    `records` went into the folds; `expected` says how many there were to be. Less are there where
    some were purged meanwhile, or cannot be read. `seq` is where the last one stands.
    """

    subject: Subject
    views: list[View[Any]]
    records: int
    expected: int
    envelopes: int
    seq: int


@dataclass(slots=True)
class _Open:
    """A subject whose folds are under way; `first` is the sequence of its first record."""

    subject: Subject
    views: list[View[Any]]
    first: int
    expected: int
    records: int = 0
    envelopes: int = 0
    seq: int = 0


@dataclass(slots=True)
class Tally:
    """How much is folded; what is deferred counts when it is folded again."""

    records: int = 0
    envelopes: int = 0


@dataclass(slots=True)
class Folding:
    """The folds of one shard, over as many passes as they take.

    Args:
        counts: how many records each subject holds, by name. Others are passed over.
        keeps: whether the pages of a subject's sequences stay in memory, however many there are.
        spare: told of a record that cannot be read, which is then passed over. None: it is raised.
        apart: subjects that begin with another's records: no scan brings those of both together.
        grounds: by subject's name, a sequence, and what is to be told of each view of it when the
            first record from there on has been applied.
    """

    namespace: Namespace
    shard: int
    counts: Mapping[str, int]
    folds_of: FoldsOf
    keeps: Callable[[Subject], bool] = lambda subject: False
    spare: Callable[[LogCorrupt], None] | None = None
    max_bytes: int = MAX_BYTES
    grounds: dict[str, list[tuple[int, AtGround]]] = field(default_factory=dict)
    apart: list[Apart] = field(default_factory=list)
    bytes: int = 0
    tally: Tally = field(default_factory=Tally)
    _left: dict[str, int] = field(default_factory=dict)
    _open: dict[str, _Open] = field(default_factory=dict)
    _deferred: dict[str, int] = field(default_factory=dict)
    _awaited: dict[str, int] = field(default_factory=dict)
    _seq: int = 0

    def __post_init__(self) -> None:
        self._left = dict(self.counts)

    @property
    def floor(self) -> int:
        """The first sequence that a later process must read to fold what is not whole yet."""
        firsts = [each.first for each in self.apart]
        firsts += [opened.first for opened in self._open.values()]
        firsts += [*self._deferred.values(), *self._awaited.values()]
        return min(firsts, default=self._seq + 1)

    def unopened(self, page: Sequence[Stored]) -> set[str]:
        """The subjects that `take` will begin to fold with this page."""
        return {each.subject for each in page if each.subject in self._left} - self._open.keys()

    def take(self, page: Sequence[Stored]) -> list[Whole]:
        """Fold a page of a scan in; return what is whole now.

        Raises:
            LogCorrupt: a record cannot be read, and `spare` was not given.
        """
        whole: list[Whole] = []
        open_, left = self._open, self._left
        for stored in page:
            name = stored.subject
            if name not in left:
                continue
            try:
                opened = self._feed(open_.get(name), stored)
                if opened is None:
                    continue
            except LogCorrupt as error:
                if self.spare is None:
                    raise
                self.spare(error)
                continue
            if opened.records == opened.expected:
                whole.append(self._finish(name))
        if page:
            self._seq = page[-1].seq
        if self.bytes > self.max_bytes:
            self._make_room()
        return whole

    def advance(self, subject: Subject, views: Sequence[View[Any]], record: Record) -> None:
        """Fold a record into each of a subject's views, and tell of the grounds it reaches.

        Raises:
            LogCorrupt: one of them fails on it; the others have it.
        """
        failure: LogCorrupt | None = None
        for view in views:
            try:
                view.advance(record)
            except LogCorrupt as error:
                failure = failure or error
        waiting = self.grounds.get(subject.name)
        while waiting and waiting[0][0] <= record.seq:
            _, at_ground = waiting.pop(0)
            for view in views:
                at_ground(view, record)
        if failure is not None:
            raise failure

    def rest(self) -> list[Whole]:
        """What is open at the end of a scan: there is no more of it."""
        self._awaited.clear()  # none of them was met again: they are purged
        return [self._finish(name) for name in list(self._open)]

    def next_pass(self) -> int | None:
        """Begin another pass: the sequence to scan after. None if nothing was deferred."""
        if not self._deferred:
            return None
        self._awaited, self._deferred = self._deferred, {}
        self._left = {name: self.counts[name] for name in self._awaited}
        return min(self._awaited.values()) - 1

    def _feed(self, opened: _Open | None, stored: Stored) -> _Open | None:
        name, seq = stored.subject, stored.seq
        try:
            envelopes = unpack(stored.data, seq, stored.time)
        except msgspec.MsgspecError as error:
            raise LogCorrupt(name, seq, str(error)) from error
        record = Record(seq, envelopes)
        if opened is None:
            opened = self._begin(name, record)
            if opened is None:
                return None
        self.advance(opened.subject, opened.views, record)
        opened.records += 1
        opened.envelopes += len(envelopes)
        opened.seq = seq
        self.tally.records += 1
        self.tally.envelopes += len(envelopes)
        return opened

    def _begin(self, name: str, record: Record) -> _Open | None:
        subject = self.namespace.parse(name)
        if subject is None:
            keys = record.envelopes[-1].keys
            if not keys:
                raise LogCorrupt(name, record.seq, "no keys")
            subject = Subject(name, self.shard, tuple(keys))
        self._awaited.pop(name, None)
        if record.envelopes[0].type == FORKED:
            self.apart.append(Apart(subject, self._left.pop(name), record.seq))
            return None
        views = [View(each, subject, self._grow) for each in self.folds_of(subject.family)]
        self._open[name] = opened = _Open(subject, views, record.seq, self._left[name])
        return opened

    def _finish(self, name: str) -> Whole:
        opened = self._open.pop(name)
        del self._left[name]
        for view in opened.views:
            view.detach()
            self.bytes -= view.bytes
        return Whole(
            opened.subject,
            opened.views,
            opened.records,
            opened.expected,
            opened.envelopes,
            opened.seq,
        )

    def _make_room(self) -> None:
        for opened in self._open.values():
            if not self.keeps(opened.subject):
                for view in opened.views:
                    view.release()
        while self.bytes > self.max_bytes and len(self._open) > 1:
            name, opened = self._open.popitem()
            for view in opened.views:
                view.detach()
                self.bytes -= view.bytes
            self.tally.records -= opened.records
            self.tally.envelopes -= opened.envelopes
            self._deferred[name] = opened.first
            del self._left[name]

    def _grow(self, view: View[Any], by: int) -> None:
        self.bytes += by
