"""Membership in the server of a data directory: join it, starting it if need be, and leave it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Self, get_args

from foldlog.errors import (
    ConfigurationError,
    LogTimeout,
    LogUnavailable,
    ServerStartFailed,
    StoreClosed,
)
from foldlog.log.embedded.binary import check_version, find_binary
from foldlog.log.embedded.config import HOST, describe_again, describe_new, port_is_taken
from foldlog.log.embedded.layout import Description, Durability, Layout
from foldlog.log.embedded.locks import (
    LockFile,
    has_sharers,
    is_held,
    locked,
    pauses,
    require_flock,
)
from foldlog.log.embedded.probe import wait_until_ready
from foldlog.log.embedded.staging import Staging
from foldlog.log.embedded.start import Launch, log_tail, start, way_cleared

LEAVE_TIMEOUT = 15.0
"""Seconds that the last member waits for the server to end, which takes milliseconds."""


class EmbeddedServer:
    """One member of the nats-server that the processes of a data directory share.

    The server listens on the loopback interface only, with random credentials. It starts with the
    first member and is stopped after the last, also when members are killed: membership is a file
    lock, which the kernel takes back. A server that dies is restarted on the same port with the
    same credentials, and so is one whose supervisor died too, by the next `join` or `revive`.

    Lives from `join` to `leave` or the end of the process. A forked child is no member: it must
    `join` for itself, and must not use a connection of its parent.
    """

    path: Path
    """The data directory, absolute."""
    port: int
    user: str
    password: str
    """Of the running server; what a `revive` changes."""
    durability: Durability
    """Of the running server: at least what was asked for."""
    version: str
    """Of the running server, such as ``2.15.1``."""
    staging: Staging
    """Where it stages atomic batches."""

    def __init__(
        self, layout: Layout, member: LockFile, durability: Durability, binary: str | None
    ) -> None:
        self._layout = layout
        self._member: LockFile | None = member
        self._wanted = durability
        self._binary = binary
        self.path = layout.directory
        self.staging = Staging(layout.directory)

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

        The directory is made with mode 0700. `binary` is a path or a name on the PATH, see
        `find_binary`; it plays no part when the server runs. `timeout` in seconds covers all of it;
        a server that recovers a large log needs as long as that takes.

        Raises ConfigurationError for a directory that cannot be used, for ``durability="fsync"``
        where a relaxed server runs, and on a system without file locks; ServerStartFailed, which
        ends with the tail of the server's log; UnsupportedServer for one that is too old.
        """
        require_flock()
        if durability not in get_args(Durability):
            raise ConfigurationError(f"durability is 'fsync' or 'relaxed', not {durability!r}")
        layout = Layout.prepare(path)
        async with _starting(layout, timeout):
            member = LockFile(layout.members_lock)
            try:
                async with locked(layout.lifecycle_lock):  # not while a supervisor stops
                    await member.lock(shared=True)
                self = cls(layout, member, durability, binary)
                await self._reach()
            except BaseException:
                member.release()
                raise
        return self

    async def revive(self, *, timeout: float = 10.0) -> None:
        """Have the server run again after a connection to it was lost, or find it running.

        For members whose supervisor may have been killed: whoever comes first starts another. It
        may be at another address, as after a supervisor was told to end. Errors as `join`.

        Raises:
            StoreClosed: it is no member any more.
        """
        if self._member is None:
            raise StoreClosed
        async with _starting(self._layout, timeout):
            await self._reach()

    async def _reach(self) -> None:
        """Know the server of the directory, when it accepts connections."""
        description, version = await _reach(self._layout, self._wanted, self._binary)
        check_version(version)
        self.port = description.port
        self.user = description.user
        self.password = description.password
        self.durability = description.durability
        self.version = version

    @property
    def url(self) -> str:
        """The server's address, without the credentials."""
        return f"nats://{HOST}:{self.port}"

    @property
    def log_file(self) -> Path:
        """The log of supervisor and server, for a person to read."""
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
        linger. A data directory that was deleted meanwhile is not waited for.
        """
        if self._member is None:
            return
        self._member.release()
        self._member = None
        try:
            async with asyncio.timeout(LEAVE_TIMEOUT):
                await _wait_unless_shared(self._layout, self.staging)
        except TimeoutError as error:
            raise LogTimeout("stopping the embedded server", LEAVE_TIMEOUT) from error
        except FileNotFoundError:
            self.staging.remove()
        except OSError as error:
            raise LogUnavailable(f"the embedded server may still be stopping: {error}") from error


@asynccontextmanager
async def _starting(layout: Layout, timeout: float) -> AsyncIterator[None]:
    """Bound a start, and have it fail as one."""
    try:
        async with asyncio.timeout(timeout):
            yield
    except TimeoutError as error:
        raise ServerStartFailed(
            _with_tail(
                f"the server of {layout.directory} was not ready within {timeout:g} s",
                log_tail(layout.log),
            )
        ) from error
    except OSError as error:
        raise ServerStartFailed(
            f"the server of {layout.directory} could not be started: {error}"
        ) from error


async def _reach(
    layout: Layout, durability: Durability, binary: str | None
) -> tuple[Description, str]:
    """Return the server of the directory and its version, when it accepts connections.

    The caller is a member, so no supervisor stops meanwhile. Ends only in success, an error that
    waiting does not cure, or the caller's timeout.
    """

    while True:
        # 1. Somebody runs a server here or is about to. Else it is started; a description that is
        #    still there is that of a server whose supervisor was killed.
        launch: Launch | None = None
        async with locked(layout.lifecycle_lock):
            found = layout.read_description()
            if found is None or not is_held(layout.supervisor_lock):
                found = describe_again(found, durability) if found else describe_new(durability)
                launch = await start(layout, find_binary(binary), found)

        # 2. Whoever started it, wait for it, and let others join or leave meanwhile.
        with launch or nullcontext():
            if durability == "fsync" and found.durability != "fsync":
                raise ConfigurationError(
                    f"the server of {layout.directory} runs with durability='relaxed': ask for "
                    "that too, or close every store on this directory first"
                )
            current = partial(_is_current, layout, found)
            version = await wait_until_ready(found.port, found.name, current)
            if version is not None and (launch is None or launch.confirm()):
                return found, version

            # 3. Its supervisor has ended. What others failed to start is tried again, and so is a
            #    start that lost its port to somebody between choice and use: the supervisor took
            #    the description with it, so the next port is another one.
            if launch is not None and not port_is_taken(found.port):
                raise ServerStartFailed(
                    _with_tail(f"the server of {layout.directory} ended", launch.log_tail())
                )


def _is_current(layout: Layout, description: Description) -> bool:
    """Whether a supervisor works on just this server: another may have taken its place."""
    return is_held(layout.supervisor_lock) and layout.read_description() == description


async def _wait_unless_shared(layout: Layout, staging: Staging) -> None:
    """Wait until the server has ended, unless there are members, and clear up after it."""
    for pause in pauses():
        async with locked(layout.lifecycle_lock):
            if has_sharers(layout.members_lock):
                return
            if not is_held(layout.server_lock):
                staging.remove()
                return
            if not is_held(layout.supervisor_lock):
                async with way_cleared(layout):
                    staging.remove()
                    return
        await asyncio.sleep(pause)


def _with_tail(message: str, tail: str) -> str:
    return f"{message}; its log ends:\n{tail}" if tail else f"{message}, and its log is empty"
