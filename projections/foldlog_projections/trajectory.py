"""The last saved trajectory of one trace in one session."""

from __future__ import annotations

from foldlog_projections.latest import apply, initial

name = "trajectory"
version = 1
latest_only = True

__all__ = ["apply", "initial", "latest_only", "name", "version"]
