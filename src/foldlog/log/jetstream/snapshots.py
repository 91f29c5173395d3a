"""Snapshots in a stream of their own: the last message of each subject, and nothing before it.

The stream is made when the first snapshot is stored; a namespace without long subjects has none.
It may be purged or removed at any time: all it costs is reading the log again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from nats.aio.msg import Msg

from foldlog.errors import AppendFailed, ConfigurationError, LogUnavailable
from foldlog.log.jetstream import streams, wire
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

_log: Final = logging.getLogger("foldlog")

_ack_decoder = msgspec.json.Decoder(wire.PubAck)


class JetStreamSnapshots:
    """The snapshots of a log's namespace. Lives and ends with the log."""

    def __init__(self, log: JetStreamLog) -> None:
        self._log = log
        self._stream = log.namespace.snapshots()
        self._identities: dict[int, str] = {}
        self._made = False
        self._silent_until = self._markless_until = 0.0
        self._shown = False

    @property
    def max_bytes(self) -> int:
        """See the port."""
        return self._log.connection.max_payload - OVERHEAD

    async def identity(self, subject: Subject) -> str:
        """See the port: when the shard's stream was created."""
        known = self._identities.get(subject.shard)
        if known is None:
            described = await self._described(self._log.namespace.stream(subject.shard))
            known = self._identities[subject.shard] = described.created
        return known

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
        if (await self._info(self._stream)).error is not None:
            return False  # it was not made yet
        connection, wanted = self._log.connection, snapshot(subject.name, "*")
        return bool(
            await streams.subjects(connection, self._stream, wanted, timeout=self._log.timeout)
        )

    async def put(self, subject: Subject, number: int, data: bytes, edition: str = "") -> None:
        """See the port."""
        await self._make()
        where = snapshot(subject.name, slot(edition, number))
        _accepted(await self._publish(where, data))

    async def purge(self, subject: Subject) -> None:
        """See the port."""
        # A wildcard over the numbers alone: the rest is as literal as the subject.
        await self._purge({"filter": snapshot(subject.name, "*")})

    async def purge_all(self, family: str | None = None) -> None:
        """See the port."""
        if family is None:
            await self._purge({})
            return
        namespace = self._log.namespace
        for shard in range(namespace.shards):
            await self._purge({"filter": snapshot(namespace.wildcard(shard, family), "*")})

    async def names(self, family: str, edition: str = "") -> set[str]:
        """See the port."""
        return {name for _, name in await self._slots(family, slot(edition, 0))}

    async def _slots(self, family: str, matching: Slot) -> list[tuple[str, str]]:
        """What is stored of a family in the slots that match, each with its subject's name."""
        log, found = self._log, list[tuple[str, str]]()
        if (await self._info(self._stream)).error is not None:
            return []  # it was not made yet
        for shard in range(log.namespace.shards):
            wanted = snapshot(log.namespace.wildcard(shard, family), matching)
            held = await streams.subjects(log.connection, self._stream, wanted, timeout=log.timeout)
            for name in held:
                _, where, subject = name.split(".", 2)
                found.append((where, subject))
        return found

    async def _info(self, stream: str) -> wire.StreamDescription:
        return await streams.describe(self._log.connection, stream, timeout=self._log.timeout)

    async def mark(self, shard: int) -> tuple[bytes | None, int]:
        """See `Marks`. Whoever is told that there is none misses a loss, so it is asked again."""
        connection = self._log.connection
        deadline, patience = time.monotonic() + self._log.timeout, _PATIENCE
        while time.monotonic() >= self._markless_until:
            left = deadline - time.monotonic()
            await connection.ready(left)
            epoch = connection.epoch
            try:
                msg = await self._last(self._log.namespace.mark(shard), min(patience, left))
            except ReplyLost as silence:
                if left > patience:
                    patience *= 2
                    continue
                if self._shown or connection.epoch != epoch:
                    raise
                _log.warning("no high-water mark can be read: %s", silence)
                self._markless_until = time.monotonic() + _SILENCE
                break
            if msg is None:
                break
            self._shown = True  # so this account may see them
            return msg.data, int((msg.headers or {})["Nats-Sequence"])
        return None, 0

    async def put_mark(self, shard: int, data: bytes, revision: int) -> bool:
        """See `Marks`."""
        await self._make()
        expected = {"Nats-Expected-Last-Subject-Sequence": str(revision)}
        ack = await self._publish(self._log.namespace.mark(shard), data, expected)
        if ack.error is not None and ack.error.err_code in wire.WRONG_LAST:
            return False
        _accepted(ack)
        return True

    async def drop_mark(self, shard: int) -> None:
        """See `Marks`."""
        await self._purge({"filter": self._log.namespace.mark(shard)})

    async def _publish(
        self, subject: str, data: bytes, headers: dict[str, str] | None = None
    ) -> wire.PubAck:
        try:
            reply = await self._log.connection.request(
                subject, data, headers=headers, timeout=self._log.timeout
            )
        except LogUnavailable:
            self._made = False  # somebody may have removed it
            raise
        return _ack_decoder.decode(reply.data)

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

    async def _purge(self, request: dict[str, Any]) -> None:
        answer = await streams.api(
            self._log.connection,
            f"STREAM.PURGE.{self._stream}",
            wire.PurgeAnswer,
            request,
            timeout=self._log.timeout,
        )
        if answer.error is not None and answer.error.err_code != wire.NO_STREAM:
            raise LogUnavailable(f"purging {self._stream}: {answer.error.description}")

    async def _make(self) -> None:
        if self._made:
            return
        log = await self._described(self._log.namespace.stream(0))
        everything = self._log.namespace.wildcard(0).removesuffix("0.>") + ">"
        config = {
            "name": self._stream,
            "subjects": [snapshot(everything, "*")],
            "storage": "file",
            "discard": "old",
            "max_msgs_per_subject": 1,
            "num_replicas": log.config.num_replicas,
            "allow_direct": True,
        }
        connection, timeout = self._log.connection, self._log.timeout
        made = await streams.describe(connection, self._stream, timeout=timeout)
        if made.error is not None and made.error.err_code == wire.NO_STREAM:
            # Creating is idempotent: of two who make the stream at once, both have made it.
            verb = f"STREAM.CREATE.{self._stream}"
            answer = wire.StreamDescription
            made = await streams.api(connection, verb, answer, config, timeout=timeout)
        if made.error is not None:
            raise ConfigurationError(f"{self._stream} was refused: {made.error.description}")
        self._made = True

    async def _described(self, stream: str) -> wire.StreamDescription:
        described = await streams.describe(self._log.connection, stream, timeout=self._log.timeout)
        if described.error is not None:
            raise LogUnavailable(f"{stream}: {described.error.description}")
        return described


def _accepted(ack: wire.PubAck) -> None:
    if ack.error is not None:
        raise AppendFailed(f"{ack.error.description} ({ack.error.err_code})")
