"""Timers on JetStream: message schedules in a side stream, which one consumer hands to workers.

The server publishes what a schedule holds at its time (nats-server, `scheduler.go`; since 2.12),
and gives it to one of those who ask; what is not acknowledged it gives again.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Final

import msgspec

from foldlog.errors import ConfigurationError, LogTimeout, LogUnavailable
from foldlog.log.jetstream import wire
from foldlog.log.jetstream.asking import ask
from foldlog.log.jetstream.client import Incoming, Outgoing
from foldlog.log.jetstream.connection import Connection, ReplyLost, status_of
from foldlog.log.jetstream.side import SideStream
from foldlog.log.timers import AGAIN_SECONDS, AT_ONCE, Due
from foldlog.subjects import Namespace

_CONSUMER: Final = "workers"
_BEYOND: Final = 2.0
"""Seconds that a reply may take beyond what the server was asked to wait."""

_NANO: Final = 1_000_000_000


class TimerStream:
    """The timers of a namespace: see `Timers`. The stream is made when the first one is armed."""

    def __init__(
        self, connection: Connection, namespace: Namespace, *, replicas: int, timeout: float
    ) -> None:
        self._connection = connection
        self._namespace = namespace
        self._is_made = False
        self._next = f"$JS.API.CONSUMER.MSG.NEXT.{namespace.stream('timers')}.{_CONSUMER}"
        self._stream = SideStream(
            connection,
            namespace.stream("timers"),
            namespace.every_timer(),
            replicas=replicas,
            timeout=timeout,
            retention="workqueue",
            allow_msg_schedules=True,
            allow_msg_ttl=True,
        )

    async def arm(self, key: str, at: float, data: bytes) -> None:
        moment = dt.datetime.fromtimestamp(at, dt.UTC)
        headers = {
            "Nats-Schedule": f"@at {moment:%Y-%m-%dT%H:%M:%S.%fZ}",
            "Nats-Schedule-Target": self._namespace.timer("due", key),
        }
        await self._stream.publish([(self._namespace.timer("at", key), data)], headers)

    async def due(self, wait: float) -> list[Due]:
        if not self._is_made:
            await self._make()
            self._is_made = True
        try:
            found = await self._ask(1, wait + _BEYOND, expires=int(wait * _NANO))
        except (ReplyLost, LogTimeout):  # what was on its way comes again
            self._is_made = False  # a server that has no such consumer says nothing
            return []
        if found:
            found += await self._ask(AT_ONCE - 1, self._stream.timeout, no_wait=True)
        return [Due(each.data, each.reply) for each in found]

    async def done(self, due: Sequence[Due]) -> None:
        acks = [Outgoing(each.token, b"+ACK") for each in due]
        await self._connection.request_each(acks, timeout=self._stream.timeout)

    async def _ask(self, batch: int, seconds: float, **how: object) -> list[Incoming]:
        """Ask for so many messages, and return those that come."""
        left = batch

        def is_last(msg: Incoming) -> bool:
            nonlocal left
            left -= 1
            return left == 0 or status_of(msg) is not None

        body = msgspec.json.encode({"batch": batch, **how})
        found = await self._connection.collect_stored(self._next, body, is_last, timeout=seconds)
        return [each for each in found if status_of(each) is None]

    async def _make(self) -> None:
        name, matching = self._stream.name, self._namespace.timer("due")
        config = {
            "durable_name": _CONSUMER,
            "filter_subject": matching,
            "ack_policy": "explicit",
            "ack_wait": int(AGAIN_SECONDS * _NANO),
            "max_ack_pending": 64 * AT_ONCE,
            "deliver_policy": "all",
        }
        body = {"stream_name": name, "config": config}
        verb = f"CONSUMER.CREATE.{name}.{_CONSUMER}.{matching}"
        asking = self._stream.asking()
        while True:
            made = await ask(self._connection, verb, wire.Answer, body, timeout=asking.timeout)
            if made.error is None:
                return
            if made.error.err_code == wire.NO_STREAM:
                await self._stream.make()
            elif made.error.code == wire.NO_LEADER:
                await asking.again(LogUnavailable(f"{name}: {made.error.description}"))
            else:
                raise ConfigurationError(f"consumer of {name}: {made.error.description}")
