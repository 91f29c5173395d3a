"""What a writer knows of the log: which clearings it can have heard of.

A save that is spooled while the log is away may be appended days later. If its subject was cleared
meanwhile, it belongs to what was cleared. Clocks of several machines cannot tell that; sequences
can: who has seen the log up to a sequence has seen every clearing before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from foldlog.log.port import Append, StreamInfo
from foldlog.subjects import Subject

ClearedAt = Callable[[Subject], int]
"""The sequence of the clearing that begins a subject, as far as memory tells; 0 for none."""


class Knowledge:
    """How far each shard was seen by one writer. No I/O; nothing of it is ever forgotten."""

    def __init__(self) -> None:
        self._heads: dict[int, int] = {}
        self.cleared_at: ClearedAt = lambda subject: 0

    def seen(self, streams: Iterable[StreamInfo]) -> None:
        """Note where the shards end now."""
        for stream in streams:
            self._note(stream.shard, stream.last_seq)

    def stored(self, appends: Sequence[Append], seqs: Sequence[int]) -> None:
        """Note what the log has stored for this writer."""
        for append, seq in zip(appends, seqs, strict=True):
            self._note(append.subject.shard, seq)

    def of(self, subject: Subject) -> int | None:
        """Up to where the writer knows the shard of `subject`; None if that is not known."""
        known = self._heads.get(subject.shard)
        cleared_at = self.cleared_at(subject)
        return max(known or 0, cleared_at) if known is not None or cleared_at else None

    def _note(self, shard: int, seq: int) -> None:
        if seq > self._heads.get(shard, -1):
            self._heads[shard] = seq
