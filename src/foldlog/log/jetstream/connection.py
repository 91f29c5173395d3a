"""One NATS connection: requests whose loss is noticed, and a count of missed pushes.

nats-py's own request waits out its time when the connection breaks under it. Here a lost
connection ends every request at once with `ReplyLost`, so that the caller can settle the outcome
as soon as a server is back.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from foldlog.errors import LogTimeout, LogUnavailable, StoreClosed, UnsupportedServer

OnMessage = Callable[[Msg], Awaitable[None]]

MIN_SERVER: Final = (2, 15, 1)

_log: Final = logging.getLogger("foldlog")

_DEFAULTS: Final[dict[str, object]] = {
    "name": "foldlog",
    # A publish while disconnected must fail, not be sent after its caller was told that it failed.
    "pending_size": -1,
    "max_reconnect_attempts": -1,
    "reconnect_time_wait": 0.25,
    # A half-open connection is noticed after two unanswered pings, within 15 s.
    "ping_interval": 5,
    "max_outstanding_pings": 2,
}


class ReplyLost(LogUnavailable):
    """A request was sent, and whether the server acted on it is not known."""


class Connection:
    """A connection that reconnects for ever until `close`."""

    def __init__(self) -> None:
        self._client = Client()
        self._connected = asyncio.Event()
        self._epoch = 0
        self._on_epoch: list[Callable[[], None]] = []
        self._waiting: dict[str, asyncio.Future[Msg] | Collector] = {}
        self._tokens: Iterator[int] = itertools.count(1)
        self._inbox = ""
        self._last_error: Exception | None = None

    @classmethod
    async def open(cls, url: str, *, timeout: float, options: dict[str, Any]) -> Connection:
        """Connect.

        Raises:
            LogUnavailable: no server answered, or it refused the credentials.
            UnsupportedServer: it is older than 2.15.1.
        """
        self = cls()
        try:
            async with asyncio.timeout(timeout):
                await self._client.connect(
                    servers=[part.strip() for part in url.split(",")],
                    error_cb=self._on_error,
                    disconnected_cb=self._on_disconnected,
                    reconnected_cb=self._on_reconnected,
                    closed_cb=self._on_closed,
                    **{**_DEFAULTS, **options},
                )
                await self._listen()
        except (TimeoutError, OSError, nats.errors.Error) as error:
            await self._abandon()
            cause = self._last_error or error
            raise LogUnavailable(f"no connection to {_shown(url)}: {cause!r}") from error
        except BaseException:
            await self._abandon()
            raise
        self._connected.set()
        version = self._client.connected_server_version
        if (version.major, version.minor, version.patch) < MIN_SERVER:
            await self.close()
            raise UnsupportedServer(
                f"{_shown(url)} runs nats-server {version.major}.{version.minor}.{version.patch}; "
                "foldlog needs 2.15.1 or newer: upgrade it, or let foldlog.connect() without a URL "
                "start its own"
            )
        return self

    @property
    def epoch(self) -> int:
        """Grows whenever a push may have been missed."""
        return self._epoch

    @property
    def max_payload(self) -> int:
        """Bytes a message may hold, as the server says."""
        return int(self._client.max_payload)

    @property
    def client(self) -> Client:
        """The client below, for what only nats-py does (object store)."""
        return self._client

    @property
    def server(self) -> dict[str, Any]:
        """What the server told about itself when it was last connected."""
        return dict(self._client._server_info)

    @property
    def url(self) -> str:
        """The server in use, without credentials."""
        url = self._client.connected_url
        return f"{url.scheme}://{url.hostname}:{url.port}" if url else ""

    def on_epoch(self, notify: Callable[[], None]) -> None:
        """Call `notify` whenever `epoch` grows."""
        self._on_epoch.append(notify)

    async def ready(self, timeout: float) -> None:
        """Wait until connected.

        Raises:
            LogUnavailable: it did not come back in `timeout` seconds.
            StoreClosed: this end has closed it.
        """
        if self._client.is_closed:
            raise StoreClosed
        if self._client.is_connected:
            return
        try:
            async with asyncio.timeout(max(timeout, 0)):
                await self._connected.wait()
        except TimeoutError:
            raise LogUnavailable(f"not connected: {self._last_error!r}") from None
        if self._client.is_closed:
            raise StoreClosed

    async def publish(self, subject: str, payload: bytes, headers: dict[str, str]) -> None:
        """Send without asking for a reply.

        Raises:
            LogUnavailable: not sent.
        """
        await self._send(subject, payload, "", headers)

    async def request(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        timeout: float,
        headers: dict[str, str] | None = None,
    ) -> Msg:
        """Send, and return the reply.

        Raises:
            ReplyLost: sent; the connection broke or `timeout` seconds passed without a reply.
            LogUnavailable: not sent, or nobody serves the subject.
        """
        reply: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        with _Registered(self._waiting, reply, self._tokens) as token:
            await self._send(subject, payload, self._inbox + token, headers)
            try:
                async with asyncio.timeout(timeout):
                    msg = await reply
            except TimeoutError:
                raise ReplyLost(f"no reply in {timeout:g} s") from None
        if msg.headers and msg.headers.get("Status") == "503":
            raise LogUnavailable(f"nobody answers {subject}")
        return msg

    async def collect(self, subject: str, payload: bytes, *, timeout: float) -> list[Msg]:
        """Send, and return every reply up to the one that carries a status, which ends them.

        Raises:
            LogUnavailable, LogTimeout: the replies did not come whole.
        """
        collector = Collector()
        with _Registered(self._waiting, collector, self._tokens) as token:
            await self._send(subject, payload, self._inbox + token, None)
            try:
                async with asyncio.timeout(timeout):
                    await collector.done
            except TimeoutError:
                raise LogTimeout(f"reading by {subject}", timeout) from None
        return collector.messages

    async def subscribe(self, subject: str, on_message: OnMessage) -> Subscription:
        """Have `on_message` awaited for each message on `subject`, again after a reconnect.

        Raises:
            LogUnavailable, StoreClosed: not subscribed.
        """
        try:
            return await self._client.subscribe(subject, cb=on_message)
        except (nats.errors.ConnectionClosedError, nats.errors.ConnectionDrainingError):
            raise StoreClosed from None

    async def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription; nothing more is delivered. Fine on a closed connection."""
        if not self._client.is_closed:
            await subscription.unsubscribe()

    def miss(self) -> None:
        """Note that a push was lost or could not be read."""
        self._grow_epoch()

    async def close(self) -> None:
        """Close for good. Idempotent."""
        if not self._client.is_closed:
            await self._client.close()
        self._connected.set()
        self._lose_requests("closed")

    async def _listen(self) -> None:
        inbox = self._client.new_inbox()
        self._inbox = inbox + "."
        # No limits: what may come is bounded by what was asked for.
        await self._client.subscribe(
            inbox + ".*", cb=self._on_reply, pending_msgs_limit=0, pending_bytes_limit=0
        )

    async def _abandon(self) -> None:
        await self._client.close()

    async def _send(
        self, subject: str, payload: bytes, reply: str, headers: dict[str, str] | None
    ) -> None:
        try:
            await self._client.publish(subject, payload, reply, headers)
        except nats.errors.OutboundBufferLimitError:
            raise LogUnavailable("not connected") from None
        except (nats.errors.ConnectionClosedError, nats.errors.ConnectionDrainingError):
            raise StoreClosed from None

    async def _on_reply(self, msg: Msg) -> None:
        waiting = self._waiting.get(msg.subject.rpartition(".")[2])
        if isinstance(waiting, Collector):
            waiting.take(msg)
        elif waiting is not None and not waiting.done():
            waiting.set_result(msg)

    async def _on_error(self, error: Exception) -> None:
        self._last_error = error
        if isinstance(error, nats.errors.SlowConsumerError):
            self._grow_epoch()
        _log.debug("nats: %r", error)

    async def _on_disconnected(self) -> None:
        self._connected.clear()
        self._lose_requests("the connection was lost")
        self._grow_epoch()

    async def _on_reconnected(self) -> None:
        self._connected.set()
        self._grow_epoch()

    async def _on_closed(self) -> None:
        self._connected.set()
        self._lose_requests("closed")

    def _grow_epoch(self) -> None:
        self._epoch += 1
        for notify in self._on_epoch:
            notify()

    def _lose_requests(self, reason: str) -> None:
        for waiting in list(self._waiting.values()):
            future = waiting.done if isinstance(waiting, Collector) else waiting
            if not future.done():
                future.set_exception(ReplyLost(reason))


