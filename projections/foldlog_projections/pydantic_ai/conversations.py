"""A conversation as Pydantic AI stores it: a record, and entries that each name the one before.

A save names the revision that its writer has seen. Of those that name the same one, the first in
the log takes effect; the others are void, and change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Content, Fold, Kind
from foldlog.words import Line, Shown, clip, first_text

SAVED: Final = "conversation.saved"
DELETED: Final = "conversation.deleted"


class Saved(msgspec.Struct, frozen=True, omit_defaults=True):
    """`conversation.saved`: a record, and the entries that it adds.

    `revision` is the record's, `expected` the one that it replaces; None: there is no other.
    `record` has the record's ids and times, `carried` its other fields. `entries` are ids, each
    with that of the entry before; `messages` are theirs, in order.
    """

    revision: str
    head: str | None
    record: Any
    carried: Content[Any]
    expected: str | None = None
    entries: tuple[tuple[str, str | None], ...] = ()
    messages: Content[list[Any]] = []


class Deleted(msgspec.Struct, frozen=True):
    """`conversation.deleted`: there is none any more. `revision` names the deletion itself."""

    revision: str
    expected: str


class _Saved(msgspec.Struct):
    """As Saved, without decoding what it holds."""

    revision: str
    head: str | None
    record: msgspec.Raw
    carried: msgspec.Raw
    expected: str | None = None
    entries: tuple[tuple[str, str | None], ...] = ()
    messages: list[msgspec.Raw] = []


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """An entry: the one before it, and its message, encoded."""

    parent: str | None
    message: bytes


class Conversation(msgspec.Struct):
    """What a conversation is. Without a `revision` there is none.

    `record` and `carried` are encoded. `void` are the revisions of saves without effect.
    """

    revision: str | None = None
    record: bytes = b""
    carried: bytes = b""
    entries: dict[str, Entry] = msgspec.field(default_factory=dict)
    void: set[str] = msgspec.field(default_factory=set)

    def __bool__(self) -> bool:
        return self.revision is not None

    def upto(self, id: str | None, limit: int | None = None) -> Iterator[tuple[str, Entry]]:
        """Yield an entry and those before it, the latest first; `limit` at most.

        Raises:
            KeyError: one of them is not there.
        """
        while id is not None and limit != 0:
            entry = self.entries[id]
            yield id, entry
            id, limit = entry.parent, None if limit is None else limit - 1


_decode_saved: Final = msgspec.msgpack.Decoder(_Saved).decode
_decode_deleted: Final = msgspec.msgpack.Decoder(Deleted).decode


def _apply(state: Conversation, envelope: Recorded, /) -> Conversation:
    if envelope.type == DELETED:
        deleted = _decode_deleted(envelope.payload)
        if deleted.expected == state.revision:
            return Conversation(void=state.void)
        state.void.add(deleted.revision)
    elif envelope.type == SAVED:
        saved = _decode_saved(envelope.payload)
        if saved.expected == state.revision:
            for (id, parent), message in zip(saved.entries, saved.messages, strict=False):
                state.entries[id] = Entry(parent, bytes(message))
            state.revision = saved.revision
            state.record, state.carried = bytes(saved.record), bytes(saved.carried)
        else:
            state.void.add(saved.revision)
    else:
        raise msgspec.ValidationError(f"{envelope.type} is no record of conversations")
    return state


def each_counted(envelopes: Iterable[Recorded]) -> Iterator[Recorded]:
    """Those of these envelopes that take effect; they are all from the first."""
    state = Conversation()
    for envelope in envelopes:
        void = len(state.void)
        state = _apply(state, envelope)
        if len(state.void) == void:
            yield envelope


def _saved(saved: Saved) -> Line:
    return Line("conversation", clip(first_text(saved.messages[-1:])))


kind: Final = Kind(
    "conversations",
    keys=("session_id",),
    owner="session",
    records={SAVED: Saved, DELETED: Deleted},
    fold=Fold(Conversation, _apply, state=Conversation, takes="envelope"),
    shown=Shown(
        {SAVED: _saved, DELETED: "conversation deleted"},
        group="messages",
        audited={SAVED: "session.conversation", DELETED: "session.conversation_deleted"},
        effective=each_counted,
    ),
)
