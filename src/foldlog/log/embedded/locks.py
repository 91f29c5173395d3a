"""Advisory file locks (flock) as the processes of one data directory use them.

Four lock files, and who holds them:

- ``lifecycle.lock``, exclusive: who becomes a member, starts a supervisor, or stops the server.
  Nobody has it while waiting for a server to be ready, which may take long.
- ``members.lock``, shared: every member, for its life. Only a supervisor asks for it exclusively,
  and somebody who holds ``lifecycle.lock`` and wants to know whether there are members.
- ``supervisor.lock``, exclusive: the supervisor, for its life.
- ``server.lock``, exclusive: supervisor and nats-server together; free once both have ended.

The kernel frees a lock with the last process that has it, so nothing is left by kill -9.

Why nobody waits for ever. Locks are taken in the order above, with these cases to look at:

1. A joiner holds lifecycle and wants members (shared). It can be refused by a supervisor that has
   just found nobody there; that one lets go of members before it asks for lifecycle, so the
   joiner's next attempt succeeds, and the supervisor finds the new member and goes on. Once a
   member, the joiner needs no lock for a supervisor to stay.
2. A supervisor that stops holds lifecycle and members until it has ended. Joiners wait for
   lifecycle, having nothing else; the stop is bounded because nats-server is killed if it lingers.
3. A starter holds lifecycle and members (shared) and waits for supervisor and server, that is for
   an old supervisor to end. That one wants lifecycle only *before* it decides to end, and a
   supervisor whose ``server.json`` exists is joined rather than waited for.
4. Two starters exclude each other by lifecycle; the second finds the first one's supervisor and
   waits for the same server, without a lock. A starter that is killed frees lifecycle and members;
   its supervisor either has another member by then or stops by case 2.
5. A member that leaves gives members up first and only then takes lifecycle, briefly and again and
   again, until the server has ended or somebody else turns out to be a member.
6. Waiting is bounded by the caller's timeout everywhere but in the supervisor, which has nobody
   waiting for it except in case 2.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

from foldlog.errors import ConfigurationError

try:
    import fcntl
except ImportError:  # Windows: the package imports, and `require_flock` says what to do
    fcntl = None  # type: ignore[assignment]

_open_locks: set[LockFile] = set()


def require_flock() -> None:
    """Raise ConfigurationError on a system without flock."""
    if fcntl is None:
        raise ConfigurationError(
            "the embedded server needs POSIX file locks, which this system lacks; "
            "start nats-server yourself and pass its URL"
        )


def pauses(first: float = 0.001, longest: float = 0.02) -> Iterator[float]:
    """Seconds to pause between attempts: from `first`, growing by half, never above `longest`."""
    pause = first
    while True:
        yield pause
        pause = min(pause * 1.5, longest)


class LockFile:
    """One open file description of a lock file. It holds at most one lock, shared or exclusive.

    It is closed by `release` or `hand_over`. A forked child loses its copy at once, so that a
    child never keeps its parent's lock alive.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _open_locks.add(self)

    def fileno(self) -> int:
        """The file descriptor. Raises ValueError once closed."""
        if self._fd is None:
            raise ValueError(f"{self.path} is closed")
        return self._fd

    def try_lock(self, *, shared: bool = False) -> bool:
        """Take the lock, or convert the one held, if that needs no waiting. A refused conversion
        leaves nothing locked. Raises ConfigurationError where the file system has no locks.
        """
        try:
            fcntl.flock(self.fileno(), (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise ConfigurationError(
                f"{self.path} cannot be locked ({error.strerror}); "
                "put the data directory on a local file system"
            ) from error
        return True

    async def lock(self, *, shared: bool = False) -> None:
        """Take the lock, waiting without end; the caller bounds or cancels the wait."""
        for pause in pauses():
            if self.try_lock(shared=shared):
                return
            await asyncio.sleep(pause)

    def release(self) -> None:
        """Unlock and close; again is harmless. A copy that a starting process has loses it too."""
        if self._fd is not None:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
            self.hand_over()

    def hand_over(self) -> None:
        """Close without unlocking: the lock now belongs to those who inherited the descriptor."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
            _open_locks.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.release()


@asynccontextmanager
async def locked(path: Path, *, shared: bool = False) -> AsyncIterator[LockFile]:
    """Hold the lock of `path` for a block, however the block ends."""
    with LockFile(path) as lock:
        await lock.lock(shared=shared)
        yield lock


def is_held(path: Path) -> bool:
    """Whether somebody holds `path` exclusively at this moment. Disturbs nobody for long."""
    with LockFile(path) as lock:
        return not lock.try_lock(shared=True)


def has_sharers(path: Path) -> bool:
    """Whether somebody holds `path` shared. The caller holds ``lifecycle.lock``.

    An exclusive attempt is refused by members, but also by a supervisor that asks the same
    question at this moment. The shared attempt tells them apart: it is refused by the supervisor
    only. If it is granted, the supervisor has let go, and it does not ask again before it gets
    ``lifecycle.lock``; a second refusal then means members.
    """
    with LockFile(path) as lock:
        if lock.try_lock() or not lock.try_lock(shared=True):
            return False
        return not lock.try_lock()


def _close_in_forked_child() -> None:
    for lock in list(_open_locks):
        lock.hand_over()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_forked_child)
