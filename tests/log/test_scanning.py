"""A scan against a server that skips what it cannot read, and replicas that lag behind each other.

Each of these is a moment that a real server cannot be brought into.
"""

from __future__ import annotations

from typing import Any

import pytest

from foldlog.errors import LogCorrupt
from foldlog.log.jetstream import scanner, wire
from foldlog.log.jetstream.scanner import Scanner
from foldlog.log.port import Stored


class Server:
    """Holds messages 1 to `count`; `unreadable` ones are counted as pending and skipped.

    `behind`: how many of the last messages the replica lacks that counts from a sequence beyond the
    first, one number for each time that it is asked.
    """

    def __init__(self, count: int, unreadable: set[int], behind: list[int]) -> None:
        self.count = count
        self.unreadable = unreadable
        self.behind = behind

    name = "stream"
    timeout = 5.0
    connection: Any = None

    async def message(self, request: dict[str, Any]) -> Any:
        assert request == {"last_by_subj": ">"}
        return wire.StoredMessage(self.count, "")

    async def begin(self, client: Any, after: int) -> Walk:
        missing = self.behind.pop(0) if after and self.behind else 0
        return Walk(self, after, max(self.count - missing - after, 0))


class Walk:
    def __init__(self, server: Server, after: int, pending: int) -> None:
        self.server = server
        self.after = after
        self.pending = pending

    async def page(self) -> list[Stored]:
        first = self.after + 1
        self.after = min(self.after + 10, self.server.count)
        return [
            Stored("subject", seq, "2026-01-01T00:00:00Z", b"")
            for seq in range(first, self.after + 1)
            if seq not in self.server.unreadable
        ]

    async def close(self) -> None:
        """There is nothing to be forgotten."""


async def scanned(server: Server, monkeypatch: pytest.MonkeyPatch, upto: int) -> list[int]:
    monkeypatch.setattr(scanner, "_DOUBTS", (0.0, 0.0))
    monkeypatch.setattr(scanner, "ConsumerRead", server)
    client: Any = server
    everything = Scanner(client, ">")
    found: list[int] = []
    async for page in everything.scan(0):
        found += [each.seq for each in page]
        server.count = upto  # others append meanwhile
    return found


async def test_what_the_server_skips_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LogCorrupt, match="2 records before it cannot be read") as error:
        await scanned(Server(30, {7, 21}, []), monkeypatch, 30)
    assert error.value.sequence == 30


async def test_a_replica_that_lags_makes_no_log_corrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts less after the end of the scan than the other one has counted in all."""
    server = Server(30, set(), [20, 5])
    assert await scanned(server, monkeypatch, 60) == list(range(1, 31))
    assert server.behind == []


async def test_what_is_skipped_is_told_whatever_lags(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LogCorrupt, match="1 records"):
        await scanned(Server(30, {12}, [20]), monkeypatch, 60)
