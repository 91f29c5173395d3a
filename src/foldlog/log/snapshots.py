"""Snapshots beside the log: bytes that spare reading it again, and may be lost (ADR 0006).

A subject may have several, by name. One that does not fit a message is cut into pieces. The first
piece is stored last: it says how many there are, and has a digest of the whole. The others are
named by that digest, so that two who write at the same time never mix theirs.
"""

from __future__ import annotations

import hashlib
import struct
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from foldlog.batches import in_batches
from foldlog.errors import AppendFailed
from foldlog.log.side import Side
from foldlog.subjects import Namespace, Subject, snapshot

_PATIENCE: Final = 1.0
"""Seconds to wait for what can be done without."""

_ATTEMPTS: Final = 3
"""How often a piece that others write at the same time is replaced."""

_AT_ONCE: Final = 8
"""Pieces asked for side by side: what is under way stays bounded."""

_HEAD: Final = struct.Struct(">I16s")
"""What the first piece begins with: the number of pieces, and the digest of the snapshot."""


class Unusable(Exception):
    """Bytes that are no snapshot of a view: torn, damaged, or not what the view keeps."""


class SnapshotStore:
    """Bytes for each subject of the log and each name. The log closes it.

    `identity` tells this incarnation of a shard from any other that had its name.
    """

    def __init__(self, side: Side, namespace: Namespace, identity: Callable[[int], str]) -> None:
        self._side = side
        self._namespace = namespace
        self._identity = identity

    async def identity(self, subject: Subject) -> str:
        """Return the identity of the log that holds `subject`."""
        return self._identity(subject.shard)

    async def get(self, subject: Subject, name: str) -> bytes | None:
        """Return the snapshot of that name, or None.

        Raises:
            Unusable: some of it is missing or damaged.
            LogUnavailable: nobody has answered for a second.
        """
        (head,) = await self._side.get([place(subject, name)], patience=_PATIENCE)
        if head is None:
            return None
        if len(head) < _HEAD.size:
            raise Unusable("it is cut off")
        others, digest = _others(subject, name, head)
        pieces = [head[_HEAD.size :]]
        for some in in_batches(others, _AT_ONCE):
            found = await self._side.get(some, patience=_PATIENCE)
            pieces += [each for each in found if each is not None]
            if None in found:
                break
        data = b"".join(pieces)
        if _digest(data) != digest:
            raise Unusable("it is damaged")
        return data

    async def put(self, subject: Subject, name: str, data: bytes) -> None:
        """Store `data` in the place of what has that name, which is erased.

        Raises:
            AppendFailed, ConfigurationError: refused.
            LogUnavailable: it may be stored or not.
        """
        where, size = place(subject, name), self._side.max_bytes - _HEAD.size
        pieces = [data[start : start + size] for start in range(0, len(data), size)] or [b""]
        (before,) = await self._side.get([where], patience=_PATIENCE)
        head = _HEAD.pack(len(pieces), _digest(data)) + pieces[0]
        others, _ = _others(subject, name, head)
        for other, piece in zip(others, pieces[1:], strict=True):
            await self._replace(other, piece)  # a damaged one may have that name
        await self._replace(where, head)
        if before is not None and len(before) >= _HEAD.size:
            for other in _others(subject, name, before)[0]:
                if other not in others:
                    await self._side.purge(other)

    async def holds(self, subject: Subject) -> bool:
        """Return whether a subject has a snapshot of any name."""
        return bool(await self._side.subjects(snapshot(subject.name, "*")))

    async def purge(self, subject: Subject, *, overwrite: bool = True) -> None:
        """Remove the snapshots of a subject, of every name. Purging again is safe.

        `overwrite`: see `Log.purge`.
        """
        # A wildcard over names and numbers alone: the rest is as literal as the subject.
        await self._side.purge(snapshot(subject.name, "*"), overwrite=overwrite)

    async def purge_all(self) -> None:
        """Remove all snapshots."""
        for shard in range(self._namespace.shards):
            # The mark of a shard stays: its subject ends where the wildcard begins.
            await self._side.purge(snapshot(self._namespace.wildcard(shard), "*"))

    async def names(self) -> dict[str, set[str]]:
        """Return the names of all snapshots by that of their subject.

        For operators: its cost grows with their number.
        """
        found = defaultdict[str, set[str]](set)
        for shard in range(self._namespace.shards):
            for each in await self._side.subjects(snapshot(self._namespace.wildcard(shard), "*")):
                _, piece, subject = each.split(".", 2)
                found[subject].add(piece.partition("~")[0])
        return found

    async def _replace(self, where: str, data: bytes) -> None:
        for _ in range(_ATTEMPTS):
            if await self._side.put([(where, data)]):
                return
            await self._side.purge(where)
        raise AppendFailed(f"others write {where} all the time")


def place(subject: Subject, name: str, piece: str = "0") -> str:
    """Return the subject under which a piece of a snapshot stands. The name is a kind's."""
    return snapshot(subject.name, f"{name}~{piece}")


def _others(subject: Subject, name: str, head: bytes) -> tuple[list[str], bytes]:
    """Where the pieces after the first one stand, and the digest of all."""
    count, digest = _HEAD.unpack_from(head)
    numbers = range(1, count)
    return [place(subject, name, f"{n}~{digest.hex()}") for n in numbers], digest


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:16]
