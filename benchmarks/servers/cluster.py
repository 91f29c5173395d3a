"""Three nats-server processes on this machine, configured as a cluster of foldlog's is."""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import nats
import nats.errors
from nats.js.api import StorageType, StreamConfig
from nats.js.errors import APIError

from benchmarks.servers.process import running
from benchmarks.unavailable import Unavailable
from foldlog.errors import ServerStartFailed
from foldlog.log.embedded.binary import find_binary

_CONFIG: Final = Path(__file__).parents[2] / "deploy" / "nats-server.conf"
_NODES: Final = range(3)
_USER: Final = "foldlog"
_LEADER_KNOWN: Final = "new (remote |JetStream cluster )?metadata leader"
_PLACING_TIMEOUT: Final = 60.0  # seconds; an election takes up to ten


@asynccontextmanager
async def cluster(directory: Path) -> AsyncIterator[tuple[str, ...]]:
    """Yield the URLs, credentials included, of three servers that place streams of three replicas.

    They run `deploy/nats-server.conf`, which syncs every write, on loopback.
    """
    try:
        binary = find_binary()
    except ServerStartFailed as error:
        raise Unavailable(str(error)) from error
    ports = _free_ports(2 * len(_NODES))
    clients, routes = ports[: len(_NODES)], ports[len(_NODES) :]
    password, route_password = secrets.token_hex(16), secrets.token_hex(16)
    urls = tuple(f"nats://{_USER}:{password}@127.0.0.1:{port}" for port in clients)

    def environment(node: int) -> dict[str, str]:
        values: dict[str, str | list[str]] = {
            "NATS_NAME": f"node-{node}",
            "NATS_LISTEN": f"127.0.0.1:{clients[node]}",
            "NATS_MONITOR": "127.0.0.1:-1",
            "NATS_STORE_DIR": str(directory / f"node-{node}"),
            "NATS_USER": _USER,
            "NATS_PASSWORD": password,
            "NATS_ROUTE_LISTEN": f"127.0.0.1:{routes[node]}",
            "NATS_ROUTE_PASSWORD": route_password,
            "NATS_ROUTES": [
                f"nats-route://route:{route_password}@127.0.0.1:{port}" for port in routes
            ],
        }
        return {name: json.dumps(value) for name, value in values.items()}

    async with AsyncExitStack() as stack:
        # None is ready before there is a leader, and there is a leader only among two.
        await asyncio.gather(
            *(
                stack.enter_async_context(
                    running(
                        [binary, "-c", str(_CONFIG)],
                        ready=_LEADER_KNOWN,
                        environment=environment(node),
                    )
                )
                for node in _NODES
            )
        )
        try:
            async with asyncio.timeout(_PLACING_TIMEOUT):
                await _placeable(urls)
        except TimeoutError:
            raise Unavailable("three local servers never placed a stream") from None
        yield urls


async def _placeable(urls: tuple[str, ...]) -> None:
    """Return once the leader places a stream on all nodes.

    It refuses until each has sent it statistics, about which no client is told. An attempt is a
    new client of the next node, so it is paced by its own handshake.
    """
    probe = StreamConfig(name="probe", num_replicas=len(_NODES), storage=StorageType.MEMORY)
    for url in itertools.cycle(urls):
        async with await nats.connect(url) as client:
            jetstream = client.jetstream()
            try:
                await jetstream.add_stream(probe)
            except (APIError, nats.errors.TimeoutError):
                continue
            await jetstream.delete_stream("probe")
            return


def _free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on: all held at once, so that they differ."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
