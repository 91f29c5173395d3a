"""One view: a fold of one subject, as current as pushes and reads make it.

No I/O here. A view knows how far it has applied the log (`applied`) and how far it has heard the
log to reach (`known_head`), from pushes and from the acks of this process's own appends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence, Sized
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, TypeVar

from foldlog.envelope import FORKED, Recorded
from foldlog.errors import LogCorrupt
from foldlog.log.port import Record, Unfollow
from foldlog.views.fold import Fold
from foldlog.views.latest import Latest, knows
from foldlog.views.snapshot import Restored
from foldlog_projections.fold import Folded
from foldlog_projections.items import Items

S = TypeVar("S")

ENVELOPE_BYTES: Final = 200
"""What an envelope in memory costs beside its payload."""

ID_BYTES: Final = 200
"""What an id costs among those seen."""

_REFUSAL_BYTES: Final = 85
"""What the hash of a cleared id costs."""

EMPTY_BYTES: Final = 3800
"""What a view costs beside its envelopes (measured): its subscription, and what holds them."""

_MOST_AHEAD_BYTES: Final = 1024 * 1024
"""Pushes that wait until the gap before them closes; beyond that the log is read again."""

_PAYLOAD: Final = attrgetter("payload")

_MOST_SEEN: Final = 64
"""Ids that a view of a last envelope remembers at most."""


@dataclass(slots=True, eq=False, repr=False)
class View(Fold[S]):
    """A fold that reads are answered from. It lives while it is hot or somebody watches it.

    Attributes:
        looks: how many looks at the log were begun; `looked` is the number of the last one that
            succeeded, `failed` the number and the error of the last one that did not.
        readers: how many read the log for it or wait to do so, one at a time by `lock`.
        checked_epoch: the epoch in which the log was last looked at.
        floor: see `Latest`.
        unsaved, unsaved_bytes: how much of the view no snapshot covers.
        bytes: the estimate of its memory that `Hot` has counted.
    """

    folded: Folded[S] = field(init=False)
    applied: int = field(default=0, init=False)
    known_head: int = 0
    floor: int = 0
    looks: int = 0
    looked: int = 0
    failed: tuple[int, Exception] | None = None
    readers: int = 0
    lock: asyncio.Lock | None = None
    unfollow: Unfollow | None = None
    watchers: list[asyncio.Event] = field(default_factory=list)
    checked_epoch: int = -1
    unsaved: int = 0
    unsaved_bytes: int = 0
    bytes: int = 0
    _ahead: dict[int, Record] = field(default_factory=dict)
    _ahead_bytes: int = 0
    _held_bytes: int = 0
    _checked_at: float = 0.0
    _unsettled_at: float = 0.0

    @property
    def is_hydrated(self) -> bool:
        """Whether it was read from the log once."""
        return self.looked > 0

    # --- what pushes and acks say ---------------------------------------------------------------

    def hint(self, record: Record, epoch: int) -> None:
        """Take a pushed record in: apply it if it is the next one, else keep it for later.

        In another epoch than the log was last looked at, pushes were missed: then it only says
        that there is something to read. So does a record that makes its subject a fork.
        """
        self.known_head = max(self.known_head, record.seq)
        is_latest = self.projection.latest_only
        if epoch != self.checked_epoch or record.previous is None:
            pass  # there is something to read: `known_head` says it
        elif record.envelopes[0].type == FORKED:
            pass  # so there is: what it begins with
        elif is_latest and knows(record) < self.floor:
            pass  # what is before the floor may have overtaken it
        elif record.previous == self.applied:
            try:
                self.advance(record.envelopes, record.subject)
                if self._ahead:
                    self.apply([])
            except LogCorrupt:
                pass  # `known_head` stands; the next read of the view meets the error
        elif not is_latest and record.previous > self.applied:
            size = _size(record.envelopes)
            if record.previous not in self._ahead and self._ahead_bytes + size < _MOST_AHEAD_BYTES:
                self._ahead[record.previous] = record
                self._ahead_bytes += size
        if self.watchers:
            self.wake()

    def acked(self, seq: int) -> None:
        """Note that this process's append was stored at `seq`."""
        if seq > self.known_head:
            self.known_head = seq
            self.wake()

    def unsettle(self, at: float) -> None:
        """Note that at time `at` the log may have grown without a push."""
        self._unsettled_at = at

    def wake(self) -> None:
        """Let those who watch look again."""
        for watcher in self.watchers:
            watcher.set()

    # --- what the log says ----------------------------------------------------------------------

    def apply(self, records: Sequence[Record]) -> None:
        """Fold in what is new of `records`, which follow `applied` without a gap."""
        new = [each for each in records if each.seq > self.applied]
        if new:
            envelopes = [envelope for record in new for envelope in record.envelopes]
            self.advance(envelopes, new[0].subject)
        while (following := self._ahead.pop(self.applied, None)) is not None:
            self._ahead_bytes -= _size(following.envelopes)
            self.advance(following.envelopes, following.subject)
        for previous in [each for each in self._ahead if each < self.applied]:
            self._ahead_bytes -= _size(self._ahead.pop(previous).envelopes)
        self.known_head = max(self.known_head, self.applied)

    def advance(self, envelopes: Sequence[Recorded], subject: str) -> None:
        """See `Fold`; counts what is new."""
        seen = self.folded.seen
        before = self.folded.count
        try:
            Fold.advance(self, envelopes, subject)  # `super()` does not know a class with slots
        finally:
            if self.folded.seen is not seen:  # it was cleared
                before = self.unsaved = self.unsaved_bytes = self._held_bytes = 0
            if (new := self.folded.count - before) > 0:
                size = sum(map(len, map(_PAYLOAD, envelopes)))
                self.unsaved += new
                self.unsaved_bytes += size
                self._held_bytes += ENVELOPE_BYTES * new + size
        state = self.folded.state
        if self.projection.forgets_ids and isinstance(state, Sized):  # entries come and go
            self._held_bytes = ENVELOPE_BYTES * len(state)
        if self.projection.latest_only:
            self._held_bytes = _size([state] if isinstance(state, Recorded) else envelopes[-1:])
            if len(self.folded.seen) > _MOST_SEEN:
                self.folded.seen.clear()
                self.floor = self.applied

    def checked(self, at: float, epoch: int) -> None:
        """Note that the log was read to its head at time `at`, with pushes counted by `epoch`."""
        self._checked_at = at
        self.checked_epoch = epoch

    def checked_since(self, moment: float) -> bool:
        """Whether the log was read to its head since a time, by `time.monotonic()`."""
        return self._checked_at >= moment

    def forget_pushes(self) -> None:
        """Drop pushes that wait for one before them: more may have been missed."""
        self._ahead.clear()
        self._ahead_bytes = 0

    def is_current(self, now: float, epoch: int, trust: float, *, eventual: bool = False) -> bool:
        """Whether pushes were trusted since a look at the log in the last `trust` seconds.

        Unless `eventual`, nothing that was heard of may be missing either.
        """
        return (
            (eventual or self.applied >= self.known_head)
            and epoch == self.checked_epoch
            and now - self._checked_at < trust
            and self._checked_at > self._unsettled_at
        )

    def adopt(self, restored: Restored[S]) -> None:
        """Go to where a snapshot is. Its last record is applied again: some of it may be new."""
        self.folded, self.last, self._held_bytes = restored
        self.applied = restored.end.seq - 1
        self.saved(self.folded.count)

    def adopt_latest(self, latest: Latest[S]) -> None:
        """Go to the end of the subject, unless pushes have brought the view further."""
        if latest.head > self.applied:
            self.folded, self.applied, self.last, self.floor = latest
            self.known_head = max(self.known_head, self.applied)
            state = self.folded.state
            self._held_bytes = _size([state]) if isinstance(state, Recorded) else 0

    def adopt_fold(self, other: View[S]) -> None:
        """Go to where another view of the subject is, which was read from the beginning."""
        self.folded, self.applied, self.last = other.folded, other.applied, other.last
        self.known_head, self.floor = other.applied, other.floor
        self.unsaved, self.unsaved_bytes = other.unsaved, other.unsaved_bytes
        self._held_bytes = other._held_bytes

    def fill(self, number: int, envelopes: list[Recorded]) -> None:
        """Put in a missing page of a sequence."""
        items = self.folded.state
        assert isinstance(items, Items), "only a sequence has pages"
        items.fill(number, envelopes)
        self._held_bytes += _size(envelopes)

    # --- its snapshot, and its memory -----------------------------------------------------------

    def saved(self, covered: int) -> None:
        """Note that a snapshot covers as many envelopes as that."""
        self.unsaved, self.unsaved_bytes = self.folded.count - covered, 0

    def postpone(self) -> None:
        """Have no snapshot taken before the fold has doubled."""
        self.unsaved, self.unsaved_bytes = -self.folded.count, -self.estimate()

    def estimate(self) -> int:
        """Return what memory it takes, in bytes."""
        folded = self.folded
        ids = len(folded.seen) + len(folded.newest) + len(folded.barred) + 2 * len(folded.conflicts)
        counted = EMPTY_BYTES + ID_BYTES * ids + _REFUSAL_BYTES * len(folded.refused)
        counted += len(folded.digests)
        return counted + self._held_bytes + self._ahead_bytes


def _size(envelopes: Sequence[Recorded]) -> int:
    return sum(ENVELOPE_BYTES + len(each.payload) for each in envelopes)
