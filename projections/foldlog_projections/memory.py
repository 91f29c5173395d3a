"""The last saved memory state of one key."""

from __future__ import annotations

from foldlog_projections.latest import apply, initial

name = "memory"
version = 1
latest_only = True

__all__ = ["apply", "initial", "latest_only", "name", "version"]
