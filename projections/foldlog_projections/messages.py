"""A session's conversations: their messages in order, without those that were removed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import dropwhile, islice
from typing import Any, Final

import msgspec

from foldlog import codec
from foldlog.envelope import Recorded, upsert_id
from foldlog.kind import Content, Fold, Kind
from foldlog.subjects import checked_id
from foldlog.words import Line, Rows, Shown, clip, first_text, said

MAIN: Final = "main"
"""The conversation of a session that needs no more than one."""

ADDED: Final = "message.added"
REMOVED: Final = "message.removed"


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """`message.added`: one message of a conversation.

    Attributes:
        id: its idempotency key in its conversation.
        format: whose shape `body` has: that of a framework, or your own.
        body: the message.
        role: who speaks: "user", "assistant", "tool", "system" or another word.
        author: the speaker's name.
        conversation: which of the session's conversations: a session may have several.
    """

    id: str
    format: str
    body: Content[Any]
    role: str | None = None
    author: str | None = None
    conversation: str = MAIN

    @classmethod
    def new(
        cls, format: str, body: Any, *, role: str | None = None, author: str | None = None
    ) -> Message:
        """Return a message with a fresh id.

        Appending it again, as after an outcome that nobody knows, has no effect. A step of a run
        that is done again makes a new one, so that what it says then is not lost.

        Args:
            format: whose shape `body` has.
            body: the message.
            role: who speaks.
            author: the speaker's name.
        """
        return cls(os.urandom(16).hex(), format, body, role, author)


class MessagesRemoved(msgspec.Struct, frozen=True, omit_defaults=True):
    """`message.removed`: messages are gone from a conversation.

    Attributes:
        ids: which messages; None: all of them.
        conversation: the conversation.
    """

    ids: tuple[str, ...] | None = None
    conversation: str = MAIN


class _Place(msgspec.Struct):
    """As Message, without what it says."""

    id: str
    conversation: str = MAIN


class Conversation(msgspec.Struct):
    """One conversation, made by `store.view(foldlog.kinds.messages(session_id))`.

    Attributes:
        version: counts what was added and removed.
        updated_at: the log's time of the last change, in Unix seconds; 0 before the first.
    """

    encoded: dict[str, bytes] = msgspec.field(default_factory=dict)
    version: int = 0
    updated_at: float = 0.0

    def __len__(self) -> int:
        return len(self.encoded)

    def __contains__(self, id: object) -> bool:
        return id in self.encoded

    def __iter__(self) -> Iterator[Message]:
        """Yield the messages, oldest first."""
        return map(_decode, self.encoded.values())

    def latest(self, limit: int) -> list[Message]:
        """Return the last messages, oldest first.

        Args:
            limit: how many at most.
        """
        newest = islice(reversed(self.encoded.values()), max(limit, 0))
        return [_decode(each) for each in newest][::-1]

    def after(self, id: str) -> list[Message]:
        """Return the messages behind one of them, oldest first.

        Args:
            id: the message's id.
        """
        behind = dropwhile(lambda each: each != id, self.encoded)
        return [_decode(self.encoded[each]) for each in islice(behind, 1, None)]


class Conversations(msgspec.Struct):
    """The conversations of a session, made by `store.view(foldlog.kinds.messages(session_id))`.

    A conversation without messages is empty.

    Attributes:
        by_name: each conversation.
    """

    by_name: dict[str, Conversation] = msgspec.field(default_factory=dict)

    def __getitem__(self, name: str) -> Conversation:
        found = self.by_name.get(name)
        return Conversation() if found is None else found

    def __bool__(self) -> bool:
        return any(self.by_name.values())

    def names(self) -> list[str]:
        """Return the names of those that have messages, in the order in which they began."""
        return [name for name, each in self.by_name.items() if each]


_decode: Final = codec.decoder(Message).decode
_decode_place: Final = msgspec.msgpack.Decoder(_Place).decode
_decode_removed: Final = msgspec.msgpack.Decoder(MessagesRemoved).decode


def _apply(state: Conversations, envelope: Recorded, /) -> Conversations:
    if envelope.type == ADDED:
        name, id = _place_of(envelope)
        found = state.by_name.setdefault(name, Conversation())
        found.encoded[id] = bytes(envelope.payload)
    elif envelope.type == REMOVED:
        removed = _decode_removed(envelope.payload)
        found = state.by_name.setdefault(removed.conversation, Conversation())
        for id in list(found.encoded) if removed.ids is None else removed.ids:
            found.encoded.pop(id, None)
    else:
        raise msgspec.ValidationError(f"{envelope.type} is no record of messages")
    found.version += 1
    found.updated_at = envelope.recorded_at
    return state


def _place_of(envelope: Recorded) -> tuple[str, str]:
    message = _decode_place(envelope.payload)
    return message.conversation, message.id


def _id(record: Message | MessagesRemoved, body: bytes) -> str:
    if isinstance(record, MessagesRemoved):
        return upsert_id(body)
    checked_id(record.conversation, "conversation")
    id = checked_id(record.id, "id")
    if record.conversation == MAIN and "\n" not in id:
        return id
    # Where both may have new lines, the length says which is the first one's end.
    length = len(record.conversation) if "\n" in record.conversation + id else ""
    return f"{length}{record.conversation}\n{id}"


def _line(message: Message) -> Line:
    return Line(message.author or _role(message) or "message", said(message.body))


def _title(message: Message) -> str:
    """What a user has said first is what it is about."""
    return clip(first_text(message.body)) if _role(message) in ("user", "human") else ""


def _role(message: Message) -> str:
    body = message.body if isinstance(message.body, dict) else {}
    named = (message.role, *(body.get(name) for name in ("role", "type", "kind")))
    return next((each for each in named if isinstance(each, str)), "")


def _rows(state: Conversations) -> dict[tuple[str, str], msgspec.Raw]:
    return {
        (name, id): msgspec.Raw(body)
        for name, each in state.by_name.items()
        for id, body in each.encoded.items()
    }


def _changed(record: Message | MessagesRemoved) -> list[tuple[str, str]]:
    return [(record.conversation, record.id)] if isinstance(record, Message) else []


kind: Final = Kind(
    "messages",
    keys=("session_id",),
    owner="session",
    records={ADDED: Message, REMOVED: MessagesRemoved},
    fold=Fold(Conversations, _apply, state=Conversations, takes="envelope"),
    id=_id,
    shown=Shown(
        {ADDED: _line, REMOVED: "messages removed"},
        titles={ADDED: _title},
        rows=Rows("messages", "a message that was not removed", Message, _rows, _changed),
        audited={ADDED: "session.message", REMOVED: "session.message_removed"},
    ),
)
