"""Erasure: a session is cleared, and whether nothing of it can be read is looked for, not assumed.

1. Clear it, and note what there was. 2. Read all of it again in every way: views, raw records,
snapshots, large values. 3. Look for parts of it in the embedded server's directory.
"""

from __future__ import annotations

import asyncio
import math
import mmap
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from foldlog.disk import sync
from foldlog.envelope import CLEARED
from foldlog.kind import Key
from foldlog.log.embedded.blocks import count_records
from foldlog.store.clearing import Area, where
from foldlog.store.operation import operation
from foldlog.store.ownership import key_named
from foldlog.store.removal import Removal

_LENGTH: Final = 96
"""Bytes of a part: more than a SHA-256 in hexadecimal, which records hold of large values."""

_SHORTEST: Final = 16
_MOST: Final = 256


@dataclass(frozen=True, slots=True)
class Erased:
    """What `erase_session` removed, and what it found afterwards.

    Attributes:
        session_id: the session.
        removed: envelopes removed, by kind.
        payload_bytes: the bytes of their payloads.
        blobs: large values removed, such as artifacts.
        traces: the traces that were removed with the session.
        generation: the sequence of the session's tombstone.
        looked_at: how many views were read back.
        readable: what can still be read: nothing, unless somebody saved meanwhile.
        on_disk: parts of the session that files of the embedded server's data directory hold: 0,
            unless somebody else has saved the same, or the server was killed while it removed
            some: these bytes stay until it rewrites their block. None: nothing was looked for,
            because the server is elsewhere or there was nothing to remove.
    """

    session_id: str
    removed: dict[str, int]
    payload_bytes: int
    blobs: int
    traces: tuple[str, ...]
    generation: int
    looked_at: int
    readable: tuple[str, ...]
    on_disk: int | None


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

        Syncs all folders, and syncs and reads all files: blocks. What the server has overwritten or
        removed is on the disk then, so that no loss of power brings it back. A file that goes
        meanwhile holds nothing.
        """
        if not self._parts:
            return None
        parts = list(self._parts)
        looked_for = left = set(parts[:: math.ceil(len(parts) / _MOST)])
        for folder, _, names in os.walk(directory):
            with suppress(FileNotFoundError):
                sync(Path(folder))  # so that no file that was removed comes back
            for name in names:
                path = Path(folder, name)
                with suppress(FileNotFoundError):
                    left = left - (_found(path, left) if path.is_file() else set())
        return len(looked_for) - len(left)


def _found(path: Path, parts: set[bytes]) -> set[bytes]:
    with path.open("rb") as file:
        os.fsync(file.fileno())
        if not os.fstat(file.fileno()).st_size:
            return set()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return {part for part in parts if content.find(part) >= 0}


class Erasure(Removal):
    """Erases sessions, and shows it."""

    @operation(writes=True)
    async def erase_session(self, session_id: str) -> Erased:
        """Clear a session, then read back all that was there, and report what was found.

        It removes what `clear_session` removes. It is for operators: it reads the whole session
        first. Erasing again is safe, and removes the bytes of late writers, which no reader sees.

        Args:
            session_id: the session.

        Returns:
            What was removed, what can still be read (`readable`), and what files hold (`on_disk`).

        Raises:
            InvalidId: the id is empty.
            SessionHasForks: forks still share the session. Nothing was removed.
            ConfigurationError: the server denies deletes, or a spool file cannot be written. Some
                may remain.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: some may remain; erase again.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.

        Examples:
            >>> await store.save_memory_state("acme:ann:trip", {"n": 1})
            >>> erased = await store.erase_session("trip")
            >>> erased.removed["memory"], erased.readable
            (1, ())
            >>> await store.load_memory_state("acme:ann:trip") is None
            True
        """
        fragments, traces = Fragments(), dict[str, None]()
        generation, areas, held = await self._remove_session(
            session_id, lambda key, envelope: fragments.add(envelope.payload)
        )
        self._core.forget_tables()
        removed, payload_bytes = Counter[str](), 0
        for each in held:
            if each.count:
                removed[each.key.kind.name] += each.count
                payload_bytes += each.payload_bytes
        for area in areas:
            if area.kind.owner == "trace":
                traces[area.keys[0]] = None
        views = list(dict.fromkeys(each.key for each in held))
        pointers = {key_named(self._core, *pair) for each in held for pair in each.pointers}
        names = {self._core.subject(k.kind, *k.keys).name.encode() for k in views}
        on_disk, records = None, Counter[bytes]()
        if self._core.backend.server is not None:
            directory = self._core.backend.server.path
            on_disk = await asyncio.to_thread(fragments.found_below, directory)
            records = await asyncio.to_thread(count_records, directory, names)
        readable, stored = await self._read_back([*areas, *pointers], views)
        # Records that the log does not have and the files do: a killed server left them.
        if left := (records - stored).total():
            on_disk = (on_disk or 0) + left
        return Erased(
            session_id=session_id,
            removed=dict(sorted(removed.items())),
            payload_bytes=payload_bytes,
            blobs=sum(len(each.blobs) for each in held),
            traces=tuple(traces),
            generation=generation,
            looked_at=len(views),
            readable=tuple(sorted(readable)),
            on_disk=on_disk,
        )

    async def _read_back(
        self, areas: Sequence[Area], keys: Sequence[Key[Any]]
    ) -> tuple[set[str], Counter[bytes]]:
        """The names of what is not gone, and how many records each subject has."""
        readable, stored = set[str](), Counter[bytes]()
        snapshots = self._core.hot_views.snapshots
        for area in areas:
            subject = where(self._core, area)
            async for page in self._core.log.read(subject):
                stored.update((record.subject or subject.name).encode() for record in page)
                readable |= {
                    f"{record.subject or subject.name} at sequence {record.seq}"
                    for record in page
                    if any(envelope.type != CLEARED for envelope in record.envelopes)
                }
            if area.kind.has_blobs:
                names = await self._core.backend.blobs.names(subject.name, partial=True)
                readable |= {f"the bytes {each.name}" for each in names}
        for key in keys:
            folded = await self._core.read(key.kind, *key.keys, consistency="strong")
            if folded.seen:
                readable.add(f"the view {key}")
            subject = self._core.subject(key.kind, *key.keys)
            if snapshots is not None and await snapshots.store.holds(subject):
                readable.add(f"the snapshot of {subject.name}")
        return readable, stored
