"""The records in the block files of the embedded server, those included that it no longer shows.

A server that is killed while it erases a message has noted first that the message is gone, and
overwrites it then (nats-server, `removeMsgFromBlock`): its bytes stay until the block is rewritten.
This rests on the layout of the files (`filestore.go`). Where a newer server has another one,
nothing is found.
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_HEADER: Final = struct.Struct("<IQqH")
"""The length of the record, its sequence, its time, and the length of its subject."""

_HAS_HEADERS: Final = 1 << 31
_IS_NO_MESSAGE: Final = 3 << 62
"""Of a sequence: the message was overwritten, or the record notes that another one was deleted."""


def count_records(directory: Path, subjects: Collection[bytes]) -> Counter[bytes]:
    """Return how many records of each subject stand in the block files below a directory."""
    counts = Counter[bytes]()
    for folder, _, names in os.walk(directory):  # `rglob` fails where a folder goes meanwhile
        for path in (Path(folder, name) for name in names if name.endswith(".blk")):
            with suppress(FileNotFoundError):  # the server has rewritten it
                counts.update(each for each in _subjects_in(path.read_bytes()) if each in subjects)
    return counts


def _subjects_in(content: bytes) -> Iterator[bytes]:
    at = 0
    while at + _HEADER.size <= len(content):
        length, seq, _, size = _HEADER.unpack_from(content, at)
        if seq and not seq & _IS_NO_MESSAGE:
            start = at + _HEADER.size
            yield content[start : start + size]
        at += max(length & ~_HAS_HEADERS, _HEADER.size)
