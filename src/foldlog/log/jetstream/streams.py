"""The streams of a namespace: made once, checked at every connect, never loosened.

Deletes of single messages are denied; rollups, message TTLs and schedules stay off: each is a way
to lose an acked envelope. Purging stays allowed, for clearing and erasure.
"""

from __future__ import annotations

import time
from typing import Any, Final

from foldlog.errors import ConfigurationError, FoldlogError, LogUnavailable, UnsupportedServer
from foldlog.log.jetstream import wire
from foldlog.log.jetstream.connection import Connection, ReplyLost
from foldlog.log.jetstream.requests import PATIENCE, ask, retry
from foldlog.log.jetstream.stream import StreamClient
from foldlog.subjects import Namespace, live

_SHARDS: Final = "foldlog.shards"
_FORMAT: Final = "foldlog.format"
_NO_LEADER: Final = 503
"""What a cluster answers while nobody leads it."""

DUPLICATE_SECONDS: Final = 120.0
"""How long a stream remembers message ids: a later retry would be stored a second time."""


async def api_level(connection: Connection, *, timeout: float) -> int:
    """Return the server's JetStream API level.

    Raises:
        UnsupportedServer: JetStream is off, for the server or for this account.
        LogUnavailable: nobody said, or nobody leads, as in a cluster without a majority.
    """
    try:
        answer = await ask(connection, "INFO", wire.AccountAnswer, timeout=timeout)
    except LogUnavailable as error:
        if isinstance(error, ReplyLost) and not connection.forbids("$JS.API.INFO"):
            raise
        raise UnsupportedServer(
            f"{connection.url} does not answer for JetStream ({error}): start it with -js, or "
            "enable JetStream for this account"
        ) from error
    if answer.error is not None:
        is_passing = answer.error.err_code == wire.NO_CLUSTER_LEADER
        refusal = LogUnavailable if is_passing else UnsupportedServer
        raise refusal(f"{connection.url}: {answer.error.description}")
    return answer.api.level


async def open_streams(
    connection: Connection, name: str, shards: int, *, replicas: int | None, timeout: float
) -> tuple[Namespace, list[wire.StreamDescription]]:
    """Make or check the streams of namespace `name`; return it and what each of them is like.

    `shards` counts when the namespace is made; later 1 means "as it is".

    Raises:
        ConfigurationError: the namespace exists with other shards, or its streams with settings
            on which the log cannot rely.
    """
    first = Namespace(name).stream(0)
    found = await StreamClient(connection, first, timeout=timeout).describe()
    if found.error is None:
        existing = int(found.config.metadata.get(_SHARDS, "0"))
        if not existing:
            raise ConfigurationError(f"stream {first} exists and is not foldlog's")
        if shards not in (1, existing):
            raise ConfigurationError(
                f"namespace {name!r} was made with {existing} shard(s) and cannot have {shards}"
            )
        shards = existing
    elif found.error.err_code != wire.NO_STREAM:
        raise LogUnavailable(f"{first}: {found.error.description}")
    if replicas is None:
        replicas = 3 if connection.server.get("cluster") else 1
    namespace = Namespace(name, shards)
    return namespace, [
        await _make(connection, namespace, shard, replicas, timeout) for shard in range(shards)
    ]


async def _make(
    connection: Connection, namespace: Namespace, shard: int, replicas: int, timeout: float
) -> wire.StreamDescription:
    stream, config = namespace.stream(shard), _config(namespace, shard, replicas)

    async def attempt(left: float) -> wire.StreamDescription:
        answer = wire.StreamDescription
        found = await ask(connection, f"STREAM.INFO.{stream}", answer, timeout=left)
        if found.error is not None and found.error.err_code == wire.NO_STREAM:
            # Creating is idempotent: of two who make the stream at once, both have made it.
            found = await ask(connection, f"STREAM.CREATE.{stream}", answer, config, timeout=left)
        if found.error is None:
            return found
        if found.error.code == _NO_LEADER:
            raise LogUnavailable(f"{stream}: {found.error.description}")
        raise _creation_error(stream, replicas, found.error)

    deadline = time.monotonic() + timeout
    found = await retry(connection, attempt, deadline, patience=PATIENCE)
    _check(found.config, namespace, shard)
    return found


def _config(namespace: Namespace, shard: int, replicas: int) -> dict[str, Any]:
    subjects = namespace.wildcard(shard)
    return {
        "name": namespace.stream(shard),
        "subjects": [subjects],
        "retention": "limits",
        "storage": "file",
        "discard": "new",
        "num_replicas": replicas,
        "allow_direct": True,
        "allow_atomic": True,
        "deny_delete": True,
        "duplicate_window": int(DUPLICATE_SECONDS * 1e9),
        "republish": {"src": subjects, "dest": live(subjects)},
        "metadata": {_SHARDS: str(namespace.shards), _FORMAT: "1"},
    }


def _check(config: wire.StreamConfig, namespace: Namespace, shard: int) -> None:
    subjects = namespace.wildcard(shard)
    wanted = {
        "subjects": (config.subjects, [subjects]),
        "allow_direct": (config.allow_direct, True),
        "allow_atomic": (config.allow_atomic, True),
        "deny_delete": (config.deny_delete, True),
        "republish": (config.republish, wire.Republish(subjects, live(subjects))),
        _SHARDS: (config.metadata.get(_SHARDS), str(namespace.shards)),
        _FORMAT: (config.metadata.get(_FORMAT), "1"),
    }
    wrong = [name for name, (actual, needed) in wanted.items() if actual != needed]
    if wrong:
        raise ConfigurationError(
            f"stream {config.name} has other settings than foldlog relies on: {', '.join(wrong)}"
        )


def _creation_error(stream: str, replicas: int, error: wire.ApiError) -> FoldlogError:
    return ConfigurationError(
        f"stream {stream} with {replicas} replica(s) was refused: {error.description} "
        f"({error.err_code}); foldlog.connect(replicas=...) chooses their number"
    )
