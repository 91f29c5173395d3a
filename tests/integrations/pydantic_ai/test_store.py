"""FoldlogConversationStore: what the contract says, and what foldlog promises beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from copy import deepcopy
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pydantic_ai import BinaryContent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart, UserPromptPart

import foldlog
from foldlog.errors import InvalidId, PayloadError, RedactionFailed
from foldlog.integrations.objects import Unreadable
from foldlog.integrations.pydantic_ai import FoldlogConversationStore, follow
from foldlog.views.view import View
from foldlog_projections.pydantic_ai.conversations import Saved, kind
from tests.integrations.killing import dying_at
from tests.integrations.pydantic_ai.agents import make_agent


def said(*texts: str) -> list[ModelMessage]:
    return [ModelRequest([UserPromptPart(each)]) for each in texts]


def texts(conversation: Conversation | None) -> list[Any] | None:
    if conversation is None:
        return None
    return [each.parts[0].content for each in conversation.messages]  # type: ignore[union-attr]


def trip(*said_: str, id: str = "trip") -> Conversation:
    return Conversation(conversation_id=id, messages=said(*said_))


async def test_what_waits_is_saved_with_its_conversation_or_not_at_all() -> None:
    async with foldlog.memory_store() as store:
        conversations = FoldlogConversationStore(store)
        conversation = Conversation(conversation_id="trip")
        result = await make_agent().run("book it", conversation=conversation)
        with dying_at(store, "save_planner_state"):
            await conversations.save(result)
        assert await conversations.load("trip") is None
        await conversations.save(result)
        assert len(await store.waiting()) == 1

        loaded = await conversations.load("trip")
        assert loaded is not None
        loaded.deferred_tool_requests = None
        with dying_at(store, "load_planner_state"):
            await conversations.save(loaded)
        with dying_at(store, "load_planner_state"):
            await conversations.delete("trip")
        again = await conversations.load("trip")
        assert again is not None
        assert again.deferred_tool_requests is not None
        await conversations.save(loaded)
        assert await store.waiting() == []
        with pytest.raises(ConversationConflict):  # a stale one that would wait again
            await conversations.save(again)
        assert await store.waiting() == []


async def test_a_fork_loses_nothing_when_its_origin_is_deleted_or_erased() -> None:
    store = foldlog.memory_store()
    conversations = FoldlogConversationStore(store)
    entries = await conversations.save(trip("a", "b", "c"))
    await conversations.fork("trip", at=2, new_conversation_id="fork")
    shared = await conversations.load_entries("fork")
    assert shared is not None
    assert [each.id for each in shared] == [each.id for each in entries[:2]]  # the same entries
    await conversations.delete("trip")
    assert texts(await conversations.load("fork")) == ["a", "b"]
    assert await conversations.load("trip") is None

    await conversations.save(trip("d"))
    await conversations.fork("trip", new_conversation_id="other")
    await store.erase_session("trip")
    assert texts(await conversations.load("other")) == ["d"]
    again = await conversations.fork("other", new_conversation_id="trip")
    assert texts(again) == texts(await conversations.load("trip")) == ["d"]


async def test_another_object_finds_an_entry_by_its_id_alone() -> None:
    store = foldlog.memory_store()
    entries = await FoldlogConversationStore(store).save(trip("a", "b"))
    fresh = FoldlogConversationStore(store)
    assert await fresh.read_entry(entries[0].id) == entries[0]
    assert await fresh.read_history(entries[1].id) == entries
    await fresh.delete("trip")
    with pytest.raises(LookupError):
        await fresh.read_entry(entries[0].id)
    assert await fresh.read_history(None) == []


async def test_of_many_who_go_on_from_one_revision_one_does() -> None:
    conversations = FoldlogConversationStore(foldlog.memory_store())
    await conversations.save(trip("begin"))
    loaded = [await conversations.load("trip") for _ in range(8)]
    for number, each in enumerate(loaded):
        assert each is not None
        each.messages += said(f"from {number}")
    outcomes = await asyncio.gather(
        *(conversations.save(each) for each in loaded if each), return_exceptions=True
    )
    refused = [each for each in outcomes if isinstance(each, ConversationConflict)]
    assert len(refused) == 7
    assert len(texts(await conversations.load("trip")) or ()) == 2


async def test_what_was_refused_leaves_nothing_behind() -> None:
    conversations = FoldlogConversationStore(foldlog.memory_store())
    [entry] = await conversations.save(trip("a"))
    stale = ConversationRecord(conversation_id="trip", head_id="x")
    new = ConversationEntry(id="x", parent_id=entry.id, message=said("never")[0])
    with pytest.raises(ConversationConflict):
        await conversations.write_record(stale, new_entries=[new], expected_revision="old")
    with pytest.raises(ConversationConflict):
        await conversations.write_record(stale, new_entries=[new], expected_revision=None)
    with pytest.raises(LookupError):
        await conversations.read_entry("x")
    for head in ("gone", "x"):
        lost = ConversationRecord(conversation_id="other", head_id=head)
        with pytest.raises(ConversationConflict):
            await conversations.write_record(lost, expected_revision=None)
    with pytest.raises(ConversationConflict):
        await conversations.delete_record("trip", expected_revision="old")
    assert [each.conversation_id for each in await conversations.list_conversations()] == ["trip"]


async def test_a_save_reads_memory_alone() -> None:
    store, sources = foldlog.memory_store(), []
    conversations, conversation = FoldlogConversationStore(store), trip("a")
    await conversations.save(conversation)
    store._core.hot_views.on_read = lambda name, source: sources.append(source)
    conversation.messages += said("b")
    await conversations.save(conversation)
    assert {*sources} == {"hit"}


async def test_memory_that_is_behind_makes_no_conflict_and_hides_none(
    store: foldlog.Store, embedded_path: Path, namespace: str
) -> None:
    async with foldlog.connect(path=embedded_path, namespace=namespace) as other:
        ours, theirs = FoldlogConversationStore(store), FoldlogConversationStore(other)
        conversation = trip("a")
        await ours.save(conversation)
        behind = await theirs.load("trip")
        assert behind is not None
        behind.messages += said("never")
        with patch.object(View, "hint"):  # pushes are lost: memory stays where it is
            conversation.messages += said("b")
            await ours.save(conversation)
            with pytest.raises(ConversationConflict):
                await theirs.save(behind)
            conversation.messages += said("c")
            await ours.save(conversation)
            with pytest.raises(ConversationConflict):
                await theirs.save(trip("never"))
            conversation.messages += said("d")
            await ours.save(conversation)
            sent = deepcopy(conversation)
            sent.messages += said("e")
            await theirs.save(sent)
        assert texts(await ours.load("trip")) == ["a", "b", "c", "d", "e"]


async def test_a_follower_sees_no_save_that_was_refused() -> None:
    store = foldlog.memory_store()
    conversations = FoldlogConversationStore(store)
    await conversations.save(trip("a"))
    one, two = await conversations.load("trip"), await conversations.load("trip")
    assert one is not None
    assert two is not None
    one.messages += said("b")
    two.messages += said("refused")
    outcomes = await asyncio.gather(
        conversations.save(one), conversations.save(two), return_exceptions=True
    )
    assert [type(each) for each in outcomes] == [list, ConversationConflict]
    await conversations.delete("trip")
    await conversations.save(trip("anew"))
    seen: list[Any] = []
    async with aclosing(follow(store, "trip")) as entries:
        async for entry in entries:
            seen.append(entry.message.parts[0].content)  # type: ignore[union-attr]
            if seen[-1] == "anew":
                break
    assert seen == ["a", "b", "anew"]


async def test_history_shows_what_was_saved_and_leaves_out_what_was_refused() -> None:
    store = foldlog.memory_store()
    conversations = FoldlogConversationStore(store)
    await conversations.save(trip("a"))
    both = [await conversations.load("trip"), await conversations.load("trip")]
    for number, each in enumerate(both):
        assert each is not None
        each.messages += said(f"{number}")
    saves = (conversations.save(each) for each in both if each)
    await asyncio.gather(*saves, return_exceptions=True)
    await conversations.delete("trip")
    history = await store.load_history("session:trip")
    assert [each.kind for each in history] == [
        *("session.conversation", "session.conversation", "session.conversation_deleted")
    ]
    assert [len(each.payload.get("messages", ())) for each in history] == [1, 1, 0]


async def test_bytes_and_what_tools_return_come_back() -> None:
    conversations = FoldlogConversationStore(foldlog.memory_store())
    file = BinaryContent(data=b"\xff\x00", media_type="application/pdf")
    returned = ToolReturnPart("look", {"n": [1, 2.5, None]}, tool_call_id="1")
    messages: list[ModelMessage] = [
        ModelRequest([UserPromptPart(["see", file])]),
        ModelRequest([returned]),
    ]
    await conversations.save(Conversation(conversation_id="trip", messages=messages))
    loaded = await conversations.load("trip")
    assert loaded is not None
    assert loaded.messages == messages


async def test_a_conversation_no_longer_waits_once_it_goes_on_or_goes() -> None:
    store = foldlog.memory_store()
    conversations = FoldlogConversationStore(store)
    for end in ("went on", "deleted", "erased"):
        conversation = Conversation(conversation_id=f"trip {end}")
        result = await make_agent().run("book", conversation=conversation)
        await conversations.save(result)
        assert len(await store.waiting()) == 1
        if end == "went on":
            loaded = await conversations.load(conversation.conversation_id)
            assert loaded is not None
            assert loaded.deferred_tool_requests is not None
            results = loaded.deferred_tool_requests.build_results(approve_all=True)
            went_on = await make_agent().run(conversation=loaded, deferred_tool_results=results)
            await conversations.save(went_on)
            assert went_on.output == "booked: book"
        elif end == "deleted":
            await conversations.delete(conversation.conversation_id)
        else:
            await store.erase_session(conversation.conversation_id)
        assert await store.waiting() == []


async def test_bad_input_is_refused() -> None:
    conversations = FoldlogConversationStore(foldlog.memory_store())
    unknown = ModelRequest([ToolReturnPart("t", object(), tool_call_id="1")])
    for bad, error in (
        (trip("a", id=""), InvalidId),
        (trip("\ud83d"), PayloadError),
        (Conversation(conversation_id="trip", messages=[unknown]), PayloadError),
    ):
        with pytest.raises(error):
            await conversations.save(bad)
    with pytest.raises(PayloadError):
        await conversations.write_record({}, expected_revision=None)  # type: ignore[arg-type]
    with pytest.raises(InvalidId):
        await conversations.load("")
    with pytest.raises(UserError):
        await conversations.load("trip", limit=-1)
    assert await conversations.list_conversations() == []


async def test_what_pydantic_ai_cannot_read_is_a_typed_error() -> None:
    store = foldlog.memory_store()
    conversations = FoldlogConversationStore(store)
    await store.append(kind("trip"), Saved("r", None, {"format_version": 2}, {}))
    with pytest.raises(Unreadable, match="trip"):
        await conversations.load("trip")


async def test_a_fork_of_the_session_is_a_conversation_of_its_own() -> None:
    store = foldlog.memory_store()
    conversations = FoldlogConversationStore(store)
    await conversations.save(trip("a", "b"))
    await store.fork("trip", to="fork")
    fork = await conversations.load("fork")
    assert fork is not None
    fork.messages += said("c")
    await conversations.save(fork)
    assert texts(await conversations.load("fork")) == ["a", "b", "c"]
    assert texts(await conversations.load("trip")) == ["a", "b"]


async def test_nothing_of_a_secret_is_stored() -> None:
    def mask(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace("hunter2", "***")
        if isinstance(value, Mapping):
            return {key: mask(each) for key, each in value.items()}
        return [mask(each) for each in value] if isinstance(value, list) else value

    store = foldlog.memory_store(
        redact=lambda saving: {name: mask(value) for name, value in saving.values.items()}
    )
    conversations = FoldlogConversationStore(store)
    conversation = Conversation(conversation_id="trip")
    result = await make_agent().run("book hunter2", conversation=conversation)
    await conversations.save(result)
    loaded = await conversations.load("trip")
    assert loaded is not None
    stored = [loaded, await store.waiting(), await store.items(kind("trip"))]
    assert "hunter2" not in str(stored)
    assert "book ***" in str(loaded.deferred_tool_requests)


async def test_a_hook_that_fails_lets_nothing_through() -> None:
    def redact(saving: foldlog.Saving) -> Mapping[str, Any]:
        raise ValueError("no")

    conversations = FoldlogConversationStore(foldlog.memory_store(redact=redact))
    with pytest.raises(RedactionFailed):
        await conversations.save(trip("a"))
    assert await conversations.load("trip") is None


async def test_a_conversation_is_a_session_of_the_store_and_is_erased_with_it(
    store: foldlog.Store,
) -> None:
    conversations = FoldlogConversationStore(store)
    conversation = trip("a")
    await conversations.save(conversation)
    then = await store.position()
    conversation.messages += said("b")
    await conversations.save(conversation)
    assert await store.sessions() == ["trip"]
    assert texts(await FoldlogConversationStore(store.at(then)).load("trip")) == ["a"]
    assert (await store.erase_session("trip")).removed == {"conversations": 2}
    assert await conversations.load("trip") is None
    assert await conversations.list_conversations() == []


def test_it_is_served_by_a_blocking_store_from_any_loop(tmp_path: Path) -> None:
    with foldlog.blocking.connect(path=tmp_path) as store:
        conversations = FoldlogConversationStore(store)
        asyncio.run(conversations.save(trip("a")))
        assert texts(asyncio.run(conversations.load("trip"))) == ["a"]


async def test_it_opens_a_store_of_its_own(tmp_path: Path) -> None:
    for text in "ab":
        async with FoldlogConversationStore.from_conn_string(tmp_path) as conversations:
            conversation = await conversations.load("trip") or trip()
            conversation.messages += said(text)
            await conversations.save(conversation)
    assert texts(conversation) == ["a", "b"]


GONE: list[Any] = ["gone", {"gone": 1}, [], None]


@pytest.mark.parametrize("gone", GONE)
async def test_a_hook_that_leaves_no_conversation_is_refused(gone: Any) -> None:
    hook = lambda saving: dict.fromkeys(saving.values, gone)  # noqa: E731
    async with foldlog.memory_store(redact=hook) as store:
        conversations = FoldlogConversationStore(store)
        with pytest.raises(PayloadError, match="redact="):
            await conversations.save(trip("a"))
        assert await conversations.load("trip") is None


@pytest.mark.parametrize("gone", GONE)
async def test_messages_that_a_hook_replaced_are_told_by_name(gone: Any) -> None:
    def hook(saving: foldlog.Saving) -> dict[str, Any]:
        values = dict(saving.values)
        return {**values, "messages": [gone for _ in values["messages"]]}

    async with foldlog.memory_store(redact=hook) as store:
        conversations = FoldlogConversationStore(store)
        await conversations.save(trip("a"))
        with pytest.raises(Unreadable, match="trip"):
            await conversations.load("trip")

    def hide(saving: foldlog.Saving) -> dict[str, Any]:
        return {**saving.values, "carried": {"usage": gone, "deferred_tool_requests": gone}}

    async with foldlog.memory_store(redact=hide) as store:
        conversations = FoldlogConversationStore(store)
        await conversations.save(trip("a"))
        if not isinstance(gone, dict):  # in which Pydantic AI sees nothing that it knows
            with pytest.raises(Unreadable, match="trip"):
                await conversations.load("trip")
            assert await conversations.list_conversations() == []
