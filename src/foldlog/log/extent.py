"""How far a shard is known to go by one process, from what the log itself has told it."""

from __future__ import annotations

import msgspec


class Extent(msgspec.Struct):
    """Up to which sequence a shard goes: what was acked to this process, or seen when it looked.

    A log that ends earlier than that has lost something. Shared by who appends and who looks.
    """

    seq: int = 0

    def reaches(self, seq: int) -> None:
        """Note that something is stored at a sequence."""
        if seq > self.seq:
            self.seq = seq
