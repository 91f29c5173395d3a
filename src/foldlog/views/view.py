"""One view: a fold of one subject, kept as current as its hints and reads make it.

No I/O here. A view knows how far it has applied the log (`applied`) and how far it has heard the
log to reach (`known_head`): from pushes, and from the acks of this process's own appends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from foldlog.envelope import CLEARED, Recorded
from foldlog.errors import LogCorrupt
from foldlog.log.port import Record, Unfollow
from foldlog.subjects import Subject
from foldlog.views.fold import Fold
from foldlog.views.latest import Latest, knows
from foldlog.views.snapshot import Restored, Sealed
from foldlog_projections.fold import Projection, start, step
from foldlog_projections.items import Items

S = TypeVar("S")
OnGrowth = Callable[["View[Any]", int], None]
Key = Subject | tuple[Subject, str]

ENVELOPE_BYTES: Final = 200
"""What an envelope in memory costs beside its payload."""

ID_BYTES: Final = 200
"""What an id costs among those seen."""

_REFUSAL_BYTES: Final = 85
"""What the hash of a cleared id costs."""

EMPTY_BYTES: Final = 3800
"""What a view costs beside its envelopes (measured): its subscription, and what holds them."""

_MOST_AHEAD: Final = 1000
"""Pushes kept for when the gap before them is closed; beyond that the log is read again."""

_MOST_SEEN: Final = 64
"""Ids that a view of which the last envelope stands remembers at most."""


def key_of(projection: Projection[Any], subject: Subject) -> Key:
    """What tells a view from all others: its subject, and where several fold it, the projection."""
    return subject if projection.name == subject.family else (subject, projection.name)


class View(Fold[S]):
    """A fold that reads are answered from. It lives while it is hot, or somebody watches it.

    `looks` counts the looks at the log that were begun, `looked` is the number of the last one that
    succeeded, `failed` that of the last one that did not, and why. `readers` are those who have a
    look, or wait for one: one at a time, by `lock`. `floor`: see `Latest`. `unsaved` and
    `unsaved_bytes` tell how much of the view no snapshot covers, `sealed` which parts of one are
    stored.

    Args:
        on_growth: called with the view and by how many bytes its estimated memory has changed.
    """

    __slots__ = (
        "_ahead",
        "_checked_at",
        "_on_growth",
        "_unsettled_at",
        "bytes",
        "checked_epoch",
        "failed",
        "floor",
        "key",
        "known_head",
        "lock",
        "looked",
        "looks",
        "readers",
        "sealed",
        "unfollow",
        "unsaved",
        "unsaved_bytes",
        "watchers",
    )

    def __init__(self, projection: Projection[S], subject: Subject, on_growth: OnGrowth) -> None:
        super().__init__(projection, subject)
        self.key = key_of(projection, subject)
        self.floor = 0
        self.known_head = 0
        self.bytes = 0
        self.looks = self.looked = self.readers = 0
        self.failed: tuple[int, Exception] | None = None
        self.lock: asyncio.Lock | None = None
        self.unfollow: Unfollow | None = None
        self.watchers: set[asyncio.Event] = set()
        self.unsaved = 0
        self.unsaved_bytes = 0
        self.sealed: tuple[Sealed, ...] = ()
        self._on_growth = on_growth
        self._ahead: dict[int, Record] = {}
        self._checked_at = 0.0
        self._unsettled_at = 0.0
        self.checked_epoch = -1
        self._grow(EMPTY_BYTES)

    @property
    def is_hydrated(self) -> bool:
        """Whether it was read from the log once."""
        return self.looked > 0

    # --- what pushes and acks say ---------------------------------------------------------------

    def hint(self, record: Record, epoch: int) -> None:
        """Take a pushed record in: apply it if it is the next one, else keep it for later.

        In another epoch than the log was last looked at, it tells of a log that may have been
        restored: then it only says that there is something to read.
        """
        self.known_head = max(self.known_head, record.seq)
        is_latest = self.projection.latest_only
        if epoch != self.checked_epoch or record.previous is None:
            pass  # there is something to read: `known_head` says it
        elif is_latest and knows(record) < self.floor:
            pass  # what is before the floor may have overtaken it
        elif record.previous == self.applied:
            try:
                self.apply([record])
            except LogCorrupt:
                pass  # `known_head` stands; whoever reads the view next meets the error
        elif not is_latest and self._may_come_ahead(record.previous):
            self._ahead[record.previous] = record
            self._grow(_size(record))
        self.wake()

    def _may_come_ahead(self, previous: int) -> bool:
        ahead = self._ahead
        return previous > self.applied and previous not in ahead and len(ahead) < _MOST_AHEAD

    def acked(self, seq: int) -> None:
        """Note that this process's append was stored at `seq`."""
        if seq > self.known_head:
            self.known_head = seq
            self.wake()

    def unsettle(self, at: float) -> None:
        """Note that at time `at` the log may have grown, and that pushes alone will not do."""
        self._unsettled_at = at

    def wake(self) -> None:
        """Let those who watch look again."""
        for watcher in self.watchers:
            watcher.set()

    # --- what the log says ----------------------------------------------------------------------

    def enter(self, epoch: int) -> None:
        """Begin to read in `epoch`: what was pushed in an earlier one may be of another log."""
        if epoch != self.checked_epoch:
            self._forget_ahead(self._ahead)

    def apply(self, records: Sequence[Record]) -> None:
        """Fold in what is new of `records`, which follow `applied` without a gap.

        Raises:
            LogCorrupt: a payload is not what its type says. The view stays before its record.
        """
        for record in records:
            self.advance(record)
        while (following := self._ahead.pop(self.applied, None)) is not None:
            self._grow(-_size(following))
            self.advance(following)
        if self._ahead:
            self._forget_ahead([each for each in self._ahead if each < self.applied])
        self.known_head = max(self.known_head, self.applied)

    def advance(self, record: Record) -> None:
        """As `apply`, of one record, where none was pushed ahead of it."""
        if record.seq <= self.applied:
            return
        try:
            self._step(record.envelopes)
        except msgspec.MsgspecError as error:
            raise LogCorrupt(self.subject.name, record.seq, str(error)) from error
        self.applied = record.seq
        self.last = record.envelopes[-1].position
        if self.projection.latest_only:
            if len(self.folded.seen) > _MOST_SEEN:
                self.folded.seen.clear()
                self.floor = record.seq
            self._weigh(sum(len(each.payload) for each in record.envelopes))

    def checked(self, at: float, epoch: int) -> None:
        """Note that the log was read to its head at time `at`, with pushes counted by `epoch`."""
        self._checked_at = at
        self.checked_epoch = epoch

    def is_current(self, now: float, epoch: int, trust: float) -> bool:
        """Whether nothing is known to be missing, and pushes may be trusted to bring the rest."""
        return self.applied >= self.known_head and self.is_trusted(now, epoch, trust)

    def is_trusted(self, now: float, epoch: int, trust: float) -> bool:
        """Whether the log was looked at in the last `trust` seconds, and no push missed since."""
        return (
            epoch == self.checked_epoch
            and now - self._checked_at < trust
            and self._checked_at > self._unsettled_at
        )

    def reset(self) -> None:
        """Go back to before the log's first record."""
        self.folded = start(self.projection)
        self.applied = self.known_head = self.floor = 0
        self.checked_epoch = -1  # nothing is current before the log was read again
        self.last = None
        self._ahead.clear()
        self._empty()

    def adopt(self, restored: Restored[S]) -> None:
        """Go to where a snapshot is. Its last record is applied again: some of it may be new."""
        self.folded, self.last, self.sealed, state_bytes = restored
        self.applied = restored.ground.seq - 1
        self.saved(len(self.folded.seen))
        size = EMPTY_BYTES + ID_BYTES * len(self.folded.seen) + state_bytes
        self._weigh_as(size)

    def adopt_latest(self, latest: Latest[S]) -> None:
        """Go to where the end of the subject is, unless pushes have brought the view further."""
        if latest.head > self.applied:
            self.folded, self.applied, self.last, self.floor = latest
            self.known_head = max(self.known_head, self.applied)
            state = self.folded.state
            self._weigh(len(state.payload) if isinstance(state, Recorded) else 0)

    def fill(self, number: int, envelopes: list[Recorded]) -> None:
        """Put in an absent page of a sequence."""
        items = self.folded.state
        assert isinstance(items, Items), "only a sequence has pages"
        items.fill(number, envelopes)
        self._grow(sum(ENVELOPE_BYTES + len(envelope.payload) for envelope in envelopes))

    # --- its snapshot, and its memory -----------------------------------------------------------

    def saved(self, covered: int) -> None:
        """Note that a snapshot covers as many envelopes as that."""
        self.unsaved, self.unsaved_bytes = len(self.folded.seen) - covered, 0

    def postpone(self) -> None:
        """Have no snapshot taken before the fold has doubled."""
        self.unsaved, self.unsaved_bytes = -len(self.folded.seen), -self.bytes

    def detach(self) -> None:
        """Stop accounting: the view was let go of; whoever still reads it may finish."""
        self._on_growth = _unaccounted

    def _step(self, envelopes: Sequence[Recorded]) -> None:
        projection, folded = self.projection, self.folded
        stepped = size = 0
        try:
            for envelope in envelopes:
                if step(projection, folded, envelope):
                    if envelope.type == CLEARED:
                        self._empty()
                        stepped = size = 0
                        continue  # what is cleared is none of those seen
                    stepped += 1
                    size += len(envelope.payload)
        finally:
            self.unsaved += stepped
            self.unsaved_bytes += size
            self._grow((ENVELOPE_BYTES + ID_BYTES) * stepped + size)

    def _weigh(self, payload: int) -> None:
        """Account for a fold of which only the last envelope stands."""
        folded = self.folded
        self._weigh_as(EMPTY_BYTES + payload + ID_BYTES * (len(folded.seen) + len(folded.newest)))

    def _forget_ahead(self, keys: Sequence[int] | dict[int, Record]) -> None:
        for key in list(keys):
            self._grow(-_size(self._ahead.pop(key)))

    def _empty(self) -> None:
        self.unsaved = self.unsaved_bytes = 0
        self.sealed = ()
        self._weigh_as(EMPTY_BYTES)

    def _weigh_as(self, fold: int) -> None:
        """Account for a fold of that size, with the hashes and pushes that it has beside it."""
        size = fold + _REFUSAL_BYTES * len(self.folded.refused)
        self._grow(size + sum(map(_size, self._ahead.values())) - self.bytes)

    def _grow(self, by: int) -> None:
        self.bytes += by
        self._on_growth(self, by)


def _size(record: Record) -> int:
    return sum(ENVELOPE_BYTES + len(each.payload) for each in record.envelopes)


def _unaccounted(view: View[Any], growth: int) -> None:
    """The growth of a view that is no longer hot."""


def unaccounted(projection: Projection[S], subject: Subject) -> View[S]:
    """A view that reads are not answered from."""
    return View(projection, subject, _unaccounted)
