"""The last saved memory state of one key."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from foldlog.kind import Content, Kind
from foldlog_projections.folds import last


class MemorySaved(msgspec.Struct, frozen=True):
    """`memory.saved`: a memory's state."""

    state: Content[Any]


_UNKNOWN: Final = "_"
"""Stands for a part of a key that is not known."""


def session_of(key: str) -> str | None:
    """The session that a memory belongs to: the last part of `<tenant>:<user>:<session>`.

    None for keys of fewer parts and for an unknown session. A colon and a percent sign inside a
    part are escaped, as `foldlog.sessions.memory.isolation` does it.
    """
    parts = key.split(":") if isinstance(key, str) else []
    if len(parts) < 3 or parts[-1] in ("", _UNKNOWN):
        return None
    session = parts[-1]
    return _UNKNOWN if session == "%5F" else session.replace("%3A", ":").replace("%25", "%")


kind = Kind(
    "memory",
    keys=("key",),
    records={"memory.saved": MemorySaved},
    fold=last,
)
