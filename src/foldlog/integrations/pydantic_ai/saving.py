"""Saves of conversations, with what waits in them; and following them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

import msgspec
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
)
from pydantic_ai.messages import ModelMessagesTypeAdapter

from foldlog import codec
from foldlog.errors import PayloadError, shown
from foldlog.integrations.objects import read_as
from foldlog.integrations.waiting import begin_waiting, token_beside
from foldlog.kind import Key
from foldlog.opening import Store
from foldlog.store.core import core_of
from foldlog_projections.pydantic_ai.conversations import Conversation, Deleted, Saved, kind

WAITS: Final = "deferred_tools"
"""The `reason` of a conversation that waits for a person."""


async def follow(store: Store, conversation_id: str) -> AsyncGenerator[ConversationEntry]:
    """Yield a conversation's entries as any process saves them, those that are there first.

    Refused saves are left out. It never ends by itself: use `contextlib.aclosing`.

    Args:
        store: an open store.
        conversation_id: the conversation.

    Raises:
        LogCorrupt, StoreClosed: the log cannot be read, or is closed.
    """
    revision: str | None = None
    async with aclosing(store.watch(kind(conversation_id))) as items:
        async for item in items:
            record = item.record
            if record.expected != revision:
                continue
            revision = record.revision if isinstance(record, Saved) else None
            messages = load(
                ModelMessagesTypeAdapter, getattr(record, "messages", []), conversation_id
            )
            for (id, parent), message in zip(getattr(record, "entries", ()), messages, strict=True):
                yield ConversationEntry(id=id, parent_id=parent, message=message)


def load(adapter: Any, data: Any, id: str) -> Any:
    """What Pydantic AI makes of stored data. Unreadable: nothing."""
    return read_as(
        lambda found: adapter.validate_json(msgspec.json.encode(found)),
        data,
        f"conversation {shown(id)}",
    )


def check_redacted(store: Store, key: Key[Any], saved: Saved) -> None:
    """Refuse a hook that leaves no conversation. Raises RedactionFailed, if the hook fails."""
    found = core_of(store).redacted("write_record", key, saved)
    is_list = isinstance(found.messages, list) and len(found.messages) == len(saved.entries)
    if not is_list or not isinstance(found.carried, dict):
        raise PayloadError("conversation", "redact= left no conversation of Pydantic AI")


async def write_one(
    store: Store, id: str, record: Saved | Deleted, asks: ConversationRecord | None
) -> None:
    """Append what takes effect if it is the first that expects what it does, and see whether.

    Args:
        asks: the conversation's record, if it waits for a person from now on.
    """

    def is_plain(found: Conversation) -> bool:
        return found.revision == record.expected and not (found and _waits(found.carried))

    waited = False

    def first(found: Conversation) -> list[Saved | Deleted]:
        nonlocal waited
        if found.revision != record.expected:
            raise ConversationConflict(id)
        waited = bool(found) and _waits(found.carried)
        return [record]

    if asks is None and store.peek(kind(id), is_plain):
        await store.decide(kind(id), first, copy=False)
        return

    async def write() -> None:
        await store.decide(kind(id), first, copy=False)
        if waited:
            await store.load_planner_state(_token(store, id, str(record.expected)))
        if asks is not None:
            await _ask(store, asks)

    await store.transact(write)


async def _ask(store: Store, record: ConversationRecord) -> None:
    """List a conversation that waits."""
    id, requests = record.conversation_id, record.deferred_tool_requests
    asked = [
        {"tool": each.tool_name, "arguments": each.args, "id": each.tool_call_id}
        for each in (*requests.approvals, *requests.calls)
    ]
    payload = {"conversation_id": id, "asked": asked}
    token = _token(store, id, record.revision)
    await begin_waiting(
        store,
        token,
        WAITS,
        payload,
        session_id=id,
        answer_in="your program: run the agent with deferred_tool_results=",
        user_id=record.scope,
    )


def _waits(carried: bytes) -> bool:
    return codec.decode(carried).get("deferred_tool_requests") is not None


def _token(store: Store, id: str, revision: str) -> str:
    return token_beside(store, kind(id), f"pydantic_ai:{id}:{revision}")
