"""Health: what a client can see of its log, for operators."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

from foldlog.log.embedded import EmbeddedServer
from foldlog.log.port import StreamInfo as StreamHealth
from foldlog.store.journal import Journal
from foldlog.store.spool import Outbox, SpoolHealth


class EmbeddedHealth(NamedTuple):
    """The server that foldlog started. `pid` is None while it is being restarted."""

    path: Path
    pid: int | None
    port: int
    log_file: Path


class Health(NamedTuple):
    """What the log looks like now.

    `durability` is "unknown" on a server that foldlog did not start: a client cannot read its
    `sync_interval`. `rtt_seconds` is one request; `max_payload` is in bytes.
    `spool` is there where the store degrades.
    """

    url: str
    namespace: str
    server_version: str
    api_level: int
    rtt_seconds: float
    durability: Literal["fsync", "relaxed", "none", "unknown"]
    max_payload: int
    streams: tuple[StreamHealth, ...]
    embedded: EmbeddedHealth | None
    hot_views: int
    spool: SpoolHealth | None = None


class HealthCheck:
    """Asks the log how it is."""

    def __init__(
        self, journal: Journal, server: EmbeddedServer | None, outbox: Outbox | None = None
    ) -> None:
        self._journal = journal
        self._server = server
        self._outbox = outbox

    async def health(self) -> Health:
        """Return what the log looks like now.

        Raises:
            LogUnavailable: it does not answer.
        """
        log = self._journal.log
        info = await log.server()
        return Health(
            url=info.url,
            namespace=log.namespace.name,
            server_version=info.version,
            api_level=info.api_level,
            rtt_seconds=info.rtt,
            durability=self._durability(info.version),
            max_payload=info.max_payload,
            streams=tuple(await log.streams()),
            embedded=self._embedded(),
            hot_views=len(self._journal.views),
            spool=self._outbox.health if self._outbox else None,
        )

    def _durability(self, version: str) -> Literal["fsync", "relaxed", "none", "unknown"]:
        if self._server is not None:
            return self._server.durability
        return "unknown" if version else "none"

    def _embedded(self) -> EmbeddedHealth | None:
        server = self._server
        if server is None:
            return None
        return EmbeddedHealth(server.path, server.pid, server.port, server.log_file)


__all__ = ["EmbeddedHealth", "Health", "HealthCheck", "SpoolHealth", "StreamHealth"]
