"""One spool file: appended to by the one process that holds its lock, removed once it is drained.

Everything here blocks; callers use it in a thread, one call at a time.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

from foldlog.locks import LockFile
from foldlog.store.spool.frames import (
    FRAME_HEAD_BYTES,
    HEADER_BYTES,
    Entry,
    Progress,
    decode_frame,
    decode_header,
    encode_header,
    frame_length,
)

SUFFIX: Final = ".spool"
REFUSED: Final = ".refused"
"""Of files with what the log refuses: whoever renames one to SUFFIX has it tried again."""

DAMAGED: Final = ".damaged"

_log: Final = logging.getLogger("foldlog")


class Placed(NamedTuple):
    """An entry and where it ends in its file."""

    entry: Entry
    end: int


class SpoolFile:
    """An open spool file, locked until `release`, `remove` or the end of the process."""

    def __init__(self, lock: LockFile, progress: Progress, end: int, waiting: int) -> None:
        self._lock = lock
        self.path = lock.path
        self.progress = progress
        self.end = end
        self.waiting = waiting
        """How many envelopes it holds that are not done."""

    @classmethod
    def create(cls, directory: Path, prefix: str, suffix: str = SUFFIX) -> Self:
        """Make a file whose name sorts behind those made before. Raises OSError.

        Raises:
            ConfigurationError: the file system has no locks.
        """
        make_private(directory)
        name = f"{prefix}.{time.time_ns():020d}-{secrets.token_hex(4)}{suffix}"
        lock = LockFile(directory / name)
        try:
            lock.try_lock()
            progress = Progress(HEADER_BYTES, HEADER_BYTES)
            _write(lock.fileno(), encode_header(progress), 0)
            _sync_directory(directory)
        except BaseException:
            lock.path.unlink(missing_ok=True)
            lock.release()
            raise
        return cls(lock, progress, HEADER_BYTES, 0)

    @classmethod
    def adopt(cls, path: Path) -> Self | None:
        """Take over the file of a process that has ended; None if its process lives.

        What the end of that process left unfinished is cut off: nobody was told that it was kept.
        Raises OSError, and ConfigurationError as `create`.
        """
        lock = LockFile(path)
        try:
            # Its owner may have removed it since it was listed, or another have adopted it.
            if not lock.try_lock() or lock.was_removed():
                lock.release()
                return None
            return cls._recovered(lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def _recovered(cls, lock: LockFile) -> Self:
        fd = lock.fileno()
        size = os.fstat(fd).st_size
        progress = decode_header(os.pread(fd, HEADER_BYTES, 0), size)
        start = progress.done if progress else HEADER_BYTES
        end, waiting = start, 0
        for placed in _read(fd, start, size):
            end, waiting = placed.end, waiting + placed.entry.envelopes
        if end < size:
            _log.warning(
                "%s: %d bytes at %d are no whole record and are cut off", lock.path, size - end, end
            )
            os.ftruncate(fd, end)
        return cls(lock, progress or Progress(start, end), end, waiting)

    @property
    def _fd(self) -> int:
        return self._lock.fileno()

    def append(self, frames: Sequence[bytes], envelopes: int) -> None:
        """Add frames with so many envelopes, all or none, and have them on the disk.

        Raises:
            OSError: none of them is in the file.
        """
        data = b"".join(frames)
        try:
            _write(self._fd, data, self.end)
            os.fsync(self._fd)
        except OSError:
            os.ftruncate(self._fd, self.end)
            raise
        self.end += len(data)
        self.waiting += envelopes

    def read(self, *, most_bytes: int) -> list[Placed]:
        """The first entries that are not done: at least one, if there is one. Raises OSError."""
        found = list[Placed]()
        for placed in _read(self._fd, self.progress.done, self.end):
            if found and placed.end - self.progress.done > most_bytes:
                break
            found.append(placed)
        return found

    def trying(self, end: int) -> None:
        """Put on the disk that what ends by `end` may be on the log from now on. Raises OSError."""
        if end <= self.progress.tried:
            return
        progress = Progress(self.progress.done, end)
        # In place, and shorter than a sector: it is written whole or not at all.
        _write(self._fd, encode_header(progress), 0)
        os.fsync(self._fd)
        self.progress = progress

    def done(self, end: int, envelopes: int) -> None:
        """Note that so many envelopes, up to `end`, need not wait any more.

        It is on the disk with the next `trying`, and after a crash the log tells.
        """
        self.progress = Progress(end, max(end, self.progress.tried))
        self.waiting -= envelopes

    def remove(self) -> None:
        """Remove the file, which nobody needs any more. Raises OSError."""
        self.path.unlink(missing_ok=True)
        self._lock.release()

    def set_aside(self) -> None:
        """Give up a file that was damaged while it was open, under another name. Raises OSError."""
        aside = self.path.with_suffix(DAMAGED)
        _log.error("%s is damaged: %d envelopes are lost; see %s", self.path, self.waiting, aside)
        self.path.rename(aside)
        self._lock.release()

    def let_go(self) -> None:
        """Unlock the file and leave it as it is."""
        self._lock.release()

    def release(self) -> None:
        """Let go of the file, for whoever adopts it. Raises OSError."""
        if self.waiting:
            # What is done need not be looked for again.
            _write(self._fd, encode_header(self.progress), 0)
            self._lock.release()
        else:
            self.remove()


def make_private(directory: Path) -> None:
    """Make the directory, and its parents that are missing, for this user alone.

    They are on the disk when this returns, as is what their names stand in. Raises OSError.
    """
    if not directory.is_dir():
        make_private(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)
        _sync_directory(directory.parent)


def _read(fd: int, start: int, end: int) -> Iterator[Placed]:
    """The entries from `start` on, up to the first that is not whole."""
    while start < end:
        head = os.pread(fd, FRAME_HEAD_BYTES, start)
        length = frame_length(head)
        if length is None or length > end - start - FRAME_HEAD_BYTES:
            return
        entry = decode_frame(head, os.pread(fd, length, start + FRAME_HEAD_BYTES))
        if entry is None:
            return
        start += FRAME_HEAD_BYTES + length
        yield Placed(entry, start)


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
