"""Feeds of sessions and runs over real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import httpx
import pytest

import foldlog
from foldlog.streams import feeds
from foldlog.streams.feeds import offset_of, parsed
from foldlog.streams.keeping import Look, Source, Streams
from foldlog.streams.waking import Wakes
from tests.streams.conftest import served
from tests.support.build import event, update
from tests.support.stores import Backend

OFFSET = "stream-next-offset"


@pytest.fixture
async def store(backend: Backend) -> AsyncIterator[foldlog.Store]:
    async with await backend.open() as store:
        yield store


@pytest.fixture
async def client(store: foldlog.Store) -> AsyncIterator[httpx.AsyncClient]:
    # A wake that is lost is met by no end of a poll.
    async with (
        served(store, poll_seconds=3_600) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):
        yield client


def texts(answer: httpx.Response) -> list[str]:
    return [each["record"]["content"]["text"] for each in answer.json()]


async def _save(store: foldlog.Store, id: str) -> None:
    await store.save_update(update(id, session_id="trip", content={"text": id}))


async def test_a_session_is_followed_from_any_position(
    store: foldlog.Store, client: httpx.AsyncClient
) -> None:
    await _save(store, "one")
    first = await client.get("/feeds/sessions/trip")
    await _save(store, "two")
    second = await client.get("/feeds/sessions/trip", params={"offset": first.headers[OFFSET]})
    assert (texts(first), texts(second)) == (["one"], ["two"])
    assert first.headers[OFFSET] < second.headers[OFFSET]
    assert second.headers["stream-up-to-date"] == "true"
    at = {"offset": second.headers[OFFSET], "live": "long-poll"}
    waiting = asyncio.create_task(client.get("/feeds/sessions/trip", params=at))
    await _save(store, "three")
    assert texts(await waiting) == ["three"]


def _named(name: str) -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task.get_name() == name]


async def test_who_follows_a_session_that_is_erased_gets_what_comes_then(
    store: foldlog.Store, client: httpx.AsyncClient
) -> None:
    await _save(store, "one")
    offset = (await client.get("/feeds/sessions/trip")).headers[OFFSET]

    async def follow(at: str) -> list[str]:
        while True:
            params = {"offset": at, "live": "long-poll"}
            answer = await client.get("/feeds/sessions/trip", params=params)
            if answer.content:
                return texts(answer)
            at = answer.headers[OFFSET]

    following = asyncio.create_task(follow(offset))
    while not _named("foldlog reader leaves") or _named("foldlog look"):  # noqa: ASYNC110
        await asyncio.sleep(0)
    await store.erase_session("trip")
    await _save(store, "two")
    assert await following == ["two"]


async def test_who_follows_a_session_gets_what_its_traces_say_once_it_names_them(
    store: foldlog.Store, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_looked, read_page = asyncio.Event(), feeds.read_page

    async def looking(*args: Any, **kwargs: Any) -> Any:
        found = await read_page(*args, **kwargs)
        has_looked.set()
        return found

    monkeypatch.setattr(feeds, "read_page", looking)
    at = {"offset": (await client.get("/feeds/sessions/trip")).headers[OFFSET], "live": "long-poll"}

    async def next_views() -> set[str]:
        answer = await client.get("/feeds/sessions/trip", params=at)
        at["offset"] = answer.headers[OFFSET]
        return {each["view"][0] for each in answer.json()}

    waiting = asyncio.create_task(next_views())
    named = update("one", session_id="trip", trace_id="walk", content={"text": "one"})
    await store.save_update(named)
    assert await waiting == {"updates"}
    has_looked.clear()
    waiting = asyncio.create_task(next_views())
    await has_looked.wait()
    await store.save_event(event("walk"))
    assert await waiting == {"events"}


async def test_readers_of_many_sessions_who_wait_cost_one_subscription(
    store: foldlog.Store, client: httpx.AsyncClient
) -> None:
    sessions = 90  # the client has no more connections than a hundred
    at = {"offset": offset_of(await store.position()), "live": "long-poll"}
    waiting = [
        asyncio.create_task(client.get(f"/feeds/sessions/{number}", params=at))
        for number in range(sessions)
    ]
    while len(_named("foldlog reader leaves")) < sessions:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert len(_named("foldlog streams")) == 1
    for number in range(sessions):
        await store.save_update(update("one", session_id=str(number), content={"text": "one"}))
    assert [texts(await each) for each in waiting] == [["one"]] * sessions


async def test_a_session_is_read_by_kind(store: foldlog.Store, client: httpx.AsyncClient) -> None:
    await _save(store, "one")
    async with await store.session("trip") as session:
        await session.spawn_task("look")
    every = (await client.get("/feeds/sessions/trip")).json()
    some = await client.get("/feeds/sessions/trip", params=[("kind", "tasks")])
    assert {each["view"][0] for each in every} == {"tasks", "updates"}
    assert {each["view"][0] for each in some.json()} == {"tasks"}
    assert some.headers[OFFSET] == (await client.get("/feeds/sessions/trip")).headers[OFFSET]


async def test_who_waits_for_a_kind_gets_that_kind(
    store: foldlog.Store, client: httpx.AsyncClient
) -> None:
    """Readers at one place of a feed share what is read, as far as they asked for the same."""
    await _save(store, "one")
    offset = (await client.get("/feeds/sessions/trip")).headers[OFFSET]
    at = [("offset", offset), ("live", "long-poll")]
    updates, tasks = (
        [
            asyncio.create_task(client.get("/feeds/sessions/trip", params=[*at, ("kind", kind)]))
            for _ in range(3)
        ]
        for kind in ("updates", "tasks")
    )
    while len(_named("foldlog reader leaves")) < 6 or _named("foldlog look"):  # noqa: ASYNC110
        await asyncio.sleep(0)
    await _save(store, "two")
    assert [texts(await each) for each in updates] == [["two"]] * 3
    async with await store.session("trip") as session:
        await session.spawn_task("look")
    found = [(await each).json() for each in tasks]
    assert [[record["view"][0] for record in each] for each in found] == [["tasks"]] * 3


async def test_what_waits_for_the_same_is_read_once(store: foldlog.Store) -> None:
    looked = list[str | None]()

    async def look(after: str | None) -> Look:
        looked.append(after)
        return Look([], "1", is_whole=True, is_closed=False)

    listening = partial(Wakes(store, ()).listening, ("trip",))
    streams, source = Streams(store), Source("", "", look, listening)
    names, offsets = (("feed",), ("feed", "tasks")), ("0", "1", None)
    every = [(name, source, after) for name in names for after in offsets]
    await asyncio.gather(*(streams.look_together(*each) for each in every * 5))
    assert looked == list(offsets) * 2
    await streams.look_together(*every[0])
    assert len(looked) == 7


async def test_what_a_run_says_ends_with_it(
    store: foldlog.Store, client: httpx.AsyncClient
) -> None:
    path = "/feeds/runs/answer"
    async with store.run("answer") as run:
        await run.say({"token": "The "})
        first = await client.get(path)
        assert first.json() == [{"token": "The "}]
        assert "stream-closed" not in first.headers
        at = {"offset": first.headers[OFFSET], "live": "long-poll"}
        waiting = asyncio.create_task(client.get(path, params=at))
        await run.say("ferry")
        second = await waiting
        assert second.json() == ["ferry"]
        at["offset"] = second.headers[OFFSET]
        waiting = asyncio.create_task(client.get(path, params=at))
    end = await waiting
    while "stream-closed" not in end.headers:
        at["offset"] = end.headers[OFFSET]
        end = await client.get(path, params=at)
    assert end.status_code == 204
    both = await client.get("/feeds/runs/answer/answer", params={"offset": "-1", "live": "sse"})
    assert 'data:[{"token":"The "},"ferry"]\n' in both.text
    assert '"streamClosed":true' in both.text


async def test_a_feed_is_only_read(client: httpx.AsyncClient) -> None:
    for method in ("PUT", "POST", "DELETE"):
        answer = await client.request(method, "/feeds/sessions/trip")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    for path in ("/feeds/sessions/", "/feeds/other/a", "/feeds/runs/a/b/c/"):
        assert (await client.get(path)).status_code == 404
    for offset in ("1", "0000000000000001", "0000000000000001.000001,2"):
        answer = await client.get("/feeds/sessions/trip", params={"offset": offset})
        assert answer.status_code == 400


def test_offsets_order_as_positions_do() -> None:
    texts = ["@1.0", "@1.9", "@1.10", "@1~0123abcd", "@2.0,3", "@9,10", "@10,10.2", "@10,10"]
    positions = [foldlog.LogPosition.parse(each) for each in texts]
    offsets = [offset_of(each) for each in positions]
    assert offsets == sorted(offsets)
    assert [parsed(each) for each in offsets] == positions
