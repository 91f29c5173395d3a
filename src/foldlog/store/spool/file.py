"""One file of the spool: frames, written by the process that holds the file's lock.

`docs/reference/log-format.md` describes the bytes. All methods of `SpoolFile` block: call them in a
thread, one at a time. OSError passes through.
"""

from __future__ import annotations

import logging
import os
import secrets
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, Self

import msgspec

from foldlog.disk import sync
from foldlog.envelope import Draft
from foldlog.locks import LockFile
from foldlog.log.port import Append
from foldlog.subjects import Namespace, Subject

SUFFIX: Final = ".spool"
REFUSED: Final = ".refused"
"""Files with what the log refuses. Rename one to SUFFIX to have it tried again."""

DAMAGED: Final = ".damaged"

CHUNK_BYTES: Final = 1024 * 1024
"""What goes to the log at once: enough that many saves share a round trip."""

_LENGTH: Final = struct.Struct("<I")
_HEAD: Final = struct.Struct("<II")

_log: Final = logging.getLogger("foldlog")


class Drafts(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Envelopes for one subject, as family and keys: its shard is found when the log is.

    The namespace may have another number of shards then.
    """

    family: str
    keys: tuple[str, ...]
    drafts: tuple[Draft, ...]

    def subject(self, namespace: Namespace) -> Subject:
        """The subject in a namespace."""
        return namespace.subject(self.family, *self.keys)


class Frame(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One append. With `atomic`, the log takes all of it or nothing."""

    atomic: bool
    drafts: tuple[Drafts, ...]

    @classmethod
    def of(cls, appends: Sequence[Append], *, atomic: bool) -> Self:
        """The frame of an append."""
        return cls(
            atomic, tuple(Drafts(a.subject.family, a.subject.keys, a.drafts) for a in appends)
        )

    @property
    def envelopes(self) -> int:
        """How many envelopes it holds."""
        return sum(len(each.drafts) for each in self.drafts)

    def without(self, is_erased: Callable[[Drafts], bool]) -> Self | None:
        """The frame without some drafts; None if nothing is left, or if it was atomic."""
        left = tuple(each for each in self.drafts if not is_erased(each))
        if len(left) == len(self.drafts):
            return self
        return type(self)(False, left) if left and not self.atomic else None


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Frame)


def encode_frame(frame: Frame) -> bytes:
    """Encode one frame."""
    body = _encoder.encode(frame)
    return _HEAD.pack(len(body), _checksum(body)) + body


def decode_frames(data: bytes) -> Iterator[tuple[Frame, int]]:
    """Yield each frame and where it ends, up to the first that is torn or changed."""
    start, view = 0, memoryview(data)
    while start + _HEAD.size <= len(data):
        length, checksum = _HEAD.unpack_from(data, start)
        start += _HEAD.size
        body = view[start : start + length]
        if len(body) < length or checksum != _checksum(body):
            return
        try:
            frame = _decoder.decode(body)
        except msgspec.MsgspecError:
            return
        start += length
        yield frame, start


def _checksum(body: bytes | memoryview) -> int:
    # Begins with the length, so that a run of zeros is no frame.
    return zlib.crc32(body, zlib.crc32(_LENGTH.pack(len(body))))


class Chunk(NamedTuple):
    """One atomic frame alone, or as many others as CHUNK_BYTES hold, and where they end."""

    frames: list[Frame]
    end: int

    @property
    def envelopes(self) -> int:
        """How many envelopes it holds."""
        return sum(frame.envelopes for frame in self.frames)


