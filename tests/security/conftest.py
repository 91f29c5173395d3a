"""The server of `deploy/nats-tenants.conf`, and stores of both its tenants."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import foldlog
from tests.security.server import Certificates, free_port, running, secret

CONFIG = Path(__file__).parents[2] / "deploy" / "nats-tenants.conf"


@dataclass
class Tenant:
    """How one account signs in."""

    url: str
    user: str
    password: str
    trust: ssl.SSLContext

    @property
    def options(self) -> dict[str, Any]:
        """What `nats.connect` takes, and so `foldlog.connect`."""
        return {"user": self.user, "password": self.password, "tls": self.trust}

    def connect(self, **options: Any) -> foldlog.Connecting:
        return foldlog.connect(self.url, **{**self.options, **options})


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def tenants(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[Tenant, Tenant]]:
    """Both tenants of one server."""
    directory = tmp_path_factory.mktemp("tenants")
    certificates = Certificates(directory)
    port = free_port()
    passwords = {"acme": secret(), "globex": secret()}
    environment = {
        "NATS_NAME": "tenants",
        "NATS_LISTEN": f"127.0.0.1:{port}",
        "NATS_CERT": str(certificates.certificate),
        "NATS_KEY": str(certificates.key),
        "NATS_STORE_DIR": str(directory / "data"),
        "ACME_PASSWORD": passwords["acme"],
        "GLOBEX_PASSWORD": passwords["globex"],
    }
    async with running(CONFIG, environment):
        acme, globex = (
            Tenant(f"nats://localhost:{port}", user, password, certificates.trusting())
            for user, password in passwords.items()
        )
        yield acme, globex
