"""Streams over real HTTP. Other stores on the log are what other processes have."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import foldlog
from foldlog import streams
from foldlog.exporting import export, restore
from foldlog.kinds import streams as kind
from foldlog.streams import deciding
from foldlog.streams.keeping import key_of
from foldlog.streams.waking import Wakes
from foldlog_projections.streams import Touched, keys_of
from tests.streams.conftest import served
from tests.support.stores import Backend

TEXT = {"content-type": "text/plain"}
JSON = {"content-type": "application/json"}
OFFSET = "stream-next-offset"


class Client(httpx.AsyncClient):
    """A client of one application, who has time."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"timeout": 60} | options)

    async def data(self, path: str, offset: str = "-1", **more: Any) -> str:
        """All that is behind an offset."""
        return (await self.get(path, params={"offset": offset} | more)).text


@pytest.fixture
async def store(backend: Backend) -> AsyncIterator[foldlog.Store]:
    async with await backend.open() as store:
        yield store


@pytest.fixture
async def client(store: foldlog.Store) -> AsyncIterator[Client]:
    # A wake that is lost is met by no end of a poll.
    async with served(store, poll_seconds=3_600) as url, Client(base_url=url) as client:
        yield client


async def test_what_was_appended_is_read_from_any_offset(client: Client) -> None:
    made = await client.put("/a", headers=TEXT, content="one")
    two = await client.post("/a", headers=TEXT, content="two")
    three = await client.post("/a", headers=TEXT, content="three")
    assert (made.status_code, two.status_code) == (201, 204)
    assert await client.data("/a") == "onetwothree"
    assert await client.data("/a", made.headers[OFFSET]) == "twothree"
    assert await client.data("/a", two.headers[OFFSET]) == "three"
    assert await client.data("/a", three.headers[OFFSET]) == await client.data("/a", "now") == ""


@pytest.fixture
async def elsewhere(backend: Backend) -> AsyncIterator[Client]:
    """A client of another process."""
    async with await backend.open() as other, served(other) as url, Client(base_url=url) as client:
        yield client


async def test_another_process_reads_and_wakes_who_waits(client: Client, elsewhere: Client) -> None:
    made = await client.put("/a", headers=JSON)
    waiting = asyncio.create_task(
        client.get("/a", params={"offset": made.headers[OFFSET], "live": "long-poll"})
    )
    await elsewhere.post("/a", headers=JSON, content='[{"n": 1}, {"n": 2}]')
    answer = await waiting
    assert answer.json() == [{"n": 1}, {"n": 2}]
    assert answer.headers["stream-cursor"].isdigit()
    await elsewhere.post("/a", headers=JSON, content="3")
    assert json.loads(await client.data("/a", answer.headers[OFFSET])) == [3]


async def test_writers_at_once_lose_nothing(client: Client, elsewhere: Client) -> None:
    await client.put("/a", headers=TEXT)
    each = [
        (client, elsewhere)[n % 2].post("/a", headers=TEXT, content=f"<{n}>") for n in range(60)
    ]
    answers = await asyncio.gather(*each)
    assert {answer.status_code for answer in answers} == {204}
    offsets = sorted(answer.headers[OFFSET] for answer in answers)
    assert [int(each[:16]) for each in offsets] == list(range(1, 61))
    assert (await client.data("/a", offsets[29])).count("<") == 30
    found = (await client.data("/a")).strip("<>").split("><")
    assert sorted(map(int, found)) == list(range(60))


async def test_a_request_that_is_repeated_at_once_counts_once(
    client: Client, elsewhere: Client
) -> None:
    await client.put("/a", headers=TEXT)
    producer = TEXT | {"producer-id": "p", "producer-epoch": "0", "producer-seq": "0"}
    asked = ((client, elsewhere)[n % 2].post("/a", headers=producer, content="x") for n in range(9))
    statuses = [answer.status_code for answer in await asyncio.gather(*asked)]
    assert sorted(statuses) == [200] + [204] * 8
    assert await client.data("/a") == "x"
    forking = {"stream-forked-from": "/a"}
    asked = ((client, elsewhere)[n % 2].put("/b", headers=forking) for n in range(9))
    assert {answer.status_code for answer in await asyncio.gather(*asked)} == {200, 201}
    await client.delete("/a")
    assert await client.data("/b") == "x"


