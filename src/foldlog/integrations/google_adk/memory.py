"""ADK's memory: the texts of events as scoped keys, found by the scoped search index.

The contract is `google.adk.memory.BaseMemoryService` of ADK 2.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

from foldlog import codec
from foldlog.batches import in_batches
from foldlog.integrations.access import AnyStore, access_to
from foldlog.integrations.google_adk.sessions import session_id_of
from foldlog.integrations.objects import Unreadable, read_as
from foldlog.opening import Store
from foldlog.scoped import Scope
from foldlog.scoped.vectors import Embedder
from foldlog.subjects import checked_id
from foldlog_projections.langgraph.langgraphitems import path_of

_AT_ONCE: Final = 500
"""Memories in one append."""

_GONE: Final = "/gone"
"""What the key of a memory that was deleted ends with, so that it is not added again."""


class FoldlogMemoryService(BaseMemoryService):  # type: ignore[misc, unused-ignore]
    """ADK's memory service on a foldlog store. Lives as long as its store.

    It remembers what events say, of a user in an app: texts, without a model's thoughts. Memories
    go with `Store.erase_session(session_id_of(...))` of the session that they are from.

    Args:
        store: an open store, blocking or not; or one of the past (`store.at(...)`), for reading.
            Searches may raise SearchFailed.
        embedder: an async function that makes vectors of texts, to find by meaning. None: by words.
        max_results: how many memories a search returns at most.
    """

    def __init__(
        self, store: AnyStore, *, embedder: Embedder | None = None, max_results: int = 10
    ) -> None:
        self._access = access_to(store)
        # Made once: each has indexes of its own.
        self._searched = functools.cache(
            lambda store: store.scoped.with_search(embedder=embedder) if embedder else store.scoped
        )
        self._max_results = max_results

    async def add_session_to_memory(self, session: Session) -> None:
        """Remember the events of a session. Those that are remembered already stay as they are."""
        about = {"app_name": session.app_name, "user_id": session.user_id}
        await self.add_events_to_memory(**about, events=session.events, session_id=session.id)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember events, up to 500 in one append; `custom_metadata` has no effect."""
        scope = _scope(app_name, user_id)
        owner = session_id and session_id_of(app_name, user_id, session_id)
        # No word of a key may be found by a search.
        said = {f"{_name(each.id)}/{codec.digest((owner or '').encode())}": each for each in events}
        values = {key: value for key, each in said.items() if len(value := _value(each)) > 1}

        async def add(store: Store) -> None:
            listed = await store.scoped.list(scope, consistency="strong")
            known = {each.removesuffix(_GONE) for each in listed}
            new = [each for each in values.items() if each[0] not in known]
            for some in in_batches(new, _AT_ONCE):
                await store.scoped.write_many(scope, dict(some), session_id=owner)

        await self._access.acall(add)

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Return the user's memories that have words of the query, best first."""
        scope = _scope(app_name, user_id)

        async def search(store: Store) -> list[Any]:
            scoped = self._searched(store)
            found = await scoped.search(scope, query, self._max_results)
            return [await scoped.read(scope, each.key) for each in found]

        values = await self._access.acall(search)
        memories = []
        for each in values:
            with suppress(Unreadable):  # `redact=` has replaced it
                if isinstance(each, list) and len(each) > 1:
                    memories.append(read_as(_memory, each, "a memory"))
        return SearchMemoryResponse(memories=memories)

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Remove a memory, by its event's id. Adding its session again does not bring it back."""
        if not memory_id:
            return
        scope, name = _scope(app_name, user_id), _name(memory_id)

        async def delete(store: Store) -> None:
            for key in await store.scoped.list(scope, f"{name}/", consistency="strong"):
                if not key.endswith(_GONE):
                    async with store.atomic():
                        await store.scoped.write(scope, key, [b""])
                        await store.scoped.write(scope, f"{key}{_GONE}", [b""])
                    await store.scoped.erase(scope, key)

        await self._access.acall(delete)


def _scope(app_name: str, user_id: str) -> Scope:
    names = [checked_id(app_name, "app_name"), checked_id(user_id, "user_id")]
    return Scope.custom(f"adk-memory/{path_of(names)}")


def _name(event_id: str) -> str:
    return codec.digest(checked_id(event_id, "event id").encode())


def _value(event: Event) -> list[Any]:
    """What is stored of an event: whose it is, as bytes, which no search looks at; its texts."""
    content = event.content or types.Content()
    texts = [part.text for part in content.parts or [] if part.text and not part.thought]
    about = [event.id, content.role, event.author, event.timestamp]
    return [codec.encode(about), *texts]


def _memory(value: list[Any]) -> MemoryEntry:
    id, role, author, timestamp = codec.decode(value[0])
    parts = [types.Part(text=text) for text in value[1:]]
    time = dt.datetime.fromtimestamp(timestamp, dt.UTC).isoformat()
    content = types.Content(role=role, parts=parts)
    return MemoryEntry(id=id, content=content, author=author, timestamp=time)
