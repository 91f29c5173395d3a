"""Membership in the server of a data directory: join it, starting it if need be, and leave it."""

# Four lock files, always taken in this order:
#
# - lifecycle, exclusive: to become a member, to start a supervisor, to stop the server. Nobody
#   holds it while waiting for a server to be ready, which may take long.
# - members, shared: every member, for its life. Exclusive: only to ask whether there are members.
# - supervisor, exclusive: the supervisor, for its life.
# - server, exclusive: supervisor and nats-server, until both have ended.
#
# Nobody waits for ever. The caller's timeout bounds every wait but the supervisor's.
#
# 1. A supervisor that finds no member refuses a joiner, which holds lifecycle. It lets go of
#    members before it asks for lifecycle, so the joiner's next attempt succeeds.
# 2. A supervisor that stops holds lifecycle and members to its end. Joiners wait and hold nothing.
#    The stop is bounded: a nats-server that lingers is killed.
# 3. A starter waits, with lifecycle and members (shared), for an old supervisor to end. That one
#    wants lifecycle only before it decides to end; one whose server.json exists is joined.
# 4. A second starter finds the first one's supervisor and waits for its server without a lock. If
#    the first is killed, its supervisor has another member or stops.
# 5. A leaver gives members up, then takes lifecycle briefly, again and again, until the server has
#    ended or another member is found.

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, Self, get_args

from foldlog.errors import (
    ConfigurationError,
    LogTimeout,
    LogUnavailable,
    ServerStartFailed,
    StoreClosed,
)
from foldlog.locks import LockFile, is_held, locked, pauses, require_flock
from foldlog.log.embedded.binary import check_version, find_binary
from foldlog.log.embedded.layout import HOST, Description, Durability, Layout
from foldlog.log.embedded.staging import Staging
from foldlog.log.embedded.start import (
    earlier_server_ended,
    log_tail,
    port_is_taken,
    start,
    wait_until_ready,
)

_log: Final = logging.getLogger("foldlog.embedded")

LEAVE_TIMEOUT = 15.0
"""Seconds that the last member waits for the server to end, which takes milliseconds."""


