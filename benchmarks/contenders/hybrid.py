"""The specification's hybrid: PostgreSQL for what must last, Redis for what must be quick."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator
from importlib import import_module
from typing import Any, ClassVar, Final

from benchmarks.contenders import rows
from benchmarks.contenders.postgres import INSERT_STEERING, Postgres
from benchmarks.site import Site
from benchmarks.unavailable import Unavailable
from foldlog import SteeringEvent

_BLOCK: Final = 200
"""Milliseconds that one wait for news lasts."""


class Hybrid(Postgres):
    """Events and updates go to PostgreSQL as before; the rest is here."""

    name: ClassVar[str] = "Redis + PostgreSQL"
    promise: ClassVar[str] = (
        "fsynced write-ahead log; memory and pauses fsynced by Redis (appendfsync always)"
    )

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._prefix = f"foldlog-bench-{secrets.token_hex(4)}:"
        self._redis: Any  # redis.asyncio.Redis, which is only here where redis is

    async def open(self) -> None:
        """Connect to both."""
        try:
            redis = import_module("redis.asyncio")
        except ImportError:
            raise Unavailable("redis, the client, is not installed") from None
        url = await self._site.redis()
        pool = redis.BlockingConnectionPool.from_url(url, max_connections=20, protocol=2)
        self._redis = redis.Redis.from_pool(pool)
        await super().open()

    async def close(self) -> None:
        """Remove the keys of this contender, and disconnect."""
        async for key in self._redis.scan_iter(match=f"{self._prefix}*", count=1000):
            await self._redis.unlink(key)
        await self._redis.aclose()
        await super().close()

    async def facts(self) -> dict[str, str]:
        """What both say of themselves."""
        server = await self._redis.info("server")
        persistence = await self._redis.config_get("append*")
        return {
            **await super().facts(),
            "redis_version": server["redis_version"],
            "appendonly": persistence["appendonly"],
            "appendfsync": persistence["appendfsync"],
        }

    async def save_memory(self, key: str, state: dict[str, Any]) -> None:
        """One SET."""
        await self._redis.set(f"{self._prefix}memory:{key}", json.dumps(state))

    async def load_memory(self, key: str) -> dict[str, Any] | None:
        """One GET."""
        return _parsed(await self._redis.get(f"{self._prefix}memory:{key}"))

    async def pause(self, token: str, state: dict[str, Any]) -> None:
        """One SETEX, for an hour."""
        await self._redis.setex(f"{self._prefix}pause:{token}", 3600, json.dumps(state))

    async def resume(self, token: str) -> dict[str, Any] | None:
        """One GETDEL."""
        return _parsed(await self._redis.getdel(f"{self._prefix}pause:{token}"))

    async def steer(self, event: SteeringEvent) -> None:
        """Insert the event, then add its id to the session's Redis stream, for those who watch."""
        await self._pool.execute(INSERT_STEERING, *rows.steering_row(event))
        await self._redis.xadd(self._stream(event.session_id), {"id": event.event_id})

    async def watch(self, session_id: str) -> AsyncGenerator[str | None]:
        """Yield the ids that the session's stream takes from the first None on."""
        stream = self._stream(session_id)
        last = await self._redis.xadd(stream, {"id": ""})
        yield None
        task = asyncio.current_task()
        # The client takes a cancellation for a lost connection and tries again: ask for ourselves.
        while task is None or not task.cancelling():
            for _, entries in await self._redis.xread({stream: last}, block=_BLOCK) or []:
                for _, fields in entries:
                    yield fields[b"id"].decode()
                last = entries[-1][0]

    def _stream(self, session_id: str) -> str:
        return f"{self._prefix}steering:{session_id}"


def _parsed(text: bytes | None) -> dict[str, Any] | None:
    found: dict[str, Any] | None = None if text is None else json.loads(text)
    return found
