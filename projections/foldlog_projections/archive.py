"""The part of a shard that is in the archive: its *manifest*, whose last record counts."""

from __future__ import annotations

from typing import Final

import msgspec

from foldlog.kind import Kind
from foldlog.words import Shown
from foldlog_projections.folds import last


class Segment(msgspec.Struct, frozen=True, array_like=True):
    """One file of records, sorted by subject and sequence.

    Segments with the same sequences, from `first` to `last`, are one *run*, cut by subject: each
    has what there was of its subjects, from `low` to `high`, and was not erased since. `digest` is
    the SHA-256 of the file, `crc` is that of its footer, `listed` that of the list of its subjects
    beside it. `raw_bytes` are the records' own, `latest` is the log's time of the run's newest,
    RFC 3339.
    """

    name: str
    first: int
    last: int
    records: int
    raw_bytes: int
    size_bytes: int
    latest: str
    digest: str
    low: str
    high: str
    crc: int
    listed: int


class ArchiveChanged(msgspec.Struct, frozen=True, omit_defaults=True):
    """`archive.changed`: the segments of a shard in order, and up to which sequence they reach.

    What the log itself still has of those sequences counts for nothing. `holder` archives until
    `held_until`, in Unix seconds, unless it lets go or dies. `folder` is where the shard's files
    stand, and no other log's: several may have one place. `archive` is the random id of the log's
    only archive, which has it, too; `place` is where its first archiver found it. `lost` are
    segments that an operator has given up.
    """

    segments: tuple[Segment, ...] = ()
    until: int = 0
    holder: str = ""
    held_until: float = 0.0
    folder: str = ""
    archive: str = ""
    place: str = ""
    lost: tuple[Segment, ...] = ()


CHANGED = "archive.changed"

kind: Final = Kind(
    "archive",
    keys=("number",),
    records={CHANGED: ArchiveChanged},
    fold=last,
    shown=Shown({CHANGED: "archive changed"}),
    of_storage=True,
)
"""One view a shard, under the first number that stands on it."""
