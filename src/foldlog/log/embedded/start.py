"""Starting a supervisor, once the way is clear."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Self

from foldlog.errors import ConfigurationError
from foldlog.log.embedded.config import render
from foldlog.log.embedded.layout import Description, Layout, write_private
from foldlog.log.embedded.locks import LockFile, locked

ORPHAN_GRACE = 0.5
"""Seconds after which a nats-server that outlived its supervisor is killed. On Linux the kernel
does that at once; elsewhere nobody does."""

LOG_LIMIT = 1 << 20
"""Bytes of log above which a start begins a new one; the last is kept as ``server.log.1``."""

TAIL_BYTES, TAIL_LINES = 4000, 10
"""How much of the end of the log an error shows at most."""

_SUPERVISOR = Path(__file__).with_name("supervisor.py")


class Launch:
    """A server that is being started; a context manager for the one who started it.

    Until it is confirmed, or the block is left, or the starter is killed, the supervisor takes it
    for a failed start when the server ends by itself, and ends too.
    """

    def __init__(self, log: Path, log_start: int, word: int) -> None:
        self._log = log
        self._log_start = log_start
        self._word = word

    def confirm(self) -> bool:
        """Tell the supervisor to keep the server up from now on. False when it is gone."""
        try:
            os.write(self._word, b".")
        except BrokenPipeError:
            return False
        return True

    def log_tail(self) -> str:
        """Return the end of what was logged since the start."""
        return log_tail(self._log, self._log_start)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        os.close(self._word)


@asynccontextmanager
async def way_cleared(layout: Layout) -> AsyncIterator[tuple[LockFile, LockFile]]:
    """Wait until nothing is left of a former server; hold the locks of supervisor and server.

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


async def start(layout: Layout, binary: str, description: Description) -> Launch:
    """Start a supervisor and its server, which is not ready yet.

    The caller holds ``lifecycle.lock`` and is a member. Whatever happens to it, the supervisor goes
    by the members alone, and ``server.json`` is there before the start, so that others can join
    where a starter was killed.
    """
    if getattr(sys, "frozen", False) or not sys.executable:
        raise ConfigurationError(
            "the embedded server needs a Python interpreter, which a frozen application lacks; "
            "start nats-server yourself and pass its URL"
        )
    async with way_cleared(layout) as (supervisor, server):
        write_private(layout.config, render(description))
        write_private(layout.description, description.encode())
        log_start = _rotate(layout.log)
        heard, word = os.pipe()
        try:
            _spawn(layout, binary, heard, supervisor, server)
        except BaseException:
            os.close(word)
            raise
        finally:
            os.close(heard)
        return Launch(layout.log, log_start, word)


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


def _rotate(log: Path) -> int:
    """Return the size of the log, 0 after a new one was begun."""
    try:
        size = log.stat().st_size
    except FileNotFoundError:
        return 0
    if size <= LOG_LIMIT:
        return size
    log.replace(log.with_name(log.name + ".1"))
    return 0


def _spawn(layout: Layout, binary: str, stdin: int, supervisor: LockFile, server: LockFile) -> None:
    """Run the supervisor, detached from this process, and let it have the two locks."""
    log = os.open(layout.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        with LockFile(layout.lifecycle_lock) as lifecycle, LockFile(layout.members_lock) as members:
            inherited = [lock.fileno() for lock in (lifecycle, members, supervisor, server)]
            paths = (layout.directory, binary, layout.config, layout.pid_file, layout.description)
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", _SUPERVISOR, *paths, *map(str, inherited)],
                stdin=stdin,
                stdout=log,
                stderr=log,
                pass_fds=inherited,
                start_new_session=True,
            )
            supervisor.hand_over()
            server.hand_over()
            lifecycle.hand_over()
            members.hand_over()
    finally:
        os.close(log)
    # What was started forks the supervisor and ends within milliseconds. It is reaped by a thread,
    # because a cancellation of the caller must not leave it a zombie.
    threading.Thread(target=process.wait, name="foldlog-reap-starter", daemon=True).start()
