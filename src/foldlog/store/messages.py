"""Messages: what was said in a session, for agents and frameworks that keep a conversation."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from foldlog.errors import NotFound, VersionConflict
from foldlog.store.operation import nothing, operation
from foldlog.store.primitives import Primitives, checked_cursor, checked_limit
from foldlog.views import Consistency
from foldlog_projections.messages import MAIN, Conversations, Message, MessagesRemoved, kind


class Messages(Primitives):
    """Conversations by session. Clearing or erasing the session removes them."""

    @operation(nothing, writes=True)
    async def append_messages(
        self,
        session_id: str,
        messages: Sequence[Message],
        *,
        conversation: str = MAIN,
        expected: int | None = None,
    ) -> None:
        """Add messages to a conversation, in order, all of them or none.

        A repeat of a message that the conversation has had has no effect, even if it was removed
        since.

        Args:
            session_id: the session.
            messages: the messages; `Message.new` makes one with a fresh id.
            conversation: to which of the session's conversations.
            expected: the conversation's `version` that you have seen. If it has another one,
                nothing is added. None: whatever it is.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
            VersionConflict: the conversation has another version, as `expected` and `actual` say.
            IdTaken: the conversation has another message of that id. If its messages are not in
                memory, the next read raises this, and the message has no effect.
        """
        key = kind(session_id)
        placed = [_placed(each, conversation) for each in messages]
        if expected is None:
            drafts = [self._core.drafted("append_messages", key, each) for each in placed]
            await self._core.append_drafts((self._core.subject(kind, session_id), drafts))
            return

        def add(found: Conversations) -> Sequence[msgspec.Struct]:
            version = found[conversation].version
            if version != expected:
                raise VersionConflict(f"{key} {conversation!r:.80}", expected, version)
            return placed

        await self.decide(key, add, copy=False)

    @operation(list)
    async def list_messages(
        self,
        session_id: str,
        *,
        conversation: str = MAIN,
        after: str | None = None,
        limit: int | None = None,
        consistency: Consistency = "session",
    ) -> list[Message]:
        """Return the messages of a conversation, oldest first; [] for an unknown one.

        Args:
            session_id: the session.
            conversation: which of the session's conversations.
            after: only those behind the message of this id. None: all.
            limit: how many at most: the first ones behind `after`, else the last ones. None: all.
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).

        Raises:
            InvalidId: an id is empty. NotFound: the conversation has no message `after`.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            PayloadError: `limit` is no integer, or `after` no string.
        """
        checked_cursor(after, "after")
        if limit is not None:
            checked_limit(limit)

        def choose(conversations: Conversations) -> list[Message]:
            found = conversations[conversation]
            if after is None:
                return list(found) if limit is None else found.latest(limit)
            if after not in found.encoded:
                raise NotFound("message", after, f"{conversation!r:.80} of {session_id!r:.80}")
            return found.after(after)[: limit if limit is None else max(limit, 0)]

        try:
            return await self.view(kind(session_id), choose, consistency=consistency)
        except NotFound:  # the view may only lag
            return await self.view(kind(session_id), choose, consistency="strong")

    @operation(nothing, writes=True)
    async def pop_message(self, session_id: str, *, conversation: str = MAIN) -> Message | None:
        """Remove the last message of a conversation and return it; None if there is none.

        Exactly one of many callers gets a message.

        Args:
            session_id: the session.
            conversation: which of the session's conversations.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendConflict: others wrote to the view until the time was up. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; read before you try again.
        """
        popped: list[Message] = []

        def pop(found: Conversations) -> Sequence[msgspec.Struct]:
            popped[:] = found[conversation].latest(1)
            return [MessagesRemoved((each.id,), conversation) for each in popped]

        await self.decide(kind(session_id), pop, copy=False)
        return popped[0] if popped else None

    @operation(nothing, writes=True)
    async def delete_messages(self, session_id: str, *, conversation: str = MAIN) -> None:
        """Remove all messages of a conversation.

        Earlier moments still show them. `erase_session`, or `delete` of the kind's view, removes
        them from the log.

        Args:
            session_id: the session.
            conversation: which of the session's conversations.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendConflict: others wrote to the view until the time was up. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; read before you try again.
        """

        def clear(found: Conversations) -> Sequence[msgspec.Struct]:
            return [MessagesRemoved(None, conversation)] if found[conversation] else []

        await self.decide(kind(session_id), clear, copy=False)


def _placed(message: Message, conversation: str) -> Message:
    if not isinstance(message, Message) or message.conversation == conversation:
        return message  # what is no message is refused with the others
    return msgspec.structs.replace(message, conversation=conversation)
