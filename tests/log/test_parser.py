"""The lean parser against nats-py's own: the same operations, however the bytes are cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from nats.errors import ProtocolError
from nats.protocol.parser import Parser

from foldlog.log.jetstream.parser import LeanParser

HEADERS = b"NATS/1.0\r\nNats-Sequence: 7\r\n\r\n"
STATUS = b"NATS/1.0 404 Not Found\r\n\r\n"
OPERATIONS = [
    b"PING\r\n",
    b"PONG\r\n",
    b"+OK\r\n",
    b"-ERR 'Slow Consumer'\r\n",
    b'INFO {"server_name": "n"}\r\n',
    b"MSG a.b 1 0\r\n\r\n",
    b"MSG a.b 12 reply.to 5\r\nhello\r\n",
    b"MSG a 3 11\r\nMSG x 1 0\r\n\r\n",
    b"HMSG a.b 1 %d %d\r\n%s\r\n" % (len(STATUS), len(STATUS), STATUS),
    b"HMSG a 2 $JS.ACK.1 %d %d\r\n%sPING\r\n\r\n" % (len(HEADERS), len(HEADERS) + 6, HEADERS),
    b"MSG big 4 20000\r\n" + b"x" * 20000 + b"\r\n",
]


class Client:
    """Notes what it is told of, as the parsers of both kinds do it."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    async def _process_msg(self, *message: Any) -> None:
        *fields, headers = message
        self.told.append((*fields, headers or b""))

    def deliver(self, *message: Any) -> None:
        self.told.append(message)

    async def _process_ping(self) -> None:
        self.told.append("ping")

    async def _process_pong(self) -> None:
        self.told.append("pong")

    async def _process_err(self, error: str) -> None:
        self.told.append(error)

    async def _process_info(self, info: Any) -> None:
        self.told.append(info)


@given(
    chosen=st.lists(st.sampled_from(OPERATIONS), max_size=12),
    cuts=st.lists(st.integers(1, 400), min_size=1, max_size=30),
)
async def test_it_tells_what_nats_py_tells(chosen: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(chosen)
    lean, plain = Client(), Client()
    lean_parser, plain_parser = LeanParser(lean, lean.deliver), Parser(plain)
    at = number = 0
    while at < len(stream):
        size = cuts[number % len(cuts)]
        await lean_parser.parse(stream[at : at + size])
        at, number = at + size, number + 1
    await plain_parser.parse(stream)
    assert lean.told == plain.told
    assert len(plain.told) == len([each for each in chosen if each != b"+OK\r\n"])


@pytest.mark.parametrize("bad", [b"MSG a x 5\r\n", b"HMSG a 1 5\r\n", b"WHAT\r\n", b"MSG\x20\r\n"])
async def test_what_no_server_sends_is_refused(bad: bytes) -> None:
    client = Client()
    with pytest.raises(ProtocolError):
        await LeanParser(client, client.deliver).parse(bad)


async def test_what_was_half_read_is_forgotten_with_its_connection() -> None:
    client = Client()
    parser = LeanParser(client, client.deliver)
    await parser.parse(b"MSG a 1 100\r\nabc")
    parser.reset()
    await parser.parse(b"MSG b 2 1\r\nx\r\n")
    assert client.told == [(2, b"b", b"", b"x", b"")]
