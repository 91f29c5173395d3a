"""Streams over HTTP: foldlog's, the protocol's own reference server, and Redis behind FastAPI."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any, ClassVar, Final

from benchmarks.client import Connection
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.servers.process import run, running
from benchmarks.site import Site
from benchmarks.unavailable import Unavailable

_PACKAGE: Final = "@durable-streams/server@0.3.7"
_SERVE: Final = """
import { DurableStreamTestServer } from "@durable-streams/server"
const [port, dataDir] = process.argv.slice(2)
const server = new DurableStreamTestServer({ port: Number(port), host: "127.0.0.1", dataDir })
process.on("SIGTERM", () => process.exit(0))
await server.start()
console.log("is served")
"""
_HEADERS: Final = {"content-type": "application/json"}


class Streams:
    """Serves streams over HTTP, in a process of its own."""

    name: ClassVar[str]
    promise: ClassVar[str]
    loads_by: ClassVar[int] = 1
    """Events of an append of those that are caught up with."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.port: int
        self._serving = AsyncExitStack()

    async def open(self) -> None:
        """Begin to serve."""
        with socket.create_server(("127.0.0.1", 0)) as found:
            self.port = found.getsockname()[1]
        await self._serving.enter_async_context(self._served(self.port))

    async def restart(self) -> None:
        """Serve by a new process."""
        await self._serving.aclose()
        await Streams.open(self)

    async def facts(self) -> dict[str, str]:
        """The versions and settings in effect."""
        raise NotImplementedError

    async def close(self) -> None:
        """Serve no longer."""
        await self._serving.aclose()

    def _served(self, port: int) -> AbstractAsyncContextManager[Any]:
        """The process that serves."""
        raise NotImplementedError

    @asynccontextmanager
    async def connections(self, count: int) -> AsyncIterator[Sequence[Connection]]:
        """So many clients."""
        async with AsyncExitStack() as stack:
            connections = [Connection(self.port) for _ in range(count)]
            yield [await stack.enter_async_context(each) for each in connections]


async def create(connection: Connection, path: str) -> None:
    """Make a stream of JSON."""
    answer = await connection.ask("PUT", path, _HEADERS)
    assert answer.status in (200, 201), answer


async def append(connection: Connection, path: str, event: bytes) -> None:
    """Append an event; it has returned when the promise holds."""
    answer = await connection.ask("POST", path, _HEADERS, event)
    assert answer.status in (200, 204), answer


async def catch_up(connection: Connection, path: str) -> tuple[float, int]:
    """Read a stream from its beginning; when its first byte came, and how many events it has."""
    answer = await connection.ask("GET", f"{path}?offset=-1", {})
    first, count = answer.first, len(json.loads(answer.body))
    while "stream-up-to-date" not in answer.headers:
        offset = answer.headers["stream-next-offset"]
        answer = await connection.ask("GET", f"{path}?offset={offset}", {})
        count += len(json.loads(answer.body))
    return first, count


class FoldlogStreams(Streams):
    """`foldlog serve --http`, beside a store of this process."""

    name: ClassVar[str] = "foldlog streams"
    promise: ClassVar[str] = Foldlog.promise

    async def open(self) -> None:
        """Open the store, whose server is used by both."""
        self._foldlog = Foldlog(self._site)
        await self._foldlog.open()
        self.store = self._foldlog.store
        await super().open()

    async def facts(self) -> dict[str, str]:
        """What the store knows of its server."""
        return await self._foldlog.facts() | {"uvicorn": metadata.version("uvicorn")}

    async def close(self) -> None:
        """Close the store last."""
        await super().close()
        await self._foldlog.close()

    def _served(self, port: int) -> AbstractAsyncContextManager[Any]:
        command = [sys.executable, "-m", "foldlog", "serve", "--path", self._foldlog.where]
        return running([*command, "--json", "--http", str(port)], ready='"http"')


class ReferenceServer(Streams):
    """`@durable-streams/server` of npm, which keeps files."""

    name: ClassVar[str] = "Durable Streams reference server"
    promise: ClassVar[str] = "fsynced file and metadata (LMDB)"
    loads_by: ClassVar[int] = 100  # one by one takes it minutes

    async def open(self) -> None:
        """Install it, and serve."""
        if shutil.which("npm") is None or shutil.which("node") is None:
            raise Unavailable("there is no npm or no node here")
        self._path = self._site.directory("node")
        (self._path / "package.json").write_text('{"private": true, "type": "module"}')
        (self._path / "serve.js").write_text(_SERVE)
        options = ("--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
        await run(["npm", "install", "--prefix", str(self._path), *options, _PACKAGE])
        self._data = self._site.directory("reference")
        await super().open()

    async def facts(self) -> dict[str, str]:
        """Its version, and that of Node."""
        node = await asyncio.create_subprocess_exec(
            "node", "--version", stdout=asyncio.subprocess.PIPE
        )
        said, _ = await node.communicate()
        installed = self._path / "node_modules/@durable-streams/server/package.json"
        version = json.loads(installed.read_text())["version"]
        return {"@durable-streams/server": version, "node": said.decode().strip()}

    def _served(self, port: int) -> AbstractAsyncContextManager[Any]:
        command = ["node", str(self._path / "serve.js"), str(port), str(self._data)]
        return running(command, ready="is served")


class RedisStreams(Streams):
    """Redis streams behind FastAPI: see `benchmarks.servers.redis_streams`."""

    name: ClassVar[str] = "Redis streams, FastAPI"
    promise: ClassVar[str] = "fsynced append-only file (appendfsync always)"

    async def open(self) -> None:
        """Serve what the run's Redis has, below a prefix that no other contender uses."""
        if not all(find_spec(each) for each in ("fastapi", "uvicorn", "redis")):
            raise Unavailable("fastapi, uvicorn or redis is not installed")
        self._url = await self._site.redis()
        await super().open()

    async def facts(self) -> dict[str, str]:
        """What Redis says of itself."""
        from_url = import_module("redis.asyncio").from_url
        facts = {name: metadata.version(name) for name in ("fastapi", "uvicorn")}
        async with from_url(self._url, decode_responses=True) as redis:
            facts |= await redis.config_get("appendonly", "appendfsync")
            facts["redis_version"] = (await redis.info("server"))["redis_version"]
        return facts

    def _served(self, port: int) -> AbstractAsyncContextManager[Any]:
        command = [sys.executable, "-m", "benchmarks.servers.redis_streams", self._url, str(port)]
        return running(command, ready="running on")
