"""A nats-server with a configuration of the test's own: TLS, accounts, keys."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import trustme

from tests.support.binary import nats_server
from tests.support.ports import free_ports

PATIENCE = 60.0
"""Seconds after which a server that does not start is taken to hang."""


def free_port() -> int:
    return free_ports(1)[0]


class Certificates:
    """A certificate authority, and a server's certificate for localhost in files."""

    def __init__(self, directory: Path) -> None:
        self.authority = trustme.CA()
        issued = self.authority.issue_cert("localhost")
        self.certificate, self.key = directory / "cert.pem", directory / "key.pem"
        issued.cert_chain_pems[0].write_to_path(self.certificate)
        issued.private_key_pem.write_to_path(self.key)

    def trusting(self) -> ssl.SSLContext:
        """A client's context that trusts the authority."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        return context


@asynccontextmanager
async def running(config: Path, environment: Mapping[str, object]) -> AsyncIterator[None]:
    """Run a server with this configuration, which gets the values as it reads them: quoted."""
    binary = nats_server()
    assert binary is not None, "no nats-server is installed here"
    quoted = {name: json.dumps(value) for name, value in environment.items()}
    process = await asyncio.create_subprocess_exec(
        binary, "-c", str(config), env=os.environ | quoted, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    lines: list[str] = []
    try:
        async with asyncio.timeout(PATIENCE):
            async for line in process.stderr:
                lines.append(line.decode(errors="replace"))
                if "Server is ready" in lines[-1]:
                    break
            else:
                raise AssertionError("".join(lines))
        rest = asyncio.create_task(process.stderr.read())
        yield
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    await rest


def secret() -> str:
    return secrets.token_hex(16)
