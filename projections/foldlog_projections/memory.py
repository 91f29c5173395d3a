"""The last saved memory state of one key."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Content, Kind
from foldlog.words import Shown
from foldlog_projections.folds import last


class MemorySaved(msgspec.Struct, frozen=True):
    """`memory.saved`: a memory's state."""

    state: Content[Any]


UNKNOWN: Final = "_"
"""Stands for a part of a key that is not known. A known one is never written so."""


def session_of(key: str) -> str | None:
    """The session that a memory belongs to: the last part of `<tenant>:<user>:<session>`.

    None for keys of fewer parts and for an unknown session.
    """
    parts = key.split(":") if isinstance(key, str) else []
    if len(parts) < 3 or parts[-1] in ("", UNKNOWN):
        return None
    session = parts[-1]
    return UNKNOWN if session == "%5F" else session.replace("%3A", ":").replace("%25", "%")


def key_in(key: str, session_id: str) -> str:
    """The key of the same tenant and user in another session."""
    return f"{key.rpartition(':')[0]}:{escaped(session_id)}"


def escaped(part: str) -> str:
    """A part of a key: a colon in it is its own, and separates nothing."""
    if part == UNKNOWN:
        return "%5F"
    return part.replace("%", "%25").replace(":", "%3A")


def _entries(saved: Recorded | None) -> dict[str, Any]:
    return {} if saved is None else {"": kind.decode(saved).state}


kind: Final = Kind(
    "memory",
    keys=("key",),
    owner=session_of,
    keys_in=lambda keys, session_id: (key_in(keys[0], session_id),),
    records={"memory.saved": MemorySaved},
    fold=last,
    shown=Shown({"memory.saved": "memory saved: {state}"}, entries=_entries),
)
