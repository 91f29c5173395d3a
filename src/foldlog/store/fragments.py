"""Parts of what was erased, to be looked for in files: few, each too long to be there by chance.

A server that was told to purge need not have overwritten anything. No request reaches those bytes,
but whoever reads the disk does, so an operator should know.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Final

_LENGTH: Final = 64
_SHORTEST: Final = 16
_MOST: Final = 256


class Fragments:
    """Up to 256 parts of at most 64 bytes, the first that were added."""

    def __init__(self) -> None:
        self._parts: set[bytes] = set()

    def add(self, data: bytes) -> None:
        """Take a part of `data`, if it is long enough and there are not enough already."""
        if len(data) >= _SHORTEST and len(self._parts) < _MOST:
            # Its end: payloads of one type begin alike.
            self._parts.add(data[-_LENGTH:])

    def found_below(self, directory: Path) -> int:
        """Return how many parts stand in files below `directory`. Reads all of them: blocks.

        A file that goes meanwhile holds nothing any more.
        """
        left = set(self._parts)
        for path in directory.rglob("*"):
            try:
                left -= _found(path, left) if path.is_file() and path.stat().st_size else set()
            except FileNotFoundError:
                continue
        return len(self._parts) - len(left)


def _found(path: Path, parts: set[bytes]) -> set[bytes]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return {part for part in parts if content.find(part) >= 0}