async def test_events_go_on_until_the_stream_is_closed(client: Client) -> None:
    await client.put("/a", headers=TEXT, content="one\r\nevent: control")
    said = ""
    async with client.stream("GET", "/a", params={"offset": "-1", "live": "sse"}) as events:
        async for text in events.aiter_text():
            if said.count("event: control\ndata:{") == 0 and "upToDate" in (said + text):
                closing = TEXT | {"stream-closed": "true"}
                await client.post("/a", headers=closing, content="two")
            said += text
    blocks = [block.split("\n") for block in said.strip().split("\n\n")]
    assert [block[0] for block in blocks] == ["event: data", "event: control"] * 2
    assert blocks[0][1:] == ["data:one", "data:event: control"]
    assert blocks[2][1:] == ["data:two"]
    assert json.loads(blocks[3][1].removeprefix("data:"))["streamClosed"] is True


async def test_bytes_come_in_base64(client: Client) -> None:
    await client.put("/a", headers={"stream-closed": "true"}, content=b"\x00\xff")
    answer = await client.get("/a", params={"offset": "-1", "live": "sse"})
    assert answer.headers["stream-sse-data-encoding"] == "base64"
    assert "data:AP8=\n" in answer.text


async def test_a_stream_that_is_deleted_ends_who_waits(client: Client) -> None:
    await client.put("/a", headers=TEXT)
    waiting = asyncio.create_task(client.get("/a", params={"offset": "now", "live": "long-poll"}))
    events = asyncio.create_task(client.get("/a", params={"offset": "now", "live": "sse"}))
    while not (await client.head("/a")).is_success:
        pass
    assert (await client.delete("/a")).status_code == 204
    assert (await waiting).status_code == 404
    assert (await events).status_code in (200, 404)


async def test_an_offset_of_a_former_life_is_refused(client: Client) -> None:
    before = await client.put("/a", headers=TEXT, content="before")
    await client.delete("/a")
    await client.put("/a", headers=TEXT, content="after")
    for more in ({}, {"live": "long-poll"}):
        answer = await client.get("/a", params={"offset": before.headers[OFFSET], **more})
        assert answer.status_code == 410
    assert await client.data("/a") == "after"


async def test_a_page_of_a_long_stream_says_that_there_is_more(
    store: foldlog.Store, client: Client
) -> None:
    await client.put("/a", headers=JSON)
    asked = deciding.Asked("application/json", tuple(map(str, range(2_500))), False, "0" * 16)
    key = kind(*keys_of("a"))
    await store.decide(key, lambda there: deciding.append(there, asked).records, copy=False)
    found, offset, pages = list[int](), "-1", 0
    while True:
        page = await client.get("/a", params={"offset": offset})
        found += page.json()
        offset, pages = page.headers[OFFSET], pages + 1
        if "stream-up-to-date" in page.headers:
            break
        assert page.headers["cache-control"].startswith("private, max-age")
    assert (found, pages) == (list(range(2_500)), 6)
    assert page.headers["cache-control"] == "private, no-cache"
    tag = {"if-none-match": page.headers["etag"]}
    before = page.request.url
    assert (await client.get(before, headers=tag)).status_code == 304
    await client.post("/a", headers={"stream-closed": "true"})
    assert (await client.get(before, headers=tag)).status_code == 200


async def test_a_fork_begins_with_what_is_there_and_keeps_it(client: Client) -> None:
    one = await client.put("/a", headers=TEXT, content="one")
    await client.post("/a", headers=TEXT, content="two")
    forking = {"stream-forked-from": "/a", "stream-fork-offset": one.headers[OFFSET]}
    made = await client.put("/b", headers=forking, content="own")
    assert (made.status_code, made.headers["content-type"]) == (201, "text/plain")
    again = await client.put("/b", headers=forking)
    deeper = forking | {"stream-forked-from": "/b", "stream-fork-offset": made.headers[OFFSET]}
    await client.put("/c", headers=deeper | {"stream-fork-sub-offset": "0"})
    assert again.status_code == 200
    await client.post("/c", headers=TEXT, content="deep")
    assert await client.data("/b", one.headers[OFFSET]) == "own"
    for path in ("/a", "/b"):
        assert (await client.delete(path)).status_code == 204
        assert (await client.get(path)).status_code == 410
    assert await client.data("/c") == "oneowndeep"
    assert (await client.delete("/c")).status_code == 204
    assert [(await client.get(path)).status_code for path in ("/a", "/b", "/c")] == [404] * 3


async def test_a_fork_that_never_came_keeps_nothing(store: foldlog.Store, client: Client) -> None:
    """A crash between the two appends of a fork leaves its source told of it."""
    await client.put("/a", headers=TEXT, content="one")
    await store.decide(
        kind(*keys_of("a")), lambda there: deciding.fork(there, "b").records, copy=False
    )
    assert (await client.delete("/a")).status_code == 204
    assert (await client.get("/a")).status_code == 404


