"""The file under way: what is written waits as `FILE.part`, beside a small file of how far it is.

A process that goes on from there cuts off what came after the last sync. Its methods block.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import msgspec

from foldlog.errors import ConfigurationError
from foldlog.exporting.lines import Header, encode_line
from foldlog.locks import LockFile, require_flock
from foldlog.store.blobs import BlobRef

_STALE: Final = 6 * 3600.0
"""Seconds after which nobody goes on with a file: it would end where the log did then."""

SYNC_BYTES: Final = 16 * 1024 * 1024
"""How much may have to be written again after a crash."""


class Progress(msgspec.Struct, frozen=True):
    """How far a file is. `asked`: what was asked for; another question begins anew.

    `size`: the bytes on the disk; `shard`, `seq` and `blob`: what was written last.
    """

    asked: dict[str, str | None]
    header: Header
    size: int = 0
    shard: int = 0
    seq: int = 0
    blob: BlobRef | None = None
    records: int = 0
    blobs: int = 0


class Part:
    """A file that is being written. Lives until `finish` or `close`."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._path = target.with_name(f"{target.name}.part")
        self._state = target.with_name(f"{target.name}.part.json")
        self._is_zipped = target.suffix == ".gz"
        self._digest = hashlib.sha256()
        self._file: IO[bytes] | None = None
        self._zip: gzip.GzipFile | None = None
        self._unsynced = 0
        require_flock()
        with write_errors(target):
            self._lock = LockFile(self._path)
        # Who had it meanwhile may have given the file its name.
        if not self._lock.try_lock() or not self._is_locked():
            self._lock.release()
            raise ConfigurationError(f"another process writes {target}: wait for its end")

    def resume(self, asked: dict[str, str | None]) -> Progress | None:
        """Return how far an earlier process came with the same question; None: begin anew."""
        with write_errors(self._target):
            try:
                found = msgspec.json.decode(self._state.read_bytes(), type=Progress)
                age = time.time() - self._state.stat().st_mtime
            except (FileNotFoundError, msgspec.MsgspecError):
                return None
            is_short = self._path.stat().st_size < found.size
            if found.asked != asked or age > _STALE or is_short:
                return None
            self._open(found.size)
            opened = gzip.open if self._is_zipped else open
            with opened(self._path, "rb") as written:
                while some := written.read(1024 * 1024):
                    self._digest.update(some)
            return found

    def begin(self, header: Header) -> None:
        """Begin anew, with the header."""
        with write_errors(self._target):
            self._state.unlink(missing_ok=True)
            self._open(0)
            self.write(encode_line(header))

    def write(self, data: bytes) -> None:
        """Write some lines."""
        with write_errors(self._target):
            self._digest.update(data)
            self._unsynced += len(data)
            assert self._file is not None, "begin or resume first"
            if self._is_zipped and self._zip is None:
                self._zip = gzip.GzipFile("", "wb", 6, self._file, 0)
            (self._zip or self._file).write(data)

    @property
    def is_due(self) -> bool:
        """Whether there is enough to be synced."""
        return self._unsynced >= SYNC_BYTES

    @property
    def sha256(self) -> str:
        """Of all lines until now."""
        return self._digest.hexdigest()

    def sync(self, progress: Progress) -> Progress:
        """Have what was written survive a crash; return the progress with its size."""
        with write_errors(self._target):
            size = self._flush()
            found = msgspec.structs.replace(progress, size=size)
            temporary = self._state.with_suffix(".new")
            with _private(temporary, os.O_TRUNC) as file:
                file.write(msgspec.json.encode(found))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._state)
        return found

    def finish(self) -> None:
        """Give the whole file its name."""
        with write_errors(self._target):
            self._flush()
            self._path.replace(self._target)
            self._state.unlink(missing_ok=True)
            directory = os.open(self._target.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)

    def close(self) -> None:
        """Let go of the file, as it is."""
        if self._file is not None:
            self._file.close()
        self._lock.release()

    def _is_locked(self) -> bool:
        return self._path.exists() and os.path.samestat(
            os.fstat(self._lock.fileno()), self._path.stat()
        )

    def _open(self, size: int) -> None:
        self._file = _private(self._path, 0)
        self._file.truncate(size)
        self._file.seek(size)

    def _flush(self) -> int:
        assert self._file is not None, "begin or resume first"
        if self._zip is not None:  # a member of its own: what follows can be cut off
            self._zip.close()
            self._zip = None
        self._file.flush()
        os.fsync(self._file.fileno())
        self._unsynced = 0
        return self._file.tell()


def _private(path: Path, flags: int) -> IO[bytes]:
    """Open a file that only its owner can read: it holds everything."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | flags, 0o600), "r+b")


@contextmanager
def write_errors(target: Path) -> Iterator[None]:
    """Raise ConfigurationError where a file cannot be written."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"{target} cannot be written: {error.strerror or error}"
        ) from error
