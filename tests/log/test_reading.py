"""Reads of one stream against a server that skips what it cannot read."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from foldlog.envelope import draft, pack
from foldlog.errors import LogCorrupt
from foldlog.log.jetstream.reader import Reader
from foldlog.subjects import Namespace
from tests.log.marks import FakeGate

SUBJECT = Namespace().subject("updates", "s")


class Reply:
    def __init__(self, data: bytes = b"", **headers: object) -> None:
        self.data = data
        self.headers = {name.replace("_", "-"): str(value) for name, value in headers.items()}


class Server:
    """Holds records 1 to `count`; `unreadable` ones are counted as pending and skipped.

    `purge_after`: how many pages are answered before everything is purged.
    """

    def __init__(self, count: int, unreadable: set[int], *, purge_after: int | None = None) -> None:
        self.held = list(range(1, count + 1))
        self.unreadable = unreadable
        self.purge_after = purge_after
        self.asked = 0

    async def ready(self, timeout: float) -> None:
        """It is."""

    async def collect(self, subject: str, payload: bytes, *, timeout: float) -> list[Reply]:
        if self.asked == self.purge_after:
            self.held = []
        self.asked += 1
        asked: dict[str, Any] = msgspec.json.decode(payload)
        pending = [seq for seq in self.held if seq >= asked["seq"]]
        found = [seq for seq in pending if seq not in self.unreadable][: asked["batch"]]
        if not found:
            return [Reply(Status="404")]
        replies, previous = [], 0
        for seq in found:
            data = pack([draft("update.saved", b"", id=f"{seq}")])
            replies.append(
                Reply(
                    data,
                    Nats_Sequence=seq,
                    Nats_Time_Stamp="2026-01-01T00:00:00Z",
                    Nats_Last_Sequence=previous,
                )
            )
            previous = seq
        end = Reply(Status="204", Nats_Num_Pending=len(pending) - len(found))
        return [*replies, end]

    async def request(self, subject: str, payload: bytes, *, timeout: float) -> Reply:
        """What the leader counts, and what it has last."""
        self.asked += 1
        if self.asked == self.purge_after:
            self.held = []
        if subject == "$JS.API.STREAM.INFO.S":
            assert msgspec.json.decode(payload) == {"subjects_filter": SUBJECT.name, "offset": 0}
            counted = {SUBJECT.name: len(self.held)} if self.held else {}
            return Reply(msgspec.json.encode({"state": {"subjects": counted}}))
        if subject == "$JS.API.DIRECT.GET.S":
            words = "Message Not Found" if self.held or b"last_by_subj" in payload else "No Results"
            return Reply(Status="404", Description=words)
        assert subject == "$JS.API.STREAM.MSG.GET.S"
        readable = [seq for seq in self.held if seq not in self.unreadable]
        if not readable:
            return Reply(msgspec.json.encode({"error": {"code": 404, "err_code": 10037}}))
        message = {"seq": readable[-1], "time": "2026-01-01T00:00:00Z"}
        return Reply(msgspec.json.encode({"message": message}))


async def read(server: Server) -> list[int]:
    reader = Reader(server, "S", FakeGate(), replicas=1, timeout=5)  # type: ignore[arg-type]
    return [
        record.seq async for records in reader.read(SUBJECT, 0, strong=True) for record in records
    ]


@pytest.mark.parametrize("count", [1, 128, 129, 1300])
async def test_a_whole_log_is_read(count: int) -> None:
    assert await read(Server(count, set())) == list(range(1, count + 1))


@pytest.mark.parametrize("unreadable", [1, 50, 100])
@pytest.mark.parametrize("count", [100, 700])
async def test_what_the_server_skips_is_not_passed_over(count: int, unreadable: int) -> None:
    with pytest.raises(LogCorrupt):
        await read(Server(count, {unreadable}))


@pytest.mark.parametrize("count", [1, 3])
async def test_a_subject_without_a_readable_record_is_not_taken_for_an_empty_one(
    count: int,
) -> None:
    unreadable = set(range(1, count + 1))
    with pytest.raises(LogCorrupt):
        await read(Server(count, unreadable))
    reader = Reader(Server(count, unreadable), "S", FakeGate(), replicas=1, timeout=5)  # type: ignore[arg-type]
    with pytest.raises(LogCorrupt):
        await reader.last(SUBJECT, strong=True)


@pytest.mark.parametrize("purge_after", [2, 3, 4, 5])
async def test_a_purge_while_a_subject_is_looked_for_is_no_corruption(purge_after: int) -> None:
    assert await read(Server(1, {1}, purge_after=purge_after)) == []


async def test_a_purge_between_pages_is_no_corruption() -> None:
    assert await read(Server(300, set(), purge_after=1)) == list(range(1, 129))


async def test_a_page_comes_in_parts_between_which_others_have_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("foldlog.log.jetstream.reader._PART_BYTES", 200)
    reader = Reader(Server(300, set()), "S", FakeGate(), replicas=1, timeout=5)  # type: ignore[arg-type]
    turns, others = 0, True

    async def take_turns() -> None:
        nonlocal turns
        while others:
            turns += 1
            await asyncio.sleep(0)

    taking = asyncio.create_task(take_turns())
    parts = [part async for part in reader.read(SUBJECT, 0, strong=True)]
    others = False
    await taking
    assert [record.seq for part in parts for record in part] == list(range(1, 301))
    assert turns >= len(parts) - 3 > 20  # one page begins with no turn, of three
