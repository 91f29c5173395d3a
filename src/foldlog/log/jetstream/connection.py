"""One NATS connection: requests whose loss is noticed, and a count of missed pushes.

nats-py's own request waits out its time when the connection breaks. Here a lost connection ends
every request at once with `ReplyLost`: its caller settles the outcome when a server is back.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Any, ClassVar, Final

import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from foldlog.errors import (
    ConfigurationError,
    FoldlogError,
    LogTimeout,
    LogUnavailable,
    StoreClosed,
)
from foldlog.log.embedded.binary import check_version
from foldlog.log.jetstream import server_details
from foldlog.log.jetstream.client import Incoming, LeanClient, OnMessage, Outgoing
from foldlog.log.jetstream.credentials import check_url, identity, refusal, without_secrets

Revive = Callable[[], Awaitable[str]]
"""Sees to it that a server runs, and returns its URL. Raises a FoldlogError where it cannot."""

_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 2.0
"""Seconds before a server that could not be revived is looked after again: doubled each time."""

_log: Final = logging.getLogger("foldlog.connection")

_DEFAULTS: Final[dict[str, object]] = {
    "name": "foldlog",
    # A publish while disconnected must fail, not be sent after its caller saw it fail.
    "pending_size": -1,
    "max_reconnect_attempts": -1,
    "reconnect_time_wait": 0.25,
    # A half-open connection is noticed at the third ping after two unanswered ones: in 12 s.
    "ping_interval": 4,
    "max_outstanding_pings": 2,
    # Subjects are built by foldlog.subjects, which escapes them.
    "skip_subject_validation": True,
}


class ReplyLost(LogUnavailable):
    """A request was sent, and whether the server acted on it is not known."""

    page: ClassVar[str] = LogUnavailable.page


class Forbidden(LogUnavailable):
    """The server has refused this account to send such requests."""

    page: ClassVar[str] = LogUnavailable.page


class _Replies:
    """What a caller waits for: a reply to each of `asks`, or all up to the one that `is_last`.

    `found`: each at the number of its request, None where it did not come; or all in order.
    `done`: whether all came.
    """

    def __init__(self, asks: int = 1, is_last: Callable[[Any], bool] | None = None) -> None:
        self.asks = self._left = asks
        self.found: list[Any] = [] if is_last else [None] * asks
        self.done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._is_last = is_last

    def arrived(self, number: int, msg: Msg) -> None:
        if self.done.done():
            return
        if self._is_last is None:
            self.found[number] = msg
            self._left -= 1
        else:
            self.found.append(msg)
            self._left = not self._is_last(msg)
        if not self._left:
            self.done.set_result(True)

    def give_up(self) -> None:
        if not self.done.done():
            self.done.set_result(False)


class Connection:
    """A connection that reconnects for ever until `close`.

    `revive` is asked, again and again, while there is no connection. `epoch` grows whenever a push
    may have been missed. `max_payload` is what a message may hold in bytes, as the server says.
    """

    def __init__(self, *, revive: Revive | None = None) -> None:
        self._client = LeanClient()
        self.max_payload: int = 0
        self._connected = asyncio.Event()
        self._on_epoch: list[Callable[[], None]] = []
        self._numbers = itertools.count(1)  # each ends the subject of one reply
        self._waiting: dict[bytes, tuple[_Replies, int, str]] = {}
        self._inbox = ""
        self._last_error: Exception | None = None
        self._forbidden = set[str]()
        self._revive = revive
        self._not_revived: FoldlogError | None = None
        self._pause = _FIRST_PAUSE
        self._signing_in: Callable[[], str] | None = None
        self._connected_to, self._lost_at = "", 0.0

    @classmethod
    async def open(
        cls, url: str, *, timeout: float, options: dict[str, Any], revive: Revive | None = None
    ) -> Connection:
        """Connect.

        Raises:
            LogUnavailable: no server answered.
            ConfigurationError: the url or an option is not as nats-py takes it, or the server
                refused the credentials.
            UnsupportedServer: the server is older than 2.15.1.
        """
        shown, began = without_secrets(url), time.monotonic()
        check_url(url)
        self = cls(revive=revive)
        self._signing_in = lambda: f"{shown}: it refuses {identity(url, options)}"
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self._abandon)
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
                    self._inbox = self._client.new_inbox() + "."
                    await self._client.call(self._inbox + "*", self._on_reply)
            except (AttributeError, TypeError, ValueError, AssertionError) as error:
                # nats-py checks what it is given by using it.
                raise ConfigurationError(f"cannot connect to {shown}: {error!r}") from error
            except (TimeoutError, OSError, nats.errors.Error, StoreClosed) as error:
                reason = _words(self._last_error or error, timeout)
                raise LogUnavailable(
                    f"no connection to {shown}: {reason}; is nats-server running there, with -js?"
                ) from error
            self._signing_in = None
            self._connected.set()
            check_version(str(self.server.get("version")), f" at {shown}")
            undo.pop_all()
        self._connected_to, self.max_payload = self.url, int(self._client.max_payload)
        version, seconds = self.server.get("version"), time.monotonic() - began
        _log.debug("connected to %s: nats-server %s, in %.3f s", self.url, version, seconds)
        return self

    @property
    def server(self) -> dict[str, Any]:
        """How the server described itself when it was last connected."""
        return self._client.described_server

    @property
    def url(self) -> str:
        """The server in use, without credentials."""
        url = self._client.connected_url
        return f"{url.scheme}://{url.hostname}:{url.port}" if url else ""

    @property
    def reconnects(self) -> int:
        """How often the connection was lost and made again."""
        return int(self._client.stats["reconnects"])

    def forbids(self, request: str) -> bool:
        """Whether the server has refused this account to publish there; a new connection may."""
        return request.lower() in self._forbidden

    def on_epoch(self, notify: Callable[[], None]) -> None:
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
            reason = _words(self._not_revived or self._last_error, timeout)
            raise LogUnavailable(
                f"not connected: {reason}; the store goes on connecting: try again"
            ) from None
        if self._client.is_closed:
            raise StoreClosed

    async def request(self, subject: str, payload: bytes = b"", *, timeout: float) -> Msg:
        """Send, and return the reply.

        Raises:
            ReplyLost: sent; the connection broke or `timeout` seconds passed without a reply.
            Forbidden: this account may not; it is not sent again over this connection.
            LogUnavailable: not sent, or nobody serves the subject.
        """
        (reply,) = await self.request_all([Outgoing(subject, payload)], timeout=timeout)
        if status_of(reply) == "503":
            raise LogUnavailable(f"nobody answers {subject}")
        return reply

    async def request_all(self, messages: Sequence[Outgoing], *, timeout: float) -> list[Msg]:
        """Send many to one subject, and return the reply to each, in order.

        Raises:
            ReplyLost, Forbidden: as `request`. LogUnavailable: not sent.
        """
        subject = messages[0].subject
        if not self.forbids(subject):
            waiting = _Replies(len(messages))
            found = await self._exchange(waiting, messages, timeout)
            if waiting.done.result():
                return found
        if self.forbids(subject):  # which the server says outside of the replies
            raise Forbidden(f"this account may not send to {subject}")
        raise ReplyLost(f"{subject}: the connection broke, or no reply came in {timeout:g} s")

    def request_each(
        self, messages: Sequence[Outgoing], *, timeout: float, asks: int | None = None
    ) -> Coroutine[Any, Any, list[Msg | None]]:
        """Send many at once; return the reply to each, None where it did not come.

        A message without a reply may have been acted on or not; one with status 503 was not. With
        `asks`, only so many of the last messages are replied to.

        Raises:
            LogUnavailable, AppendFailed: none was sent.
        """
        waiting = _Replies(len(messages) if asks is None else asks)
        return self._exchange(waiting, messages, timeout, at_once=True)

    async def collect(self, subject: str, payload: bytes, *, timeout: float) -> list[Msg]:
        """Send, and return every reply up to the one that carries a status.

        Raises:
            LogUnavailable, LogTimeout: the replies did not come whole.
        """
        waiting = _Replies(is_last=lambda msg: status_of(msg) is not None)
        return await self._collect(waiting, Outgoing(subject, payload), timeout)

    async def collect_stored(
        self, subject: str, payload: bytes, is_last: Callable[[Incoming], bool], *, timeout: float
    ) -> list[Incoming]:
        """As `collect`, where replies come under the subject on which they were stored."""
        waiting, inbox = _Replies(is_last=is_last), self._client.new_inbox()
        subscription = await self.subscribe(inbox, lambda msg: waiting.arrived(0, msg))
        try:
            return await self._collect(waiting, Outgoing(subject, payload, reply=inbox), timeout)
        finally:
            await self.unsubscribe(subscription)

    async def _collect(self, waiting: _Replies, asking: Outgoing, timeout: float) -> list[Any]:
        found = await self._exchange(waiting, [asking], timeout)
        if waiting.done.result():
            return found
        if self.forbids(asking.subject):
            raise Forbidden(f"this account may not send to {asking.subject}")
        if self._client.is_connected:
            raise LogTimeout(f"reading by {asking.subject}", timeout)
        raise ReplyLost("the connection broke")

    async def _exchange(
        self, waiting: _Replies, messages: Sequence[Outgoing], timeout: float, at_once: bool = False
    ) -> list[Any]:
        """Send, and wait for the replies to the last messages; return what came of them."""
        first = len(messages) - waiting.asks
        asking, inboxes = list(messages[:first]), list[bytes]()
        for number, each in enumerate(messages[first:]):
            reply = f"{self._inbox}{next(self._numbers)}"
            asking.append(Outgoing(each.subject, each.payload, each.headers, each.reply or reply))
            inboxes.append(reply.encode())
            self._waiting[inboxes[-1]] = waiting, number, each.subject
        giving_up = asyncio.get_running_loop().call_later(timeout, waiting.give_up)
        try:
            self._client.send(*asking, at_once=at_once)
            await waiting.done
            return waiting.found
        finally:
            giving_up.cancel()
            for inbox in inboxes:
                del self._waiting[inbox]

    async def subscribe(self, subject: str, on_message: OnMessage) -> Subscription:
        """Call `on_message` for each message on `subject`, again after a reconnect."""
        return await self._client.call(subject, on_message)

    async def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription; nothing more is delivered. Fine on a closed connection."""
        if not self._client.is_closed:
            await subscription.unsubscribe()

    def miss(self) -> None:
        """Note that a push was lost or could not be read."""
        for notify in self._on_epoch:
            notify()

    async def close(self) -> None:
        """Close for good. Idempotent."""
        if not self._client.is_closed:
            await self._client.close()
        self._connected.set()
        self._lose_replies()

    async def _abandon(self) -> None:
        if self._client.has_begun:  # else there is nothing to close
            await self._client.close()

    def _on_reply(self, msg: Incoming) -> None:
        found = self._waiting.get(msg.raw[0])
        if found is not None:  # else it came too late
            waiting, number, _ = found
            waiting.arrived(number, msg)

    def _lose_replies(self) -> None:
        for waiting, *_ in self._waiting.values():
            waiting.give_up()

    async def _on_error(self, error: Exception) -> None:
        self._last_error = error
        _log.debug("nats: %r", error)
        if found := server_details.FORBIDDEN.search(str(error)):
            self._forbidden.add(found[1].lower())
            for waiting, _, subject in self._waiting.values():
                if self.forbids(subject):  # no reply to it comes
                    waiting.give_up()
        if self._signing_in is not None and (reason := refusal(error)) is not None:
            raise ConfigurationError(f"no connection to {self._signing_in()}: {reason}")
        await self._bring_back()

    async def _on_disconnected(self) -> None:
        if self._connected.is_set() and not self._client.is_closed:
            self._lost_at = time.monotonic()
            _log.warning("the connection to %s was lost; connecting again", self._connected_to)
        self._connected.clear()
        self._lose_replies()
        self.miss()
        await self._bring_back()

    async def _on_reconnected(self) -> None:
        self._not_revived, self._pause = None, _FIRST_PAUSE
        self._forbidden.clear()
        self._connected.set()
        away = time.monotonic() - self._lost_at
        self._connected_to, self.max_payload = self.url, int(self._client.max_payload)
        _log.info("connected to %s again, after %.3f s", self.url, away)
        self.miss()

    async def _on_closed(self) -> None:
        self._connected.set()
        self._lose_replies()

    async def _bring_back(self) -> None:
        """Revive the server while there is no connection, and go on where it is then.

        nats-py waits for this before its next attempt, and cancels it when it is closed.
        """
        if self._revive is None or self._connected.is_set() or self._client.is_closed:
            return
        try:
            url = await self._revive()
        except FoldlogError as error:
            self._not_revived = error
            _log.warning("the log is away: %s", error)
            await asyncio.sleep(self._pause)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        else:
            self._not_revived = None
            if not self._client.is_closed:
                self._client.set_server_pool([url])


def _words(error: Exception | None, timeout: float) -> str:
    """Why there is no connection."""
    if isinstance(error, FoldlogError):
        return str(error)
    if isinstance(error, OSError) and not isinstance(error, TimeoutError):
        return error.strerror or repr(error)
    return repr(error) if str(error or "") else f"no answer in {timeout:g} s"


def status_of(msg: Msg) -> str | None:
    """The status that the server put on a message, such as "404", or None."""
    if isinstance(msg, Incoming) and not (msg.block and msg.is_status):
        return None
    return msg.headers.get("Status") if msg.headers else None