async def test_a_stream_of_a_session_is_forked_and_erased_with_it(
    store: foldlog.Store, client: Client
) -> None:
    await client.put("/sessions/ann/out", headers=TEXT, content="secret")
    await client.put("/other", headers={"stream-forked-from": "/sessions/ann/out"})
    await store.fork("ann", to="bob")
    await client.post("/sessions/bob/out", headers=TEXT, content=" and more")
    assert await client.data("/sessions/bob/out") == "secret and more"
    assert await client.data("/sessions/ann/out") == await client.data("/other") == "secret"
    assert (await client.delete("/sessions/ann/out")).status_code in (204, 409)
    await store.erase_session("bob")
    await store.erase_session("ann")
    for path in ("/sessions/ann/out", "/sessions/bob/out"):
        assert (await client.get(path)).status_code == 404
    assert (await client.get("/other")).status_code == 410  # what it begins with was erased


async def test_a_stream_expires_unless_it_is_used(
    store: foldlog.Store, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    from foldlog.streams import keeping

    skipped = 0.0
    clock = time.time

    class Clock:
        time = staticmethod(lambda: clock() + skipped)

    monkeypatch.setattr(keeping, "time", Clock)
    await client.put("/a", headers=TEXT | {"stream-ttl": "100"})
    skipped = 90.0
    await client.get("/a")
    items = await store.items(kind(*keys_of("a")))
    assert isinstance(items[-1].record, Touched)
    assert (await client.head("/a")).headers["stream-ttl"] == "100"
    skipped = 300.0
    assert (await client.head("/a")).status_code == 404
    assert not await store.view(kind(*keys_of("a")))
    assert (await client.put("/a", headers=TEXT)).status_code == 201


async def test_who_may_do_what_is_the_users_function(store: foldlog.Store) -> None:
    asked = list[tuple[str, str]]()

    async def authorize(request: Any, stream: str, verb: str) -> bool:
        asked.append((stream, verb))
        return request.headers.get("authorization") == "Bearer ann" and stream != "secret"

    async with served(store, authorize=authorize) as url, Client(base_url=url) as client:
        assert (await client.put("/a", headers=TEXT)).status_code == 403
        client.headers["authorization"] = "Bearer ann"
        assert (await client.put("/a", headers=TEXT)).status_code == 201
        forked = await client.put("/b", headers={"stream-forked-from": "/secret"})
        assert forked.status_code == 403
        await client.get("/a")
        await client.post("/a", headers=TEXT, content="x")
        await client.delete("/a")
    assert asked[-5:] == [
        *(("b", "create"), ("secret", "read"), ("a", "read"), ("a", "append"), ("a", "delete")),
    ]


async def test_without_it_only_this_machine_is_served(store: foldlog.Store) -> None:
    app = streams.application(store)
    for host, name, status in (
        ("127.0.0.1", "localhost", 201),
        ("127.0.0.1", "rebound.example", 403),
        ("10.0.0.7", "localhost", 403),
    ):
        transport = httpx.ASGITransport(app, client=(host, 1))
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{name}") as client:
            assert (await client.put("/a", headers=TEXT)).status_code == status


async def test_a_page_of_another_origin_writes_nothing(store: foldlog.Store) -> None:
    async with served(store) as url, Client(base_url=url) as client:
        other = {"origin": "https://other.example"}
        assert (await client.put("/a", headers=TEXT | other)).status_code == 403
        await client.put("/a", headers=TEXT)
        assert "access-control-allow-origin" not in (await client.get("/a", headers=other)).headers
    allowed = ["https://other.example"]
    async with served(store, origins=allowed) as url, Client(base_url=url) as client:
        answer = await client.post("/a", headers=TEXT | other, content="x")
        assert answer.headers["access-control-allow-origin"] == other["origin"]
        assert (await client.options("/a", headers=other)).status_code == 204


async def test_what_is_too_large_is_refused(store: foldlog.Store) -> None:
    async with served(store, max_bytes=1_000_000) as url, Client(base_url=url) as client:
        await client.put("/a", headers=TEXT)
        answer = await client.post("/a", headers=TEXT, content=b"x" * 1_000_001)
        assert answer.status_code == 413
        assert (await client.post("/a", headers=TEXT, content=b"x" * 999_999)).status_code == 204
        assert len(await client.data("/a")) == 999_999


async def test_a_reader_who_leaves_is_forgotten(store: foldlog.Store, client: Client) -> None:
    await client.put("/a", headers=TEXT)
    for live in ("long-poll", "sse"):
        async with Client(base_url=client.base_url, timeout=0.3) as hasty:
            with pytest.raises(httpx.TimeoutException):
                await hasty.get("/a", params={"offset": "now", "live": live})
    following = [task for task in asyncio.all_tasks() if task.get_name() == "foldlog streams"]
    await asyncio.wait_for(asyncio.gather(*following, return_exceptions=True), 60)


async def test_a_reader_who_comes_as_the_last_one_leaves_is_not_taken_for_it(
    store: foldlog.Store,
) -> None:
    wakes, keys, leave, here = (
        Wakes(store, ["streams"]),
        keys_of("a"),
        asyncio.Event(),
        asyncio.Event(),
    )

    async def read() -> None:
        async with wakes.listening(keys):
            here.set()
            await leave.wait()

    leaving = asyncio.create_task(read())
    await here.wait()
    leave.set()
    await asyncio.sleep(0)
    async with wakes.listening(keys) as wake:
        assert not wake.is_set()
        await leaving
        await store.append(key_of("a"), Touched())
        await wake.wait()


async def test_a_mounted_application_knows_its_paths(store: foldlog.Store) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    app = Starlette(routes=[Mount("/streams", streams.application(store))])
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
    async with Client(transport=transport, base_url="http://localhost") as client:
        made = await client.put("/streams/a", headers=TEXT, content="one")
        assert made.headers["location"] == "http://localhost/streams/a"
        forked = await client.put("/streams/b", headers={"stream-forked-from": "/streams/a"})
        assert forked.status_code == 201
        assert await client.data("/streams/b") == "one"
    assert await store.view(kind("path:a", "-"))


async def test_a_reader_who_takes_nothing_is_let_go(
    store: foldlog.Store, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a stream of 4 MiB, one page waits for it, and then nothing more is read."""
    monkeypatch.setattr("foldlog.ui.streaming.SEND_SECONDS", 0.05)
    await client.put("/a", headers=TEXT)
    for _ in range(4):
        await client.post("/a", headers=TEXT, content=b"x" * 2**20)
    sent = list[Any]()

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    scope: Any = {"type": "http", "method": "GET", "path": "/a", "client": ("127.0.0.1", 1)}
    scope |= {"query_string": b"offset=-1&live=sse", "headers": [(b"host", b"localhost")]}
    scope |= {"server": ("localhost", 80), "scheme": "http"}
    async with asyncio.timeout(60):
        await streams.application(store)(scope, receive, send)
    assert [each["type"] for each in sent] == ["http.response.start", "http.response.body"]
    assert len(sent[1]["body"]) < 1.3 * 2**20


async def test_a_restored_stream_goes_on_where_it_was(
    store: foldlog.Store, client: Client, tmp_path: Path
) -> None:
    producer = {"producer-id": "p", "producer-epoch": "1", "producer-seq": "0"}
    await client.put("/a", headers=TEXT)
    one = await client.post("/a", headers=TEXT | producer, content="one")
    await client.put("/b", headers={"stream-forked-from": "/a"}, content="own")
    await export(store, tmp_path / "log.jsonl")
    async with (
        foldlog.memory_store() as empty,
        served(empty) as url,
        Client(base_url=url) as restored,
    ):
        await restore(empty, tmp_path / "log.jsonl")
        again = await restored.post("/a", headers=TEXT | producer, content="one")
        assert (again.status_code, again.headers[OFFSET]) == (204, one.headers[OFFSET])
        await restored.post("/a", headers=TEXT, content="two")
        assert await restored.data("/a", one.headers[OFFSET]) == "two"
        assert await restored.data("/b") == "oneown"


async def _waits(app: Any, readers: int) -> list[Any]:
    """Readers of one stream, without sockets: the messages that each was sent."""
    sent: list[list[Any]] = []
    query = b"offset=-1&live=long-poll"

    async def read() -> None:
        mine: list[Any] = []
        sent.append(mine)

        async def receive() -> Any:
            await asyncio.Event().wait()

        async def send(message: Any) -> None:
            mine.append(message)

        scope = {"type": "http", "method": "GET", "path": "/a", "query_string": query}
        scope |= {"headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1)}
        await app(scope | {"server": ("localhost", 80), "scheme": "http"}, receive, send)

    return [sent, [asyncio.create_task(read()) for _ in range(readers)]]


@pytest.mark.parametrize("readers", [300, pytest.param(10_000, marks=pytest.mark.long)])
async def test_many_who_wait_cost_one_subscription(
    store: foldlog.Store, readers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = streams.application(store, poll_seconds=120)
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
    async with Client(transport=transport, base_url="http://localhost") as client:
        await client.put("/a", headers=TEXT)
        sent, tasks = await _waits(app, readers)
        names = list[str]()
        while names.count("foldlog reader leaves") < readers:
            await client.head("/a")  # until all of them wait
            names = [task.get_name() for task in asyncio.all_tasks()]
        assert names.count("foldlog streams") == 1
        await client.post("/a", headers=TEXT, content="now")
        await asyncio.gather(*tasks)
    assert {mine[0]["status"] for mine in sent} == {200}
    assert {mine[1]["body"] for mine in sent} == {b"now"}
