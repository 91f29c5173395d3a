"""Advisory file locks (flock), which the kernel frees with the last process that holds them."""

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
except ImportError:  # Windows: see `require_flock`
    fcntl = None  # type: ignore[assignment]

_open_locks: set[LockFile] = set()


def require_flock() -> None:
    """Raise ConfigurationError on a system without flock."""
    if fcntl is None:
        raise ConfigurationError(
            "the embedded server and the spool need POSIX file locks, which this system lacks; "
            "start nats-server yourself and pass its URL"
        )


def pauses() -> Iterator[float]:
    """Seconds to pause between attempts: 1 ms, growing by a tenth up to 20 ms.

    A server is ready after some 25 ms, and is then seen within another 3 ms.
    """
    pause = 0.001
    while True:
        yield pause
        pause = min(pause * 1.1, 0.02)


class LockFile:
    """A lock file, open until `release` or `hand_over`. It holds one lock, shared or exclusive.

    A forked child closes its copy at once, so it never keeps its parent's lock alive.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _open_locks.add(self)

    def fileno(self) -> int:
        """The file descriptor."""
        if self._fd is None:
            raise ValueError(f"{self.path} is closed")
        return self._fd

    def try_lock(self, *, shared: bool = False) -> bool:
        """Take the lock, or convert the one held, without waiting; return whether it is held.

        A refused conversion leaves nothing locked.
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
        """Take the lock; the caller bounds the wait."""
        for pause in pauses():
            if self.try_lock(shared=shared):
                return
            await asyncio.sleep(pause)

    def was_removed(self) -> bool:
        """Whether the file was deleted; another of the same name may exist."""
        return os.fstat(self.fileno()).st_nlink == 0

    def release(self) -> None:
        """Unlock and close, also for processes that have inherited the descriptor. Idempotent."""
        if self._fd is not None:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
            self.hand_over()

    def hand_over(self) -> None:
        """Close without unlocking: processes that inherited the descriptor keep the lock."""
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
    """Hold the lock of `path` for a block."""
    with LockFile(path) as lock:
        await lock.lock(shared=shared)
        yield lock


def is_held(path: Path) -> bool:
    """Whether a process holds `path` exclusively now. Holds a shared lock for a moment."""
    with LockFile(path) as lock:
        return not lock.try_lock(shared=True)


def _close_in_forked_child() -> None:
    for lock in list(_open_locks):
        lock.hand_over()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_forked_child)
