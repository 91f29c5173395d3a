"""The bytes of values that follow from each other, in memory: what they share, they have once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from foldlog_projections.langgraph.bytesdelta import Piece, difference

Version = str | int | float
Since = Version | None
Pieces = tuple[Piece, ...]

_MOST_CHUNKS: Final = 256
"""Pieces that a value which shares no list with another has at most."""

_DIGITS: Final = 32
"""Digits of the number with which a framework's version begins; the rest follows a dot."""

_ARRAYS: Final = {0xDC: 3, 0xDD: 5}
"""The first bytes of long MessagePack arrays, and how long their headers are."""


class Body:
    """One value's bytes: `head`, and the first `count` of `chunks`. It never changes.

    A value that another one continues shares its list of chunks, which only grows.
    """

    __slots__ = ("chunks", "count", "form", "head", "size")

    def __init__(
        self, form: str, head: bytes, chunks: list[bytes | memoryview], count: int, size: int
    ) -> None:
        self.form: str = form
        self.head: bytes = head
        self.chunks: list[bytes | memoryview] = chunks
        self.count: int = count
        self.size: int = size

    @classmethod
    def of(cls, form: str, data: bytes) -> Body:
        """A value by itself.

        What comes first in a MessagePack array is how long it is: that is the head, so that what
        is behind it is the same in a list that grows.
        """
        head = _header(data) if form == "msgpack" else 0
        rest = data[head:] if head else data
        return cls(form, data[:head], [rest] if rest else [], 1 if rest else 0, len(rest))

    @classmethod
    def following(cls, base: Body | None, form: str, head: bytes, pieces: Pieces) -> Body:
        """The value that the pieces make of another one.

        Raises:
            ValueError: they are of another one.
        """
        if base is not None and pieces and pieces[0] == (0, base.size):
            is_whole = base.count == len(base.chunks)
            chunks = base.chunks if is_whole else base.chunks[: base.count]
            pieces, size, is_shared = pieces[1:], base.size, is_whole
        else:
            chunks, size, is_shared = [], 0, False
        count = len(chunks)
        added: list[bytes | memoryview] = []
        for piece in pieces:
            if isinstance(piece, bytes):
                added.append(piece)
                size += len(piece)
            else:
                start, end = piece
                if base is None or not 0 <= start <= end <= base.size:
                    raise ValueError(f"bytes {start} to {end} are of another value")
                added += base._cut(start, end)
                size += end - start
        chunks += added
        count += len(added)
        if not is_shared and count > _MOST_CHUNKS:
            chunks, count = [b"".join(chunks)], 1
        return cls(form, head, chunks, count, size)

    @property
    def data(self) -> bytes:
        """All of it, as the serialiser made it."""
        return b"".join((self.head, *self.chunks[: self.count]))

    def since(self, base: Body | None) -> tuple[bytes, Pieces]:
        """The head, and the pieces that make this value of another one."""
        if base is None:
            rest = b"".join(self.chunks[: self.count])
            return self.head, (rest,) if rest else ()
        if self.chunks is base.chunks and self.count >= base.count:
            rest = b"".join(self.chunks[base.count : self.count])
            return self.head, ((0, base.size), rest) if rest else ((0, base.size),)
        old, new = (b"".join(each.chunks[: each.count]) for each in (base, self))
        return self.head, tuple(difference(old, new))

    def _cut(self, start: int, end: int) -> list[bytes | memoryview]:
        found: list[bytes | memoryview] = []
        at = 0
        for chunk in self.chunks[: self.count]:
            if at >= end:
                break
            if at + len(chunk) > start:
                first, last = max(start - at, 0), min(end - at, len(chunk))
                whole = first == 0 and last == len(chunk)
                found.append(chunk if whole else memoryview(chunk)[first:last])
            at += len(chunk)
        return found


def _header(data: bytes) -> int:
    """How many bytes a MessagePack array takes to say how long it is; 0 if it is none."""
    if not data:
        return 0
    first = data[0]
    return 1 if 0x90 <= first <= 0x9F else _ARRAYS.get(first, 0)


def packed(versions: Mapping[str, Version]) -> dict[str, Version]:
    """Versions as `pack` has them."""
    return {name: pack(version) for name, version in versions.items()}


def unpacked(versions: Mapping[str, Version], strings: dict[str, Version]) -> dict[str, Version]:
    """Versions as they were; those that `strings`, which grows, has already are the same object."""
    found = {}
    for name, version in versions.items():
        if isinstance(version, str):
            whole = strings.get(version)
            found[name] = strings.setdefault(version, unpack(version)) if whole is None else whole
        else:
            found[name] = version
    return found


def pack(version: Version) -> Version:
    """A version without the zeros that it begins with."""
    if not isinstance(version, str):
        return version
    number = version[:_DIGITS]
    if version[_DIGITS : _DIGITS + 1] == "." and number.isascii() and number.isdigit():
        return "#" + version.lstrip("0")
    return "#" + version if version.startswith("#") else version


def unpack(version: Version) -> Version:
    """The version that `pack` was given."""
    if not isinstance(version, str) or not version.startswith("#"):
        return version
    if version.startswith("##"):
        return version[1:]
    number, _, rest = version[1:].partition(".")
    return f"{number:0>{_DIGITS}}.{rest}"
