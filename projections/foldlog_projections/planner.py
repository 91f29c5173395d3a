"""The planner events of one trace, in the order in which they were emitted."""

from __future__ import annotations

from foldlog_projections.sequence import apply, initial

name = "planner"
version = 1
latest_only = False
replaces = None

__all__ = ["apply", "initial", "latest_only", "name", "replaces", "version"]
