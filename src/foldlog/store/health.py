"""Health: what a client can see of its log, for operators."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from foldlog.errors import FoldlogError, StoreClosed
from foldlog.log.archive import ArchiveHealth
from foldlog.log.port import LogInfo, StreamInfo as StreamHealth
from foldlog.store.core import Capability
from foldlog.store.operation import operation
from foldlog.store.spool import SpoolHealth

_Durability = Literal["fsync", "relaxed", "none", "unknown"]

_UNSEEN: Final = LogInfo(url="", version="", api_level=0, max_payload=0, rtt=0.0)


@dataclass(frozen=True, slots=True)
class EmbeddedHealth:
    """The server that foldlog started.

    Attributes:
        path: the data directory.
        pid: the server's process; None while it is being restarted.
        port: the port on 127.0.0.1.
        log_file: where the server writes its log.
    """

    path: str
    pid: int | None
    port: int
    log_file: str


@dataclass(frozen=True, slots=True)
class Health:
    """What the log looks like now: a dataclass that FastAPI, pydantic and msgspec write by name.

    Attributes:
        url: the server in use, without credentials.
        namespace: the store's namespace.
        server_version: the version of nats-server.
        api_level: the level of the server's JetStream API.
        rtt_seconds: how many seconds one request took.
        durability: "fsync" or "relaxed" for an embedded server; "none" in memory; "unknown" on a
            server that foldlog did not start, because a client cannot read its setting.
        max_payload: bytes that one message may hold.
        streams: the stream of each shard.
        embedded: the server that foldlog started, or None.
        hot_views: how many views are in memory.
        spool: the spool, where the store degrades.
        away: the error that keeps the log from answering; None while it answers. With an error,
            what only the log knows is empty or 0.
        archive: the archive of each shard, where the store was opened with `archive=`.
        degraded: how many calls of this store failed or were spooled without an error to their
            caller, by method, where it degrades.
        waits: what runs of this store wait for now: a log that does not answer, another owner, or
            an order to resume.
    """

    url: str
    namespace: str
    server_version: str
    api_level: int
    rtt_seconds: float
    durability: _Durability
    max_payload: int
    streams: tuple[StreamHealth, ...]
    embedded: EmbeddedHealth | None
    hot_views: int
    spool: SpoolHealth | None = None
    away: str | None = None
    archive: tuple[ArchiveHealth, ...] = ()
    degraded: dict[str, int] = field(default_factory=dict)
    waits: tuple[str, ...] = ()


class HealthCheck(Capability):
    """Asks the log how it is."""

    @operation()
    async def health(self, *, archive_files: bool = False) -> Health:
        """Return what the log looks like now.

        Args:
            archive_files: look at each file of the archive, too: whole in a directory, at its size
                in a bucket.

        Raises:
            LogUnavailable: the log does not answer, and the store does not degrade.
            LogCorrupt: a manifest of the archive cannot be read, and the store does not degrade.
            StoreClosed: the store is closed.
        """
        log, backend = self._core.forked_log, self._core.backend
        info = _UNSEEN
        away: str | None = None
        archive: tuple[ArchiveHealth, ...] = ()
        try:
            info = await log.info()
            if backend.archiver is not None:
                archive = await backend.archiver.health(info.streams, files=archive_files)
        except StoreClosed:
            raise
        except FoldlogError as error:
            if backend.outbox is None:
                raise
            away = f"{type(error).__name__}: {error}"
        return Health(
            url=info.url,
            namespace=log.namespace.name,
            server_version=info.version,
            api_level=info.api_level,
            rtt_seconds=info.rtt,
            durability=self._durability(info),
            max_payload=info.max_payload,
            streams=info.streams,
            embedded=self._embedded(),
            hot_views=len(self._core.hot_views),
            spool=backend.outbox.health if backend.outbox else None,
            away=away,
            archive=archive,
            degraded=dict(self._calls.failures),
            waits=tuple(sorted(self._core.waits)),
        )

    def _durability(self, info: LogInfo) -> _Durability:
        if self._core.backend.server is not None:
            return self._core.backend.server.durability
        return "unknown" if info.version or info is _UNSEEN else "none"

    def _embedded(self) -> EmbeddedHealth | None:
        server = self._core.backend.server
        if server is None:
            return None
        return EmbeddedHealth(str(server.path), server.pid, server.port, str(server.log_file))