class SpoolFile:
    """A locked file of frames, until `finish`, `release` or the end of the process.

    How far it was delivered is not on the disk. After a crash the next process appends the whole
    file, and folds drop what they have applied.

    Attributes:
        path: the file.
        end: its size in bytes.
        done: the offset up to which its frames were delivered.
        waiting: how many envelopes the other frames hold.
    """

    def __init__(self, lock: LockFile) -> None:
        self._lock = lock
        self.path: Path = lock.path
        self.end: int = 0
        self.done = self.waiting = 0

    @classmethod
    def create(cls, directory: Path, prefix: str, suffix: str = SUFFIX) -> Self:
        """Make a file whose name sorts after those made before."""
        make_private(directory)
        name = f"{prefix}.{time.time_ns():020d}-{secrets.token_hex(4)}{suffix}"
        with ExitStack() as undo:
            lock = undo.enter_context(LockFile(directory / name))
            if not lock.try_lock() or lock.was_removed():  # taken for a leftover meanwhile
                return cls.create(directory, prefix, suffix)
            sync(directory)
            undo.pop_all()
        return cls(lock)

    @classmethod
    def adopt(cls, path: Path) -> Self | None:
        """Take over the file of a process that has ended; None if its process lives.

        A tail that is no whole frame is left out: no save returned before its frame was whole.
        """
        with ExitStack() as undo:
            lock = undo.enter_context(LockFile(path))
            # Its owner may have removed it since it was listed, or another have adopted it.
            if not lock.try_lock() or lock.was_removed():
                return None
            file = cls(lock)
            file.end = size = os.fstat(lock.fileno()).st_size
            while chunk := file.read():
                file.done = chunk.end
                file.waiting += chunk.envelopes
            undo.pop_all()
        file.end, file.done = file.done, 0
        if file.end < size:
            _log.warning("%s: %d bytes at %d are no whole frame", path, size - file.end, file.end)
        return file

    def append(self, frames: Sequence[bytes]) -> None:
        """Add frames; they are on the disk when this returns."""
        fd, data = self._lock.fileno(), b"".join(frames)
        try:
            _write(fd, data, self.end)
            os.fsync(fd)
        except OSError:
            os.ftruncate(fd, self.end)
            raise
        self.end += len(data)

    def read(self) -> Chunk | None:
        """Return what goes to the log next.

        None means that everything was delivered, or that the file is damaged.
        """
        rest = self.end - self.done
        for size in (min(rest, CHUNK_BYTES), rest):  # the first frame may be larger
            frames, end = list[Frame](), 0
            for frame, after in decode_frames(os.pread(self._lock.fileno(), size, self.done)):
                if frames and (frame.atomic or after > CHUNK_BYTES):
                    break
                frames.append(frame)
                end = self.done + after
                if frame.atomic:
                    break
            if frames:
                return Chunk(frames, end)
        return None

    def finish(self) -> None:
        """Remove the file if all of it was delivered; or set it aside, if it was damaged."""
        if self.waiting:
            aside = self.path.with_suffix(DAMAGED)
            _log.error(
                "%s is damaged: %d envelopes are lost; see %s", self.path, self.waiting, aside
            )
            self.path.rename(aside)
        else:
            self.path.unlink(missing_ok=True)
        self._lock.release()

    def release(self) -> None:
        """Let go of the file, for the next process that adopts it."""
        self._lock.release()


def erase(path: Path, is_erased: Callable[[Drafts], bool]) -> int:
    """Write a file anew without some drafts, and return how many envelopes went.

    The file of a process that lives is left to it: it appends nothing that was cleared.
    """
    with LockFile(path) as lock:
        if not lock.try_lock() or lock.was_removed():
            return 0
        data = os.pread(lock.fileno(), os.fstat(lock.fileno()).st_size, 0)
        kept, erased, end = list[bytes](), 0, 0
        for frame, end in decode_frames(data):  # noqa: B007
            left = frame.without(is_erased)
            erased += frame.envelopes - (left.envelopes if left else 0)
            kept += [encode_frame(left)] if left else []
        if erased and (kept or end < len(data)):
            made = path.with_name(path.name + ".new")
            with made.open("wb") as file:
                file.write(b"".join(kept) + data[end:])
                file.flush()
                os.fsync(file.fileno())
            made.replace(path)
        elif erased or not data:
            path.unlink(missing_ok=True)
        sync(path.parent)
        return erased


def make_private(directory: Path) -> None:
    """Make the directory and its missing parents for this user alone, and sync their names."""
    if not directory.is_dir():
        make_private(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)
        sync(directory.parent)


def _write(fd: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written