class Collector:
    """Gathers the replies of one request until a status message ends them."""

    def __init__(self) -> None:
        self.messages: list[Msg] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def take(self, msg: Msg) -> None:
        """Add a reply."""
        self.messages.append(msg)
        if msg.headers and "Status" in msg.headers and not self.done.done():
            self.done.set_result(None)


class _Registered:
    """Keeps a waiter reachable by its token for the length of a `with`."""

    def __init__(
        self,
        waiting: dict[str, asyncio.Future[Msg] | Collector],
        waiter: asyncio.Future[Msg] | Collector,
        tokens: Iterator[int],
    ) -> None:
        self._waiting = waiting
        self._waiter = waiter
        self._token = str(next(tokens))

    def __enter__(self) -> str:
        self._waiting[self._token] = self._waiter
        return self._token

    def __exit__(self, *_: object) -> None:
        del self._waiting[self._token]
        future = self._waiter.done if isinstance(self._waiter, Collector) else self._waiter
        if not future.done():
            future.cancel()
        elif not future.cancelled():
            future.exception()  # a waiter that was itself cancelled has nobody to tell


def _shown(url: str) -> str:
    """`url` without its users and passwords."""
    return ",".join(re.sub(r"(?<=://)[^/]*@", "", part.strip()) for part in url.split(","))
