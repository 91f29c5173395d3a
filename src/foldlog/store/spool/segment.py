"""One file of the spool: written by the process that holds its lock, removed once it is drained.

Everything here blocks; callers use it in a thread, one call at a time. OSError passes through.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from foldlog.locks import LockFile
from foldlog.store.spool.frames import Entry, decode_frames

SUFFIX: Final = ".spool"
REFUSED: Final = ".refused"
"""Of files with what the log refuses: whoever renames one to SUFFIX has it tried again."""

DAMAGED: Final = ".damaged"

_log: Final = logging.getLogger("foldlog")


class Segment:
    """Frames in a file, which is locked until `release`, `remove` or the end of the process.

    `end` is its size in bytes, `done` up to where its entries need not wait any more, `waiting` how
    many envelopes the others have. `done` is not on the disk: after a crash, the next process
    appends all of the file, and folds drop what was appended before.
    """

    def __init__(self, lock: LockFile, end: int = 0, waiting: int = 0) -> None:
        self._lock = lock
        self.path = lock.path
        self.end = end
        self.done = 0
        self.waiting = waiting

    @classmethod
    def create(cls, directory: Path, prefix: str, suffix: str = SUFFIX) -> Self:
        """Make a file whose name sorts behind those made before.

        Raises:
            ConfigurationError: the file system has no locks.
        """
        make_private(directory)
        name = f"{prefix}.{time.time_ns():020d}-{secrets.token_hex(4)}{suffix}"
        lock = LockFile(directory / name)
        try:
            lock.try_lock()
            _sync_directory(directory)
        except BaseException:
            lock.path.unlink(missing_ok=True)
            lock.release()
            raise
        return cls(lock)

    @classmethod
    def adopt(cls, path: Path) -> Self | None:
        """Take over the file of a process that has ended; None if its process lives.

        What does not end with a whole frame is left out: nobody was told that it is saved.
        Raises ConfigurationError as `create`.
        """
        lock = LockFile(path)
        try:
            # Its owner may have removed it since it was listed, or another have adopted it.
            if not lock.try_lock() or os.fstat(lock.fileno()).st_nlink == 0:
                lock.release()
                return None
            end = waiting = 0
            size = os.fstat(lock.fileno()).st_size
            for entry, end in decode_frames(os.pread(lock.fileno(), size, 0)):  # noqa: B007
                waiting += entry.envelopes
        except BaseException:
            lock.release()
            raise
        if end < size:
            _log.warning("%s: %d bytes at %d are no whole frame", path, size - end, end)
        return cls(lock, end, waiting)

    def append(self, frames: Sequence[bytes], envelopes: int) -> None:
        """Add frames with so many envelopes, all or none; they are on the disk when this returns.

        Raises:
            OSError: none of them is in the file.
        """
        fd, data = self._lock.fileno(), b"".join(frames)
        try:
            _write(fd, data, self.end)
            os.fsync(fd)
        except OSError:
            os.ftruncate(fd, self.end)
            raise
        self.end += len(data)
        self.waiting += envelopes

    def read(self, most_bytes: int) -> tuple[list[Entry], int]:
        """The next entries that go to the log as one, and where they end.

        That is an atomic one alone, or as many others as `most_bytes` hold, but at least one.
        None at all means that the file is damaged.
        """
        found, end = list[Entry](), self.done
        data = os.pread(self._lock.fileno(), self.end - self.done, self.done)
        for entry, after in decode_frames(data):
            if found and (entry.atomic or after > most_bytes):
                break
            found.append(entry)
            end = self.done + after
            if entry.atomic:
                break
        return found, end

    def remove(self) -> None:
        """Remove the file, which nobody needs any more."""
        self.path.unlink(missing_ok=True)
        self._lock.release()

    def set_aside(self) -> None:
        """Give up a file that was damaged while it was open, under another name."""
        aside = self.path.with_suffix(DAMAGED)
        _log.error("%s is damaged: %d envelopes are lost; see %s", self.path, self.waiting, aside)
        self.path.rename(aside)
        self._lock.release()

    def release(self) -> None:
        """Let go of the file, for the next process that adopts it."""
        if self.waiting or self.path.suffix != SUFFIX:
            self._lock.release()
        else:
            self.remove()


def make_private(directory: Path) -> None:
    """Make the directory, and its parents that are missing, for this user alone.

    They are on the disk when this returns, as is what their names stand in.
    """
    if not directory.is_dir():
        make_private(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)
        _sync_directory(directory.parent)


def _write(fd: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
