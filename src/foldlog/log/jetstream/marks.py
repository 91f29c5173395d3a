"""The mark of one shard, a message in the side stream, and what the shard's leader says of it."""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from foldlog.errors import LogUnavailable
from foldlog.log.incarnation import Mark, Shard
from foldlog.log.jetstream import leader, wire
from foldlog.log.jetstream.connection import ReplyLost
from foldlog.log.jetstream.side import SideStream
from foldlog.subjects import Namespace

_log: Final = logging.getLogger("foldlog")

_decoder = msgspec.json.Decoder(Mark)


class StreamMarks:
    """See `gate.Marks`. The leader of each stream is asked, so that no replica that lags answers.

    Where the account may not read marks, there are none.
    """

    def __init__(self, side: SideStream, namespace: Namespace, shard: int) -> None:
        self._side = side
        self._connection = side.connection
        self._stream = namespace.stream(shard)
        self._subject = namespace.mark(shard)
        self._barrier = namespace.barrier(shard)

    @property
    def reconnects(self) -> int:
        """See `Marks`."""
        return self._connection.reconnects

    async def describe(self) -> Shard:
        """See `Marks`."""
        await self._connection.ready(self._side.timeout)
        found = await leader.described(self._connection, self._stream, timeout=self._side.timeout)
        return Shard(
            self._stream,
            found.created,
            found.state.last_seq,
            found.state.messages,
            found.config.num_replicas,
        )

    async def confirm_leader(self) -> None:
        """See `Marks`."""
        await leader.confirm(
            self._connection, self._stream, self._barrier, timeout=self._side.timeout
        )

    async def get(self) -> tuple[Mark, int]:
        """See `Marks`."""
        verb = f"STREAM.MSG.GET.{self._side.name}"
        await self._connection.ready(self._side.timeout)
        if self._connection.forbids(f"$JS.API.{verb}"):
            return Mark(), 0
        try:
            answer = await leader.ask(
                self._connection,
                verb,
                wire.MessageAnswer,
                {"last_by_subj": self._subject},
                timeout=self._side.timeout,
            )
        except ReplyLost:
            if not self._connection.forbids(f"$JS.API.{verb}"):
                raise
            _log.warning("this account may not read %s: a lost record goes unnoticed", verb)
            return Mark(), 0
        if answer.error is not None:
            if answer.error.err_code in (wire.NO_MESSAGE, wire.NO_STREAM):
                return Mark(), 0
            raise LogUnavailable(f"{self._side.name}: {answer.error.description}")
        assert answer.message is not None
        try:
            return _decoder.decode(answer.message.data), answer.message.seq
        except msgspec.MsgspecError:
            return Mark(), answer.message.seq  # it says nothing; the next one replaces it

    async def put(self, mark: Mark, revision: int) -> bool:
        """See `Marks`."""
        return await self._side.publish(self._subject, msgspec.json.encode(mark), expect=revision)

    async def drop(self) -> None:
        """See `Marks`."""
        await self._side.purge(self._subject)
