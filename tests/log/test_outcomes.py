"""The three outcomes of an append, against a server that loses replies.

The server here is scripted: it keeps JetStream's rules for message ids, expected sequences and
atomic batches, and loses what it is told to lose.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from foldlog.envelope import draft, unpack
from foldlog.errors import (
    AppendConflict,
    AppendFailed,
    AppendUnknown,
    LogUnavailable,
    PayloadTooLarge,
)
from foldlog.log.jetstream import JetStreamLog
from foldlog.log.jetstream.client import Outgoing, header_block, parse_headers
from foldlog.log.jetstream.connection import Forbidden, ReplyLost
from foldlog.log.packing import MAX_BATCH_MESSAGES
from foldlog.log.port import Append
from foldlog.subjects import Namespace
from tests.log.marks import open_appender

SUBJECT = Namespace().subject("updates", "s")
OTHER = Namespace().subject("tasks", "s")


class Reply:
    headers: dict[str, str] | None = None

    def __init__(self, **answer: Any) -> None:
        self.data = msgspec.json.encode(answer)


NOBODY = Reply()
NOBODY.headers = {"Status": "503"}


Loss = Callable[[str, dict[str, str]], str | Reply | None]


def refusal(err_code: int, description: str = "refused") -> Reply:
    return Reply(error={"code": 400, "err_code": err_code, "description": description})


class Server:
    """`lose(subject, headers)` is asked at each request: what gets lost, or is replied instead.

    "request", "reply" or "away" (nobody serves the stream); None leaves the request alone.
    """

    max_payload = 1024 * 1024
    reconnects = 0

    def __init__(self, lose: Loss = lambda subject, headers: None) -> None:
        self.lose = lose
        self.stored: list[tuple[str, bytes]] = []
        self.ids: dict[str, int] = {}
        self.batches: dict[str, list[tuple[str, bytes, dict[str, str]]]] = {}
        self.requests = 0

    async def ready(self, timeout: float) -> None:
        await asyncio.sleep(0)

    def on_epoch(self, notify: Callable[[], None]) -> None:
        """Its connection is never lost."""

    def forbids(self, subject: str) -> bool:
        """Marks may not be read."""
        return "STREAM.MSG.GET" in subject and "snapshots" in subject

    async def close(self) -> None:
        """Nothing is open."""

    async def request_each(
        self, messages: list[Outgoing], *, timeout: float, asks: int
    ) -> list[Reply | None]:
        replies: list[Reply | None] = []
        body = messages[: len(messages) - asks]
        for message in messages[len(body) :]:
            subject, headers = message.subject, parse_headers(message.headers)
            if body:
                self.batches[headers["Nats-Batch-Id"]] = [
                    (each.subject, each.payload, parse_headers(each.headers)) for each in body
                ]
            try:
                replies.append(
                    await self.request(subject, message.payload, headers=headers, timeout=timeout)
                )
            except ReplyLost:
                replies.append(None)
            except LogUnavailable:
                replies.append(NOBODY)
        return replies

    async def request(
        self,
        subject: str,
        payload: bytes,
        *,
        timeout: float,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        self.requests += 1
        await asyncio.sleep(0)
        if subject.startswith("$JS.API.STREAM.INFO"):
            raise LogUnavailable("it does not describe streams")
        if self.forbids(subject):
            raise Forbidden(subject)
        if headers is None:
            return self.following(**msgspec.json.decode(payload))
        lost = self.lose(subject, headers)
        if isinstance(lost, Reply):
            return lost
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
        # In this order, as nats-server does without replicas: the expectation, then the id.
        last = max((n for n, (s, _) in enumerate(self.stored, 1) if s == subject), default=0)
        expected = headers.get("Nats-Expected-Last-Subject-Sequence")
        if expected is not None and int(expected) != last:
            return refusal(10071, f"wrong last sequence: {last}")
        if headers["Nats-Msg-Id"] in self.ids:
            return Reply(seq=self.ids[headers["Nats-Msg-Id"]], duplicate=True)
        self.stored.append((subject, payload))
        self.ids[headers["Nats-Msg-Id"]] = len(self.stored)
        return Reply(seq=len(self.stored))

    def following(self, seq: int, next_by_subj: str) -> Reply:
        for number, (subject, _) in enumerate(self.stored, 1):
            if number >= seq and subject == next_by_subj:
                id = next(id for id, at in self.ids.items() if at == number)
                block = base64.b64encode(header_block({"Nats-Msg-Id": id})).decode()
                return Reply(message={"seq": number, "time": "", "data": "", "hdrs": block})
        return refusal(10037, "no message found")

    def commit(self, batch: list[tuple[str, bytes, dict[str, str]]]) -> Reply:
        if any(headers["Nats-Msg-Id"] in self.ids for _, _, headers in batch):
            return refusal(10201, "duplicate")
        kept = list(self.stored), dict(self.ids)
        for message in batch:
            reply = self.take(*message)
            if b"err_code" in reply.data:
                self.stored, self.ids = kept
                return reply
        return Reply(seq=len(self.stored), count=len(batch))

    def envelopes(self) -> list[str]:
        return [e.id for _, data in self.stored for e in unpack(data, 1, "")]


def first(lost: str, times: int = 1) -> Loss:
    left = [times]

    def lose(subject: str, headers: dict[str, str]) -> str | Reply | None:
        left[0] -= 1
        return lost if left[0] >= 0 else None

    return lose


def always(lost: str) -> Loss:
    return lambda subject, headers: lost


def in_turn(*losses: str | Reply | None, then: str | None) -> Loss:
    left = iter(losses)
    return lambda subject, headers: next(left, then)


def append(id: str, subject: Any = SUBJECT, expect: int | None = None) -> Append:
    return Append(subject, (draft("x", b"\xc0", id=id),), expect)


async def outcome(
    server: Server, *appends: Append, atomic: bool = False, timeout: float = 5
) -> Any:
    appender = open_appender(server, timeout=timeout)
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
    appender = open_appender(server, timeout=5)
    subjects = [Namespace().subject("tasks", f"{n}") for n in range(300)]
    await asyncio.gather(*(appender.append([append("1", s)], atomic=False) for s in subjects))
    await appender.close()
    assert len(server.stored) == 300
    assert {subject for subject, _ in server.stored} == {s.name for s in subjects}


async def test_a_lost_commit_leaves_the_records_of_a_subject_in_order() -> None:
    """One by one the second could be stored while the stream has no leader for the first."""
    no_leader = Reply(error={"code": 503, "err_code": 10008, "description": "no leader"})
    server = Server(in_turn("request", no_leader, then=None))
    server.max_payload = 4096
    payload = msgspec.msgpack.encode(b"x" * 3000)
    drafts = tuple(draft("x", payload, id=id) for id in ("1", "2"))
    assert await outcome(server, Append(SUBJECT, drafts)) == [2]
    assert server.envelopes() == ["1", "2"]


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
    server = Server(in_turn("reply", then="away"))
    with pytest.raises(AppendUnknown):
        await outcome(server, append("1"), timeout=0.2)


async def test_a_refusal_is_not_committed() -> None:
    server = Server(in_turn(refusal(10077, "maximum exceeded"), then=None))
    with pytest.raises(AppendFailed, match="maximum exceeded"):
        await outcome(server, append("1"))


async def test_a_first_attempt_that_is_still_being_decided_is_waited_for() -> None:
    server = Server(in_turn("reply", refusal(10158), refusal(10158), then=None))
    assert await outcome(server, append("1")) == [1]
    assert server.envelopes() == ["1"]


async def test_a_first_attempt_that_stays_undecided_is_unknown() -> None:
    server = Server(in_turn("request", refusal(10158), then="away"))
    with pytest.raises(AppendUnknown):
        await outcome(server, append("1"), timeout=0.3)


async def test_a_batch_of_which_a_part_is_stored_is_in_doubt() -> None:
    server = Server(in_turn(refusal(10201), then="away"))
    with pytest.raises(AppendUnknown) as unknown:
        await outcome(server, append("1"), append("2", OTHER), atomic=True, timeout=0.2)
    assert unknown.value.ids == ["1", "2"]


@pytest.mark.parametrize("stored", [1, 2, 3])
async def test_a_batch_of_which_a_part_is_stored_is_completed_in_order(stored: int) -> None:
    class Torn(Server):
        """Loses its power in the middle of the first commit."""

        def commit(self, batch: list[tuple[str, bytes, dict[str, str]]]) -> Reply:
            if self.stored:
                return super().commit(batch)
            for message in batch[:stored]:
                self.take(*message)
            raise ReplyLost("power")

    server = Torn()
    server.max_payload = 4096
    payload = msgspec.msgpack.encode(b"x" * 3000)
    drafts = tuple(draft("x", payload, id=id) for id in ("1", "2", "3"))
    server.lose = in_turn(None, None, None, "request", NOBODY, then=None)
    assert await outcome(server, Append(SUBJECT, drafts, 0), atomic=True) == [3]
    assert server.envelopes() == ["1", "2", "3"]


async def test_records_of_one_subject_wait_for_each_other() -> None:
    """Side by side the second could be stored although the first was not."""
    server = Server(in_turn(NOBODY, then=None))
    server.max_payload = 4096
    payload = msgspec.msgpack.encode(b"x" * 3000)
    drafts = tuple(draft("x", payload, id=id) for id in ("1", "2", "3"))
    assert await outcome(server, Append(SUBJECT, drafts), append("4", OTHER)) == [4, 1]
    assert server.envelopes() == ["4", "1", "2", "3"]


async def test_a_refusal_beside_what_is_unknown_is_unknown() -> None:
    server = Server(in_turn(refusal(10077), then="reply"))
    with pytest.raises(AppendUnknown):
        await outcome(server, append("1"), append("2", OTHER), timeout=0.2)


@pytest.mark.parametrize("second", [refusal(10077), refusal(10164)])
async def test_a_refusal_of_the_second_attempt_says_nothing_of_the_first(second: Reply) -> None:
    server = Server(in_turn("request", second, then="away"))
    with pytest.raises(AppendUnknown):
        await outcome(server, append("1", expect=0), atomic=True, timeout=0.5)


async def test_a_mismatch_that_names_the_sequence_is_final_for_both_attempts() -> None:
    server = Server()
    await outcome(server, append("1"))
    server.lose = first("request")
    with pytest.raises(AppendConflict) as conflict:
        await outcome(server, append("2", expect=0), atomic=True)
    assert conflict.value.actual == 1
    assert server.envelopes() == ["1"]


async def test_a_conflict_says_what_was_found() -> None:
    server = Server()
    await outcome(server, append("1"), append("2"))
    with pytest.raises(AppendConflict) as conflict:
        await outcome(server, append("3", expect=0), atomic=True)
    assert (conflict.value.expected, conflict.value.actual) == (0, 1)


async def test_an_append_partly_stored_is_unknown_and_names_its_ids() -> None:
    server = Server()

    def lose(subject: str, headers: dict[str, str]) -> str | Reply | None:
        return "reply" if subject == OTHER.name else None

    server.lose = lose
    with pytest.raises(AppendUnknown) as unknown:
        await outcome(server, append("1"), append("2", OTHER), timeout=0.05)
    assert unknown.value.ids == ["1", "2"]


async def test_a_cancelled_caller_does_not_stop_the_others() -> None:
    server = Server()
    appender = open_appender(server, timeout=5)
    calls = [asyncio.create_task(appender.append([append(f"{n}")], atomic=False)) for n in range(3)]
    await asyncio.sleep(0)
    calls[1].cancel()
    results = await asyncio.gather(*calls, return_exceptions=True)
    await appender.close()
    assert isinstance(results[1], asyncio.CancelledError)
    assert results[0] == results[2] == [1]
    assert server.envelopes() == ["0", "2"]


async def test_each_part_of_a_bulk_append_has_a_time_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passed, clock = 0.0, time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: clock() + passed)

    class Slow(Server):
        """Takes 60 of the 100 seconds that an append has, each time."""

        async def request_each(self, *args: Any, **options: Any) -> list[Reply | None]:
            nonlocal passed
            passed += 60
            return await super().request_each(*args, **options)

    server = Slow()
    subjects = [Namespace().subject("tasks", f"{n}") for n in range(2 * MAX_BATCH_MESSAGES + 1)]
    seqs = await outcome(server, *(append("1", s) for s in subjects), timeout=100)
    assert len(seqs) == len(server.stored) == len(subjects)


async def test_no_part_of_a_bulk_append_overtakes_one_that_failed() -> None:
    server = Server(in_turn(refusal(10077, "maximum exceeded"), then=None))
    subjects = [Namespace().subject("tasks", f"{n}") for n in range(MAX_BATCH_MESSAGES + 1)]
    with pytest.raises(AppendFailed, match="maximum exceeded"):
        await outcome(server, *(append("1", subject) for subject in subjects))
    assert server.stored == []


async def test_an_atomic_append_is_counted_in_the_messages_that_this_server_takes() -> None:
    server = Server()
    server.max_payload = 4096
    payload = msgspec.msgpack.encode(b"x" * 3000)
    drafts = tuple(draft("x", payload, id=f"{n}") for n in range(MAX_BATCH_MESSAGES + 1))
    with pytest.raises(AppendFailed, match="1001 messages"):
        await outcome(server, Append(SUBJECT, drafts), atomic=True)
    assert (server.requests, server.batches) == (0, {})


# --- several shards -----------------------------------------------------------------------------

SHARDED = Namespace(shards=4)
SPREAD = [SHARDED.subject("updates", f"{n}") for n in range(32)]


def lost_on(shards: set[int], lost: str) -> Loss:
    return lambda subject, headers: lost if int(subject.split(".")[2]) in shards else None


async def spread(server: Server, *extra: Append) -> list[int]:
    """Append an envelope to each of SPREAD, with its key as id."""
    log = JetStreamLog(server, SHARDED, replicas=1, timeout=0.2)  # type: ignore[arg-type]
    try:
        return await log.append([*(append(s.keys[0], s) for s in SPREAD), *extra])
    finally:
        await log.close()


def test_the_spread_covers_every_shard() -> None:
    assert {subject.shard for subject in SPREAD} == {0, 1, 2, 3}


@pytest.mark.parametrize("lost", ["away", "reply"])
@pytest.mark.parametrize("shards", [{0}, {1, 2, 3}])
async def test_an_append_stored_on_some_shards_is_unknown_and_names_all_its_ids(
    shards: set[int], lost: str
) -> None:
    with pytest.raises(AppendUnknown) as unknown:
        await spread(Server(lost_on(shards, lost)))
    assert unknown.value.ids == [subject.keys[0] for subject in SPREAD]


async def test_doubt_on_every_shard_is_one_error_that_names_all_ids() -> None:
    with pytest.raises(AppendUnknown) as unknown:
        await spread(Server(always("reply")))
    assert unknown.value.ids == [subject.keys[0] for subject in SPREAD]


async def test_what_no_shard_was_sent_is_not_committed() -> None:
    server = Server(always("away"))
    with pytest.raises(LogUnavailable):
        await spread(server)
    assert server.stored == []


async def test_an_envelope_too_large_is_refused_before_any_shard_stores() -> None:
    server = Server()
    large = draft("x", bytes(server.max_payload), id="large")
    with pytest.raises(PayloadTooLarge):
        await spread(server, Append(SPREAD[0], (large,)))
    assert (server.stored, server.requests) == ([], 0)


async def decide_together(server: Server, *expected: int) -> list[Any]:
    """Outcomes of compare-and-sets that are called at once, each of two subjects of its own."""
    appender = open_appender(server, stage=lambda: None)
    subjects = [Namespace().subject("updates", f"{n}") for n in range(len(expected))]
    others = [Namespace().subject("tasks", f"{n}") for n in range(len(expected))]
    appends = [
        [append(f"a{n}", subjects[n], expect), append(f"b{n}", others[n])]
        for n, expect in enumerate(expected)
    ]
    try:
        return await asyncio.gather(
            *(appender.append(each, atomic=True) for each in appends), return_exceptions=True
        )
    finally:
        await appender.close()


async def test_compare_and_sets_at_once_share_batches() -> None:
    server = Server()
    assert all(isinstance(found, list) for found in await decide_together(server, *[0] * 64))
    assert len(server.stored) == 128
    assert server.requests <= 8


@pytest.mark.parametrize("lost", ["request", "reply"])
async def test_a_lost_commit_of_compare_and_sets_is_settled(lost: str) -> None:
    server = Server(first(lost))
    assert all(isinstance(found, list) for found in await decide_together(server, *[0] * 8))
    assert sorted(server.envelopes()) == sorted(f"{part}{n}" for part in "ab" for n in range(8))


@pytest.mark.parametrize("lost", ["request", "reply", None])
async def test_a_mismatch_among_compare_and_sets_fails_its_own_alone(lost: str | None) -> None:
    server = Server(first(lost) if lost else lambda subject, headers: None)
    *found, wrong = await decide_together(server, *[0] * 7, 9)
    assert all(isinstance(each, list) for each in found)
    assert isinstance(wrong, AppendConflict)
    assert sorted(server.envelopes()) == sorted(f"{part}{n}" for part in "ab" for n in range(7))


def unkept(subject: str, headers: dict[str, str]) -> Reply | None:
    """No batch is kept until its end: the server's staging is full."""
    return refusal(10176) if "Nats-Batch-Commit" in headers else None


async def test_what_no_batch_can_carry_goes_apart() -> None:
    server = Server(unkept)
    told = list[None]()
    appender = open_appender(server, stage=lambda: told.append(None))
    assert await appender.append([append("1", SUBJECT), append("2", OTHER)], atomic=False)
    assert len(server.stored) == 2
    assert told
    await appender.close()


async def test_a_block_that_no_batch_can_carry_says_so() -> None:
    server = Server(unkept)
    appender = open_appender(server, timeout=0.2)
    with pytest.raises(LogUnavailable, match="could not keep a batch"):
        await appender.append([append("1", SUBJECT), append("2", OTHER)], atomic=True)
    assert server.stored == []
    await appender.close()
