"""The embedded server: on loopback alone, for those alone who may read its data directory."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
from pathlib import Path

import pytest

from foldlog.log.embedded import EmbeddedServer

if not Path("/proc/self/net/tcp").exists():
    pytest.skip("sockets are listed by Linux's /proc", allow_module_level=True)

LISTEN = "0A"
LOOPBACK = "0100007F"  # 127.0.0.1, as /proc writes it on a little-endian machine


@pytest.fixture
async def server(embedded_path: Path) -> EmbeddedServer:
    joined = await EmbeddedServer.join(embedded_path, timeout=60)
    await joined.leave()  # the test run's own membership keeps it
    return joined


def listening(pid: int) -> set[tuple[str, int]]:
    """The addresses, as /proc has them, and ports on which a process listens."""
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(entry)
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTEN and fields[9] in inodes:
                address, _, port = fields[1].partition(":")
                found.add((address, int(port, 16)))
    return found


def shown(pid: int) -> str:
    """What other users of a machine may see of a process, and more."""
    return "".join(Path(f"/proc/{pid}/{name}").read_text() for name in ("cmdline", "environ"))


async def test_it_listens_on_loopback_and_nowhere_else(server: EmbeddedServer) -> None:
    assert server.pid is not None
    assert listening(server.pid) == {(LOOPBACK, server.port)}


async def test_no_other_address_of_the_machine_answers(server: EmbeddedServer) -> None:
    addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)}
    addresses |= {"127.0.0.2", "::1"}
    for address in sorted(addresses - {"127.0.0.1"}):
        with pytest.raises(OSError, match=r"failed|refused|unreachable|assign"):
            await asyncio.open_connection(address, server.port)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"user": "foldlog", "pass": "foldlog"},
        {"user": "", "pass": ""},
        {"auth_token": ""},
        None,
    ],
    ids=repr,
)
async def test_who_does_not_know_the_password_learns_nothing(
    server: EmbeddedServer, options: dict[str, str] | None
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    told = json.loads((await reader.readline()).removeprefix(b"INFO "))
    assert told["auth_required"] is True
    assert server.user not in json.dumps(told)
    asked = b"SUB > 1\r\nPUB $JS.API.STREAM.NAMES reply 0\r\n\r\nPING\r\n"
    if options is not None:
        asked = f"CONNECT {json.dumps({'verbose': False, **options})}\r\n".encode() + asked
    # In one piece: a server that hangs up on what it has not read resets, and its answer is lost.
    writer.write(asked)
    answer = await reader.read()  # to the end: it hangs up
    assert b"Authorization Violation" in answer
    assert b"MSG" not in answer
    writer.close()
    await writer.wait_closed()


async def test_only_its_owner_may_read_the_credentials(server: EmbeddedServer) -> None:
    assert stat.S_IMODE(server.path.stat().st_mode) == 0o700
    for name in ("server.json", "nats.conf"):
        assert stat.S_IMODE((server.path / name).stat().st_mode) == 0o600
    assert len(server.password) == 64
    assert server.password not in server.log_file.read_text()
    assert server.pid is not None
    assert server.password not in shown(server.pid)
