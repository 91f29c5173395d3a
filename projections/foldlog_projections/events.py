"""The events of one trace, in log order. Readers sort by the event's own `ts`, ties as here."""

from __future__ import annotations

from foldlog_projections.sequence import apply, initial

name = "events"
version = 1
latest_only = False
replaces = None

__all__ = ["apply", "initial", "latest_only", "name", "replaces", "version"]
