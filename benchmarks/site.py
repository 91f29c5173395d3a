"""Where a run takes place: one directory, and servers that are started when first asked for."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from benchmarks.servers.cluster import cluster
from benchmarks.servers.postgres import postgres
from benchmarks.servers.redis import redis

T = TypeVar("T")


class Site:
    """The surroundings of a run. Servers and files are gone when the context is left."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._numbers = itertools.count(1)
        self._started: dict[str, Any] = {}
        self._root = Path()

    async def __aenter__(self) -> Self:
        root = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="foldlog-bench-"))
        self._root = Path(root)
        # PostgreSQL refuses to run as root; whoever it runs as has to get to its directory.
        self._root.chmod(0o755)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    def directory(self, name: str) -> Path:
        """A new directory, whose name stays short enough for a socket in it."""
        made = self._root / f"{next(self._numbers)}-{name}"
        made.mkdir(mode=0o700)
        return made

    async def postgres(self) -> str:
        """The DSN of the run's PostgreSQL. Raises Unavailable."""
        return await self._once("postgres", postgres)

    async def redis(self) -> str:
        """The URL of the run's Redis. Raises Unavailable."""
        return await self._once("redis", redis)

    async def cluster(self) -> tuple[str, ...]:
        """The URLs of the run's three nats-servers. Raises Unavailable."""
        return await self._once("cluster", cluster)

    async def _once(self, name: str, start: Callable[[Path], AbstractAsyncContextManager[T]]) -> T:
        if name not in self._started:
            context = start(self.directory(name))
            self._started[name] = await self._stack.enter_async_context(context)
        found: T = self._started[name]
        return found
