"""A nats-server in a container, where a Docker engine answers."""

from __future__ import annotations

import gc
import secrets
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

import requests
from docker.client import DockerClient
from docker.errors import DockerException, ImageNotFound
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from tests.support.binary import nats_server

IMAGE = "nats:2.15-alpine"

# The reaper is one more image to pull; the context manager below removes its own container.
testcontainers_config.ryuk_disabled = True

_ENGINE_TIMEOUT = 60  # seconds, for one answer of the engine
_USER = "foldlog"
_CONFIG = """
listen: "0.0.0.0:4222"
max_payload: 8MB
authorization {{ user: "{user}", password: "{password}" }}
jetstream {{ store_dir: "/data", sync_interval: always }}
"""
_DOCKERFILE = """
FROM scratch
COPY nats-server /nats-server
ENTRYPOINT ["/nats-server"]
"""


class ImageUnavailableError(Exception):
    """The engine answers, but the server's image can neither be pulled nor built."""


@cache
def docker_reason() -> str | None:
    """Why containers cannot run here, in one line; None where a Docker engine answers."""
    reason = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            with closing(_engine()) as engine:
                engine.ping()  # type: ignore[no-untyped-call]
        except (DockerException, requests.RequestException) as error:
            reason = f"no Docker engine answers: {error}"
        # The client leaves the socket of a refused connection to the collector; have it warn
        # here rather than in the middle of somebody's test.
        gc.collect()
    return reason


@contextmanager
def nats_container() -> Iterator[str]:
    """Run a fresh nats-server in a container; the URL has a random password in it.

    JetStream is on, an ack means fsynced, and a message may take 8 MB. Container and data are
    removed at the end. Raises ImageUnavailableError, or the engine's own error when it refuses.
    """
    with closing(_engine()) as engine:
        _provide_image(engine)
    password = secrets.token_hex(16)
    container = (
        DockerContainer(IMAGE)
        .with_exposed_ports(4222)
        .with_command(["-c", "/nats-server.conf"])
        .with_copy_into_container(
            _CONFIG.format(user=_USER, password=password).encode(), "/nats-server.conf"
        )
        .waiting_for(
            LogMessageWaitStrategy("Server is ready")
            .with_startup_timeout(_ENGINE_TIMEOUT)
            .with_poll_interval(0.05)
        )
    )
    with container:
        address = f"{container.get_container_host_ip()}:{container.get_exposed_port(4222)}"
        yield f"nats://{_USER}:{password}@{address}"


def _engine() -> DockerClient:
    engine: DockerClient = DockerClient.from_env(  # type: ignore[no-untyped-call]
        timeout=_ENGINE_TIMEOUT
    )
    return engine


def _provide_image(engine: DockerClient) -> None:
    """Have IMAGE on the engine: what is there already, else the published one, else our own."""
    try:
        engine.images.get(IMAGE)
    except ImageNotFound:
        try:
            engine.images.pull(IMAGE)
        except (DockerException, requests.RequestException) as error:
            _build_image(engine, pull_error=error)


def _build_image(engine: DockerClient, *, pull_error: Exception) -> None:
    """Tag an image of nothing but the installed server, which is static on Linux, as IMAGE."""
    binary = nats_server()
    if binary is None or sys.platform != "linux":
        raise ImageUnavailableError(
            f"{IMAGE} cannot be pulled, and this machine has no Linux nats-server to build it from"
        ) from pull_error
    with tempfile.TemporaryDirectory() as context:
        shutil.copy2(binary, Path(context, "nats-server"))
        Path(context, "Dockerfile").write_text(_DOCKERFILE)
        engine.images.build(path=context, tag=IMAGE, rm=True)
