"""Reading an export: whole and unaltered, or not at all."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final, NamedTuple, cast

from foldlog.errors import ImportFailed
from foldlog.exporting.lines import FORMAT, BlobLine, End, Header, decode_line, decode_record
from foldlog.store import LogRecord

_ZIPPED: Final = b"\x1f\x8b"
_HEADER: Final = b'{"foldlog_export":'
_BLOB: Final = b'{"blob":'
_END: Final = b'{"end":'


class Checked(NamedTuple):
    """An export that is whole.

    Attributes:
        header: its first line: what it holds.
        records: records.
        blobs: artifacts and other large values.
        sha256: the SHA-256 of its lines.
    """

    header: Header
    records: int
    blobs: int
    sha256: str


def is_export(path: str | Path) -> bool:
    """Return whether a file begins as an export does; False for what cannot be read twice.

    Args:
        path: the file.
    """
    if not Path(path).is_file():
        return False
    try:
        with _opened(Path(path)) as file:
            return file.read(len(_HEADER)) == _HEADER
    except (OSError, EOFError, zlib.error):
        return False


def read_header(path: str | Path) -> Header:
    """Return the first line of an export: what it holds.

    Args:
        path: the file.

    Raises:
        ImportFailed: it is no export, or cannot be read.
    """
    for line in _lines(Path(path)):
        if not line.startswith(_HEADER):
            break
        header = decode_line(line, Header)
        if not 1 <= header.foldlog_export <= FORMAT:
            reason = f"format {header.foldlog_export} is newer than this version"
            raise ImportFailed(f"{path}: {reason}: upgrade foldlog")
        return header
    raise ImportFailed(f"{path}: it is no export of foldlog")


def is_blob(line: bytes) -> bool:
    """Whether a line is a blob's, of those between the first and the last."""
    return line.startswith(_BLOB)


def check(path: str | Path, observe: Callable[[bytes], None] | None = None) -> Checked:
    """Read an export to its end, and return what it holds. It blocks.

    Args:
        path: the file.
        observe: called with each line between the first and the last.

    Raises:
        ImportFailed: it is no export, was cut or altered, or cannot be read.
    """
    header = read_header(path)
    digest = hashlib.sha256()
    records, blobs = -1, 0  # the header is no record
    lines = _lines(Path(path))
    for line in lines:
        if line.startswith(_END):
            break
        digest.update(line)
        if records >= 0 and observe is not None:
            observe(line)
        records, blobs = records + (not is_blob(line)), blobs + is_blob(line)
    else:
        raise ImportFailed(f"{path}: it is cut: its last line is missing")
    end = decode_line(line, End)
    found = (max(records, 0), blobs, digest.hexdigest())
    # To the end: a compressed file's last bytes tell whether it is whole.
    if next(lines, None) is not None or found != (end.records, end.blobs, end.sha256):
        raise ImportFailed(f"{path}: it was altered: its lines are not those that were written")
    return Checked(header, *found)


def read(path: Path) -> Iterator[LogRecord | BlobLine]:
    """Yield what a file holds, in its order. Blocks. Errors as `check`, which comes first."""
    lines = _lines(path)
    next(lines)
    for line in lines:
        if line.startswith(_END):
            return
        yield decode_line(line, BlobLine) if is_blob(line) else decode_record(line)


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with _opened(path) as file:
            yield from file
    except (EOFError, zlib.error) as error:
        raise ImportFailed(f"{path}: it was cut or altered: {error}") from error
    except OSError as error:  # gzip's own, too
        raise ImportFailed(f"{path}: {error.strerror or error}") from error


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        is_zipped = file.read(2) == _ZIPPED
    return cast(IO[bytes], gzip.open(path, "rb")) if is_zipped else path.open("rb")
