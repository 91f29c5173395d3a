"""nats-py's client, made lean where every message passes (decision 2).

It leans on private names of nats-py 2.16, and nothing else does: that minor version is pinned, and
`tests/log/test_client.py` fails where another one works differently.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.aio.transport import TcpTransport
from nats.protocol.parser import PERMISSIONS_ERR

from foldlog.errors import AppendFailed, LogUnavailable, StoreClosed

OnMessage = Callable[["Incoming"], None]

_VERSION: Final = b"NATS/1.0"
_STATUS_DIGITS: Final = 3

_CLOSING_SECONDS: Final = 2.0
"""What is still to be written when the client is closed gets this long."""


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """A message to send, without a line break in its subject; `headers` are a `header_block`."""

    subject: str
    payload: bytes
    headers: bytes = b""
    reply: str = ""

    def parts(self) -> tuple[bytes, bytes, bytes, bytes]:
        """What goes over the wire, without a copy of the payload."""
        payload, headers = self.payload, self.headers
        if headers:
            total = len(headers) + len(payload)
            head = f"HPUB {self.subject} {self.reply} {len(headers)} {total}\r\n"
        else:
            head = f"PUB {self.subject} {self.reply} {len(payload)}\r\n"
        return head.encode(), headers, payload, b"\r\n"


def header_block(headers: Mapping[str, str]) -> bytes:
    """Return headers as a message carries them. No line break may stand in them."""
    fields = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    return f"NATS/1.0\r\n{fields}\r\n".encode()


class Incoming(Msg):
    """A message as it came; its headers are parsed on first use.

    `raw` are its subject and reply subject; `block` are the headers, empty without any.
    """

    _headers: dict[str, str] | None = None

    def __init__(
        self, client: Any, subject: bytes, reply: bytes, data: bytes, block: bytes, sid: int
    ) -> None:
        # As few attributes as possible: nats-py's other defaults are those of its class.
        self._client = client
        self._sid = sid
        self.raw: tuple[bytes, bytes] = subject, reply
        self.data = data
        self.block = block

    @property
    def subject(self) -> str:  # type: ignore[override]  # as an attribute, it would cost each time
        return self.raw[0].decode()

    @property
    def reply(self) -> str:  # type: ignore[override]
        return self.raw[1].decode()

    @property
    def headers(self) -> dict[str, str] | None:  # type: ignore[override]
        if self._headers is None and self.block:
            self._headers = parse_headers(self.block)
        return self._headers

    @property
    def is_status(self) -> bool:
        """Whether the server put a status on it, as on the end of a page."""
        return self.block[len(_VERSION) : len(_VERSION) + 1] == b" "


def parse_headers(raw: bytes) -> dict[str, str]:
    """Return the headers in a message's header block, with the keys that nats-py gives a status."""
    first, *lines = raw.decode("utf-8", "replace").split("\r\n")
    headers: dict[str, str] = {}
    if status := first[len(_VERSION) :].strip():
        headers["Status"] = status[:_STATUS_DIGITS]
        if description := status[_STATUS_DIGITS:].strip():
            headers["Description"] = description
    for line in lines:
        if line:
            name, separator, value = line.partition(": ")
            if not separator or value[:1] == " " or value[-1:] == " ":  # not as a server writes it
                name, _, value = line.partition(":")
                name, value = name.strip(), value.strip()
            headers[name] = value
    return headers


class LeanClient(Client):
    """A client in which three things of nats-py are replaced.

    - **Publishing.** Many messages go in one step, and their headers are joined: a tenth of the
      work for a record of a batch.
    - **Subscriptions.** A message goes straight to its function, without a queue and a task, and
      its headers are read when asked for: a hot view costs a third of the memory.
    - **Giving up a connection.** nats-py waits until all is written, on a half-open connection
      until TCP gives up, and closes for good when a server sends an error. Here the connection is
      dropped with what waits to be written, and another one made.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_flush_due = False

    @property
    def described_server(self) -> dict[str, Any]:
        """How the server described itself when it was last connected."""
        return dict(self._server_info)

    @property
    def has_begun(self) -> bool:
        """Whether a connection was ever begun."""
        return self._current_server is not None

    def send(self, *messages: Outgoing, at_once: bool = False) -> None:
        """Send all of them, in order, or none.

        Unless `at_once`, they share a write to the socket with all that is sent in this turn of the
        event loop.

        Raises:
            StoreClosed, LogUnavailable: closed, or not connected.
            AppendFailed: one is larger than the server takes.
        """
        if not self.is_connected:
            raise StoreClosed if self.is_closed else LogUnavailable("not connected")
        parts, size = list[bytes](), 0
        for message in messages:
            if len(message.payload) > self._max_payload:
                raise AppendFailed("a message is larger than this server takes")
            parts += message.parts()
            size += len(message.payload)
        self.stats["out_msgs"] += len(messages)
        self.stats["out_bytes"] += size
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
        """
        if self.is_closed:
            raise StoreClosed
        self._sid += 1
        subscription = self._subs[self._sid] = _Callback(self, self._sid, subject, on_message)
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
        # Not on the caller's stack, which may be close to the recursion limit: an error between the
        # steps of nats-py's queue would leave its flusher asleep.
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

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        subscription = self._subs.get(sid)
        if subscription.__class__ is not _Callback:
            await super()._process_msg(sid, subject, reply, data, headers)
            return
        self.stats["in_msgs"] += 1
        self.stats["in_bytes"] += len(data)
        try:
            subscription.on_message(Incoming(self, subject, reply, data, headers or b"", sid))
        except Exception as error:  # noqa: BLE001  # else it would end nats-py's reading
            await self._error_cb(error)

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
            # Without a transport nats-py does not wait for it: a close that cancels that wait would
            # itself wait for a cancelled future.
            self._transport = None
        await super()._attempt_reconnect()

    async def _connect_to_server(self, s: Any) -> None:
        # An attempt that broke half-way has left a socket, and perhaps tasks that wait for it.
        self._drop()
        for task in (self._reading_task, self._ping_interval_task, self._flusher_task):
            if task is not None:
                task.cancel()
        # The senders of what was not written know that it may be lost. Over the next connection it
        # would come late, and before the incarnation check.
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


class _Callback(Subscription):
    def __init__(self, client: Client, sid: int, subject: str, on_message: OnMessage) -> None:
        super().__init__(client, sid, subject)
        self.on_message = on_message
        unused: Any = None
        self._pending_queue = unused  # 3 KB, which nothing will ever enter
