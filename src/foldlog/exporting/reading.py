"""Reading an export: whole and unaltered, or not at all."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Final, NamedTuple, cast

from foldlog.errors import ImportFailed
from foldlog.exporting.lines import (
    FORMAT,
    BlobLine,
    Header,
    Manifest,
    Places,
    decode_line,
    decode_record,
    encode_line,
    number_of,
)
from foldlog.store import LogRecord

MEMBER: Final = "export.jsonl"
"""What a bundle calls its export."""

_GZIP, _ZIP = b"\x1f\x8b", b"PK"
_HEADER: Final = b'{"foldlog_export":'
_BLOB: Final = b'{"blob":'
_END: Final = b'{"end":'

_DAMAGE: Final = (
    EOFError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What a compressed file or a bundle that was cut or altered makes its readers raise."""


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
    """Return whether a file begins as an export or a bundle does.

    Args:
        path: the file. False for what cannot be read twice.
    """
    if not Path(path).is_file():
        return False
    try:
        with _opened(Path(path)) as file:
            return file.read(len(_HEADER)) == _HEADER
    except ImportFailed:
        return False


def read_header(path: str | Path) -> Header:
    """Return the first line of an export or a bundle: what it holds.

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
    """Read an export or a bundle to its end, and return what it holds. It blocks.

    The error says what was done to the file, and where: a line was altered, added, removed or
    moved, or the end is cut off.

    Args:
        path: the file.
        observe: called with each line between the first and the last.

    Raises:
        ImportFailed: it is no export, was cut or altered, or cannot be read.
    """
    header = read_header(path)
    places, blobs, lines = Places(), 0, _lines(Path(path))
    has_places = header.foldlog_export > 2
    for line in lines:
        if line.startswith(_END):
            break
        if has_places and places.lines and not line.endswith(places.next):
            raise ImportFailed(f"{path}: {_what_was_done(places.lines, line, lines)}")
        if places.lines and observe is not None:
            observe(line)
        places.add(line)
        blobs += is_blob(line)
    else:
        raise ImportFailed(f"{path}: it is cut off behind line {places.lines}")
    end, records = decode_line(line, Manifest), places.lines - 1 - blobs
    # To the end: a compressed file's last bytes tell whether it is whole.
    if next(lines, None) is not None:
        raise ImportFailed(f"{path}: lines were added behind its end")
    found = Manifest(True, records, blobs, places.sha256)
    if end != found or (has_places and line != encode_line(found)):
        lacking = end.records + end.blobs - records - blobs
        how = f"{abs(lacking)} line(s) were {'removed' if lacking > 0 else 'added'} before its end"
        altered = f"line {places.lines} was altered, or the last line"
        raise ImportFailed(f"{path}: {how if lacking else altered}")
    return Checked(header, records, blobs, places.sha256)


def _what_was_done(checked: int, line: bytes, rest: Iterator[bytes]) -> str:
    """Say what became of a file in which so many lines are followed by a line that did not."""
    number, wanted = number_of(line), checked + 1
    if number is None:
        return f"line {wanted} was altered"
    if number == wanted:
        return f"line {checked} was altered, or what line {wanted} says of it"
    if number < wanted:
        return f"a line was added or moved behind line {checked}"
    if any(number_of(each) == wanted for each in rest):
        return f"line {wanted} was moved"
    return f"{number - wanted} line(s) were removed behind line {checked}"


def read(path: Path) -> Iterator[LogRecord | BlobLine]:
    """Yield what a file holds, in its order. Blocks. Errors as `check`, which comes first."""
    for line in islice(_lines(path), 1, None):
        if line.startswith(_END):
            return
        yield decode_line(line, BlobLine) if is_blob(line) else decode_record(line)


def _lines(path: Path) -> Iterator[bytes]:
    with _opened(path) as file:
        yield from file


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    with read_errors(path), path.open("rb") as file:
        magic = file.read(2)
        file.seek(0)
        if magic == _GZIP:
            yield cast(IO[bytes], gzip.GzipFile(fileobj=file))
        elif magic == _ZIP:
            with zipfile.ZipFile(file) as bundle:
                if bundle.getinfo(MEMBER).compress_type:
                    raise zipfile.BadZipFile("it is compressed")  # and how large inside?
                with bundle.open(MEMBER) as member:
                    yield member
        else:
            yield file


@contextmanager
def read_errors(path: Path) -> Iterator[None]:
    """Raise ImportFailed where a file cannot be read."""
    try:
        yield
    except _DAMAGE as error:
        raise ImportFailed(f"{path}: it was cut or altered: {error}") from error
    except OSError as error:  # gzip's own, too
        raise ImportFailed(f"{path}: {error.strerror or error}") from error
