"""The streams of a namespace: made once, checked at every connect, never loosened.

Rollups, message TTLs and schedules stay off: each is a way to lose an acked envelope. Deleting and
purging stay allowed, for clearing and erasure: the account's rights say who may (decision 19).
"""

from __future__ import annotations

import time
from typing import Any, Final

import msgspec

from foldlog.errors import ConfigurationError, LogUnavailable, UnsupportedServer
from foldlog.log.jetstream import wire
from foldlog.log.jetstream.connection import Connection, ReplyLost
from foldlog.log.jetstream.requests import PATIENCE, ask, retry
from foldlog.log.jetstream.stream import StreamClient
from foldlog.subjects import Namespace, live

_SHARDS: Final = "foldlog.shards"
_FORMAT: Final = "foldlog.format"
_NO_LEADER: Final = 503
"""What a cluster answers while it has no leader."""

_RELIED_ON: Final = ("subjects", "allow_direct", "allow_atomic", "republish")
"""The settings that must be as `_config` has them; others are the operator's."""

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
    """Make or check the streams of namespace `name`; return it and each stream's description.

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
        await _open(connection, _config(namespace, shard, replicas), timeout)
        for shard in range(shards)
    ]


async def _open(
    connection: Connection, config: dict[str, Any], timeout: float
) -> wire.StreamDescription:
    stream = config["name"]

    async def attempt(left: float) -> wire.StreamDescription:
        answer = wire.StreamDescription
        found = await ask(connection, f"STREAM.INFO.{stream}", answer, timeout=left)
        if found.error is not None and found.error.err_code == wire.NO_STREAM:
            # Creating is idempotent: if two processes make the stream at once, both succeed.
            found = await ask(connection, f"STREAM.CREATE.{stream}", answer, config, timeout=left)
        if (error := found.error) is None:
            return found
        if error.code == _NO_LEADER:
            raise LogUnavailable(f"{stream}: {error.description}")
        raise ConfigurationError(
            f"stream {stream} with {config['num_replicas']} replica(s) was refused: "
            f"{error.description} ({error.err_code}); foldlog.connect(replicas=...) chooses their "
            "number"
        )

    deadline = time.monotonic() + timeout
    found = await retry(connection, attempt, deadline, patience=PATIENCE)
    actual = msgspec.to_builtins(found.config)
    wrong = [name for name in _RELIED_ON if actual[name] != config[name]]
    wrong += [k for k, v in config["metadata"].items() if actual["metadata"].get(k) != v]
    if wrong:
        raise ConfigurationError(
            f"stream {stream} has other settings than foldlog relies on: {', '.join(wrong)}"
        )
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
        "duplicate_window": int(DUPLICATE_SECONDS * 1e9),
        "republish": {"src": subjects, "dest": live(subjects)},
        "metadata": {_SHARDS: str(namespace.shards), _FORMAT: "1"},
    }
