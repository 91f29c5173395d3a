"""Parts of what was erased, to be looked for in files: few, each too long to be there by chance."""

from __future__ import annotations

import math
import mmap
from pathlib import Path
from typing import Final

_LENGTH: Final = 96
"""Bytes of a part: more than a SHA-256 in hexadecimal, which stays in the subject of a content."""

_SHORTEST: Final = 16
_MOST: Final = 256


class Fragments:
    """Parts of at most 96 bytes; 256 of them are looked for, evenly chosen."""

    def __init__(self) -> None:
        self._parts: dict[bytes, None] = {}

    def add(self, data: bytes) -> None:
        """Take a part of `data`, if it is long enough."""
        if len(data) >= _SHORTEST:
            # Its end: payloads of one type begin alike.
            self._parts[data[-_LENGTH:]] = None

    def found_below(self, directory: Path) -> int | None:
        """Return how many parts stand in files below `directory`; None if there are no parts.

        Reads all files: blocks. One that goes meanwhile holds nothing any more.
        """
        if not self._parts:
            return None
        parts = list(self._parts)
        looked_for = left = set(parts[:: math.ceil(len(parts) / _MOST)])
        for path in directory.rglob("*"):
            try:
                if path.is_file() and path.stat().st_size:
                    left = left - _found(path, left)
            except FileNotFoundError:
                continue
        return len(looked_for) - len(left)


def _found(path: Path, parts: set[bytes]) -> set[bytes]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return {part for part in parts if content.find(part) >= 0}
