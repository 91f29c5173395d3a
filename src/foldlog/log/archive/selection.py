"""Which rows of an archive a question is about, and which columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from foldlog.subjects import matching
from foldlog_projections.archive import Segment

REST: Final = ("time", "data")
"""The columns of a row beside its subject and its sequence."""

_MOST: Final = 2**63 - 1


class Selection(NamedTuple):
    """Rows of a subject, or of all subjects that begin so, with sequences in (after, upto].

    Of all subjects, those that `is_meant` says.
    """

    subject: str | None = None
    prefix: str | None = None
    after: int = 0
    upto: int = _MOST
    is_meant: Callable[[str], bool] = matching(())

    @property
    def low(self) -> str:
        """The least subject that they may have."""
        return self.prefix or "" if self.subject is None else self.subject

    @property
    def high(self) -> str:
        """What is no less than any subject that they may have."""
        if self.subject is not None:
            return self.subject
        if not self.prefix:
            return chr(0x10FFFF)
        return self.prefix[:-1] + chr(ord(self.prefix[-1]) + 1)

    @property
    def is_everything(self) -> bool:
        """Whether they are of all subjects."""
        return self.subject is None and not self.prefix

    def covers(self, segment: Segment) -> bool:
        """Whether all sequences of a segment are selected."""
        return self.after < segment.first and segment.last <= self.upto

    def may_be_in(self, segment: Segment) -> bool:
        """Whether a segment can have such rows, by its sequences and subjects."""
        return (self.after < segment.last and segment.first <= self.upto) and (
            self.low <= segment.high and segment.low <= self.high
        )
