"""Snapshots in a stream of their own: the last message of each subject, and nothing before it.

The stream is made when the first snapshot is stored; a namespace without long subjects has none.
It may be purged or removed at any time: all it costs is reading the log again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

import msgspec
from nats.aio.msg import Msg

from foldlog.errors import LogUnavailable
from foldlog.log.jetstream import streams
from foldlog.log.jetstream.connection import ReplyLost, status_of
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
        self._stream = log.side.name
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
            raise LogUnavailable(f"{self._stream} did not answer a moment ago")
        if len(numbers) == 1:  # the most common, without tasks
            try:
                return [await self._get(subject, slot(edition, numbers[0]))]
            except ReplyLost:
                self._silent_until = time.monotonic() + _SILENCE
                raise
        found: list[bytes | BaseException | None] = []
        for start in range(0, len(numbers), _AT_ONCE):
            asked = (
                self._get(subject, slot(edition, number))
                for number in numbers[start : start + _AT_ONCE]
            )
            found += await asyncio.gather(*asked, return_exceptions=True)
        for each in found:
            if isinstance(each, ReplyLost):
                self._silent_until = time.monotonic() + _SILENCE
            if isinstance(each, BaseException):
                raise each
        return [each for each in found if not isinstance(each, BaseException)]

    async def holds(self, subject: Subject) -> bool:
        """See the port."""
        if not await self._side.exists():
            return False
        connection, wanted = self._log.connection, snapshot(subject.name, "*")
        return bool(
            await streams.subjects(connection, self._stream, wanted, timeout=self._log.timeout)
        )

    async def put(self, subject: Subject, number: int, data: bytes, edition: str = "") -> None:
        """See the port."""
        await self._side.publish(snapshot(subject.name, slot(edition, number)), data)

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
        log, found = self._log, list[tuple[str, str]]()
        if not await self._side.exists():
            return []
        for shard in range(log.namespace.shards):
            wanted = snapshot(log.namespace.wildcard(shard, family), matching)
            held = await streams.subjects(log.connection, self._stream, wanted, timeout=log.timeout)
            for name in held:
                _, where, subject = name.split(".", 2)
                found.append((where, subject))
        return found

    async def _get(self, subject: Subject, where: Slot) -> bytes | None:
        msg = await self._last(snapshot(subject.name, where), _PATIENCE)
        return None if msg is None else msg.data

    async def _last(self, subject: str, patience: float) -> Msg | None:
        connection, asked = self._log.connection, f"$JS.API.DIRECT.GET.{self._stream}"
        if connection.forbids(asked):
            return None
        payload = msgspec.json.encode({"last_by_subj": subject})
        try:
            msg = await connection.request(asked, payload, timeout=patience)
        except ReplyLost:
            if connection.forbids(asked):
                return None
            raise
        except LogUnavailable:
            return None  # nobody serves the stream: it was not made yet
        return None if status_of(msg) else msg
