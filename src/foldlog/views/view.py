"""One view: a fold of one subject, kept as current as its hints and reads make it.

No I/O here. A view knows how far it has applied the log (`applied`) and how far it has heard the
log to reach (`known_head`): from pushes, and from the acks of this process's own appends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from foldlog.envelope import CLEARED, Position, Recorded
from foldlog.errors import LogCorrupt
from foldlog.log.port import Record, Unfollow
from foldlog.subjects import Subject
from foldlog_projections.fold import Folded, Projection, start, step

S = TypeVar("S")

_ENVELOPE_BYTES: Final = 400
"""What an envelope costs in memory beside its payload: objects, and its id among those seen."""

EMPTY_BYTES: Final = 4000
"""What a view costs before its first envelope: its subscription above all."""


_MOST_AHEAD: Final = 1000
"""Pushes kept for when the gap before them is closed; beyond that the log is read again."""


class View(Generic[S]):
    """A fold with its place in the log. It lives while it is hot, or somebody watches it.

    Args:
        on_growth: told by how many bytes the view's estimated memory has changed.
    """

    def __init__(
        self, projection: Projection[S], subject: Subject, on_growth: Callable[[int], None]
    ) -> None:
        self.projection = projection
        self.subject = subject
        self.folded: Folded[S] = start(projection)
        self.applied = 0
        self.known_head = 0
        self.bytes = 0
        self.hydrated: asyncio.Future[None] | None = None
        self.loaders = 0
        self.unfollow: Unfollow | None = None
        self.watchers: set[asyncio.Event] = set()
        self._on_growth = on_growth
        self._ahead: dict[int, Record] = {}
        self._last: Position | None = None
        self._checked_at = 0.0
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
        if epoch != self.checked_epoch:
            pass
        elif record.previous == self.applied or self.projection.latest_only:
            try:
                self.apply([record])
            except LogCorrupt:
                pass  # `known_head` stands; whoever reads the view next meets the error
        elif record.previous is not None and len(self._ahead) < _MOST_AHEAD:
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
            self._apply(record)
        while (following := self._ahead.pop(self.applied, None)) is not None:
            self._apply(following)
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

    def is_current(self, now: float, epoch: int, trust: float) -> bool:
        """Whether nothing is known to be missing, and pushes may be trusted to have told."""
        return self.applied >= self.known_head and self.is_trusted(now, epoch, trust)

    def is_trusted(self, now: float, epoch: int, trust: float) -> bool:
        """Whether the log was looked at in the last `trust` seconds, and no push missed since."""
        return epoch == self.checked_epoch and now - self._checked_at < trust

    @property
    def ground(self) -> Position | None:
        """Where the last applied envelope stands: what the log must still hold, unless cleared."""
        return self._last

    def reset(self) -> None:
        """Go back to before the log's first record."""
        self.folded = start(self.projection)
        self.applied = self.known_head = 0
        self._last = None
        self._ahead.clear()
        self._grow(EMPTY_BYTES - self.bytes)

    def detach(self) -> None:
        """Stop accounting: the view was let go of; whoever still reads it may finish."""
        self._on_growth = _unaccounted

    def wake(self) -> None:
        """Let those who watch look again."""
        for watcher in self.watchers:
            watcher.set()

    def _apply(self, record: Record) -> None:
        if record.seq <= self.applied:
            return
        try:
            if self.projection.latest_only:
                self.folded = start(self.projection)
                self._grow(EMPTY_BYTES - self.bytes)
                self._step(record.envelopes[-1])
            else:
                for envelope in record.envelopes:
                    self._step(envelope)
        except msgspec.MsgspecError as error:
            raise LogCorrupt(self.subject.name, record.seq, str(error)) from error
        self.applied = record.seq
        self._last = record.envelopes[-1].position

    def _step(self, envelope: Recorded) -> None:
        if step(self.projection, self.folded, envelope):
            if envelope.type == CLEARED:
                self._grow(EMPTY_BYTES - self.bytes)
            self._grow(_ENVELOPE_BYTES + len(envelope.payload))

    def _grow(self, by: int) -> None:
        self.bytes += by
        self._on_growth(by)


def _unaccounted(growth: int) -> None:
    """The growth of a view that is no longer hot."""


def continues(ground: Position, first: Record | None) -> bool:
    """Whether a log whose first record from `ground` on is `first` is the one that was applied.

    Where the subject was cleared meanwhile, it begins with that.
    """
    if first is None:
        return False
    if first.seq == ground.seq:
        return first.envelopes[-1].position == ground
    return first.envelopes[0].type == CLEARED


def precedes(ground: Position, last: Record | None) -> bool:
    """Whether a log whose last record is `last` can be the one that was applied, or follow it."""
    if last is None or last.seq < ground.seq:
        return False
    return last.seq > ground.seq or last.envelopes[-1].position == ground
