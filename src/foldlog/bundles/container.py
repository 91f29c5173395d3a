"""The one form of a bundle's file: a ZIP of stored entries, whose every byte is determined.

No compression, no dates, no comments, nothing between entries: the same entries make the same file,
and any other file is refused. So nothing hides from one reader that another shows, nothing unpacks
to more than the file's own size, and nothing is extracted.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Final, NamedTuple

MOST_BYTES: Final = 2**31 - 1
"""What a bundle may take: beyond it a ZIP needs other records."""

_MOST_ENTRIES: Final = 2**16 - 2
_LONGEST_NAME: Final = 200
_CHUNK: Final = 1024 * 1024
_LOCAL, _CENTRAL, _END = map(struct.Struct, ("<4s5H3I2H", "<4s6H3I5H2I", "<4s4H2IH"))
_VERSION, _DATE, _UNIX, _MODE = 20, 0x21, 3 << 8, 0o100644 << 16


class Malformed(ValueError):
    """A file that is no bundle, or not in its one form."""


class Entry(NamedTuple):
    """One entry of a file: its name, where its bytes begin, how many there are, their CRC."""

    name: str
    start: int
    size: int
    crc: int

    @property
    def local_header(self) -> bytes:
        """What stands before its bytes."""
        name = self.name.encode("ascii")
        sizes = (self.crc, self.size, self.size, len(name), 0)
        return _LOCAL.pack(b"PK\3\4", _VERSION, 0, 0, 0, _DATE, *sizes) + name

    @property
    def central_header(self) -> bytes:
        """What the directory at the end says of it."""
        name = self.name.encode("ascii")
        offset = self.start - len(self.local_header)
        return (
            _CENTRAL.pack(
                *(b"PK\1\2", _UNIX | _VERSION, _VERSION, 0, 0, 0, _DATE),
                *(self.crc, self.size, self.size, len(name), 0, 0, 0, 0, _MODE, offset),
            )
            + name
        )


def _directory(entries: Sequence[Entry], at: int) -> bytes:
    headers = b"".join(each.central_header for each in entries)
    count = len(entries)
    return headers + _END.pack(b"PK\5\6", 0, 0, count, count, len(headers), at, 0)


class Writing:
    """Writes a bundle's file, entry by entry. `file` can be sought in."""

    def __init__(self, file: IO[bytes], entries: Sequence[Entry] = ()) -> None:
        self._file = file
        self._entries = list(entries)

    @contextmanager
    def entry(self, name: str) -> Iterator[EntryWriting]:
        """Begin an entry; it ends with the block."""
        begin = self._file.tell()
        self._file.write(Entry(name, 0, 0, 0).local_header)
        writing = EntryWriting(self._file)
        yield writing
        end = self._file.tell()
        if end > MOST_BYTES or len(self._entries) >= _MOST_ENTRIES:
            raise Malformed(f"it would exceed {MOST_BYTES:,} bytes or {_MOST_ENTRIES:,} entries")
        made = Entry(name, end - writing.size, writing.size, writing.crc)
        self._file.seek(begin)
        self._file.write(made.local_header)
        self._file.seek(end)
        self._entries.append(made)

    def finish(self) -> None:
        """Write the directory. Nothing follows."""
        self._file.write(_directory(self._entries, self._file.tell()))
        self._file.truncate()


class EntryWriting:
    """Writes the bytes of one entry."""

    size: int
    crc: int

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.size = self.crc = 0

    def write(self, data: bytes) -> None:
        """Write what follows."""
        self._file.write(data)
        self.size += len(data)
        self.crc = zlib.crc32(data, self.crc)


def read_entries(file: IO[bytes]) -> list[Entry]:
    """Return what a file holds, in order; their bytes and CRCs are not looked at yet.

    Raises:
        Malformed: the file is not exactly what `Writing` makes of such entries.
    """
    length = file.seek(0, 2)
    if length > MOST_BYTES:
        raise Malformed(f"it has {length:,} bytes; a bundle has {MOST_BYTES:,} at most")
    entries: list[Entry] = []
    at = file.seek(0)
    while (header := file.read(_LOCAL.size))[:4] == b"PK\3\4" and len(header) == _LOCAL.size:
        *_, crc, size, _, name_length, _ = _LOCAL.unpack(header)
        name = file.read(min(name_length, _LONGEST_NAME)).decode("ascii", "replace")
        found = Entry(name, at + len(header) + name_length, size, crc)
        if not name.isascii() or found.local_header != header + name.encode():
            raise Malformed(f"the header of its entry {len(entries) + 1} is not in a bundle's form")
        at = found.start + size
        if at > length or len(entries) >= _MOST_ENTRIES:
            raise Malformed(f"it is cut off in its entry {name}, or has too many entries")
        entries.append(found)
        file.seek(at)
    file.seek(at)
    expected = _directory(entries, at)
    if file.read(len(expected) + 1) != expected:
        words = "is cut off, or what follows its entries is not their directory"
        raise Malformed(words if entries else "is no bundle, or its beginning was altered")
    return entries


def read_chunks(file: IO[bytes], entry: Entry) -> Iterator[bytes]:
    """Yield the bytes of an entry, in pieces of at most 1 MiB.

    Raises:
        Malformed: they are not those that the header's CRC was made of.
    """
    crc, left = 0, entry.size
    file.seek(entry.start)
    while left:
        chunk = file.read(min(left, _CHUNK))
        if not chunk:
            raise Malformed(f"{entry.name} is cut off")
        left -= len(chunk)
        crc = zlib.crc32(chunk, crc)
        yield chunk
    if crc != entry.crc:
        raise Malformed(f"{entry.name} is not what its CRC was made of")


def read_lines(file: IO[bytes], entry: Entry, longest: int) -> Iterator[bytes]:
    """Yield the lines of an entry, each with its end.

    Raises:
        Malformed: one is longer than that, has no end, or the CRC is not that of the lines.
    """
    crc, at = 0, entry.start
    end = entry.start + entry.size
    while at < end:
        file.seek(at)
        line = file.readline(min(longest, end - at))
        if not line.endswith(b"\n"):
            raise Malformed(f"a line of {entry.name} has no end, or over {longest:,} bytes")
        at += len(line)
        crc = zlib.crc32(line, crc)
        yield line
    if crc != entry.crc:
        raise Malformed(f"{entry.name} is not what its CRC was made of")
