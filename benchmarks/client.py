"""HTTP as the scenario of streams asks by it: one client for all servers, as thin as can be.

A client of a package would take longer for a request than the servers.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, Self

SECONDS: Final = 60.0
"""How long an answer may take."""

_TOGETHER: Final = 50
"""Readers that connect at a time."""

_HEAD_ENDS: Final = b"\r\n\r\n"
# A line of events: before it, a server may not have looked where the stream ends.
_SAID: Final = re.compile(rb"^(data)?:", re.MULTILINE)
_NUMBER: Final = re.compile(rb'"nth": ?(\d+)')

OnEvent = Callable[[int, float], None]
"""Called with an event's number, and when it came by `time.perf_counter`."""


class Answer(NamedTuple):
    """An answer, and the seconds from its request to the first byte of its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    first: float


class Connection:
    """Asks one thing at a time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def ask(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes = b""
    ) -> Answer:
        """Ask, and have all of the answer. Raises TimeoutError."""
        async with asyncio.timeout(SECONDS):
            if self._reader.at_eof():  # a server closes what is idle for some seconds
                await self.__aenter__()
            began = time.perf_counter()
            self._writer.write(_request(method, target, headers, body))
            status, found = _head(await self._reader.readuntil(_HEAD_ENDS))
            if found.get("transfer-encoding") == "chunked":
                parts, first = [await self._chunk()], time.perf_counter() - began
                while parts[-1]:
                    parts.append(await self._chunk())
                return Answer(status, found, b"".join(parts), first)
            size = 0 if status in (204, 304) else int(found["content-length"])
            start = await self._reader.readexactly(min(size, 1))
            first = time.perf_counter() - began
            rest = await self._reader.readexactly(size - len(start))
            return Answer(status, found, start + rest, first)

    async def _chunk(self) -> bytes:
        size = int((await self._reader.readuntil(b"\r\n")).partition(b";")[0], 16)
        return (await self._reader.readexactly(size + 2))[:-2]


class _Follower(asyncio.Protocol):
    """Follows a stream of events."""

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event
        self._line = b""
        self.begun = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        """Say what has come, line by line."""
        now = time.perf_counter()
        lines, _, rest = (self._line + data).rpartition(b"\n")
        self._line = rest
        if _SAID.search(lines):
            self.begun.set()
        for found in _NUMBER.finditer(lines):
            self._on_event(int(found[1]), now)


@asynccontextmanager
async def following(port: int, target: str, count: int, on_event: OnEvent) -> AsyncIterator[None]:
    """Have so many readers follow a stream of events, each by a connection of its own."""
    loop, transports = asyncio.get_running_loop(), list[asyncio.Transport]()

    async def begin() -> None:
        transport, follower = await loop.create_connection(
            lambda: _Follower(on_event), "127.0.0.1", port
        )
        transports.append(transport)
        transport.write(_request("GET", target, {"accept": "text/event-stream"}))
        async with asyncio.timeout(SECONDS):
            await follower.begun.wait()

    try:
        for start in range(0, count, _TOGETHER):
            async with asyncio.TaskGroup() as group:
                for _ in range(min(count - start, _TOGETHER)):
                    group.create_task(begin())
        yield
    finally:
        for transport in transports:
            transport.abort()


def _request(method: str, target: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "host: 127.0.0.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def _head(block: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = block.decode("latin-1").strip().split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return int(first.split()[1]), {name.lower(): value.strip() for name, _, value in pairs}
