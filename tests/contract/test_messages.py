"""Conversations: messages of a session."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import foldlog
from foldlog import AppendConflict, Message, kinds
from tests.conftest import OpenStore


def said(*ids: str) -> list[Message]:
    return [Message(id, "plain", {"text": id}, role="user") for id in ids]


def ids_of(messages: list[Message]) -> list[str]:
    return [each.id for each in messages]


async def test_messages_are_listed_as_they_were_appended(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    assert await store.list_messages("session") == []
    await store.append_messages("session", said("a", "b"))
    await store.append_messages("session", said("b", "c"))
    await store.append_messages("session", said("of another"), conversation="draft")
    for reader in (store, await reopen()):
        assert await reader.list_messages("session", consistency="strong") == said("a", "b", "c")
        assert ids_of(await reader.list_messages("session", limit=2)) == ["b", "c"]
        assert ids_of(await reader.list_messages("session", limit=0)) == []
        assert ids_of(await reader.list_messages("session", after="a")) == ["b", "c"]
        assert ids_of(await reader.list_messages("session", after="a", limit=1)) == ["b"]
        with pytest.raises(foldlog.NotFound, match="no message"):
            await reader.list_messages("session", after="?")
        assert ids_of(await reader.list_messages("session", conversation="draft")) == ["of another"]
        assert (await reader.view(kinds.messages("session"))).names() == ["main", "draft"]


async def test_an_id_stands_for_one_message_of_each_conversation(store: foldlog.Store) -> None:
    await store.append_messages("session", said("a", "b"))
    await store.append_messages("session", await store.list_messages("session"), conversation="c")
    await store.append_messages("session", said("a"), conversation="c")
    await store.delete_messages("session")
    found = await store.list_messages("session", conversation="c")
    assert [(each.id, each.conversation) for each in found] == [("a", "c"), ("b", "c")]
    with pytest.raises(foldlog.InvalidId):
        await store.append_messages("session", said("a"), conversation="")


async def test_names_of_several_lines_are_not_taken_for_each_other(store: foldlog.Store) -> None:
    places = [("main", "a\nb"), ("a", "b"), ("a\nb", "c"), ("a", "b\nc"), ("main", "a\nb\nc")]
    for conversation, id in places:
        await store.append_messages("session", said(id), conversation=conversation)
    for conversation, id in places:
        assert id in (await store.view(kinds.messages("session")))[conversation]


async def test_what_was_removed_stays_removed(store: foldlog.Store) -> None:
    await store.append_messages("session", said("a", "b"))
    assert await store.pop_message("session") == said("b")[0]
    await store.append_messages("session", said("b", "c"))  # a late retry
    assert ids_of(await store.list_messages("session")) == ["a", "c"]
    then = await store.position()
    await store.delete_messages("session")
    assert await store.list_messages("session") == []
    assert await store.pop_message("session") is None
    with pytest.raises(AppendConflict):
        await store.append_messages("session", said("d"), expected=0)
    assert ids_of(await store.at(then).list_messages("session")) == ["a", "c"]
    assert ids_of(await store.at(then).list_messages("session", limit=1)) == ["c"]


async def test_each_message_is_popped_by_one(store: foldlog.Store, reopen: OpenStore) -> None:
    await store.append_messages("session", said(*map(str, range(8))))
    other = await reopen()
    popped = await asyncio.gather(*(each.pop_message("session") for each in [store, other] * 5))
    found = [each.id for each in popped if each is not None]
    assert sorted(found) == [str(number) for number in range(8)]


async def test_a_writer_that_has_not_seen_the_last_version_adds_nothing(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    await store.append_messages("session", said("a"), expected=0)
    other = await reopen()
    await other.append_messages("session", said("b"), expected=1)
    with pytest.raises(AppendConflict) as error:
        await store.append_messages("session", said("c", "d"), expected=1)
    assert (error.value.expected, error.value.actual) == (1, 2)
    key = kinds.messages("session")
    assert await store.view(key, lambda found: found["main"].version, consistency="strong") == 2
    assert ids_of(await store.list_messages("session")) == ["a", "b"]


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ([Message("", "plain", 1)], foldlog.InvalidId),
        ([*said("a"), Message("b", "plain", object())], foldlog.PayloadError),
        ([*said("a"), {"id": "b"}], foldlog.PayloadError),
    ],
)
async def test_of_a_message_that_cannot_be_held_none_is_appended(
    store: foldlog.Store, messages: list[Any], error: type[Exception]
) -> None:
    for expected in (None, 0):
        with pytest.raises(error):
            await store.append_messages("session", messages, expected=expected)
    with pytest.raises(foldlog.InvalidId):
        await store.append_messages("", said("a"))
    with pytest.raises(foldlog.PayloadError):
        await store.list_messages("session", limit="2")  # type: ignore[arg-type]
    with pytest.raises(foldlog.PayloadError):
        await store.list_messages("session", after=2)  # type: ignore[arg-type]
    assert await store.list_messages("session") == []


async def test_messages_go_with_their_session_and_with_a_fork_of_it(store: foldlog.Store) -> None:
    await store.append_messages("session", said("a"))
    assert await store.sessions() == ["session"]
    await store.fork("session", to="fork")
    await store.append_messages("fork", said("b"))
    assert ids_of(await store.list_messages("fork")) == ["a", "b"]
    assert ids_of(await store.list_messages("session")) == ["a"]
    await store.clear_session("fork")
    assert (await store.erase_session("session")).removed["messages"] == 1
    assert await store.list_messages("session") == []


async def test_a_message_is_redacted(reopen: OpenStore) -> None:
    store = await reopen(redact=lambda saving: dict.fromkeys(saving.values, "***"))
    await store.append_messages("session", said("a"))
    [found] = await store.list_messages("session")
    assert (found.id, found.role, found.body) == ("a", "user", "***")


async def test_watchers_see_what_is_added_and_removed(store: foldlog.Store) -> None:
    key = kinds.messages("session")
    await store.append_messages("session", said("a"))
    await store.pop_message("session")
    seen = []
    async for item in store.watch(key):
        seen.append(item.type)
        if len(seen) == 2:
            break
    assert seen == ["message.added", "message.removed"]
