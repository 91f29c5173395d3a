"""The embedded default: a real nats-server that the processes of one data directory share."""

from __future__ import annotations

from foldlog.log.embedded.server import EmbeddedServer

__all__ = ["EmbeddedServer"]
