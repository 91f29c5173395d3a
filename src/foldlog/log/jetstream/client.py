"""nats-py's client, made lean where every message passes.

Four things of it are replaced:
- **Publishing.** Many messages go in one step, and their headers are joined, not looked at
  character by character: a tenth of the work for a record of a batch.
- **Parsing.** See `foldlog.log.jetstream.parser`.
- **Subscriptions.** nats-py gives each one a queue and a task. Here a message goes straight to
  its function: a hot view costs a third of the memory, nothing can overflow in between, and a
  push or a reply arrives one turn of the event loop sooner.
- **Giving up a connection.** nats-py waits until all is written to it, which on a half-open one is
  until TCP gives up; and it closes for good when a server sends an error. Here the connection is
  dropped with all that waits to be written, and another one made.

This leans on private names of nats-py 2.16, as `parser.py` does and nothing else, so that minor
version is pinned; `tests/log/test_client.py` fails where another one works differently.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.aio.transport import TcpTransport
from nats.protocol.parser import PERMISSIONS_ERR

from foldlog.errors import AppendFailed, LogUnavailable, StoreClosed
from foldlog.log.jetstream.parser import Incoming, LeanParser

OnMessage = Callable[[Msg], None]

_CLOSING_SECONDS: Final = 2.0
"""What is still to be written when the client is closed gets this long."""


class Outgoing(NamedTuple):
    """A message to send; `reply` is where an answer goes, "" for nowhere.

    `headers` are a block as `header_block` makes it. No line break may stand in the subject:
    nothing looks for it.
    """

    subject: str
    payload: bytes
    headers: bytes = b""
    reply: str = ""

    def parts(self) -> tuple[bytes, bytes, bytes, bytes]:
        """What goes over the wire, without a copy of the payload."""
        subject, payload, headers, reply = self
        if headers:
            total = len(headers) + len(payload)
            head = f"HPUB {subject} {reply} {len(headers)} {total}\r\n"
        else:
            head = f"PUB {subject} {reply} {len(payload)}\r\n"
        return head.encode(), headers, payload, b"\r\n"


def header_block(headers: Mapping[str, str]) -> bytes:
    """Return headers as a message carries them. No line break may stand in them."""
    fields = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    return f"NATS/1.0\r\n{fields}\r\n".encode()


class LeanClient(Client):
    """A client with one more way to publish, and one more to subscribe."""

    def __init__(self) -> None:
        super().__init__()
        self._ps = LeanParser(self, self._deliver)
        self._is_flush_due = False

    @property
    def described_server(self) -> dict[str, Any]:
        """What the server told about itself when it was last connected."""
        return dict(self._server_info)

    @property
    def has_begun(self) -> bool:
        """Whether a connection was ever begun."""
        return self._current_server is not None

    async def send(self, *messages: Outgoing, at_once: bool = False) -> None:
        """Send all of them, in order, or none.

        Otherwise than `at_once` they share a write to the socket with whatever else is sent before
        the event loop comes to it, which is after everybody who is ready to run.

        Raises:
            StoreClosed: this end has closed the connection.
            LogUnavailable: not connected.
            AppendFailed: one is larger than the server takes.
        """
        if self.is_closed:
            raise StoreClosed
        if not self.is_connected:
            raise LogUnavailable("not connected")
        parts: list[bytes] = []
        for message in messages:
            if len(message.payload) > self._max_payload:
                raise AppendFailed("a message is larger than this server takes")
            parts += message.parts()
        self.stats["out_msgs"] += len(messages)
        self.stats["out_bytes"] += sum(len(message.payload) for message in messages)
        # Other transports, websockets among them, write only when they are drained.
        if at_once and not self._pending and isinstance(self._transport, TcpTransport):
            self._transport.writelines(parts)  # type: ignore[no-untyped-call]
            return
        self._pending += parts
        self._pending_data_size += sum(map(len, parts))
        self._flush_later()

    async def call(self, subject: str, on_message: OnMessage) -> Subscription:
        """Call `on_message` for each message on `subject`, from within the reading of the socket.

        It must not block; what it raises goes to the error callback.

        Raises:
            StoreClosed: this end has closed the connection.
        """
        if self.is_closed:
            raise StoreClosed
        self._sid += 1
        subscription = self._subs[self._sid] = _Call(self, self._sid, subject, on_message)
        try:
            await self._send_subscribe(subscription)
        except BaseException:
            await subscription.unsubscribe()  # its caller will never know of it
            raise
        return subscription

    async def _flush_pending(self, force_flush: bool = False) -> Any:
        if force_flush or not self.is_connected:
            return await super()._flush_pending(force_flush)
        self._flush_later()
        return None

    def _flush_later(self) -> None:
        # Not on the stack of a caller who may be close to the interpreter's recursion limit: an
        # error between the steps of nats-py's queue would leave its flusher asleep.
        if not self._is_flush_due:
            asyncio.get_running_loop().call_soon(self._flush_now)
            self._is_flush_due = True

    def _flush_now(self) -> None:
        self._is_flush_due = False
        if not self._pending or not self.is_connected:
            return
        if isinstance(self._transport, TcpTransport):
            pending, self._pending, self._pending_data_size = self._pending, [], 0
            self._transport.writelines(pending)  # type: ignore[no-untyped-call]
        elif self._flush_queue is not None and self._flush_queue.empty():
            self._flush_queue.put_nowait(asyncio.get_running_loop().create_future())

    def _deliver(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> Awaitable[None] | None:
        subscription = self._subs.get(sid)
        if subscription.__class__ is not _Call:
            return self._process_msg(sid, subject, reply, data, headers)
        self.stats["in_msgs"] += 1
        self.stats["in_bytes"] += len(data)
        try:
            subscription.on_message(Incoming(self, subject, reply, data, headers, sid))
        except Exception as error:  # noqa: BLE001  # else it would end nats-py's reading
            return self._error_cb(error)
        return None

    async def _process_err(self, err_msg: str) -> None:
        """A server says why it ends the connection: authentication expired, for instance."""
        if not self.is_connected or PERMISSIONS_ERR in err_msg:
            await super()._process_err(err_msg)
            return
        self._err = nats.errors.Error(f"nats: {err_msg}")
        await self._error_cb(self._err)
        await self._process_op_err(self._err)

    async def _attempt_reconnect(self) -> None:
        self._drop()
        if isinstance(self._transport, TcpTransport):
            # Nobody waits for what was dropped: a waiter who is cancelled by a close would leave
            # that close a cancelled future to wait for.
            self._transport = None
        await super()._attempt_reconnect()

    async def _connect_to_server(self, s: Any) -> None:
        # An attempt that broke half-way has left a socket, and perhaps those who wait for it.
        self._drop()
        for task in (self._reading_task, self._ping_interval_task, self._flusher_task):
            if task is not None:
                task.cancel()
        # Who sent what was not written was told that it may be lost. Over the next
        # connection it would come late, and before anybody has looked at what is behind that.
        self._pending, self._pending_data_size = [], 0
        await super()._connect_to_server(s)

    async def _close(self, status: int, do_cbs: bool = True) -> None:
        dropping = asyncio.get_running_loop().call_later(_CLOSING_SECONDS, self._drop)
        try:
            await super()._close(status, do_cbs)
        finally:
            dropping.cancel()

    def _drop(self) -> None:
        transport = self._transport
        if isinstance(transport, TcpTransport) and transport._io_writer is not None:
            transport._io_writer.transport.abort()


class _Call(Subscription):
    def __init__(self, client: Client, sid: int, subject: str, on_message: OnMessage) -> None:
        super().__init__(client, sid, subject)
        self.on_message = on_message
        unused: Any = None
        self._pending_queue = unused  # 3 KB, which nothing will ever enter
