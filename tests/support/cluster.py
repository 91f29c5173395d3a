"""Three nats-server processes on this machine, as the cluster that `compose.yaml` describes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import re
import secrets
import signal
import tempfile
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import nats
import nats.errors
from nats.js.api import StorageType, StreamConfig
from nats.js.errors import APIError

from tests.support.binary import nats_server
from tests.support.freezing import freeze
from tests.support.ports import free_ports

_CONFIG = Path(__file__).parents[2] / "deploy" / "nats-server.conf"
_SIZE = 3
_START_TIMEOUT = 60.0  # seconds; an election takes up to ten
_LEADER_KNOWN = re.compile(r"new (remote |JetStream cluster )?metadata leader")
_LEADS = re.compile(r"JetStream cluster new stream leader for '.* > (\S+)'")
_USER = "foldlog"


class NodeFailedError(Exception):
    """A server of the cluster ended before it had joined; carries the end of its log."""


@dataclass
class _Running:
    """One life of a server. `joined` settles when its log says so, or when the log ends."""

    process: asyncio.subprocess.Process
    joined: asyncio.Future[None]
    log: deque[str] = field(default_factory=lambda: deque(maxlen=50))

    async def follow_log(self, led: dict[str, int]) -> None:
        """Read the log until the process ends, so that neither its pipe nor our memory fills.

        `led` learns by stream when the node said that it leads it.
        """
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            text = line.decode(errors="replace").rstrip()
            self.log.append(text)
            if _LEADER_KNOWN.search(text) and not self.joined.done():
                self.joined.set_result(None)
            if leads := _LEADS.search(text):
                led[leads[1]] = time.monotonic_ns()
        if not self.joined.done():
            self.joined.set_exception(NodeFailedError("\n".join(self.log)))


class LocalCluster:
    """A JetStream cluster of three local servers, up and led while the context is entered.

    The servers run `deploy/nats-server.conf` on loopback, with random ports and passwords that
    stay the same when one is killed and started again, as does its data. Nodes are counted 0 to
    2; `names` are what stream infos call them. `detours`, set before entering, say by which port a
    node reaches another instead of by its route port. `led` tells by stream when a node last said
    that it leads it, of `time.monotonic_ns()`. Everything is gone when the context is left.
    Raises NodeFailedError when a server does not come up.
    """

    def __init__(self) -> None:
        ports = free_ports(2 * _SIZE)
        self.names = tuple(f"node-{number}" for number in range(_SIZE))
        self._client_ports, self.route_ports = ports[:_SIZE], ports[_SIZE:]
        self.detours: dict[tuple[int, int], int] = {}
        self.led: dict[str, int] = {}
        self._password = secrets.token_hex(16)
        self._route_password = secrets.token_hex(16)
        self._running: dict[int, tuple[_Running, asyncio.Task[None]]] = {}
        self._directory = tempfile.TemporaryDirectory(prefix="foldlog-cluster-")

    @property
    def urls(self) -> tuple[str, ...]:
        """One URL a node, credentials included, whether it runs or not."""
        return tuple(
            f"nats://{_USER}:{self._password}@127.0.0.1:{port}" for port in self._client_ports
        )

    async def __aenter__(self) -> Self:
        try:
            async with asyncio.TaskGroup() as group:
                for node in range(_SIZE):
                    group.create_task(self.start(node))
            async with asyncio.timeout(_START_TIMEOUT):
                await self._placeable()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self, node: int) -> None:
        """Start a node that is down; returns once it knows the cluster's JetStream leader.

        There is a leader only among two: after killing more than one, start them together.
        """
        assert node not in self._running, f"{self.names[node]} runs already"
        binary = nats_server()
        assert binary is not None, "no nats-server is installed here"
        process = await asyncio.create_subprocess_exec(
            binary,
            "-c",
            str(_CONFIG),
            # Nodes tell each other where they are reached, which would lead past the detours.
            *(["--cluster_advertise", "127.0.0.1:1"] if self.detours else []),
            env=os.environ | self._environment(node),
            stderr=asyncio.subprocess.PIPE,
        )
        running = _Running(process, asyncio.get_running_loop().create_future())
        self._running[node] = running, asyncio.create_task(running.follow_log(self.led))
        async with asyncio.timeout(_START_TIMEOUT):
            await running.joined

    async def kill(self, node: int) -> None:
        """End a node with SIGKILL and see it gone; its data stays. A node that is down is left."""
        if node not in self._running:
            return
        running, follower = self._running.pop(node)
        with contextlib.suppress(ProcessLookupError):
            running.process.kill()
        await running.process.wait()
        await follower
        if not running.joined.cancelled():
            running.joined.exception()  # whoever waited for it was told; nobody else needs to be

    def freeze(self, node: int) -> None:
        """Stop a node with SIGSTOP: it keeps its connections and answers nothing, until `thaw`."""
        freeze(self._running[node][0].process.pid)

    def thaw(self, node: int) -> None:
        """Let a frozen node go on."""
        self._running[node][0].process.send_signal(signal.SIGCONT)

    async def stop(self) -> None:
        """Kill every node and remove the data. The cluster cannot be used again."""
        for node in range(_SIZE):
            await self.kill(node)
        self._directory.cleanup()

    async def _placeable(self) -> None:
        """Return once the leader places a stream on all three nodes.

        It refuses until each has sent it statistics, about which no client is told. An attempt
        is a new client of the next node, so it is paced by its own handshake.
        """
        probe = StreamConfig(name="probe", num_replicas=_SIZE, storage=StorageType.MEMORY)
        for url in itertools.cycle(self.urls):
            async with await nats.connect(url) as client:
                jetstream = client.jetstream()
                try:
                    await jetstream.add_stream(probe)
                except (APIError, nats.errors.TimeoutError):
                    continue
                await jetstream.delete_stream("probe")
                return

    def _ports_from(self, node: int) -> list[int]:
        if not self.detours:
            return self.route_ports
        return [self.detours[node, other] for other in range(_SIZE) if other != node]

    def _environment(self, node: int) -> dict[str, str]:
        """The variables of `deploy/nats-server.conf`, whose strings are quoted as in JSON."""
        values: dict[str, str | list[str]] = {
            "NATS_NAME": self.names[node],
            "NATS_LISTEN": f"127.0.0.1:{self._client_ports[node]}",
            "NATS_MONITOR": "127.0.0.1:-1",
            "NATS_STORE_DIR": str(Path(self._directory.name, self.names[node])),
            "NATS_USER": _USER,
            "NATS_PASSWORD": self._password,
            "NATS_ROUTE_LISTEN": f"127.0.0.1:{self.route_ports[node]}",
            "NATS_ROUTE_PASSWORD": self._route_password,
            "NATS_ROUTES": [
                f"nats-route://route:{self._route_password}@127.0.0.1:{port}"
                for port in self._ports_from(node)
            ],
        }
        return {name: json.dumps(value) for name, value in values.items()}
