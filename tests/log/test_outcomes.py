"""The three outcomes of an append, against a server that loses replies.

The server here is scripted: it keeps JetStream's rules for message ids, expected sequences and
atomic batches, and loses what it is told to lose.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from foldlog.envelope import draft, unpack
from foldlog.errors import AppendConflict, AppendFailed, AppendUnknown, LogUnavailable
from foldlog.log.jetstream.appender import Appender
from foldlog.log.jetstream.connection import ReplyLost
from foldlog.log.port import Append
from foldlog.subjects import Namespace

SUBJECT = Namespace().subject("updates", "s")
OTHER = Namespace().subject("tasks", "s")

Loss = Callable[[str, dict[str, str]], str | None]


class Reply:
    headers = None

    def __init__(self, **answer: Any) -> None:
        self.data = msgspec.json.encode(answer)


class Server:
    """`lose(subject, headers)` is asked at each request: "request", "reply", "away" or None."""

    max_payload = 1024 * 1024

    def __init__(self, lose: Loss = lambda subject, headers: None) -> None:
        self.lose = lose
        self.stored: list[tuple[str, bytes]] = []
        self.ids: dict[str, int] = {}
        self.batches: dict[str, list[tuple[str, bytes, dict[str, str]]]] = {}
        self.requests = 0

    async def ready(self, timeout: float) -> None:
        await asyncio.sleep(0)

    async def publish(self, subject: str, payload: bytes, headers: dict[str, str]) -> None:
        self.batches.setdefault(headers["Nats-Batch-Id"], []).append((subject, payload, headers))

    async def request_each(
        self, requests: list[tuple[str, bytes, dict[str, str]]], *, timeout: float
    ) -> list[Reply | None]:
        replies: list[Reply | None] = []
        for subject, payload, headers in requests:
            try:
                replies.append(
                    await self.request(subject, payload, headers=headers, timeout=timeout)
                )
            except ReplyLost:
                replies.append(None)
        return replies

    async def request(
        self, subject: str, payload: bytes, *, headers: dict[str, str], timeout: float
    ) -> Reply:
        self.requests += 1
        await asyncio.sleep(0)
        lost = self.lose(subject, headers)
        if lost == "away":
            raise LogUnavailable("nobody answers")
        if lost == "request":
            raise ReplyLost("lost")
        if "Nats-Batch-Commit" in headers:
            batch = [*self.batches.pop(headers["Nats-Batch-Id"], []), (subject, payload, headers)]
            reply = self.commit(batch)
        else:
            reply = self.take(subject, payload, headers)
        if lost == "reply":
            raise ReplyLost("lost")
        return reply

    def take(self, subject: str, payload: bytes, headers: dict[str, str]) -> Reply:
        if headers["Nats-Msg-Id"] in self.ids:
            return Reply(seq=self.ids[headers["Nats-Msg-Id"]], duplicate=True)
        last = max((n for n, (s, _) in enumerate(self.stored, 1) if s == subject), default=0)
        expected = headers.get("Nats-Expected-Last-Subject-Sequence")
        if expected is not None and int(expected) != last:
            text = f"wrong last sequence: {last}"
            return Reply(error={"code": 400, "err_code": 10071, "description": text})
        self.stored.append((subject, payload))
        self.ids[headers["Nats-Msg-Id"]] = len(self.stored)
        return Reply(seq=len(self.stored))

    def commit(self, batch: list[tuple[str, bytes, dict[str, str]]]) -> Reply:
        if any(headers["Nats-Msg-Id"] in self.ids for _, _, headers in batch):
            return Reply(error={"code": 400, "err_code": 10201, "description": "duplicate"})
        for message in batch:
            self.take(*message)
        return Reply(seq=len(self.stored), count=len(batch))

    def envelopes(self) -> list[str]:
        return [e.id for _, data in self.stored for e in unpack(data, 1, "")]


def first(lost: str, times: int = 1) -> Loss:
    left = [times]

    def lose(subject: str, headers: dict[str, str]) -> str | None:
        left[0] -= 1
        return lost if left[0] >= 0 else None

    return lose


def always(lost: str) -> Loss:
    return lambda subject, headers: lost


def append(id: str, subject: Any = SUBJECT, expect: int | None = None) -> Append:
    return Append(subject, (draft("x", b"\xc0", id=id),), expect)


async def outcome(
    server: Server, *appends: Append, atomic: bool = False, timeout: float = 5
) -> Any:
    appender = Appender(server, timeout=timeout)  # type: ignore[arg-type]
    try:
        return await appender.append(appends, atomic=atomic)
    finally:
        await appender.close()


@pytest.mark.parametrize("lost", ["request", "reply"])
@pytest.mark.parametrize("times", [1, 3])
async def test_a_lost_reply_is_settled_by_the_same_message_id(lost: str, times: int) -> None:
    server = Server(first(lost, times))
    assert await outcome(server, append("1")) == [1]
    assert server.envelopes() == ["1"]


@pytest.mark.parametrize("lost", ["request", "reply"])
async def test_a_lost_reply_of_a_compare_and_set_is_settled(lost: str) -> None:
    server = Server(first(lost))
    assert await outcome(server, append("1", expect=0), atomic=True) == [1]
    assert server.envelopes() == ["1"]


@pytest.mark.parametrize("lost", ["request", "reply"])
async def test_a_lost_commit_of_an_atomic_append_is_settled(lost: str) -> None:
    server = Server(first(lost))
    assert len(await outcome(server, append("1"), append("2", OTHER), atomic=True)) == 2
    assert server.envelopes() == ["1", "2"]


@pytest.mark.parametrize("lost", ["request", "reply"])
async def test_a_lost_commit_of_a_large_group_is_settled_record_by_record(lost: str) -> None:
    server = Server(first(lost))
    appender = Appender(server, timeout=5)  # type: ignore[arg-type]
    subjects = [Namespace().subject("tasks", f"{n}") for n in range(300)]
    await asyncio.gather(*(appender.append([append("1", s)], atomic=False) for s in subjects))
    await appender.close()
    assert len(server.stored) == 300
    assert {subject for subject, _ in server.stored} == {s.name for s in subjects}


async def test_what_cannot_be_settled_in_time_is_unknown() -> None:
    server = Server(always("reply"))
    with pytest.raises(AppendUnknown) as unknown:
        await outcome(server, append("1"), append("2", OTHER), timeout=0.05)
    assert unknown.value.ids == ["1", "2"]


async def test_what_was_never_sent_is_not_committed() -> None:
    server = Server(always("away"))
    with pytest.raises(LogUnavailable) as refused:
        await outcome(server, append("1"), timeout=0.2)
    assert not isinstance(refused.value, ReplyLost)
    assert server.stored == []
    assert server.requests > 1


async def test_a_stream_without_a_leader_is_waited_for() -> None:
    server = Server(first("away", 2))
    assert await outcome(server, append("1")) == [1]


async def test_in_doubt_once_is_in_doubt_until_settled() -> None:
    losses = iter(["reply"])
    server = Server(lambda subject, headers: next(losses, "away"))
    with pytest.raises(AppendUnknown):
        await outcome(server, append("1"), timeout=0.2)


async def test_a_refusal_is_not_committed() -> None:
    server = Server()
    answer = Reply(error={"code": 400, "err_code": 10077, "description": "maximum exceeded"})
    server.take = lambda *message: answer  # type: ignore[method-assign,assignment]
    with pytest.raises(AppendFailed, match="maximum exceeded"):
        await outcome(server, append("1"))


async def test_a_conflict_says_what_was_found() -> None:
    server = Server()
    await outcome(server, append("1"), append("2"))
    with pytest.raises(AppendConflict) as conflict:
        await outcome(server, append("3", expect=0), atomic=True)
    assert (conflict.value.expected, conflict.value.actual) == (0, 1)


async def test_an_append_partly_stored_is_unknown_and_names_its_ids() -> None:
    server = Server()

    def lose(subject: str, headers: dict[str, str]) -> str | None:
        return "reply" if subject == OTHER.name else None

    server.lose = lose
    with pytest.raises(AppendUnknown) as unknown:
        await outcome(server, append("1"), append("2", OTHER), timeout=0.05)
    assert unknown.value.ids == ["1", "2"]


async def test_a_cancelled_caller_does_not_stop_the_others() -> None:
    server = Server()
    appender = Appender(server, timeout=5)  # type: ignore[arg-type]
    calls = [asyncio.create_task(appender.append([append(f"{n}")], atomic=False)) for n in range(3)]
    await asyncio.sleep(0)
    calls[1].cancel()
    results = await asyncio.gather(*calls, return_exceptions=True)
    await appender.close()
    assert isinstance(results[1], asyncio.CancelledError)
    assert results[0] == results[2] == [1]
    assert server.envelopes() == ["0", "2"]
