"""A scan against a server that skips what it cannot read, and replicas that lag behind each other.

Each of these is a moment that a real server cannot be brought into.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
import pytest

from foldlog.envelope import draft, pack
from foldlog.errors import LogCorrupt, LogUnavailable
from foldlog.log.jetstream import scanner
from foldlog.log.jetstream.asking import Asking
from foldlog.log.jetstream.log import find_keys
from foldlog.log.port import Stored
from foldlog.subjects import Subject


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

    async def last_of(self, matching: str) -> Stored:
        assert matching == ">"
        return Stored("subject", self.count, "", b"")

    async def ready(self, timeout: float) -> None:
        """It is."""

    def asking(self) -> Asking:
        connection: Any = self
        return Asking(connection, time.monotonic() + self.timeout)

    async def retry(self, attempt: Any, deadline: float | None = None) -> Any:
        return await attempt(5.0)

    async def begin(self, client: Any, after: int, which: dict[str, list[str]]) -> Walk:
        missing = self.behind.pop(0) if after and self.behind else 0
        return Walk(self, after, max(self.count - missing - after, 0))


class Walk:
    def __init__(self, server: Server, after: int, pending: int) -> None:
        self.server = server
        self.after = after
        self.pending = self.left = pending

    async def page(self) -> list[Stored]:
        first = self.after + 1
        self.after = min(self.after + 10, self.server.count)
        skipped = self.server.unreadable.intersection(range(first, self.after + 1))
        self.left = self.server.count - self.after + len(skipped)
        return [
            Stored("subject", seq, "2026-01-01T00:00:00Z", b"")
            for seq in range(first, self.after + 1)
            if seq not in self.server.unreadable
        ]

    async def close(self) -> None:
        """There is nothing to be forgotten."""


async def scanned(server: Server, monkeypatch: pytest.MonkeyPatch, upto: int) -> list[int]:
    monkeypatch.setattr(scanner, "_DOUBTS", (0.0, 0.0, 0.0))
    monkeypatch.setattr(scanner, "ConsumerRead", server)
    client: Any = server
    found: list[int] = []
    async for page in scanner.scan(client, ">", 0):
        found += [each.seq for each in page]
        server.count = upto  # others append meanwhile
    return found


async def test_what_the_server_skips_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LogCorrupt, match="2 records before it cannot be read") as error:
        await scanned(Server(30, {7, 21}, []), monkeypatch, 30)
    assert error.value.sequence == 30


async def test_what_the_server_skips_in_the_only_page_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(LogCorrupt, match="1 records before it cannot be read"):
        await scanned(Server(8, {7}, []), monkeypatch, 8)


async def test_a_replica_that_lags_makes_no_log_corrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts less after the end of the scan than the other one has counted in all."""
    server = Server(30, set(), [20, 5])
    assert await scanned(server, monkeypatch, 60) == list(range(1, 31))
    assert server.behind == []


async def test_what_is_skipped_is_told_whatever_lags(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LogCorrupt, match="1 records"):
        await scanned(Server(30, {12}, [20]), monkeypatch, 60)


async def test_a_scan_that_cannot_begin_leaves_no_question_behind() -> None:
    class Half(Server):
        """Knows where one of two filters ends, after a while."""

        ended = 0

        async def last_of(self, matching: str) -> Stored:
            if matching == "a":
                raise LogUnavailable("nobody leads")
            for _ in range(10):
                await asyncio.sleep(0)
            self.ended += 1
            return Stored("subject", self.count, "", b"")

    server: Any = Half(30, set(), [])
    with pytest.raises(LogUnavailable, match="nobody leads"):
        await anext(scanner.scan(server, ">", 0, only=["a", "b"]))
    assert server.ended == 1


class Holder:
    """Answers for one subject of a hashed name: its last record, its first, and how many."""

    name = "stream"

    def __init__(self, last: bytes | None, first: bytes | None, count: int) -> None:
        self.answers = {"last_by_subj": last, "next_by_subj": first}
        self.count = count

    async def message(self, request: dict[str, Any]) -> Stored | None:
        data = next(self.answers[key] for key in self.answers if key in request)
        return None if data is None else Stored("hash", 1, "2026-01-01T00:00:00Z", data)

    async def subjects(self, matching: str) -> dict[str, int]:
        return {matching: self.count} if self.count else {}


KEYED = pack([msgspec.structs.replace(draft("x.saved", b"\xc0", id="1"), keys=("long",))])


@pytest.mark.parametrize(
    "last", [KEYED, b"no record", None], ids=["whole", "damaged", "unreadable"]
)
async def test_the_keys_of_a_hashed_subject_are_in_any_of_its_records(last: bytes | None) -> None:
    client: Any = Holder(last, KEYED, 2)
    assert await find_keys(client, 0, "hash") == Subject("hash", 0, ("long",))


async def test_a_hashed_subject_without_its_keys_is_purged_or_corrupt() -> None:
    client: Any = Holder(None, None, 0)
    assert await find_keys(client, 0, "hash") is None
    client.count = 1
    with pytest.raises(LogCorrupt, match="hash: no record that has its keys"):
        await find_keys(client, 0, "hash")
