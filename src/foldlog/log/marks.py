"""What a high-water mark says, and what a shard has lost since it was written."""

from __future__ import annotations

from typing import Protocol

import msgspec

from foldlog.errors import LogCorrupt, LogRewound
from foldlog.log.port import StreamInfo


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a shard held: `messages` records up to `seq`.

    `purging`: until when (Unix seconds) purges may be under way, by a token of each. While there
    is one, and until somebody marks anew, `messages` tells nothing. `ended`: where the shard was
    found to end too early; what is appended since would hide it.
    """

    seq: int = 0
    messages: int = 0
    purging: dict[str, float] = {}
    ended: int | None = None


class Marks(Protocol):
    """Where the marks are kept: one a shard."""

    async def mark(self, shard: int) -> tuple[bytes | None, int]:
        """Return a shard's mark and its revision; None and 0 where there is none, or none to see.

        Raises:
            LogUnavailable: nobody answered in time.
        """
        ...

    async def put_mark(self, shard: int, data: bytes, revision: int) -> bool:
        """Replace the mark of that revision; return whether it was that.

        Raises:
            AppendFailed, ConfigurationError: refused. LogUnavailable: it may be stored or not.
        """
        ...

    async def drop_mark(self, shard: int) -> None:
        """Remove a shard's mark; fine if there is none.

        Raises:
            LogUnavailable: it may still be there.
        """
        ...


def loss(mark: Mark, found: StreamInfo, known: int = 0) -> LogRewound | LogCorrupt | None:
    """What a shard as it is now has lost since it was marked: an error to raise, or None.

    `known`: up to which sequence it is known to have gone, whatever the mark says.
    """
    if found.last_seq < known:
        return LogRewound(found.name, max(known, mark.seq), f"it ended at {found.last_seq}")
    if mark.ended is not None:
        return LogRewound(found.name, mark.seq, f"it ended at {mark.ended}")
    if found.last_seq < mark.seq:
        return LogRewound(found.name, mark.seq, f"it ended at {found.last_seq}")
    # With replicas it is they who make good what one of them has lost.
    if not mark.seq or mark.purging or found.replicas > 1:
        return None
    missing = mark.messages + found.last_seq - mark.seq - found.messages
    if missing <= 0:
        return None
    return LogCorrupt(
        found.name,
        mark.seq,
        f"{missing} records up to here are missing; a rebuild accepts the log without them",
    )
