"""What a shard's archive is, as a record of the log says it."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from foldlog_projections.archive import ArchiveChanged, Segment

LEASE: Final = 60.0
"""Seconds for which an archiver holds a shard; each change of the manifest renews them."""


class Manifest(NamedTuple):
    """What a shard's last manifest says, and the sequence at which it stands; 0 for none."""

    seq: int = 0
    says: ArchiveChanged = ArchiveChanged()

    @property
    def until(self) -> int:
        """The sequence up to which the archive holds the log."""
        return self.says.until

    @property
    def segments(self) -> tuple[Segment, ...]:
        """In the order of their sequences."""
        return self.says.segments

    @property
    def holder(self) -> str:
        """The archiver that holds the shard now, "" for none.

        A lease that has more left than it had when it began is by a wrong clock, and counts for
        nothing; clocks may differ by as much again.
        """
        left = self.says.held_until - time.time()
        return self.says.holder if 0 < left <= 2 * LEASE else ""
