"""Where the embedded server stages atomic batches: in memory, where the system has a place for it.

nats-server writes the messages of a batch into a directory of its own before it commits them, and
removes that directory afterwards. On a disk this costs several times what the batch itself costs
(ADR 0004). Nothing in it has been acknowledged. The server looks at it once more after it was
killed in the middle of a commit, to complete the batch: memory survives that as a disk does. After
a power loss neither is promised.

So `batches`, in a stream's directory, becomes a link to a directory in `/dev/shm`. The server
removes the link whenever it starts, and the system may empty `/dev/shm` when its user logs out:
`ensure` puts both right, and without it batches are staged on disk. What was made for a data
directory is found again by its name, and removed with the last member.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

MEMORY: Final = Path("/dev/shm")
"""Linux's directory in memory."""

ROOM: Final = 512 * 1024 * 1024
"""Bytes that must be free there; a container may have as little as 64 MB."""


class Staging:
    """The staging of one data directory's server. Any member may call anything, at any time.

    Args:
        directory: the data directory, absolute.
        memory: where directories in memory are made.
    """

    def __init__(self, directory: Path, *, memory: Path = MEMORY) -> None:
        self._streams = directory / "jetstream" / "$G" / "streams"
        self._memory = memory
        name = hashlib.blake2b(os.fsencode(directory.resolve()), digest_size=10).hexdigest()
        self._directory = memory / f"foldlog-{os.geteuid()}-{name}"

    def ensure(self, stream: str) -> None:
        """Have the batches of `stream` staged in memory, where that can be.

        Where it cannot, they are staged on disk, which is slower and as good: so what the system
        refuses is no error. A batch under way keeps the place where it began.
        """
        link = self._streams / stream / "batches"
        with suppress(OSError):
            if link.is_symlink():
                if link.is_dir():
                    return
                link.unlink()  # memory was emptied
            elif link.exists():
                link.rmdir()  # refused while a batch is under way
            if not link.parent.is_dir() or not self._is_private():
                return
            target = tempfile.mkdtemp(prefix=f"{stream}.", dir=self._directory)
            link.symlink_to(target)  # refused where another member was faster
            for other in self._directory.glob(f"{stream}.*"):
                if str(other) != os.readlink(link):  # of an earlier run of the server
                    shutil.rmtree(other, ignore_errors=True)

    def remove(self) -> None:
        """Remove what `ensure` made. Only while no server runs."""
        with suppress(OSError):
            for link in self._streams.glob("*/batches"):
                if link.is_symlink():
                    link.unlink()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _is_private(self) -> bool:
        """Whether the directory in memory is there, made if need be, and this user's alone."""
        with suppress(FileExistsError):
            if not self._directory.exists() and self._has_room():
                self._directory.mkdir(mode=0o700)
        found = os.lstat(self._directory)
        mine = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
        return mine and not found.st_mode & 0o077

    def _has_room(self) -> bool:
        free = os.statvfs(self._memory)
        return free.f_bavail * free.f_frsize >= ROOM
