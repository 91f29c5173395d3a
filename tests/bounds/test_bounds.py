"""The parts: a budget that many requests share, and what waits for a follower."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator

import httpx
import pytest

import foldlog
from foldlog import otlp, ui
from foldlog.bounds import Budget, Outbox, Refused
from foldlog.jsonable import count_values
from foldlog.otlp.wire import MAX_IN_SPAN, MAX_SPANS, PROTOBUF, TooMany
from foldlog.ui.plain import encode
from foldlog.ui.run import Run, read_page
from tests.bounds.attacks import attributes, field, request_of, spans
from tests.support.build import update


def test_the_largest_sender_makes_room_for_the_others() -> None:
    budget = Budget(100)
    with budget.hold() as large, budget.hold() as small:
        large.take(80)
        small.take(30)  # the large one is let go
        assert (large.size, small.size, budget.used) == (0, 30, 30)
        with pytest.raises(Refused) as refused:
            large.take(1)
        assert (refused.value.status, refused.value.headers["retry-after"]) == (429, "5")
    assert budget.used == 0


def test_what_is_being_decoded_stays_and_the_newcomer_waits() -> None:
    budget = Budget(100)
    with budget.hold() as decoding, budget.hold() as late:
        decoding.take(80)
        decoding.is_sending = False
        with pytest.raises(Refused, match="send it again later"):
            late.take(30)
        assert budget.used == 80


def test_what_would_never_fit_is_too_large() -> None:
    with Budget(100).hold() as hold, pytest.raises(Refused) as refused:
        hold.take(101)
    assert refused.value.status == 413


def test_bytes_that_are_not_needed_any_more_are_free() -> None:
    budget = Budget(100)
    with budget.hold() as hold:
        hold.take(60)
        hold.give(40)
        assert (hold.size, budget.used) == (20, 20)


async def test_who_does_not_read_is_let_go_and_frees_what_waited() -> None:
    outbox = Outbox(10)
    outbox.put(b"1234567")
    outbox.put(b"1234567")
    assert outbox.is_overrun
    assert await outbox.get() is None
    outbox.put(b"more")
    assert await outbox.get() is None


async def test_one_message_waits_whatever_its_size_and_an_end_comes_after_it() -> None:
    outbox = Outbox(10)
    outbox.put(b"x" * 100)
    outbox.end()
    assert not outbox.is_overrun
    assert [await outbox.get(), await outbox.get()] == [b"x" * 100, None]


@pytest.mark.parametrize(
    ("text", "values"),
    [(b"1", 1), (b'["a,b",{"c":"[{"}]', 4), (b'["\\",",[],[]]', 6), (b"[[],[],[]]", 7)],
)
def test_values_are_counted_outside_of_texts(text: bytes, values: int) -> None:
    assert count_values(text) == values


@pytest.mark.parametrize(
    ("body", "what"),
    [
        pytest.param(request_of(spans(MAX_SPANS + 1)), "spans", id="spans"),
        pytest.param(
            request_of(field(2, field(11, b"") * (MAX_IN_SPAN + 1))), "a span", id="events"
        ),
        pytest.param(
            request_of(field(2, attributes(MAX_IN_SPAN + 1))), "a span", id="values of one array"
        ),
    ],
)
def test_a_request_is_counted_before_it_is_decoded(body: bytes, what: str) -> None:
    with pytest.raises(TooMany, match=what):
        PROTOBUF.values_of(body)


def test_a_request_of_as_much_as_may_be_is_decoded() -> None:
    body = request_of(spans(MAX_SPANS))
    assert PROTOBUF.values_of(body) == MAX_SPANS + 2
    assert sum(1 for _ in PROTOBUF.read(body)) == MAX_SPANS


@pytest.fixture
async def store() -> AsyncIterator[foldlog.Store]:
    async with foldlog.memory_store() as opened:
        yield opened


async def test_a_bomb_is_refused_and_the_next_request_is_taken(store: foldlog.Store) -> None:
    transport = httpx.ASGITransport(otlp.app(store))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        headers = {"content-type": "application/x-protobuf"}
        bomb = gzip.compress(request_of(spans(3_000_000)))
        assert len(bomb) < 10_000
        for _ in range(3):
            answer = await client.post(
                "/v1/traces", content=bomb, headers=headers | {"content-encoding": "gzip"}
            )
            assert answer.status_code == 413
        answer = await client.post("/v1/traces", content=request_of(spans(1)), headers=headers)
        assert answer.status_code == 200


@pytest.fixture
async def page(store: foldlog.Store) -> AsyncIterator[httpx.AsyncClient]:
    application = ui.app(store, token="t0ken")
    headers = {"authorization": "Bearer t0ken"}
    transport = httpx.ASGITransport(application)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", headers=headers
    ) as client:
        yield client


async def test_a_page_ends_at_its_bytes_and_the_next_goes_on(store: foldlog.Store) -> None:
    for n in range(40):
        await store.save_update(update(f"u{n}", content={"text": "x" * 10_000}))
    views = await Run("session", "session").views(store)
    found, after, more, pages = list[str](), None, True, 0
    while more:
        read = await read_page(store, views, after, max_bytes=100_000)
        assert len(encode(read.records)) < 150_000
        found += [each["id"] for each in read.records]
        after, more, pages = read.position, read.more, pages + 1
    assert found == [f"u{n}" for n in range(40)]
    assert pages > 3


async def test_a_record_of_many_values_is_cut_and_comes_whole_when_asked_for(
    store: foldlog.Store, page: httpx.AsyncClient
) -> None:
    content = {"words": [f"word {n}" for n in range(100_000)], "last": {"id": "z"}}
    await store.save_update(update("u", content=content))
    answer = await page.get("/api/records", params={"session": "session"})
    assert len(answer.content) < 400_000
    [record] = [each for each in answer.json()["records"] if each["id"] == "u"]
    assert record["cut"]
    assert record["record"]["update_id"] == "u"
    asked = {"view": "updates\nsession", "id": "u", "position": record["position"]}
    whole = (await page.get("/api/record", params=asked)).json()
    assert whole["record"]["content"] == content


async def test_a_share_says_how_large_it_is_and_is_as_large(
    store: foldlog.Store, page: httpx.AsyncClient
) -> None:
    for n in range(20):
        await store.save_update(update(f"u{n}", content={"text": "</script>é" * n}))
    answer = await page.get("/api/share", params={"session": "session"})
    assert answer.status_code == 200
    assert int(answer.headers["content-length"]) == len(answer.content)


async def test_a_share_that_is_too_large_is_refused_before_it_is_sent(
    store: foldlog.Store, page: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foldlog.ui.share.SHARE_BYTES", 10_000)
    await store.save_update(update("u", content={"text": "x" * 20_000}))
    answer = await page.get("/api/share", params={"session": "session"})
    assert answer.status_code == 413
    assert "after= and until=" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("address", "status"),
    [("/static/%00.js", 404), ("/static/" + "a" * 5000 + ".js", 404), ("/api/nothing", 404)],
)
async def test_names_that_no_file_can_have_are_not_there(
    page: httpx.AsyncClient, address: str, status: int
) -> None:
    assert (await page.get(address)).status_code == status


@pytest.mark.parametrize("score", ["9e400", "1" + "0" * 400, "-9e400", "NaN"])
async def test_numbers_that_are_none_are_typed_errors(page: httpx.AsyncClient, score: str) -> None:
    content = '{"trace_id": "t", "score": ' + score + "}"
    headers = {"content-type": "application/json"}
    answer = await page.post("/api/feedback", content=content, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "Refused"
