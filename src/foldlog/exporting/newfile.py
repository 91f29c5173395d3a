"""A file that is being written, and overwrites nothing."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from foldlog.disk import sync
from foldlog.errors import Busy, ConfigurationError, Misuse
from foldlog.locks import LockFile, require_flock


class NewFile:
    """A file that gets its name when it is whole; until `finish` it is `<name>.part`.

    Only its owner can read it: it holds everything. A part that a killed process left is written
    anew. Its methods block.
    """

    def __init__(self, target: Path) -> None:
        require_flock()
        self._target = target
        self._part = target.with_name(f"{target.name}.part")
        self._is_named = False
        self._refuse_to_overwrite()
        with _write_errors(target):
            self._lock = LockFile(self._part)
        if not self._lock.try_lock() or self._lock.was_removed():
            self._lock.release()
            raise Busy(f"another process writes {target}: wait for its end")
        self.file: IO[bytes] = os.fdopen(os.dup(self._lock.fileno()), "r+b")
        self.file.truncate(0)
        self._zip = gzip.GzipFile("", "wb", 6, self.file, 0) if target.suffix == ".gz" else None

    def write(self, data: bytes) -> int:
        """Write what follows; it is compressed if the name ends in `.gz`."""
        with _write_errors(self._target):
            return (self._zip or self.file).write(data)

    def finish(self) -> None:
        """Have the file survive a crash, and give it its name."""
        with _write_errors(self._target):
            if self._zip is not None:
                self._zip.close()
            self.file.flush()
            os.fsync(self.file.fileno())
            self._refuse_to_overwrite()
            self._part.rename(self._target)
            self._is_named = True
            sync(self._target.parent)

    def close(self) -> None:
        """Let go of the file. Without `finish` nothing stays of it."""
        with _write_errors(self._target):
            self.file.close()
            if not self._is_named:
                self._part.unlink(missing_ok=True)
        self._lock.release()

    def _refuse_to_overwrite(self) -> None:
        if self._target.exists():
            raise Misuse(f"{self._target} exists: name another file, or remove it")


@contextmanager
def _write_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise ConfigurationError(f"{target} cannot be written: {reason}") from error
