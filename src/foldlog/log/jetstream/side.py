"""The streams next to the log's: the last message of each subject, and nothing before it.

Each is made when the first message is published. What they hold rests on the log, and never the
log on them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
from nats.aio.msg import Msg

from foldlog.errors import AppendFailed, ConfigurationError, LogUnavailable
from foldlog.log.jetstream import wire
from foldlog.log.jetstream.client import Outgoing, header_block
from foldlog.log.jetstream.connection import Connection, Forbidden, ReplyLost, status_of
from foldlog.log.jetstream.requests import PATIENCE, ask, found_message, retry
from foldlog.log.jetstream.stream import StreamClient

_ack_decoder = msgspec.json.Decoder(wire.PubAck)


class SideStream:
    """Publishes to one side stream, reads and purges it. Holds no resources.

    Args:
        subjects: all that it takes.
        replicas: as of the log.
        settings: of the stream, beyond those that all side streams have.
    """

    def __init__(
        self,
        connection: Connection,
        name: str,
        subjects: str,
        *,
        replicas: int,
        timeout: float,
        **settings: object,
    ) -> None:
        self.connection = connection
        self.name = name
        self.timeout = timeout
        self._client = StreamClient(connection, name, timeout=timeout)
        self._config = {
            "name": name,
            "subjects": [subjects],
            "storage": "file",
            "discard": "old",
            "max_msgs_per_subject": 1,
            "num_replicas": replicas,
            "allow_direct": True,
            **settings,
        }

    async def publish(
        self, messages: Sequence[tuple[str, bytes]], headers: dict[str, str] | None = None
    ) -> bool:
        """Store messages side by side; return False if a subject ends elsewhere than expected.

        What is under way at once is for the caller to bound.

        Raises:
            AppendFailed, ConfigurationError: refused. LogUnavailable: some may be stored.
        """
        block = header_block(headers) if headers else b""
        outgoing = [Outgoing(subject, data, block) for subject, data in messages]
        try:
            replies = await self._replies(outgoing, self.timeout)
            if _is_unserved(replies):  # there is no such stream yet
                await self._make()
                replies = await self._replies(outgoing, self.timeout)
        except Forbidden as error:
            raise AppendFailed(str(error)) from error
        if _is_unserved(replies):
            raise LogUnavailable(f"nobody serves {self.name}")
        acks = [_ack_decoder.decode(reply.data) for reply in replies]
        refused = [ack.error for ack in acks if ack.error is not None]
        for each in refused:
            if each.err_code not in wire.WRONG_LAST:
                raise AppendFailed(f"{each.description} ({each.err_code})")
        return not refused

    async def get(self, subjects: Sequence[str], *, timeout: float) -> list[bytes | None]:
        """Return what some replica has under each subject, or None. Bounds as `publish`.

        Raises:
            Forbidden: this account may not ask. LogUnavailable: nobody answered in time.
        """
        asked = [
            Outgoing(f"$JS.API.DIRECT.GET.{self.name}", msgspec.json.encode({"last_by_subj": name}))
            for name in subjects
        ]

        async def attempt(left: float) -> list[Msg]:
            return await self._replies(asked, left)

        replies = await retry(self.connection, attempt, time.monotonic() + timeout)
        return [None if status_of(reply) else reply.data for reply in replies]

    async def last(self, subject: str) -> wire.StoredMessage | None:
        """Return what the stream's leader has under a subject, or None. Errors as `get`."""

        async def attempt(left: float) -> wire.StoredMessage | None:
            verb, request = f"STREAM.MSG.GET.{self.name}", {"last_by_subj": subject}
            answer = await ask(self.connection, verb, wire.MessageAnswer, request, timeout=left)
            return None if _is_missing(answer.error) else found_message(answer)

        deadline = time.monotonic() + self.timeout
        return await retry(self.connection, attempt, deadline, patience=PATIENCE)

    async def subjects(self, matching: str) -> list[str]:
        """Return the subjects that match and hold something. Errors as `get`."""
        if (await self._client.describe()).error is not None:
            return []
        return list(await self._client.subjects(matching))

    async def purge(self, matching: str) -> None:
        """Remove what matches; fine if there is nothing. Raises LogUnavailable if it may stay."""
        answer = await self._client.purge({"filter": matching})
        if answer.error is not None and not _is_missing(answer.error):
            raise LogUnavailable(f"purging {self.name}: {answer.error.description}")

    async def _replies(self, requests: Sequence[Outgoing], timeout: float) -> list[Msg]:
        subject = requests[0].subject
        if not self.connection.forbids(subject):
            replies = await self.connection.request_each(requests, timeout=timeout)
            found = [reply for reply in replies if reply is not None]
            if len(found) == len(replies):
                return found
        if self.connection.forbids(subject):
            raise Forbidden(f"this account may not publish to {subject}")
        raise ReplyLost(f"{self.name}: no reply came in {timeout:g} s")

    async def _make(self) -> None:
        # Creating is idempotent: of two who make the stream at once, both have made it.
        verb = f"STREAM.CREATE.{self.name}"
        made = await ask(
            self.connection, verb, wire.StreamDescription, self._config, timeout=self.timeout
        )
        if made.error is not None:
            raise ConfigurationError(f"{self.name} was refused: {made.error.description}")


def _is_unserved(replies: Sequence[Msg]) -> bool:
    return any(status_of(reply) == "503" for reply in replies)


def _is_missing(error: wire.ApiError | None) -> bool:
    return error is not None and error.err_code == wire.NO_STREAM
