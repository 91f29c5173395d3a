"""FoldlogSessionStore: the SDK's contracts, and what foldlog promises beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from benchmarks.contenders.framework_transcripts import SqliteTranscripts
from claude_agent_sdk import (
    fork_session_via_store,
    get_session_messages_from_store,
    list_sessions_from_store,
    project_key_for_directory,
    tag_session_via_store,
)
from claude_agent_sdk.testing import run_session_store_conformance

import foldlog
from foldlog.errors import InvalidId, PayloadError, RedactionFailed
from foldlog.integrations.claude_agent import FoldlogSessionStore, session_of
from foldlog.integrations.claude_agent.sessions import FORMAT

KEY = {"project_key": "acme", "session_id": "6d1f7ea4-2a4b-4f0e-9f4e-2b8d9a2a7c11"}
SUB = {**KEY, "subpath": "subagents/agent-1"}


def said(uuid: str, text: str) -> dict[str, Any]:
    message = {"role": "user", "content": text}
    return {"type": "user", "uuid": uuid, "parentUuid": None, "message": message}


async def test_the_sdks_conformance_suite_in_memory() -> None:
    await run_session_store_conformance(lambda: FoldlogSessionStore(foldlog.memory_store()))


async def test_the_sdks_conformance_suite_on_a_server(embedded_path: Path, namespace: str) -> None:
    stores: list[foldlog.Store] = []

    async def make() -> FoldlogSessionStore:
        name = f"{namespace}-{len(stores)}"
        stores.append(await foldlog.connect(path=embedded_path, namespace=name))
        return FoldlogSessionStore(stores[-1])

    try:
        await run_session_store_conformance(make)
    finally:
        for each in stores:
            await each.close()


async def test_the_benchmarks_peer_meets_the_sdks_contract(tmp_path: Path) -> None:
    opened: list[SqliteTranscripts] = []

    async def make() -> SqliteTranscripts:
        opened.append(await SqliteTranscripts.open(tmp_path / f"{len(opened)}.db"))
        return opened[-1]

    try:
        await run_session_store_conformance(make)
    finally:
        for each in opened:
            await each.close()


async def test_an_entry_is_there_once_and_one_without_uuid_each_time() -> None:
    sessions = FoldlogSessionStore(foldlog.memory_store())
    title = {"type": "custom-title", "customTitle": "Oslo"}
    for _ in range(2):
        await sessions.append(KEY, [said("u1", "To Oslo"), title])
        await sessions.append(SUB, [said("u1", "Look it up")])
        await sessions.append({**KEY, "session_id": "other"}, [said("u1", "To Rome")])
    assert await sessions.load(KEY) == [said("u1", "To Oslo"), title, title]
    assert await sessions.load(SUB) == [said("u1", "Look it up")]
    assert await sessions.load({**KEY, "session_id": "other"}) == [said("u1", "To Rome")]
    assert await sessions.list_subkeys(KEY) == ["subagents/agent-1"]


async def test_appends_of_one_process_keep_their_order() -> None:
    sessions = FoldlogSessionStore(foldlog.memory_store())
    await asyncio.gather(*(sessions.append(KEY, [said(f"u{n}", "")]) for n in range(50)))
    assert [each["uuid"] for each in await sessions.load(KEY) or []] == [f"u{n}" for n in range(50)]


async def test_sessions_are_listed_latest_first_with_what_the_sdk_makes_of_them() -> None:
    store = foldlog.memory_store()
    sessions = FoldlogSessionStore(store)
    for name in ("a", "b"):
        await sessions.append({**KEY, "session_id": name}, [said("u1", f"{name} to Oslo")])
    await sessions.append({**KEY, "session_id": "a"}, [{"type": "tag", "tag": "later"}])
    # Other frameworks' sessions, and another project's, are none of this one.
    await store.append_messages("acme/elsewhere", [foldlog.Message("m", "other", {})])
    await sessions.append({"project_key": "acme/b", "session_id": "c"}, [said("u1", "no")])
    await sessions.append({**KEY, "session_id": "d", "subpath": "x"}, [said("u1", "no main")])

    listed = await sessions.list_sessions("acme")
    assert [each["session_id"] for each in listed] == ["d", "a", "b"]
    summaries = await sessions.list_session_summaries("acme")
    assert [
        (each["session_id"], each["data"]["first_prompt"], each["data"].get("tag"))
        for each in summaries
    ] == [("a", "a to Oslo", "later"), ("b", "b to Oslo", None)]
    assert {s["session_id"]: s["mtime"] for s in summaries}.items() <= {
        each["session_id"]: each["mtime"] for each in listed
    }.items()


async def test_the_sdks_functions_work_on_it(tmp_path: Path) -> None:
    sessions = FoldlogSessionStore(foldlog.memory_store())
    directory, id = str(tmp_path), KEY["session_id"]
    key = {"project_key": project_key_for_directory(directory), "session_id": id}
    await sessions.append(key, [said("00000000-0000-4000-8000-000000000001", "To Oslo")])
    await tag_session_via_store(sessions, id, "travel", directory=directory)
    fork = await fork_session_via_store(sessions, id, directory=directory)
    [latest, first] = await list_sessions_from_store(sessions, directory=directory)
    assert (latest.session_id, first.session_id, first.tag) == (fork.session_id, id, "travel")
    messages = await get_session_messages_from_store(sessions, fork.session_id, directory=directory)
    assert [each.message["content"] for each in messages] == ["To Oslo"]


async def test_a_fork_of_the_session_is_a_session_of_its_project() -> None:
    store = foldlog.memory_store()
    sessions = FoldlogSessionStore(store)
    await sessions.append(KEY, [said("u1", "To Oslo")])
    fork = {**KEY, "session_id": "fork"}
    await store.fork(session_of(KEY), to=session_of(fork))
    await sessions.append(fork, [said("u1", "To Oslo"), said("u2", "By train")])
    assert [each["uuid"] for each in await sessions.load(fork) or []] == ["u1", "u2"]
    assert [each["uuid"] for each in await sessions.load(KEY) or []] == ["u1"]
    listed = await sessions.list_session_summaries("acme")
    assert [each["session_id"] for each in listed] == ["fork", KEY["session_id"]]


async def test_a_session_that_was_deleted_may_begin_again() -> None:
    sessions = FoldlogSessionStore(foldlog.memory_store())
    for _ in range(2):
        await sessions.append(KEY, [said("u1", "To Oslo")])
        await sessions.append(SUB, [said("u2", "Look it up")])
        assert len(await sessions.list_session_summaries("acme")) == 1
        await sessions.delete(KEY)
        assert (await sessions.load(KEY), await sessions.load(SUB)) == (None, None)
        assert await sessions.list_subkeys(KEY) == []
        assert await sessions.list_sessions("acme") == []
        assert await sessions.list_session_summaries("acme") == []


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (None, PayloadError),
        ("acme/trip", PayloadError),
        ({}, InvalidId),
        ({"project_key": "acme"}, InvalidId),
        ({"project_key": "", "session_id": "s"}, InvalidId),
        ({"project_key": 1, "session_id": "s"}, InvalidId),
        ({"project_key": "acme", "session_id": "a/b"}, InvalidId),
        ({**KEY, "subpath": ""}, InvalidId),
        ({**KEY, "subpath": 1}, InvalidId),
    ],
)
async def test_a_bad_key_is_refused(key: Any, error: type[Exception]) -> None:
    sessions = FoldlogSessionStore(foldlog.memory_store())
    for call in (sessions.append(key, [said("u", "")]), sessions.load(key), sessions.delete(key)):
        with pytest.raises(error):
            await call


@pytest.mark.parametrize(
    ("entries", "error"),
    [
        (None, PayloadError),
        ("text", PayloadError),
        ([None], PayloadError),
        ([said("u", ""), "text"], PayloadError),
        ([{"type": "x", "uuid": ""}], InvalidId),
        ([{"type": "x", "uuid": 7}], InvalidId),
        ([said("u", ""), {"type": "x", "cut": "\ud83d"}], PayloadError),
        ([{"type": "x", "it": object()}], PayloadError),
    ],
)
async def test_bad_entries_are_refused_and_nothing_is_added(
    entries: Any, error: type[Exception]
) -> None:
    sessions = FoldlogSessionStore(foldlog.memory_store())
    with pytest.raises(error):
        await sessions.append(KEY, entries)
    assert await sessions.load(KEY) is None
    with pytest.raises(InvalidId):
        await sessions.list_sessions("")


async def test_nothing_of_a_secret_is_stored_or_listed() -> None:
    def mask(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace("hunter2", "***")
        if isinstance(value, Mapping):
            return {key: mask(each) for key, each in value.items()}
        return [mask(each) for each in value] if isinstance(value, list) else value

    seen: list[foldlog.Saving] = []

    def redact(saving: foldlog.Saving) -> Mapping[str, Any]:
        seen.append(saving)
        return {name: mask(value) for name, value in saving.values.items()}

    sessions = FoldlogSessionStore(foldlog.memory_store(redact=redact))
    # The SDK cuts a first prompt after 200 characters, which would leave "hunter" of it.
    await sessions.append(KEY, [said("u1", "x" * 194 + "hunter2")])
    await sessions.append(SUB, [said("u1", "hunter2")])
    stored = [await sessions.load(KEY), await sessions.load(SUB)]
    assert "hunter" not in str([stored, await sessions.list_session_summaries("acme")])
    assert {each.kind for each in seen} == {"message.added"}
    assert {each.about["format"] for each in seen} == {FORMAT}


async def test_a_hook_that_fails_lets_nothing_through() -> None:
    def redact(saving: foldlog.Saving) -> Mapping[str, Any]:
        raise ValueError("no")

    sessions = FoldlogSessionStore(foldlog.memory_store(redact=redact))
    with pytest.raises(RedactionFailed):
        await sessions.append(KEY, [said("u1", "To Oslo")])
    assert await sessions.load(KEY) is None


async def test_a_session_is_one_of_the_stores_and_is_erased_with_all_it_has(
    store: foldlog.Store,
) -> None:
    sessions = FoldlogSessionStore(store)
    await sessions.append(KEY, [said("u1", "To Oslo")])
    then = await store.position()
    await sessions.append(SUB, [said("u2", "Look it up")])
    assert await store.sessions() == [session_of(KEY)] == [session_of(SUB)]
    [message] = await store.list_messages(session_of(KEY))
    assert (message.role, message.format) == ("user", FORMAT)
    history = await store.load_history(f"session:{session_of(KEY)}")
    assert [each.payload["id"] for each in history] == ["u1", "u2"]

    past = FoldlogSessionStore(store.at(then))
    assert (await past.load(KEY), await past.list_subkeys(KEY)) == ([said("u1", "To Oslo")], [])
    assert [each["session_id"] for each in await past.list_sessions("acme")] == [KEY["session_id"]]

    assert (await store.erase_session(session_of(KEY))).removed == {"messages": 2}
    assert (await sessions.load(KEY), await sessions.load(SUB)) == (None, None)
    assert await sessions.list_session_summaries("acme") == []


def test_it_is_served_by_a_blocking_store_from_any_loop(tmp_path: Path) -> None:
    with foldlog.blocking.connect(path=tmp_path) as store:
        sessions = FoldlogSessionStore(store)
        asyncio.run(sessions.append(KEY, [said("u1", "To Oslo")]))
        assert asyncio.run(sessions.load(KEY)) == [said("u1", "To Oslo")]
        assert store.sessions() == [session_of(KEY)]


async def test_it_opens_a_store_of_its_own(tmp_path: Path) -> None:
    for n in range(2):
        async with FoldlogSessionStore.from_conn_string(tmp_path) as sessions:
            await sessions.append(KEY, [said(f"u{n}", "")])
            assert len(await sessions.load(KEY) or []) == n + 1


async def test_a_hook_that_leaves_nothing_of_an_entry_breaks_no_list() -> None:
    def redact(saving: foldlog.Saving) -> Mapping[str, Any]:
        return dict.fromkeys(saving.values, "[redacted]")

    sessions = FoldlogSessionStore(foldlog.memory_store(redact=redact))
    await sessions.append(KEY, [said("u1", "To Oslo")])
    assert await sessions.load(KEY) is None
    assert await sessions.list_session_summaries("acme") == []


@pytest.mark.parametrize("gone", ["gone", {"gone": 1}, {"message": 1, "timestamp": []}, [], None])
async def test_entries_that_a_hook_replaced_spoil_no_list(gone: Any) -> None:
    async with foldlog.memory_store(redact=lambda s: dict.fromkeys(s.values, gone)) as log:
        sessions = FoldlogSessionStore(log)
        key: Any = {"project_key": "p", "session_id": "s"}
        await sessions.append(key, [{"type": "user", "uuid": "1", "message": {"role": "user"}}])
        assert await sessions.load(key) == ([gone] if isinstance(gone, dict) else None)
        assert [each["session_id"] for each in await sessions.list_sessions("p")] == ["s"]
        assert len(await sessions.list_session_summaries("p")) <= 1
