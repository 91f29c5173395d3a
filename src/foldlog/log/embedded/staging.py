"""Where the embedded server stages atomic batches: in memory, where the system has a place for it.

`batches`, in a stream's directory, becomes a link to a directory in `/dev/shm`. The server removes
the link whenever it starts. ADR 0004 says what this saves, and why nothing is lost by it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final

MEMORY: Final = Path("/dev/shm")
"""Linux's directory in memory."""

ROOM: Final = 512 * 1024 * 1024
"""Bytes that must be free there at first; a container may have as little as 64 MB."""

LITTLE: Final = 64 * 1024 * 1024
"""With less than that many bytes free, batches that went wrong are staged on disk instead."""


class Staging:
    """The staging of the server of `directory`. Any member may call anything, at any time."""

    def __init__(self, directory: Path, *, memory: Path = MEMORY) -> None:
        self._streams = directory / "jetstream" / "$G" / "streams"
        self._memory = memory
        self._data = directory

    def ensure(self, stream: str) -> None:
        """Have the batches of `stream` staged in memory, unless the system refuses that."""
        link = self._streams / stream / "batches"
        with suppress(OSError):
            if link.is_symlink():
                if link.is_dir() and self._free() >= LITTLE:
                    return
                link.unlink()  # memory was emptied, or others have filled it
            elif link.exists():
                link.rmdir()  # refused while a batch is under way
            if not link.parent.is_dir() or self._free() < ROOM or not self._is_private():
                return
            target = tempfile.mkdtemp(prefix=f"{stream}.", dir=self._directory)
            link.symlink_to(target)  # refused where another member was faster
            for other in self._directory.glob(f"{stream}.*"):
                if str(other) != os.readlink(link):  # of an earlier run of the server
                    shutil.rmtree(other, ignore_errors=True)

    def remove(self) -> None:
        """Remove what `ensure` made. Only while no server runs.

        A batch that the server could not commit to its end stays, with the link to it: the next
        server on this data directory completes it.
        """
        with suppress(OSError):
            for link in self._streams.glob("*/batches"):
                if link.is_symlink():
                    _remove_if_empty(link)
            self._directory.rmdir()

    def discard(self) -> None:
        """Remove what this member has made for a data directory that was removed."""
        if "_directory" in self.__dict__:
            shutil.rmtree(self._directory, ignore_errors=True)

    @cached_property
    def _directory(self) -> Path:
        # Not by its path alone, which may mean something else in each container.
        found = self._data.stat()
        place = f"{self._data.resolve()}:{found.st_dev}:{found.st_ino}"
        name = hashlib.blake2b(os.fsencode(place), digest_size=10).hexdigest()
        return self._memory / f"foldlog-{os.geteuid()}-{name}"

    def _is_private(self) -> bool:
        """Whether the directory in memory is there, made if need be, and this user's alone."""
        with suppress(FileExistsError):
            self._directory.mkdir(mode=0o700)
        found = os.lstat(self._directory)
        mine = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
        return mine and not found.st_mode & 0o077

    def _free(self) -> int:
        found = os.statvfs(self._memory)
        return found.f_bavail * found.f_frsize


def _remove_if_empty(link: Path) -> None:
    with suppress(FileNotFoundError):
        with os.scandir(link) as left:
            if any(left):
                return
        os.rmdir(os.readlink(link))
    link.unlink()
