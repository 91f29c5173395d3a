"""Reading the protocol: messages are cut out of what the socket brings, without looking twice.

nats-py's parser tries regular expressions on every operation, moves what follows each message, and
reads each header. A scan of the log, and every page of a read, is thousands of messages: here one
takes a fifth of that. Whatever is no message goes to nats-py's own parser.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from nats.aio.msg import Msg
from nats.errors import ProtocolError
from nats.protocol.parser import MAX_CONTROL_LINE_SIZE, Parser

_VERSION: Final = b"NATS/1.0"
_STATUS_DIGITS: Final = 3
_END: Final = b"\r\n"
_WITH_HEADERS: Final = b"HMSG"
_FIELDS: Final = 4
"""The fields of a message's first line, where it has neither a reply nor headers."""

_MESSAGES: Final = (b"HMSG ", b"MSG ")

Deliver = Callable[[int, bytes, bytes, bytes, bytes], Awaitable[None] | None]
"""Takes a message: subscription, subject, reply, payload, header block.

What it returns is awaited, unless it is None.
"""


class Incoming(Msg):
    """A message as it came; its headers are read when somebody asks for them.

    `raw` are its subject and where an answer goes; `block` are the headers, empty without any.
    """

    _headers: dict[str, str] | None = None

    def __init__(
        self, client: Any, subject: bytes, reply: bytes, data: bytes, block: bytes, sid: int
    ) -> None:
        # As few attributes as possible: nats-py's other defaults are those of its class.
        self._client = client
        self._sid = sid
        self.raw = subject, reply
        self.data = data
        self.block = block

    @property
    def subject(self) -> str:  # type: ignore[override]  # as an attribute, it would cost each time
        """Where it was sent."""
        return self.raw[0].decode()

    @property
    def reply(self) -> str:  # type: ignore[override]
        """Where an answer goes, "" for nowhere."""
        return self.raw[1].decode()

    @property
    def headers(self) -> dict[str, str] | None:  # type: ignore[override]
        """The headers, or None."""
        if self._headers is None and self.block:
            self._headers = parse_headers(self.block)
        return self._headers

    @property
    def is_status(self) -> bool:
        """Whether the server put a status on it, as on the end of a page."""
        return self.block[len(_VERSION) : len(_VERSION) + 1] == b" "


class LeanParser(Parser):
    """A parser that hands each message to `deliver`, in order."""

    def __init__(self, client: Any, deliver: Deliver) -> None:
        super().__init__(client)
        self._deliver = deliver

    def reset(self) -> None:
        """Forget what is half read."""
        super().reset()
        self._rest: list[bytes] = []
        self._waiting_for = 0
        self._beginnings = getattr(self, "_beginnings", 0) + 1

    async def parse(self, data: bytes = b"") -> None:
        """Take in what the socket brought.

        Raises:
            ProtocolError: it is not what a server sends.
        """
        if self._rest:
            self._rest.append(data)
            self._waiting_for -= len(data)
            if self._waiting_for > 0:
                return  # a large message: nothing is to be looked at before it is whole
            data = b"".join(self._rest)
            self._rest = []
        at, end, needed = 0, len(data), 1
        beginnings = self._beginnings
        while at < end:
            line_end = data.find(_END, at)
            if line_end < 0:
                if end - at > MAX_CONTROL_LINE_SIZE and data.startswith(_MESSAGES, at):
                    raise ProtocolError("nats: malformed MSG")
                break
            body = line_end + 2
            waiting: Awaitable[None] | None
            if data.startswith(_MESSAGES, at):
                fields = data[at:line_end].split()
                has_headers = fields[0] == _WITH_HEADERS
                try:
                    sid, after = int(fields[2]), body + int(fields[-1])
                    payload = body + int(fields[-2]) if has_headers else body
                except (ValueError, IndexError):
                    raise ProtocolError("nats: malformed MSG") from None
                beside = len(fields) - has_headers - _FIELDS
                if beside not in (0, 1):
                    raise ProtocolError("nats: malformed MSG")
                if after + 2 > end:
                    needed = after + 2 - end
                    break
                reply = fields[3] if beside else b""
                waiting = self._deliver(
                    sid, fields[1], reply, data[payload:after], data[body:payload]
                )
                at = after + 2
            else:
                waiting = super().parse(data[at:body])
                at = body
            if waiting is not None:
                await waiting
                if self._beginnings != beginnings:
                    return  # what follows came over a connection that is gone
        if at < end:
            self._rest, self._waiting_for = [data[at:]], needed


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
