"""Tombstones as clearing a view writes them."""

from __future__ import annotations

import msgspec

from foldlog.envelope import CLEARED, Draft, draft
from foldlog_projections.fold import Cleared


def tombstone(
    remains: bytes = b"", *, id: str = "c", removed: dict[str, int] | None = None
) -> Draft:
    """Return a tombstone; `removed` has the counter of each writer's last removed draft."""
    payload = msgspec.msgpack.encode(Cleared(b"", remains, removed or {}))
    return draft(CLEARED, payload, id=id)
