"""The last saved memory state of one key."""

from __future__ import annotations

from typing import Any

import msgspec

from foldlog.kind import Content, Kind
from foldlog_projections.folds import last


class MemorySaved(msgspec.Struct, frozen=True):
    """`memory.saved`: a memory's state."""

    state: Content[Any]


kind = Kind(
    "memory",
    keys=("key",),
    records={"memory.saved": MemorySaved},
    fold=last,
)