class EmbeddedServer:
    """One member of the nats-server that the processes of a data directory share.

    The server starts with the first member and is stopped after the last, also when members are
    killed: the kernel takes their lock back. The next `join` or `revive` starts one that has died
    again; where it was killed, on the same port with the same credentials.

    Lives from `join` to `leave` or the end of the process. A forked child is no member. `path` is
    absolute; a `revive` may change how to reach the server.
    """

    port: int
    user: str
    password: str
    durability: Durability

    def __init__(
        self, layout: Layout, member: LockFile, durability: Durability, binary: str | None
    ) -> None:
        self._layout = layout
        self._member: LockFile | None = member
        self._wanted = durability
        self._binary = binary
        self.path: Path = layout.directory
        self.staging: Staging = Staging(layout.directory)

    @classmethod
    async def join(
        cls,
        path: Path,
        *,
        durability: Durability = "fsync",
        binary: str | None = None,
        timeout: float = 10.0,
    ) -> Self:
        """Become a member of the server of `path`, which is started unless it runs.

        `binary`: see `find_binary`. `timeout` in seconds includes the recovery of a large log.

        Raises:
            ConfigurationError: the directory cannot be used, a relaxed server runs where "fsync"
                is asked for, or the system has no file locks.
            ServerStartFailed: it ends with the tail of the server's log.
            UnsupportedServer: the server is too old.
        """
        require_flock()
        if durability not in get_args(Durability):
            raise ConfigurationError(f"durability is 'fsync' or 'relaxed', not {durability!r}")
        layout = Layout.prepare(path)
        async with _bounded_start(layout, timeout):
            member = LockFile(layout.members_lock)
            try:
                async with locked(layout.lifecycle_lock):  # not while a supervisor stops
                    await member.lock(shared=True)
                self = cls(layout, member, durability, binary)
                await self._find_or_start(member)
            except BaseException:
                member.release()
                raise
        return self

    async def revive(self, *, timeout: float = 10.0) -> None:
        """Find the server running after a connection to it was lost, or start it again.

        Raises:
            StoreClosed: this is no member any more. Others as `join`.
        """
        if self._member is None:
            raise StoreClosed
        async with _bounded_start(self._layout, timeout):
            await self._find_or_start(self._member)

    async def _find_or_start(self, member: LockFile) -> None:
        """Return once a server of the directory accepts connections. The caller bounds the wait."""
        layout, durability = self._layout, self._wanted
        while True:
            if member.was_removed():
                raise ServerStartFailed(
                    f"the data directory {layout.directory}, or the lock files in it, were removed "
                    "while this store was open, so its server was stopped; what the directory held "
                    "is lost: close this store, and connect again to begin a new log"
                )
            # 1. A supervisor is at work, or this member starts one. A description without a
            #    supervisor is that of a server that was killed.
            log_start: int | None = None
            async with locked(layout.lifecycle_lock):
                found = layout.read_description()
                if found is None or not is_held(layout.supervisor_lock):
                    found = found.succeeded(durability) if found else Description.draw(durability)
                    began = time.monotonic()
                    log_start = await start(layout, find_binary(self._binary), found)
                    _log.debug(
                        "nats-server of %s started on port %d, in %.3f s",
                        *(layout.directory, found.port, time.monotonic() - began),
                    )

            # 2. Wait until the server is ready, and let others join or leave meanwhile.
            if durability == "fsync" and found.durability != "fsync":
                raise ConfigurationError(
                    f"the server of {layout.directory} runs with durability='relaxed': ask for "
                    "that too, or close every store on this directory first"
                )
            current = partial(_is_current, layout, found)
            version = await wait_until_ready(found.port, found.name, current)
            if version is not None:
                check_version(version)
                self.port, self.user, self.password = found.port, found.user, found.password
                self.durability = found.durability
                return

            # 3. It ended before it was ready. This member tries again if another one started it,
            #    if it was killed (its pid is still there), or if its port was taken between choice
            #    and use: the next port is another one.
            if log_start is not None and layout.read_pid() is None and not member.was_removed():
                if port_is_taken(found.port):
                    continue
                tail = log_tail(layout.log, log_start)
                raise ServerStartFailed(_with_tail(f"the server of {self.path} ended", tail))

    @property
    def url(self) -> str:
        """The server's address, without the credentials."""
        return f"nats://{HOST}:{self.port}"

    @property
    def log_file(self) -> Path:
        """The log of supervisor and server."""
        return self._layout.log

    @property
    def pid(self) -> int | None:
        """The process of nats-server as it runs now; None while there is none."""
        try:
            return self._layout.read_pid() if is_held(self._layout.server_lock) else None
        except FileNotFoundError:
            return None

    async def leave(self) -> None:
        """Cease to be a member; after the first time nothing happens.

        The last member returns once server and supervisor are gone, or raises LogTimeout when they
        linger. It does not wait where the data directory was removed.
        """
        if self._member is None:
            return
        removed = self._member.was_removed()
        self._member.release()
        self._member = None
        if removed:
            self.staging.discard()
            return
        try:
            async with asyncio.timeout(LEAVE_TIMEOUT):
                await _wait_until_stopped(self._layout, self.staging)
        except TimeoutError as error:
            raise LogTimeout("stopping the embedded server", LEAVE_TIMEOUT) from error
        except FileNotFoundError:
            self.staging.discard()
        except OSError as error:
            raise LogUnavailable(f"the embedded server may still be stopping: {error}") from error


@asynccontextmanager
async def _bounded_start(layout: Layout, timeout: float) -> AsyncIterator[None]:
    """Bound a start, and turn what ends it into ServerStartFailed."""
    try:
        async with asyncio.timeout(timeout):
            yield
    except TimeoutError as error:
        reason = f"the server of {layout.directory} was not ready within {timeout:g} s"
        raise ServerStartFailed(_with_tail(reason, log_tail(layout.log))) from error
    except OSError as error:
        reason = f"the server of {layout.directory} could not be started: {error}"
        raise ServerStartFailed(reason) from error


def _is_current(layout: Layout, description: Description) -> bool:
    """Whether a supervisor works on just this server: another may have taken its place."""
    return is_held(layout.supervisor_lock) and layout.read_description() == description


async def _wait_until_stopped(layout: Layout, staging: Staging) -> None:
    """Wait until the server has ended and clean up after it, unless there are other members."""
    for pause in pauses():
        async with locked(layout.lifecycle_lock):
            if has_sharers(layout.members_lock):
                return
            if not is_held(layout.supervisor_lock):
                async with earlier_server_ended(layout):
                    staging.remove()
                    layout.description.unlink(missing_ok=True)
                    return
        await asyncio.sleep(pause)


def has_sharers(path: Path) -> bool:
    """Whether a process holds `path` shared. The caller holds ``lifecycle.lock``.

    A supervisor that has found no member refuses the first attempt; only a member the second.
    """
    with LockFile(path) as lock:
        return lock.try_lock(shared=True) and not lock.try_lock()


def _with_tail(message: str, tail: str) -> str:
    return f"{message}; its log ends:\n{tail}" if tail else f"{message}, and its log is empty"
