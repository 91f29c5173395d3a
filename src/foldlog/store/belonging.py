"""What is a session's or a trace's, of the kinds that every store has."""

from __future__ import annotations

from typing import Any, Final

from foldlog.kind import Kind
from foldlog_projections.registry import KINDS

OF_SESSION: Final[tuple[Kind[Any], ...]] = tuple(k for k in KINDS if k.owner == "session")
"""What stands under a session: its first key is the session's id."""

MARKER: Final = "cleared"
"""A family without a view: a session's subject in it ends at its last clearing."""
