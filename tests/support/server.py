"""One nats-server process that a test may kill, freeze and start again, always at one address."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.binary import nats_server
from tests.support.freezing import freeze
from tests.support.ports import free_ports

_START_TIMEOUT = 60.0


class LocalServer:
    """A server with JetStream that syncs always, up while the context is entered.

    Its data is in `directory` and stays when it is killed.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        [self._port] = free_ports(1)
        self._password = secrets.token_hex(16)
        self._process: asyncio.subprocess.Process | None = None
        self._log: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Where it listens, whether it runs or not; with credentials."""
        return f"nats://test:{self._password}@127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.kill()

    async def start(self) -> None:
        """Start it; returns when it takes clients."""
        assert self._process is None, "it runs already"
        binary = nats_server()
        assert binary is not None, "no nats-server is installed here"
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "nats.conf"
        config.write_text(
            f'listen: "127.0.0.1:{self._port}"\n'
            f'authorization {{ user: test, password: "{self._password}" }}\n'
            f'jetstream {{ store_dir: "{self.directory}", sync_interval: always }}\n'
        )
        process = self._process = await asyncio.create_subprocess_exec(
            binary, "-c", str(config), stderr=asyncio.subprocess.PIPE
        )
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._log = asyncio.create_task(_follow(process, ready))
        async with asyncio.timeout(_START_TIMEOUT):
            await ready

    async def kill(self) -> None:
        """End it with SIGKILL and see it gone. One that is down is left."""
        process, self._process = self._process, None
        if process is None or self._log is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await self._log

    @property
    def pid(self) -> int:
        """Of the process that runs."""
        assert self._process is not None
        return self._process.pid

    async def ended(self) -> None:
        """See it gone, when something else ends it."""
        assert self._process is not None
        await self._process.wait()
        await self.kill()

    def freeze(self) -> None:
        """Stop it with SIGSTOP: it keeps its connections and answers nothing, until `thaw`."""
        assert self._process is not None
        freeze(self._process.pid)

    def thaw(self) -> None:
        """Let a frozen server go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


async def _follow(process: asyncio.subprocess.Process, ready: asyncio.Future[None]) -> None:
    """Read its log to the end, so that its pipe never fills."""
    assert process.stderr is not None
    last: deque[str] = deque(maxlen=50)
    async for line in process.stderr:
        last.append(line.decode(errors="replace").rstrip())
        if "Server is ready" in last[-1] and not ready.done():
            ready.set_result(None)
    if not ready.done():
        ready.set_exception(AssertionError("\n".join(last)))
