"""The history of an agent's sessions."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import agent_framework._sessions as sessions
from agent_framework import HistoryProvider, Message

from foldlog.errors import shown
from foldlog.integrations.access import AnyStore, access_to
from foldlog.integrations.objects import items_of, read_as, said_in
from foldlog.opening import Store
from foldlog.subjects import checked_id
from foldlog_projections import messages as conversations

FORMAT: Final = "agent_framework"
"""What the messages say of their shape: `Message.to_dict()`."""


class FoldlogHistoryProvider(HistoryProvider):
    """The history of an agent's sessions: `Agent(..., context_providers=[provider])`.

    It takes the place of `FileHistoryProvider` or `RedisHistoryProvider`. Any number of processes
    may use one session: a message is there once, also if a run gives it again.

    Args:
        store: an open store, or one of `foldlog.blocking.connect()`.
        source_id: names the provider. Each name has a separate conversation in a session; the
            default one has the session's main conversation.
        options: of `HistoryProvider`, as `load_messages=`, `store_inputs=`.

    Raises:
        InvalidId: `source_id` is empty, or no string.
    """

    DEFAULT_SOURCE_ID: ClassVar[str] = "foldlog"

    def __init__(self, store: AnyStore, source_id: str = DEFAULT_SOURCE_ID, **options: Any) -> None:
        super().__init__(checked_id(source_id, "source_id"), **options)
        self._do = access_to(store).acall
        is_main = source_id == self.DEFAULT_SOURCE_ID
        self._conversation = conversations.MAIN if is_main else source_id

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Return the messages of a session, oldest first: all that were acked to anybody before.

        Args:
            state: not used.
            kwargs: not used.

        Raises:
            InvalidId: there is no `session_id`.
            PayloadError: the session has another framework's messages.
            Unreadable: agent_framework cannot read a message.
            LogUnavailable, LogCorrupt: the log did not answer, or cannot be read.
        """
        id = checked_id(session_id or "", "session_id")
        name = self._conversation
        found = await self._do(
            lambda store: store.list_messages(id, conversation=name, consistency="strong")
        )
        return _messages(id, found)

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Add messages to a session: one append, all of them or none. `state` is not used.

        What the end of the history has is left out, as agent_framework's other providers do.

        Raises:
            InvalidId: there is no `session_id`.
            PayloadError: what is given is no message, or holds what cannot be stored.
            RedactionFailed: `redact=` failed. Nothing was added.
            AppendFailed, LogUnavailable: nothing was added.
            AppendUnknown: they may have been added; adding again is safe.
        """
        session = checked_id(session_id or "", "session_id")
        new = items_of(messages, Message, "messages", "Message")

        def choose(found: conversations.Conversations) -> list[conversations.Message]:
            return found[self._conversation].latest(len(new))  # more makes no difference

        async def save(store: Store) -> None:
            end = await store.view(conversations.kind(session), choose)
            added = _filter_new(_messages(session, end), new)
            if stored := [self._stored(each) for each in added]:
                await store.append_messages(session, stored, conversation=self._conversation)

        await self._do(save)

    def _stored(self, message: Message) -> conversations.Message:
        id = uuid.uuid4().hex
        said = (message.to_dict(), str(message.role), message.author_name)
        return conversations.Message(id, FORMAT, *said, conversation=self._conversation)


def _filter_new(existing: list[Message], incoming: list[Message]) -> list[Message]:
    """The messages behind those that the history ends with. Older versions store them again."""
    new = getattr(sessions, "filter_new_messages", None)
    return incoming if new is None else new(existing, incoming)


def _messages(session_id: str, stored: Sequence[conversations.Message]) -> list[Message]:
    what = f"a message of session {shown(session_id)}"
    found = said_in(session_id, stored, FORMAT)
    return [read_as(Message.from_dict, each.body, what) for each in found]
