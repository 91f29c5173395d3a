"""The side store on JetStream: a stream that keeps the last of each subject, made when needed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import msgspec
from nats.aio.msg import Msg

from foldlog.errors import AppendFailed, LogUnavailable
from foldlog.log.jetstream import wire
from foldlog.log.jetstream.client import Outgoing, header_block
from foldlog.log.jetstream.connection import Connection, Forbidden, ReplyLost, status_of
from foldlog.log.jetstream.stream import StreamClient
from foldlog.log.packing import OVERHEAD

_SILENCE: Final = 60.0
"""Seconds without another question after one that nobody answered: an account that may not read
the stream may get no reply at all, and no read should wait for that twice."""

_ack_decoder = msgspec.json.Decoder(wire.PubAck)


class SideStream(StreamClient):
    """A side stream: see `Side`. Where it is missing, it counts as empty.

    `settings` are those of the stream beyond what all side streams have.
    """

    _known = (wire.NO_STREAM,)

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
        super().__init__(connection, name, timeout=timeout)
        self._silent_until = 0.0
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

    async def make(self) -> None:
        """Make the stream, if it is missing."""
        await self.create(self._config)

    @property
    def max_bytes(self) -> int:
        return self.connection.max_payload - OVERHEAD

    async def put(self, messages: Sequence[tuple[str, bytes]], *, ttl: int | None = None) -> bool:
        # What replaces another message makes the server forget that one, but not overwrite it.
        headers = {"Nats-Expected-Last-Subject-Sequence": "0"}
        return await self.publish(
            messages, headers if ttl is None else {**headers, "Nats-TTL": f"{ttl}s"}
        )

    async def publish(self, messages: Sequence[tuple[str, bytes]], headers: dict[str, str]) -> bool:
        """As `put`; return False if a subject does not end where the headers expect it."""
        block = header_block(headers)
        unserved = [Outgoing(subject, data, block) for subject, data in messages]
        refused = list[wire.ApiError]()
        asking, is_first = self.asking(), True
        while unserved:
            try:
                replies = await self.connection.request_all(unserved, timeout=asking.timeout)
            except Forbidden as error:
                raise AppendFailed(str(error)) from error
            sent, unserved = unserved, []
            for message, reply in zip(sent, replies, strict=True):
                if status_of(reply) == "503":
                    unserved.append(message)
                elif (refusal := _ack_decoder.decode(reply.data).error) is not None:
                    refused.append(refusal)
            if unserved:  # missing, or new, or without a leader for a moment: not stored
                await self.create(self._config, asking.deadline)
                if is_first:  # most often it has a leader by now
                    is_first = False
                    continue
                await asking.again(LogUnavailable(f"nobody serves {self.name}"))
        for each in refused:
            if each.err_code not in wire.WRONG_LAST:
                raise AppendFailed(f"{each.description} ({each.err_code})")
        return not refused

    async def get(
        self, subjects: Sequence[str], *, patience: float | None = None
    ) -> list[bytes | None]:
        if patience is not None and time.monotonic() < self._silent_until:
            raise LogUnavailable(f"{self.name} did not answer a moment ago")
        direct = f"$JS.API.DIRECT.GET.{self.name}"
        asked = [Outgoing(direct, msgspec.json.encode({"last_by_subj": each})) for each in subjects]

        async def attempt(left: float) -> list[Msg]:
            return await self.connection.request_all(asked, timeout=left)

        deadline = time.monotonic() + (self.timeout if patience is None else patience)
        try:
            replies = await self.retry(attempt, deadline)
        except Forbidden:
            return [None] * len(subjects)
        except ReplyLost:
            if patience is not None:
                self._silent_until = time.monotonic() + _SILENCE
            raise
        return [None if status_of(reply) else reply.data for reply in replies]

    last: Final = StreamClient.last_of

    async def purge(self, matching: str, *, overwrite: bool = True) -> None:
        if not overwrite:
            await self.purge_once({"filter": matching})
        elif await self.subjects(matching):
            await self.erase(matching)
