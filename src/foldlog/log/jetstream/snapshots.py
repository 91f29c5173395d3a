"""Snapshots in a stream of their own: the last message of each subject, and nothing before it.

The stream is made when the first snapshot is stored; a namespace without long subjects has none.
It may be purged or removed at any time: all it costs is reading the log again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from foldlog.errors import LogUnavailable
from foldlog.log.jetstream.connection import Forbidden, ReplyLost
from foldlog.log.jetstream.log import JetStreamLog
from foldlog.log.packing import OVERHEAD
from foldlog.log.snapshots import Slot, slot
from foldlog.subjects import Subject, snapshot

_PATIENCE: Final = 1.0
"""Seconds to wait for what can be done without."""

_SILENCE: Final = 60.0
"""Seconds without another question after one that nobody answered: an account that may not read
the stream may get no reply at all, and no read should wait for that twice."""

_AT_ONCE: Final = 8
"""Parts asked for side by side: what is under way stays bounded."""


class JetStreamSnapshots:
    """The snapshots of a log's namespace. Lives and ends with the log."""

    def __init__(self, log: JetStreamLog) -> None:
        self._log = log
        self._side = log.side
        self._silent_until = 0.0

    @property
    def max_bytes(self) -> int:
        """See the port."""
        return self._log.connection.max_payload - OVERHEAD

    async def identity(self, subject: Subject) -> str:
        """See the port: the incarnation of the subject's shard."""
        return self._log.identity(subject.shard)

    async def get(
        self, subject: Subject, numbers: Sequence[int], edition: str = ""
    ) -> list[bytes | None]:
        """See the port."""
        if time.monotonic() < self._silent_until:
            raise LogUnavailable(f"{self._side.name} did not answer a moment ago")
        names = [snapshot(subject.name, slot(edition, number)) for number in numbers]
        found: list[bytes | None] = []
        try:
            for start in range(0, len(names), _AT_ONCE):
                some = names[start : start + _AT_ONCE]
                found += await self._side.get(some, timeout=_PATIENCE)
        except Forbidden:
            return [None] * len(names)
        except ReplyLost:
            self._silent_until = time.monotonic() + _SILENCE
            raise
        return found

    async def holds(self, subject: Subject) -> bool:
        """See the port."""
        return bool(await self._side.subjects(snapshot(subject.name, "*")))

    async def put(self, subject: Subject, number: int, data: bytes, edition: str = "") -> None:
        """See the port."""
        await self._side.publish([(snapshot(subject.name, slot(edition, number)), data)])

    async def purge(self, subject: Subject) -> None:
        """See the port."""
        # A wildcard over the numbers alone: the rest is as literal as the subject.
        await self._side.purge(snapshot(subject.name, "*"))

    async def purge_all(self, family: str | None = None) -> None:
        """See the port."""
        namespace = self._log.namespace
        for shard in range(namespace.shards):
            # A mark's subject ends where the wildcard begins: it is none of them.
            await self._side.purge(snapshot(namespace.wildcard(shard, family), "*"))

    async def names(self, family: str, edition: str = "") -> set[str]:
        """See the port."""
        return {name for _, name in await self._slots(family, slot(edition, 0))}

    async def _slots(self, family: str, matching: Slot) -> list[tuple[str, str]]:
        """What is stored of a family in the slots that match, each with its subject's name."""
        namespace, found = self._log.namespace, list[tuple[str, str]]()
        for shard in range(namespace.shards):
            wanted = snapshot(namespace.wildcard(shard, family), matching)
            for name in await self._side.subjects(wanted):
                _, where, subject = name.split(".", 2)
                found.append((where, subject))
        return found
