"""Whatever is asked of a server, a query, a command or a file, the answer is a typed one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

import foldlog
from foldlog import exporting, importer, otlp, ui
from foldlog.errors import FoldlogError
from tests.bounds.attacks import attributes, field, request_of, spans
from tests.cli.support import Cli
from tests.support.build import task, update

SOME = settings(
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
MANY = settings(SOME, max_examples=4 * SOME.max_examples)
FEW = settings(SOME, max_examples=15)

ODD = st.sampled_from(
    [
        *("", "session", "s", "\x00", "@1", "@-1", "@1~2", "@" + "9" * 30, "2026-13-01", "@1,1,1"),
        *(
            "9" * 50,
            "-1",
            "../..",
            "%",
            "é" * 300,
            "session/../x",
            "question/s/r/q/1",
            "updates\ns",
        ),
    ]
)
TEXT = ODD | st.text(max_size=40)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.just(10**400),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=10,
)
READS = ("about", "sessions", "session", "records", "record", "waiting", "artifact", "share")
WRITES = ("answer", "steer", "fork", "feedback")
PARAMETERS = ("session", "trace", "after", "until", "position", "view", "id", "limit", "offset")
FIELDS = (
    *("id", "answer", "session", "session_id", "task_id", "event_type", "payload", "at", "to"),
    *("comment", "to"),
)


async def with_page(use: Callable[[httpx.AsyncClient, foldlog.Store], Awaitable[None]]) -> None:
    async with foldlog.memory_store() as store:
        await store.save_update(update("u"))
        await store.save_task(task())
        transport = httpx.ASGITransport(ui.app(store, token="t"), raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport,
            base_url="http://localhost",
            headers={"authorization": "Bearer t"},
        ) as client:
            await use(client, store)
            answer = await client.get("/api/about")  # others are served
            assert answer.status_code == 200


def is_typed(answer: httpx.Response) -> bool:
    if answer.status_code < 400:
        return True
    return answer.status_code != 500 and "type" in answer.json()["error"]


@SOME
@given(st.sampled_from(READS), st.dictionaries(st.sampled_from(PARAMETERS), TEXT, max_size=5))
def test_the_page_answers_whatever_is_asked(name: str, parameters: dict[str, str]) -> None:
    async def ask(client: httpx.AsyncClient, _: foldlog.Store) -> None:
        answer = await client.get(f"/api/{name}", params=parameters)
        assert is_typed(answer), answer.text

    asyncio.run(with_page(ask))


@MANY
@example("feedback", b'{"trace_id": "t", "score": ' + b"9" * 400 + b"}")
@given(
    st.sampled_from(WRITES),
    st.fixed_dictionaries(
        {"trace_id": TEXT}, optional=dict.fromkeys(FIELDS, VALUE) | {"score": VALUE}
    ).map(lambda found: json.dumps(found).encode())
    | st.binary(max_size=60),
)
def test_the_page_takes_whatever_is_posted(name: str, content: bytes) -> None:
    async def ask(client: httpx.AsyncClient, _: foldlog.Store) -> None:
        headers = {"content-type": "application/json"}
        answer = await client.post(f"/api/{name}", content=content, headers=headers)
        assert is_typed(answer), answer.text

    asyncio.run(with_page(ask))


MESSAGES = st.recursive(
    st.binary(max_size=12),
    lambda inner: st.lists(
        st.tuples(st.integers(1, 15), inner).map(lambda pair: field(*pair)), max_size=4
    ).map(b"".join),
    max_leaves=12,
)


@SOME
@given(
    MESSAGES
    | MESSAGES.map(lambda found: request_of(field(2, found)))
    | st.integers(1, 300).map(lambda n: request_of(field(2, attributes(n)) + spans(n))),
    st.sampled_from(["application/x-protobuf", "application/json"]),
    st.sampled_from(["identity", "gzip", "br"]),
)
def test_the_receiver_takes_whatever_is_sent(content: bytes, kind: str, encoding: str) -> None:
    async def send() -> None:
        async with foldlog.memory_store() as store:
            transport = httpx.ASGITransport(otlp.app(store, everything=True))
            async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
                headers = {"content-type": kind, "content-encoding": encoding}
                answer = await client.post("/v1/traces", content=content, headers=headers)
                assert answer.status_code in (200, 400, 413, 415), answer.content
                good = {"content-type": "application/x-protobuf"}
                answer = await client.post("/v1/traces", content=b"", headers=good)
                assert answer.status_code == 200

    asyncio.run(send())


WORDS = st.lists(
    st.sampled_from(
        [
            *("select", "*", "from", "updates", "tasks", "where", "(", ")", "[", "]", ",", "1"),
            *("count(*)", "group by", "'x'", "null", "::json", "unnest", "1/0", "'\\ud800'::json"),
            *("with t as", "repeat('x', 9)", "order by", "$1", ";", "--", "limit 1", "all", "as j"),
        ]
    ),
    min_size=1,
    max_size=8,
).map(" ".join)


def test_a_query_is_answered_or_refused() -> None:
    with asyncio.Runner() as runner:
        store = foldlog.memory_store()
        runner.run(store.save_update(update("u")))

        @FEW
        @given(WORDS | st.text(max_size=30), st.lists(VALUE, max_size=2))
        def ask(query: str, parameters: list[Any]) -> None:
            try:
                runner.run(store.sql(query, parameters, timeout=20))
            except FoldlogError:
                pass
            assert runner.run(store.sql("select count(*) from updates")).rows == [(1,)]

        try:
            ask()
        finally:
            runner.run(store.close())


OPTIONS = ("--json", "--at", "--limit", "--yes", "--session", "--task")
COMMANDS = st.sampled_from(
    [
        *("sessions", "show", "tasks", "updates", "history", "traces", "waiting", "diff", "fork"),
        *("steer", "answer", "confirm", "retract", "sql", "verify", "export", "watch", "replay"),
    ]
)


@FEW
@given(
    COMMANDS, st.lists(TEXT | st.sampled_from(["--json", "--at", "--limit", "--yes"]), max_size=4)
)
def test_a_command_ends_with_a_message_and_no_traceback(
    tmp_path_factory: pytest.TempPathFactory, command: str, arguments: list[str]
) -> None:
    given = [each.replace("\x00", "") for each in arguments]
    cli = Cli(tmp_path_factory.mktemp("cli"), "default")
    found = cli(command, *given) if command != "watch" else cli(command, "--limit", "1", *given)
    assert found.code in (0, 1, 2)
    assert "Traceback" not in found.stderr


@FEW
@given(
    st.binary(max_size=200)
    | st.lists(VALUE, max_size=5).map(
        lambda found: "\n".join(json.dumps(each) for each in found).encode()
    )
)
def test_a_file_to_import_is_taken_or_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / f"{uuid4().hex}.jsonl"
    path.write_bytes(content)

    async def bring() -> None:
        async with foldlog.memory_store() as store:
            try:
                await importer.import_conversations(store, [path])
            except FoldlogError:
                pass
            await store.save_update(update("u"))

    asyncio.run(bring())


CHANGES = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255), st.integers(0, 50)),
    min_size=1,
    max_size=4,
)
"""Where a file is changed, the byte that stands there then, and how many go behind it."""


@FEW
@given(CHANGES)
def test_a_file_to_restore_is_taken_whole_or_refused(
    tmp_path: Path, changes: list[tuple[float, int, int]]
) -> None:
    path = tmp_path / f"{uuid4().hex}.jsonl"

    async def bring() -> None:
        async with foldlog.memory_store() as store:
            await store.save_update(update("u"))
            await store.save_task(task())
            await exporting.export(store, path)
        content = bytearray(path.read_bytes())
        for place, byte, gone in changes:
            at = int(place * len(content))
            content[at : at + 1 + gone] = bytes([byte])
        path.write_bytes(bytes(content))
        async with foldlog.memory_store() as store:
            try:
                await exporting.restore(store, path)
            except FoldlogError:
                assert await store.sessions() == []

    asyncio.run(bring())
