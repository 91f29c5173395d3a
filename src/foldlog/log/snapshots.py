"""Snapshots beside the log: bytes that spare reading it again, and may be lost (ADR 0006).

A snapshot has a head, number 0, and parts from 1 on. A subject may have several, in *editions*;
most have the edition "".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from foldlog.errors import AppendFailed
from foldlog.log.side import Side
from foldlog.subjects import Namespace, Subject, snapshot

_PATIENCE: Final = 1.0
"""Seconds to wait for what can be done without."""

_ATTEMPTS: Final = 3
"""How often a part that others write at the same time is replaced."""

_AT_ONCE: Final = 8
"""Parts asked for side by side: what is under way stays bounded."""


class SnapshotStore:
    """Numbered bytes for each subject of the log, which closes them.

    `identity` tells this incarnation of a shard from any other that had its name.
    """

    def __init__(self, side: Side, namespace: Namespace, identity: Callable[[int], str]) -> None:
        self._side = side
        self._namespace = namespace
        self._identity = identity

    @property
    def max_bytes(self) -> int:
        """How large a head or a part may be."""
        return self._side.max_bytes

    async def identity(self, subject: Subject) -> str:
        """Return the identity of the log that holds `subject`."""
        return self._identity(subject.shard)

    async def get(
        self, subject: Subject, numbers: Sequence[int], edition: str = ""
    ) -> list[bytes | None]:
        """Return what is stored under each number, or None; LogUnavailable after a second."""
        found: list[bytes | None] = []
        for start in range(0, len(numbers), _AT_ONCE):
            some = [place(subject, n, edition) for n in numbers[start : start + _AT_ONCE]]
            found += await self._side.get(some, patience=_PATIENCE)
        return found

    async def holds(self, subject: Subject) -> bool:
        """Return whether a subject has a snapshot in any edition."""
        return bool(await self._side.subjects(snapshot(subject.name, "*")))

    async def put(self, subject: Subject, number: int, data: bytes, edition: str = "") -> None:
        """Store `data` in the place of what is there, which is erased.

        Raises:
            AppendFailed, ConfigurationError: refused. LogUnavailable: it may be stored or not.
        """
        where = place(subject, number, edition)
        for _ in range(_ATTEMPTS):
            if await self._side.put([(where, data)]):
                return
            await self._side.purge(where)
        raise AppendFailed(f"others write {where} all the time")

    async def purge(self, subject: Subject, *, overwrite: bool = True) -> None:
        """Remove the snapshots of a subject, of every edition. Purging again is safe.

        `overwrite`: see `Log.purge`.
        """
        # A wildcard over the numbers alone: the rest is as literal as the subject.
        await self._side.purge(snapshot(subject.name, "*"), overwrite=overwrite)

    async def purge_all(self) -> None:
        """Remove all snapshots."""
        for shard in range(self._namespace.shards):
            # The mark of a shard stays: its subject ends where the wildcard begins.
            await self._side.purge(snapshot(self._namespace.wildcard(shard), "*"))

    async def names(self, family: str, edition: str = "") -> set[str]:
        """Return the names of a family's subjects that have a head in an edition.

        For operators: its cost grows with their number.
        """
        found = set[str]()
        for shard in range(self._namespace.shards):
            heads = snapshot(self._namespace.wildcard(shard, family), _slot(0, edition))
            found.update(each.split(".", 2)[2] for each in await self._side.subjects(heads))
        return found


def place(subject: Subject, number: int, edition: str = "") -> str:
    """Return the subject under which a number of a snapshot stands."""
    return snapshot(subject.name, _slot(number, edition))


def _slot(number: int, edition: str) -> str:
    return f"{edition}~{number}" if edition else str(number)
