"""The mark of one shard, a message in the side stream, and what the shard's leader says of it."""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from foldlog.log.incarnation import Mark, Shard
from foldlog.log.jetstream.connection import Forbidden
from foldlog.log.jetstream.side import SideStream
from foldlog.log.jetstream.stream import StreamClient
from foldlog.subjects import Namespace

_log: Final = logging.getLogger("foldlog")

_decoder = msgspec.json.Decoder(Mark)


class StreamMarks:
    """A shard and the mark next to it. Each method raises LogUnavailable if nobody answers.

    The leader of each stream is asked, so that no replica that lags answers. Where the account may
    not read marks, there are none.
    """

    def __init__(self, side: SideStream, namespace: Namespace, shard: int) -> None:
        self._side = side
        self._shard = StreamClient(side.connection, namespace.stream(shard), timeout=side.timeout)
        self._subject = namespace.mark(shard)
        self._barrier = namespace.barrier(shard)

    @property
    def reconnects(self) -> int:
        """How often the connection was lost and made again."""
        return self._side.connection.reconnects

    async def describe(self) -> Shard:
        """Return what the shard's leader says of it."""
        found = await self._shard.describe_by_leader()
        state = found.state
        replicas = found.config.num_replicas
        return Shard(self._shard.name, found.created, state.last_seq, state.messages, replicas)

    async def confirm_leader(self) -> None:
        """Return when a majority has confirmed the shard's leader."""
        await self._shard.confirm_leader(self._barrier)

    async def get(self) -> tuple[Mark, int]:
        """Return the mark and its revision; an empty one and 0 where there is none to be seen."""
        try:
            stored = await self._side.last(self._subject)
        except Forbidden:
            _log.warning("%s cannot be read: a lost record goes unnoticed", self._side.name)
            stored = None
        if stored is None:
            return Mark(), 0
        try:
            return _decoder.decode(stored.data), stored.seq
        except msgspec.MsgspecError:
            return Mark(), stored.seq  # it says nothing; the next one replaces it

    async def put(self, mark: Mark, revision: int) -> bool:
        """Replace the mark of that revision; return whether it was that.

        Raises:
            AppendFailed, ConfigurationError: the server refused it.
        """
        expected = {"Nats-Expected-Last-Subject-Sequence": str(revision)}
        return await self._side.publish([(self._subject, msgspec.json.encode(mark))], expected)

    async def drop(self) -> None:
        """Remove the mark."""
        await self._side.purge(self._subject)
