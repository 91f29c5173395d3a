"""The stream next to the log's: snapshots and marks, the last message of each subject.

It is made when the first message is published. It may be removed at any time: what it holds
makes reads cheap and shows losses, and nothing else rests on it.
"""

from __future__ import annotations

import msgspec

from foldlog.errors import AppendFailed, ConfigurationError, LogUnavailable
from foldlog.log.jetstream import leader, wire
from foldlog.log.jetstream.connection import Connection, ReplyLost
from foldlog.subjects import Namespace, snapshot

_ack_decoder = msgspec.json.Decoder(wire.PubAck)


class SideStream:
    """Publishes to one namespace's side stream and purges it. Holds no resources."""

    def __init__(
        self, connection: Connection, namespace: Namespace, *, replicas: int, timeout: float
    ) -> None:
        self.connection = connection
        self.name = namespace.snapshots()
        self.timeout = timeout
        self._namespace = namespace
        self._replicas = replicas

    async def publish(self, subject: str, data: bytes, *, expect: int | None = None) -> bool:
        """Store a message; return False if its subject does not end at sequence `expect`.

        Raises:
            AppendFailed, ConfigurationError: refused. LogUnavailable: it may be stored or not.
        """
        headers = None
        if expect is not None:
            headers = {"Nats-Expected-Last-Subject-Sequence": str(expect)}
        try:
            ack = await self._publish(subject, data, headers)
        except ReplyLost:
            raise
        except LogUnavailable:  # nobody takes it: there is no such stream yet
            await self._make()
            ack = await self._publish(subject, data, headers)
        if ack.error is None:
            return True
        if ack.error.err_code in wire.WRONG_LAST:
            return False
        raise AppendFailed(f"{ack.error.description} ({ack.error.err_code})")

    async def purge(self, matching: str) -> None:
        """Remove what matches; fine if there is nothing. Raises LogUnavailable if it may stay."""
        answer = await leader.api(
            self.connection,
            f"STREAM.PURGE.{self.name}",
            wire.PurgeAnswer,
            {"filter": matching},
            timeout=self.timeout,
        )
        if answer.error is not None and answer.error.err_code != wire.NO_STREAM:
            raise LogUnavailable(f"purging {self.name}: {answer.error.description}")

    async def exists(self) -> bool:
        """Whether the stream was made. Raises LogUnavailable if nobody answers."""
        answer = await leader.describe(self.connection, self.name, timeout=self.timeout)
        return answer.error is None

    async def _publish(
        self, subject: str, data: bytes, headers: dict[str, str] | None
    ) -> wire.PubAck:
        if not self.connection.forbids(subject):
            try:
                reply = await self.connection.request(
                    subject, data, headers=headers, timeout=self.timeout
                )
            except ReplyLost:
                if not self.connection.forbids(subject):
                    raise
            else:
                return _ack_decoder.decode(reply.data)
        raise AppendFailed(f"this account may not publish to {subject}")

    async def _make(self) -> None:
        everything = self._namespace.wildcard(0).removesuffix("0.>") + ">"
        config = {
            "name": self.name,
            "subjects": [snapshot(everything, "*")],
            "storage": "file",
            "discard": "old",
            "max_msgs_per_subject": 1,
            "num_replicas": self._replicas,
            "allow_direct": True,
        }
        # Creating is idempotent: of two who make the stream at once, both have made it.
        made = await leader.api(
            self.connection,
            f"STREAM.CREATE.{self.name}",
            wire.StreamDescription,
            config,
            timeout=self.timeout,
        )
        if made.error is not None:
            raise ConfigurationError(f"{self.name} was refused: {made.error.description}")
