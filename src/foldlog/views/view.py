"""One view: a fold of one subject, kept as current as its hints and reads make it.

No I/O here. A view knows how far it has applied the log (`applied`) and how far it has heard the
log to reach (`known_head`): from pushes, and from the acks of this process's own appends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from foldlog.envelope import CLEARED, Position, Recorded
from foldlog.errors import LogCorrupt
from foldlog.log.port import Record, Unfollow
from foldlog.subjects import Subject
from foldlog.views.latest import Latest, knows
from foldlog.views.snapshot import Restored, Sealed
from foldlog_projections.fold import Folded, Projection, start, step
from foldlog_projections.items import PAGE, Items

S = TypeVar("S")
OnGrowth = Callable[["View[Any]", int], None]
Key = Subject | tuple[Subject, str]

_ENVELOPE_BYTES: Final = 200
"""What an envelope in memory costs beside its payload."""

_ID_BYTES: Final = 200
"""What an id costs among those seen."""

_REFUSAL_BYTES: Final = 85
"""What the hash of a cleared id costs."""

_MOST_SEEN: Final = 64
"""Ids that a view of which the last envelope stands remembers at most."""

EMPTY_BYTES: Final = 3800
"""What a view costs beside its envelopes (measured): its subscription, and what holds them."""

_MOST_AHEAD: Final = 1000
"""Pushes kept for when the gap before them is closed; beyond that the log is read again."""


def key_of(projection: Projection[Any], subject: Subject) -> Key:
    """What tells a view from all others: its subject, and where several fold it, the projection."""
    return subject if projection.name == subject.family else (subject, projection.name)


class View(Generic[S]):
    """A fold with its place in the log. It lives while it is hot, or somebody watches it.

    `unsaved` and `unsaved_bytes` tell how much of it no snapshot covers, `since` at which sequence
    that begins (0: nowhere), `sealed` which parts of one are stored, in the edition `edition`.
    `beginnings` counts how often it began anew. `doubt` is what it had applied of a log that no
    longer holds it, until it is known whether the subject was cleared.

    Args:
        on_growth: told of the view by how many bytes its estimated memory has changed.
    """

    __slots__ = (
        "_ahead",
        "_checked_at",
        "_last",
        "_on_growth",
        "_unsettled_at",
        "applied",
        "beginnings",
        "bytes",
        "checked_epoch",
        "doubt",
        "edition",
        "filling",
        "floor",
        "folded",
        "hydrated",
        "key",
        "known_head",
        "loaders",
        "projection",
        "sealed",
        "since",
        "subject",
        "unfollow",
        "unsaved",
        "unsaved_bytes",
        "watchers",
    )

    def __init__(self, projection: Projection[S], subject: Subject, on_growth: OnGrowth) -> None:
        self.projection = projection
        self.subject = subject
        self.key = key_of(projection, subject)
        self.folded: Folded[S] = start(projection)
        self.applied = 0
        self.floor = 0
        self.known_head = 0
        self.beginnings = 0
        self.bytes = 0
        self.hydrated: asyncio.Future[None] | None = None
        self.filling: asyncio.Lock | None = None
        self.loaders = 0
        self.unfollow: Unfollow | None = None
        self.watchers: set[asyncio.Event] = set()
        self.unsaved = 0
        self.unsaved_bytes = 0
        self.since = 0
        self.sealed: tuple[Sealed, ...] = ()
        self.edition = ""
        self._on_growth = on_growth
        self._ahead: dict[int, Record] = {}
        self._last: Position | None = None
        self.doubt: Position | None = None
        self._checked_at = 0.0
        self._unsettled_at = 0.0
        self.checked_epoch = -1
        self._grow(EMPTY_BYTES)

    @property
    def is_hydrated(self) -> bool:
        """Whether it was read from the log once."""
        return self.hydrated is not None and self.hydrated.done()

    def hint(self, record: Record, epoch: int) -> None:
        """Take a pushed record in: apply it if it is the next one, else keep it for later.

        In another epoch than the log was last looked at, it tells of a log that may have been
        restored: then it only says that there is something to read.
        """
        self.known_head = max(self.known_head, record.seq)
        if epoch != self.checked_epoch or record.previous is None:
            pass  # there is something to read: `known_head` says it
        elif self.projection.latest_only and knows(record) < self.floor:
            pass  # what is before the floor may have overtaken it
        elif record.previous == self.applied:
            try:
                self.apply([record])
            except LogCorrupt:
                pass  # `known_head` stands; whoever reads the view next meets the error
        elif self.projection.latest_only:
            pass  # one request for the last is as good
        elif len(self._ahead) < _MOST_AHEAD:
            self._ahead[record.previous] = record
        self.wake()

    def acked(self, seq: int) -> None:
        """Note that this process's append was stored at `seq`."""
        if seq > self.known_head:
            self.known_head = seq
            self.wake()

    def apply(self, records: Sequence[Record]) -> None:
        """Fold in what is new of `records`, which follow `applied` without a gap.

        Raises:
            LogCorrupt: a payload is not what its type says. The view stays before its record.
        """
        for record in records:
            self.advance(record)
        while (following := self._ahead.pop(self.applied, None)) is not None:
            self.advance(following)
        if self._ahead:
            self._ahead = {p: r for p, r in self._ahead.items() if p > self.applied}
        self.known_head = max(self.known_head, self.applied)

    def enter(self, epoch: int) -> None:
        """Begin to read in `epoch`: what was kept from an earlier one may be of another log."""
        if epoch != self.checked_epoch:
            self._ahead.clear()

    def checked(self, at: float, epoch: int) -> None:
        """Note that the log was read to its head at time `at`, with pushes counted by `epoch`."""
        self._checked_at = at
        self.checked_epoch = epoch

    def unsettle(self, at: float) -> None:
        """Note that at time `at` the log may have grown, and that pushes alone will not do."""
        self._unsettled_at = at

    def is_current(self, now: float, epoch: int, trust: float) -> bool:
        """Whether nothing is known to be missing, and pushes may be trusted to have told."""
        return self.applied >= self.known_head and self.is_trusted(now, epoch, trust)

    def is_trusted(self, now: float, epoch: int, trust: float) -> bool:
        """Whether the log was looked at in the last `trust` seconds, and no push missed since."""
        return (
            epoch == self.checked_epoch
            and now - self._checked_at < trust
            and self._checked_at > self._unsettled_at
        )

    @property
    def ground(self) -> Position | None:
        """Where the last applied envelope stands: what the log must still hold, unless cleared."""
        return self._last

    def reset(self) -> None:
        """Go back to before the log's first record."""
        self.folded = start(self.projection)
        self.applied = self.known_head = self.floor = 0
        self.beginnings += 1
        self.checked_epoch = -1  # nothing is current before the log was read again
        self._last = None
        self._ahead.clear()
        self._empty()

    def adopt(self, restored: Restored[S]) -> None:
        """Go to where a snapshot is. Its last record is applied again: some of it may be new."""
        self.folded, self._last, self.sealed, state_bytes, self.edition = restored
        self.applied = restored.ground.seq - 1
        self.saved(len(self.folded.seen), restored.ground.seq)
        size = EMPTY_BYTES + _ID_BYTES * len(self.folded.seen) + state_bytes
        size += _REFUSAL_BYTES * len(self.folded.refused)
        items = self.folded.state
        if isinstance(items, Items):
            size += _ENVELOPE_BYTES * (len(items) - PAGE * items.absent)
        self._grow(size - self.bytes)

    def adopt_latest(self, latest: Latest[S]) -> None:
        """Go to where the end of the subject is, unless pushes have brought it further."""
        if latest.head > self.applied:
            self.folded, self.applied, self._last, self.floor = latest
            self.known_head = max(self.known_head, self.applied)
            state = self.folded.state
            self._weigh(len(state.payload) if isinstance(state, Recorded) else 0)

    @property
    def span(self) -> int:
        """Over how many sequences that spreads which no snapshot covers."""
        return self.applied - self.since if self.since else 0

    def saved(self, covered: int, ground: int) -> None:
        """Note that a snapshot covers as many envelopes as that, up to a sequence."""
        self.unsaved, self.unsaved_bytes = len(self.folded.seen) - covered, 0
        self.since = ground

    def pass_over(self) -> None:
        """Have no snapshot taken for the span so far, but for what else there is reason."""
        self.since = self.applied

    def postpone(self) -> None:
        """Have no snapshot taken before the fold has doubled."""
        self.unsaved, self.unsaved_bytes = -len(self.folded.seen), -self.bytes

    def fill(self, number: int, envelopes: list[Recorded]) -> None:
        """Put in an absent page of a sequence."""
        items = self.folded.state
        assert isinstance(items, Items), "only a sequence has pages"
        items.fill(number, envelopes)
        self._grow(sum(_ENVELOPE_BYTES + len(envelope.payload) for envelope in envelopes))

    def release(self) -> None:
        """Let go of the full pages of a sequence but the last: the log has them."""
        items = self.folded.state
        if isinstance(items, Items):
            released = items.release()
            self._grow(-sum(_ENVELOPE_BYTES + len(each.payload) for each in released))

    def detach(self) -> None:
        """Stop accounting: the view was let go of; whoever still reads it may finish."""
        self._on_growth = _unaccounted

    def wake(self) -> None:
        """Let those who watch look again."""
        for watcher in self.watchers:
            watcher.set()

    def advance(self, record: Record) -> None:
        """As `apply`, of one record, where none was pushed ahead of it."""
        if record.seq <= self.applied:
            return
        try:
            self._step(record.envelopes)
        except msgspec.MsgspecError as error:
            raise LogCorrupt(self.subject.name, record.seq, str(error)) from error
        self.since = self.since or record.seq
        self.applied = record.seq
        self._last = record.envelopes[-1].position
        if self.projection.latest_only:
            if len(self.folded.seen) > _MOST_SEEN:
                self.folded.seen.clear()
                self.floor = record.seq
            self._weigh(sum(len(each.payload) for each in record.envelopes))

    def _step(self, envelopes: Sequence[Recorded]) -> None:
        projection, folded = self.projection, self.folded
        stepped = size = 0
        try:
            for envelope in envelopes:
                if step(projection, folded, envelope):
                    if envelope.type == CLEARED:
                        self._empty()
                        self._grow(_REFUSAL_BYTES * len(folded.refused))
                        stepped = size = 0
                        continue  # what is cleared is none of those seen
                    stepped += 1
                    size += len(envelope.payload)
        finally:
            self.unsaved += stepped
            self.unsaved_bytes += size
            self._grow((_ENVELOPE_BYTES + _ID_BYTES) * stepped + size)

    def _weigh(self, payload: int) -> None:
        """Account for a fold of which only the last envelope stands."""
        size = EMPTY_BYTES + payload + _ID_BYTES * (len(self.folded.seen) + len(self.folded.newest))
        self._grow(size + _REFUSAL_BYTES * len(self.folded.refused) - self.bytes)

    def _empty(self) -> None:
        self.unsaved = self.unsaved_bytes = self.since = 0
        self.sealed = ()
        self._grow(EMPTY_BYTES - self.bytes)

    def _grow(self, by: int) -> None:
        self.bytes += by
        self._on_growth(self, by)


def _unaccounted(view: View[Any], growth: int) -> None:
    """The growth of a view that is no longer hot."""


def continues(ground: Position, first: Record, *, within: bool = False) -> bool:
    """Whether a log whose first record from `ground` on is `first` is the one that was applied.

    Where the subject was cleared meanwhile, it begins with that. `within`: the ground may stand
    inside its record, which will then be applied again.
    """
    if first.seq != ground.seq:
        return first.envelopes[0].type == CLEARED
    if not within:
        return first.envelopes[-1].position == ground
    return ground.index < len(first.envelopes) and (
        first.envelopes[ground.index].position == ground
    )


def precedes(ground: Position, last: Position | None) -> bool:
    """Whether a log that ends with `last` can be the one that was applied, or follow it."""
    return last is not None and (last.seq > ground.seq or last == ground)
