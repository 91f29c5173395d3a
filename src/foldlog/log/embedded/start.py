"""Starting a supervisor after whatever is left of an earlier one, and seeing its server ready."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from foldlog.errors import ConfigurationError
from foldlog.locks import LockFile, locked, pauses
from foldlog.log.embedded.layout import HOST, Description, Layout

ORPHAN_GRACE = 0.5
"""Seconds after which a nats-server that outlived its supervisor is killed. On Linux the kernel
does that at once; elsewhere nobody does."""

LOG_LIMIT = 1 << 20
"""Bytes of log above which a start begins a new one and renames the last to ``server.log.1``."""

TAIL_BYTES, TAIL_LINES = 4000, 10
"""How much of the end of the log an error shows at most."""

GREETING_TIMEOUT = 0.5
"""Seconds after which a connection that is not greeted is given up. Another process may have taken
the port and be waiting for the client to speak first."""

_SUPERVISOR = Path(__file__).with_name("supervisor.py")


@asynccontextmanager
async def earlier_server_ended(layout: Layout) -> AsyncIterator[tuple[LockFile, LockFile]]:
    """Wait until an earlier supervisor and server have ended; yield their locks, taken.

    The caller holds ``lifecycle.lock``. A nats-server without supervisor is killed.
    """
    async with locked(layout.supervisor_lock) as supervisor:
        with LockFile(layout.server_lock) as server:
            try:
                async with asyncio.timeout(ORPHAN_GRACE):
                    await server.lock()
            except TimeoutError:
                # Its supervisor is gone and cannot have written this pid for another process;
                # that the lock is still held says that the process is still there.
                orphan = layout.read_pid()
                if orphan is not None:
                    with suppress(ProcessLookupError):
                        os.kill(orphan, signal.SIGKILL)
                await server.lock()
            layout.pid_file.unlink(missing_ok=True)
            yield supervisor, server


async def start(layout: Layout, binary: str, description: Description) -> int:
    """Start a supervisor and its server, which is not ready yet.

    The caller holds ``lifecycle.lock`` and is a member. Returns the size of ``server.log`` before.
    """
    if getattr(sys, "frozen", False) or not sys.executable:
        raise ConfigurationError(
            "the embedded server needs a Python interpreter, which a frozen application lacks; "
            "start nats-server yourself and pass its URL"
        )
    async with earlier_server_ended(layout) as (supervisor, server):
        layout.write_description(description)  # others can join it if the caller is killed
        log_start = rotate(layout.log)
        _spawn(layout, binary, supervisor, server)
    return log_start


def _spawn(layout: Layout, binary: str, supervisor: LockFile, server: LockFile) -> None:
    """Run the supervisor, detached from this process, and let it have the two locks."""
    log = os.open(layout.log, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        with LockFile(layout.lifecycle_lock) as lifecycle, LockFile(layout.members_lock) as members:
            handed = (lifecycle, members, supervisor, server)
            inherited = [lock.fileno() for lock in handed]
            paths = (_SUPERVISOR, layout.directory, binary)
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", *map(str, (*paths, *inherited))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=inherited,
                start_new_session=True,
            )
            for lock in handed:
                lock.hand_over()
    finally:
        os.close(log)
    # What was started forks the supervisor and ends within milliseconds. It is reaped by a thread,
    # because a cancellation of the caller must not leave it a zombie.
    threading.Thread(target=process.wait, name="foldlog-reap-starter", daemon=True).start()


async def wait_until_ready(port: int, name: str, is_alive: Callable[[], bool]) -> str | None:
    """Wait for the server called `name` to listen on `port` and return its version.

    Returns None once it is not alive any more. The caller bounds the wait.
    """
    for pause in pauses():
        alive = is_alive()  # asked first: a server may be ready and die before it is seen
        greeting = await greeting_of(port)
        if greeting is not None and greeting.get("server_name") == name:
            return str(greeting.get("version"))
        if not alive:
            return None
        await asyncio.sleep(pause)
    raise AssertionError("unreachable: the pauses never end")


async def greeting_of(port: int) -> dict[str, Any] | None:
    """Return how the server on `port` introduces itself; None without a nats-server."""
    try:
        async with asyncio.timeout(GREETING_TIMEOUT):
            reader, writer = await asyncio.open_connection(HOST, port)
            try:
                return parse_greeting(await reader.readline())
            finally:
                writer.close()
    except (OSError, ValueError):  # refused, reset, too slow (TimeoutError), or an endless line
        return None


def parse_greeting(line: bytes) -> dict[str, Any] | None:
    """Return the facts of the INFO line that begins each connection; None when it is not one."""
    verb, _, facts = line.partition(b" ")
    try:
        greeting = json.loads(facts) if verb == b"INFO" else None
    except ValueError:
        return None
    return greeting if isinstance(greeting, dict) else None


def port_is_taken(port: int) -> bool:
    """Whether a process listens on `port` of the loopback interface, so that a server could not."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as nats-server does
        try:
            probe.bind((HOST, port))
        except OSError:
            return True
        return False


def log_tail(log: Path, start: int = 0) -> str:
    """Return the last lines of `log` from the byte `start` on."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(start, size - TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
    except FileNotFoundError:
        return ""
    return "\n".join(lines[-TAIL_LINES:])


def rotate(log: Path) -> int:
    """Begin a new log where the old one is long; return the size of the log."""
    size = log.stat().st_size if log.exists() else 0
    if size <= LOG_LIMIT:
        return size
    log.replace(log.with_name(log.name + ".1"))
    return 0
