"""The steering events of one session, in log order. An id's ordinal is its place in the list."""

from __future__ import annotations

from foldlog_projections.feed import apply, initial

name = "steering"
version = 1
latest_only = False
replaces = None

__all__ = ["apply", "initial", "latest_only", "name", "replaces", "version"]
