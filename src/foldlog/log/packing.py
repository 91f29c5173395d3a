"""Pure decisions about appends: what fits, what may share a record, what goes in one batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from foldlog.envelope import Draft
from foldlog.errors import AppendFailed, Misuse, PayloadTooLarge
from foldlog.log.port import Append
from foldlog.subjects import Subject

MAX_BATCH_MESSAGES: Final = 1000
"""What nats-server accepts in one atomic batch."""

OVERHEAD: Final = 512
"""Bytes kept free in a message for its headers and the framing of its record."""

RECORD_BYTES: Final = 256 * 1024
"""A record is closed at this size: small enough to page, large enough to cost nothing more."""

BATCH_BYTES: Final = 4 * 1024 * 1024
"""A batch is closed at this size, which bounds what one fsync makes others wait for."""


def size_of(draft: Draft) -> int:
    """An upper bound of an envelope's bytes in a record."""
    size = len(draft.payload) + 4 * len(draft.id) + len(draft.type) + 72
    return size if draft.keys is None else size + sum(4 * len(key) for key in draft.keys)


def sizes_of(appends: Sequence[Append], max_payload: int) -> list[int]:
    """Return an upper bound of each append's bytes.

    Raises:
        PayloadTooLarge: one envelope exceeds a message.
    """
    limit = max_payload - OVERHEAD
    sizes = []
    for append in appends:
        total = 0
        for draft in append.drafts:
            size = size_of(draft)
            if size > limit:
                what = f"{draft.type} for {append.subject.keys[0]!r:.80}"
                raise PayloadTooLarge(what, size, limit)
            total += size
        sizes.append(total)
    return sizes


def check_atomic(appends: Sequence[Append], record_bytes: int = RECORD_BYTES) -> None:
    """Raise where one batch of the server cannot hold the appends."""
    check_shards(append.subject for append in appends)
    messages = sum(len(split(append.drafts, record_bytes)) for append in appends)
    if messages > MAX_BATCH_MESSAGES:
        raise AppendFailed(
            f"{messages} messages in one atomic append; the server takes {MAX_BATCH_MESSAGES}"
        )


def check_shards(subjects: Iterable[Subject]) -> None:
    """Raise Misuse where no append could be atomic."""
    shards = {subject.shard for subject in subjects}
    if len(shards) > 1:
        raise Misuse(
            "an atomic append covers one shard, and these subjects live on shards "
            + ", ".join(map(str, sorted(shards)))
        )


def split(drafts: Sequence[Draft], limit: int = RECORD_BYTES) -> list[tuple[Draft, ...]]:
    """Cut envelopes of one subject into records, keeping their order."""
    records: list[tuple[Draft, ...]] = []
    start = size = 0
    for end, draft in enumerate(drafts):
        bytes_ = size_of(draft)
        if end > start and size + bytes_ > limit:
            records.append(tuple(drafts[start:end]))
            start, size = end, 0
        size += bytes_
    records.append(tuple(drafts[start:]))
    return records


class Batch(msgspec.Struct, eq=False):
    """What one fsync carries: records in order, as pairs of a subject's name and its envelopes.

    `expects`: the last sequences that subjects must have. `is_indivisible`: some of the appends
    must be stored together.
    """

    record_bytes: int = RECORD_BYTES
    records: list[tuple[str, list[Draft]]] = []
    bytes: int = 0
    expects: dict[str, int | None] = {}
    is_indivisible: bool = False
    filled: list[int] = []
    open: dict[str, int] = {}

    def add(self, appends: Sequence[Append], sizes: list[int]) -> list[tuple[int, int]] | None:
        """Take the appends in, all or none; return None if the batch is full.

        Returns, for each append, the indexes of the first and last record that hold it. Envelopes
        for a subject share its latest record while it has room, which keeps their order.
        """
        if self.records and not self._has_room(sum(sizes), len(sizes)):
            return None
        spans = list[tuple[int, int]]()
        for append, size in zip(appends, sizes, strict=True):
            name = append.subject.name
            self.bytes += size
            index = self.open.get(name)
            if index is not None and self.filled[index] + size <= self.record_bytes:
                self.filled[index] += size
                self.records[index][1].extend(append.drafts)
                spans.append((index, index))
                continue
            first = len(self.records)
            small = size <= self.record_bytes
            for part in [append.drafts] if small else split(append.drafts, self.record_bytes):
                self.records.append((name, list(part)))
                self.filled.append(size if small else sum(map(size_of, part)))
            self.open[name] = last = len(self.records) - 1
            spans.append((first, last))
        return spans

    def _has_room(self, size: int, appends: int) -> bool:
        # Two neighbours that were not joined exceed one record together.
        most = 2 * (size // self.record_bytes) + appends
        return self.bytes + size <= BATCH_BYTES and len(self.records) + most <= MAX_BATCH_MESSAGES
