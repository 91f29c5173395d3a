"""Pages and streams of a run's records: whole, in order, and resumed without a gap."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import httpx
import msgspec
import pytest

import foldlog
from foldlog import TaskStatus, kinds
from foldlog.position import LogPosition
from foldlog_projections.langgraph import checkpoints
from foldlog_projections.langgraph.checkpointrecords import Write, Written
from tests.ui.conftest import serving
from tests.ui.support import event, messages, said, task

ClientOf = Callable[..., httpx.AsyncClient]


class Noted(msgspec.Struct, frozen=True):
    text: foldlog.Content[str]
    by: str


NOTES: foldlog.Kind[Any] = foldlog.Kind(
    "notes",
    keys=("session_id",),
    owner="session",
    records={"note.saved": Noted},
    fold=foldlog.every,
    shown=foldlog.Shown({"note.saved": "note by {by}: {text}"}, titles={"note.saved": "{text}"}),
)


async def a_session(store: foldlog.Store, name: str = "s") -> None:
    """Save records of several kinds, in turn."""
    await task(store, name, "t")
    for number in range(10):
        await store.save_update(said(name, number, trace_id=f"trace of {name}"))
        await store.save_event(event(f"trace of {name}", number, n=number))
    await store.save_memory_state(f"acme:ann:{name}", {"n": 1})
    await task(store, name, "t", TaskStatus.COMPLETE)
    await store.save_update(said("other", 1))


async def all_pages(
    client: httpx.AsyncClient, limit: int, after: str = "", **params: Any
) -> list[dict[str, Any]]:
    found = []
    while True:
        page = (
            await client.get("/api/records", params={"limit": limit, "after": after} | params)
        ).json()
        found += page["records"]
        after = page["position"]
        if not page["more"]:
            return found


@pytest.mark.parametrize("limit", [1, 3, 7, 5000])
async def test_pages_hold_all_records_in_log_order(
    store: foldlog.Store, client_of: ClientOf, limit: int
) -> None:
    await a_session(store)
    async with client_of(store) as client:
        found = await all_pages(client, limit, session="s")
    positions = [LogPosition.parse(each["position"]) for each in found]
    assert positions == sorted(positions, key=lambda p: p.shards[0].place)
    assert len({each["id"] for each in found}) == len(found)
    types = [each["type"] for each in found]
    assert types.count("update.saved") == 10
    assert types.count("event.saved") == 10, "those of a trace without a trajectory"
    assert types.count("task.saved") == 2
    assert types.count("memory.saved") == 1
    assert {each["record"]["session_id"] for each in found if each["type"] == "update.saved"} == {
        "s"
    }


async def test_a_kind_of_a_users_own_is_shown_in_its_words(client_of: ClientOf) -> None:
    async with foldlog.memory_store(kinds=[NOTES]) as store:
        await store.append(NOTES("s"), Noted("Buy milk", "ann"))
        async with client_of(store) as client:
            [record] = await all_pages(client, 10, session="s")
            [session] = (await client.get("/api/sessions")).json()["sessions"]
    line = {"what": "note by ann", "text": "Buy milk", "group": "notes", "tone": ""}
    assert record["line"] == line | {"about": [], "under": None}
    assert (session["title"], session["last"]) == ("Buy milk", "note by ann: Buy milk")


async def test_a_page_ends_where_it_was_told_to(store: foldlog.Store, client_of: ClientOf) -> None:
    await a_session(store)
    items = await store.items(kinds.updates("s"))
    until = str(items[4].position)
    async with client_of(store) as client:
        found = await all_pages(client, 2000, session="s", until=until)
        trace = await all_pages(client, 2000, trace="trace of s")
    assert [r["id"] for r in found if r["type"] == "update.saved"] == [i.id for i in items[:5]]
    assert len(trace) == 10


async def test_records_of_several_shards_are_in_the_order_of_the_logs_clock(
    client_of: ClientOf,
) -> None:
    """Each is at the position from which on it is seen, and a page begins behind any of them."""
    async with foldlog.memory_store(shards=3) as store:
        for number in range(12):
            await store.save_update(said("s", number, trace_id=f"trace {number % 4}"))
            await store.save_event(event(f"trace {number % 4}", number))
        async with client_of(store) as client:
            whole = await all_pages(client, 5000, session="s")
            clock = [each["recorded_at"] for each in whole]
            assert clock == sorted(clock)
            assert len(whole) == 24
            positions = [LogPosition.parse(each["position"]) for each in whole]
            assert len({n for p in positions[-1:] for n, r in enumerate(p.shards) if r.seq}) > 1
            for before, after in itertools.pairwise(positions):
                assert before <= after
            for place in (0, 7, 23):
                rest = await all_pages(client, 5, session="s", after=whole[place]["position"])
                ids = [each["id"] for each in rest]
                assert ids == [each["id"] for each in whole[place + 1 :]]


async def test_long_texts_are_cut_and_can_be_had_whole(
    store: foldlog.Store, client_of: ClientOf
) -> None:
    text = "ß" * 100_000
    await store.save_update(said("s", 1, {"text": text, "bytes": b"\x00" * 50_000}))
    async with client_of(store) as client:
        [record] = await all_pages(client, 10, session="s")
        assert record["cut"] is True
        assert len(record["record"]["content"]["text"]) < 21_000
        whole = await client.get(
            "/api/record",
            params={
                "view": "\n".join(record["view"]),
                "id": record["id"],
                "position": record["position"],
            },
        )
    assert whole.json()["record"]["content"]["text"] == text


async def test_what_langgraph_wrote_is_readable_without_it(
    store: foldlog.Store, client_of: ClientOf
) -> None:
    """Its objects are extensions of numbers that mean something else to `foldlog.codec`."""
    encode = msgspec.msgpack.encode
    made = encode(["langchain_core.messages", "HumanMessage", {"content": "hi"}, "model_validate"])
    objects = [msgspec.msgpack.Ext(code, made) for code in (0, 4, 5)]
    writes = (Write(0, "messages", "msgpack", encode(objects)), Write(1, "x", "pickle", b"\x80"))
    record = Written(key="k", id="c", task="t", writes=writes)
    await store.append(checkpoints.kind("s"), record)
    async with client_of(store) as client:
        [found] = await all_pages(client, 10, session="s")
    first, second = found["record"]["writes"]
    assert first["data"] == [{"content": "hi"}] * 3
    assert second["data"].endswith("base64,gA==")


async def test_what_cannot_be_asked_is_refused(store: foldlog.Store, client_of: ClientOf) -> None:
    async with client_of(store) as client:
        for query, status in (
            ("", 400),
            ("session=a&trace=b", 400),
            ("session=a&limit=x", 400),
            ("session=a&after=x", 404),
            ("session=a&after=@1,2,3,4", 400),
        ):
            response = await client.get(f"/api/records?{query}")
            assert response.status_code == status, (query, response.text)
            assert response.json()["error"]["message"]


async def test_a_stream_has_what_there_is_and_then_what_comes(store: foldlog.Store) -> None:
    await a_session(store)
    async with (
        serving(store) as page,
        page.client.stream("GET", "/api/events?session=s") as response,
        aclosing(messages(response)) as stream,
    ):
        assert response.headers["content-type"].startswith("text/event-stream")
        views = await anext(stream)
        assert views.event == "views"
        assert [["updates", "s"], "s-0"] in views.data
        first = await anext(stream)
        assert first.id == str(await store.position())
        assert sum(each["type"] == "update.saved" for each in first.data) == 10
        await store.save_update(said("s", 99))
        assert (await anext(stream)).event == "live"
        live = await anext(stream)
        assert [each["id"] for each in live.data] == ["s-99"]
        # A record of a view that nobody knew when the stream began.
        await store.save_event(event("new trace", 1))
        await store.save_update(said("s", 100, trace_id="new trace"))
        seen: list[str] = []
        async for each in stream:
            seen += [record["type"] for record in each.data]
            if "event.saved" in seen:
                break


async def test_a_stream_that_resumes_leaves_nothing_out(store: foldlog.Store) -> None:
    """Whatever moment it was cut at, what came before its last id and after makes all of it."""
    async with serving(store) as page:
        seen: dict[str, None] = {}
        last_id = ""
        saved = [f"s-{number}" for number in range(60)]

        async def write() -> None:
            for number in range(60):
                await store.save_update(said("s", number))
                if number % 7 == 0:
                    await task(store, "s", f"t{number}")
                await asyncio.sleep(0)

        writer = asyncio.create_task(write())
        while not set(saved) <= set(seen):
            headers = {"last-event-id": last_id} if last_id else {}
            async with (
                page.client.stream("GET", "/api/events?session=s", headers=headers) as response,
                aclosing(messages(response)) as stream,
            ):
                taken = 0
                async for each in stream:
                    if each.event != "message":
                        continue
                    seen |= dict.fromkeys(record["id"] for record in each.data)
                    last_id = each.id or last_id
                    taken += 1
                    if taken == 3 or set(saved) <= set(seen):
                        break
        await writer
    assert [id for id in seen if id.startswith("s-")] == saved, "and in order"


async def test_many_who_follow_share_one_reader(store: foldlog.Store) -> None:
    await store.save_update(said("s", 0))
    async with serving(store) as page:

        async def follow() -> list[str]:
            found: list[str] = []
            async with (
                page.client.stream("GET", "/api/events?session=s") as response,
                aclosing(messages(response)) as stream,
            ):
                async for each in stream:
                    if each.event == "message":
                        found += [record["id"] for record in each.data]
                        joined.release()
                    if "s-9" in found:
                        return found
            raise AssertionError("the stream ended")

        joined = asyncio.Semaphore(0)
        followers = [asyncio.create_task(follow()) for _ in range(20)]
        for _ in followers:
            await joined.acquire()
        readers = [t for t in asyncio.all_tasks() if t.get_name() == "follow session s"]
        assert len(readers) == 1
        for number in range(1, 10):
            await store.save_update(said("s", number))
        for found in await asyncio.gather(*followers):
            assert found == [f"s-{number}" for number in range(10)]


async def test_an_event_from_nowhere_is_an_error_of_the_stream(store: foldlog.Store) -> None:
    async with (
        serving(store) as page,
        page.client.stream("GET", "/api/events?session=s&after=@1,2,3") as response,
        aclosing(messages(response)) as stream,
    ):
        found = [each async for each in stream if each.event == "failed"]
        assert found[0].data["error"]["type"] == "PayloadError"


async def test_a_file_has_whole_texts(
    store: foldlog.Store, client_of: Callable[..., httpx.AsyncClient]
) -> None:
    await store.append_messages("s", [foldlog.Message("m", "f", "x" * 30_000 + "END")])
    async with client_of(store) as client:
        found = await client.get("/api/share?session=s")
    assert "xEND" in found.text
