"""The questions that a read asks of one stream, each repeated until somebody answers.

Any replica answers a direct get; the leader alone answers the others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

import msgspec
from nats.aio.msg import Msg

from foldlog.errors import LogTimeout, LogUnavailable
from foldlog.log.jetstream import leader, wire
from foldlog.log.jetstream.connection import Connection, ReplyLost, status_of
from foldlog.log.jetstream.delivered import Delivered, delivered, is_chain
from foldlog.log.jetstream.gate import Gate

_RETRY_PAUSE: Final = 0.05

_description_decoder = msgspec.json.Decoder(wire.StreamDescription)


class DirectGets:
    """Asks one stream. Holds no resources.

    Deadlines are of `time.monotonic()`. Each question raises LogTimeout or LogUnavailable if
    nobody answered by then, and what `Gate.check_before_read` does.

    Args:
        gate: passed before each question, so that no read goes on over a new connection
            unchecked; None: this asks whatever the stream may have lost.
    """

    def __init__(self, connection: Connection, stream: str, gate: Gate | None = None) -> None:
        self._connection = connection
        self._gate = gate
        self.stream = stream

    async def one(self, request: dict[str, object], deadline: float) -> Msg | None:
        """Return the one message that somebody has for a request, or None."""
        payload = msgspec.json.encode(request)
        while True:
            await self._pass()
            try:
                msg = await self._connection.request(
                    f"$JS.API.DIRECT.GET.{self.stream}", payload, timeout=_left(deadline)
                )
            except LogUnavailable as error:
                await self.retry(error, deadline)
                continue
            status = status_of(msg)
            if status == "404":
                return None
            if status:
                raise LogUnavailable(f"reading {self.stream}: {_described(msg)}")
            return msg

    async def many(
        self, request: dict[str, object], deadline: float
    ) -> tuple[Sequence[Delivered], int]:
        """Return the messages that a direct get of many brings, and how many come after them."""
        payload = msgspec.json.encode(request)
        while True:
            await self._pass()
            try:
                *messages, end = await self._connection.collect(
                    f"$JS.API.DIRECT.GET.{self.stream}", payload, timeout=_left(deadline)
                )
            except LogTimeout:
                raise
            except LogUnavailable as error:
                await self.retry(error, deadline)
                continue
            status = status_of(end)
            if status == "404":
                return [], 0
            if status == "503":
                await self.retry(LogUnavailable(f"nobody serves {self.stream}"), deadline)
                continue
            if status != "204":
                raise LogUnavailable(f"reading {self.stream}: {_described(end)}")
            found = [delivered(msg) for msg in messages]
            if not is_chain(found):
                # A reply of the page was lost on its way here; the log still has it.
                await self.retry(LogUnavailable("a page came with a gap"), deadline)
                continue
            return found, int((end.headers or {}).get("Nats-Num-Pending", "0"))

    async def leaders(
        self, request: dict[str, object], deadline: float
    ) -> wire.StoredMessage | None:
        """Return the one message that the leader has for a request, or None."""
        while True:
            await self._pass()
            try:
                return await leader.message(
                    self._connection, self.stream, request, timeout=_left(deadline)
                )
            except LogUnavailable as error:
                await self.retry(error, deadline)

    async def count(self, subject: str, deadline: float) -> int:
        """Return how many records the leader counts on a subject, whether it can read them."""
        payload = msgspec.json.encode({"subjects_filter": subject})
        while True:
            await self._pass()
            try:
                msg = await self._connection.request(
                    f"$JS.API.STREAM.INFO.{self.stream}", payload, timeout=_left(deadline)
                )
            except LogUnavailable as error:
                await self.retry(error, deadline)
                continue
            answer = _description_decoder.decode(msg.data)
            if answer.error is None and not answer.is_leaderless:
                return answer.state.subjects.get(subject, 0)
            reason = answer.error.description if answer.error else "the stream has no leader"
            await self.retry(LogUnavailable(reason), deadline)

    async def retry(self, error: LogUnavailable, deadline: float) -> None:
        """Wait for the connection and a moment more; a read may be asked again freely."""
        left = deadline - time.monotonic()
        if left <= _RETRY_PAUSE:
            raise LogUnavailable(str(error)) from error
        await self._connection.ready(left)
        if not isinstance(error, ReplyLost):
            await asyncio.sleep(_RETRY_PAUSE)

    async def _pass(self) -> None:
        if self._gate is not None and not self._gate.passes_reads:
            await self._gate.check_before_read()


def _left(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.001)


def _described(msg: Msg) -> str:
    headers = msg.headers or {}
    return f"{headers.get('Status')} {headers.get('Description', '')}"
