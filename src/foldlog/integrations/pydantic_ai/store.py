"""The conversations of Pydantic AI: each is a session of the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from typing import Any, Final, TypeVar
from uuid import uuid4

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import ModelMessagesTypeAdapter

from foldlog import codec
from foldlog.batches import side_by_side
from foldlog.errors import PayloadError, shown
from foldlog.integrations.access import AnyStore, OnStore, access_to
from foldlog.integrations.objects import Unreadable
from foldlog.integrations.pydantic_ai.saving import check_redacted, load, write_one
from foldlog.opening import Store
from foldlog.subjects import checked_id
from foldlog.views import Consistency
from foldlog_projections.pydantic_ai.conversations import Conversation, Deleted, Entry, Saved, kind

T = TypeVar("T")

_CARRIED: Final = ("usage", "deferred_tool_requests")
"""What users wrote may be in these fields of a record; in all others are ids and times."""

_PLACES: Final = 4096
"""Entries whose conversation is remembered: those that records lead to, the latest used."""

_records: Final[Any] = TypeAdapter(ConversationRecord)


class FoldlogConversationStore(OnStore, ConversationStore):
    """Keeps conversations: `await FoldlogConversationStore(store).save(result)`.

    A save is one append, all of it or nothing. Of two that go on from the same revision, in
    whichever processes, the first one counts, and the other raises `ConversationConflict`. A
    conversation holds all entries of its history, a fork its own copies under the same ids: it
    loses nothing when the one that it was forked from is deleted or erased.

    While a conversation waits for tool calls to be approved or made, it is in `store.waiting()`.

    Every method raises LogUnavailable and LogCorrupt as `Store.view`; those that write also
    PayloadError for what cannot be stored, RedactionFailed, AppendFailed and AppendUnknown as
    `Store.append`. Reads see what any process has saved before the call, and raise Unreadable for
    what this Pydantic AI cannot read.

    Args:
        store: from `foldlog.connect`, `foldlog.memory_store` or `foldlog.blocking.connect`. It
            stays open when this object goes.
    """

    def __init__(self, store: AnyStore) -> None:
        self._do = access_to(store).acall
        self._places: dict[str, str] = {}
        self._consistency: Consistency = "strong"

    async def save(self, conversation: Any, *, scope: str | None = None) -> list[ConversationEntry]:
        """Store a conversation, or that of a run's result, and its new messages.

        This process's memory says what is new; the append takes effect only if memory was right.
        Otherwise the log says it.

        Args:
            scope: whose the conversation is. None: as it was saved before.

        Returns:
            The entries that were new, in order.

        Raises:
            ConversationConflict: the log has another revision, or the conversation another scope.
        """
        remembering = copy(self)
        remembering._consistency = "session"
        entries: list[ConversationEntry]
        try:
            entries = await ConversationStore.save(remembering, conversation, scope=scope)
        except (ConversationConflict, KeyError):  # memory may lack another conversation's entries
            entries = await super().save(conversation, scope=scope)
        return entries

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation, or None. InvalidId: the id is empty."""
        return await self._do(lambda store: self._record(store, conversation_id))

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> list[ConversationRecord]:
        """Return the records, or those of a scope, saved last first, and at most `limit`.

        It reads every conversation that is not in memory, and leaves out what is Unreadable.
        """

        async def read(store: Store) -> list[ConversationRecord | None]:
            keys = await store.keys(kind)
            return await side_by_side(keys, lambda key: self._readable(store, key.keys[0]))

        records = [each for each in await self._do(read) if each is not None]
        if scope is not None:
            records = [each for each in records if each.scope == scope]
        return sorted(records, key=lambda each: each.updated_at, reverse=True)[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and its new entries, in place of the record with `expected_revision`.

        Raises:
            ConversationConflict: as the contract says, and where an entry before the new ones is
                gone. Nothing of it takes effect.
        """
        if not isinstance(record, ConversationRecord):
            raise PayloadError("record", f"{shown(record)} is no ConversationRecord")
        id, entries = checked_id(record.conversation_id, "conversation_id"), list(new_entries)
        is_new = record.head_id in {each.id for each in entries}
        root = entries[0].parent_id if is_new else record.head_id
        fields = _dump(_records, record)
        carried = {name: fields.pop(name) for name in _CARRIED}
        messages = _dump(ModelMessagesTypeAdapter, [each.message for each in entries])

        async def write(store: Store) -> None:
            # What the caller has read before is in memory, and the log decides in any case.
            has = await store.view(kind(id), lambda found: root in found.entries)
            try:
                shared = [] if root is None or has else await self._history(store, root)
            except LookupError:
                raise ConversationConflict(id) from None
            links = [(each, entry.parent) for each, entry in shared]
            links += [(each.id, each.parent_id) for each in entries]
            bodies = [*(codec.decode(entry.message) for _, entry in shared), *messages]
            about = (record.revision, record.head_id, fields, carried, expected_revision)
            asks = record.deferred_tool_requests is not None
            saved = Saved(*about, tuple(links), bodies)
            check_redacted(store, kind(id), saved)
            await write_one(store, id, saved, record if asks else None)
            self._remember(record)

        await self._do(write)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a conversation with its entries; forks keep theirs.

        No read of the present shows it. Earlier moments do, until `store.erase_session(
        conversation_id)` has no file hold it any more, nor what was there before it.

        Raises:
            ConversationConflict: it has another revision, or is not there.
        """

        deleted = Deleted(uuid4().hex, expected_revision)
        await self._do(lambda store: write_one(store, conversation_id, deleted, None))

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return an entry. An id alone does not say where it is: this looks at all conversations.

        `load_entries` is quicker. KeyError: there is no such entry.
        """
        [entry] = await self.read_history(entry_id, limit=1)
        return entry

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """Return the entries up to one, in order, or the last `limit`. KeyError: it is gone."""
        if head_id is None:
            return []
        found = await self._do(lambda store: self._history(store, head_id, limit))
        bodies = [codec.decode(entry.message) for _, entry in found]
        messages = load(ModelMessagesTypeAdapter, bodies, self._places.get(head_id, head_id))
        return [
            ConversationEntry(id=id, parent_id=entry.parent, message=message)
            for (id, entry), message in zip(found, messages, strict=True)
        ]

    async def _readable(self, store: Store, id: str) -> ConversationRecord | None:
        with suppress(Unreadable):
            return await self._record(store, id)
        return None

    async def _record(self, store: Store, id: str) -> ConversationRecord | None:
        found = await self._read_state(store, id, lambda found: (found.record, found.carried))
        if not found[0]:
            return None
        first, carried = map(codec.decode, found)
        # A fork of the store's session reads what was saved under its origin's id.
        record: ConversationRecord = load(_records, {**first, **carried, "conversation_id": id}, id)
        self._remember(record)
        return record

    def _remember(self, record: ConversationRecord) -> None:
        """Remember where the entries are that a record leads to."""
        for each in (record.head_id, *record.branches):
            if each is not None:
                self._places.pop(each, None)
                self._places[each] = record.conversation_id
        while len(self._places) > _PLACES:
            del self._places[next(iter(self._places))]

    async def _history(
        self, store: Store, head: str, limit: int | None = None
    ) -> list[tuple[str, Entry]]:
        """The entries up to one, wherever it is. KeyError: it is nowhere."""

        def read(found: Conversation) -> list[tuple[str, Entry]]:
            return [*found.upto(head, limit)][::-1]

        with suppress(KeyError):  # it is not remembered, or no longer there
            return await self._read_state(store, self._places[head], read)
        for key in await store.keys(kind):
            if await self._read_state(store, key.keys[0], lambda found: head in found.entries):
                return await self._read_state(store, key.keys[0], read)
        raise KeyError(head)

    async def _read_state(self, store: Store, id: str, question: Callable[[Conversation], T]) -> T:
        return await store.view(kind(id), question, consistency=self._consistency)


def _dump(adapter: Any, value: Any) -> Any:
    """A value as JSON has it. PayloadError: it has no such form."""
    try:
        return adapter.dump_python(value, mode="json")
    except ValueError as error:
        raise PayloadError("conversation", str(error)) from error
