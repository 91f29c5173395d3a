"""The state of one agent, key by key, as its turns have left it.
from foldlog.kind import Fold, Kind

A turn is one change of several keys. Values come as deltas to what stood before: writers
compare-and-set. They are put together when somebody reads the key, not when the turn is folded: a
state that nobody touches stays encoded, and is never copied.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind
from foldlog_projections.delta import patch

TURNED: Final = "agent.turned"


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of a key: a delta to its value, or nothing if it is gone.

    `type` and `schema` are the name and the version of the model that wrote it. A `private` value
    is never exported.
    """

    key: str
    delta: msgspec.Raw = msgspec.Raw(b"\xc0")
    type: str = ""
    schema: int = 1
    private: bool = False
    gone: bool = False


class Turned(msgspec.Struct, frozen=True, omit_defaults=True):
    """`agent.turned`: a turn is complete. `label`: what it was, for whoever reads the log.

    A large one comes in parts, which take effect together with the last: those that name the turn
    and are `partial` wait for it, and are void if another turn comes first.
    """

    changes: tuple[Change, ...]
    turn: str = ""
    label: str = ""
    partial: bool = False


class Entry:
    """One key's value as of one version. It never changes, though it may come to be put together.

    `version` is the sequence at which it was written, `ts` the writer's clock in Unix seconds.
    """

    __slots__ = ("_base", "_deltas", "_taken", "private", "schema", "ts", "type", "version")

    def __init__(
        self,
        type: str,
        schema: int,
        private: bool,
        version: int,
        ts: float,
        base: bytes = b"\xc0",
        deltas: list[bytes] | None = None,
    ) -> None:
        self.type = type
        self.schema = schema
        self.private = private
        self.version = version
        self.ts = ts
        self._base = base
        self._deltas = [] if deltas is None else deltas
        self._taken = len(self._deltas)

    @property
    def raw(self) -> bytes:
        """The value, encoded.

        Raises:
            msgspec.MsgspecError: a delta is to another value.
        """
        if self._taken:
            value = _native.decode(self._base)
            try:
                for delta in self._deltas[: self._taken]:
                    value = patch(value, _native.decode(delta))
            except (AttributeError, LookupError, TypeError, ValueError) as fault:
                raise msgspec.ValidationError(f"a delta to another value: {fault!r}") from fault
            self._base, self._deltas, self._taken = _encode(value), [], 0
        return self._base

    def followed_by(self, change: Change, version: int, ts: float) -> Entry:
        """The entry after a change."""
        # Entries in a row share their list of deltas: each knows how many of them are its own.
        deltas = self._deltas
        if self._taken != len(deltas):
            deltas = deltas[: self._taken]
        deltas.append(bytes(change.delta))
        return Entry(change.type, change.schema, change.private, version, ts, self._base, deltas)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and _kept(self) == _kept(other)

    __hash__ = None  # type: ignore[assignment]  # by value, and nobody needs it


@dataclass(slots=True)
class AgentState:
    """`waiting` are the changes of the turn named `turn` that is not complete."""

    entries: dict[str, Entry] = field(default_factory=dict)
    turn: str = ""
    waiting: list[Change] = field(default_factory=list)


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    type: str
    schema: int
    private: bool
    version: int
    ts: float
    raw: bytes


class _KeptState(msgspec.Struct, frozen=True, array_like=True):
    entries: dict[str, _Kept]
    turn: str
    waiting: list[Change]


_turned: Final = msgspec.msgpack.Decoder(Turned)
_kept_state: Final = msgspec.msgpack.Decoder(_KeptState)
_native: Final[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder()
_encode: Final = msgspec.msgpack.Encoder().encode


def initial() -> AgentState:
    """No turn was taken."""
    return AgentState()


def apply(state: AgentState, envelope: Recorded, /) -> AgentState:
    """Fold a turn in. Entries are replaced, never changed: whoever has one may keep it."""
    turned = _turned.decode(envelope.payload)
    if turned.turn != state.turn:
        state.turn, state.waiting = turned.turn, []
    if turned.partial:
        state.waiting += turned.changes
        return state
    changes = [*state.waiting, *turned.changes]
    state.turn, state.waiting = "", []
    for change in changes:
        if change.gone:
            state.entries.pop(change.key, None)
            continue
        before = state.entries.get(change.key) or Entry("", 1, False, 0, 0.0)
        state.entries[change.key] = before.followed_by(change, envelope.seq, envelope.ts)
    return state


def keep(state: AgentState, /) -> bytes:
    """The state as bytes."""
    entries = {key: _kept(entry) for key, entry in state.entries.items()}
    return _encode(_KeptState(entries, state.turn, state.waiting))


def restore(kept: bytes, /) -> AgentState:
    """The state that `keep` was given.

    Raises:
        msgspec.MsgspecError: the bytes are of no such state.
    """
    state = _kept_state.decode(kept)
    entries = {
        key: Entry(held.type, held.schema, held.private, held.version, held.ts, held.raw)
        for key, held in state.entries.items()
    }
    return AgentState(entries, state.turn, state.waiting)


def _kept(entry: Entry) -> _Kept:
    return _Kept(entry.type, entry.schema, entry.private, entry.version, entry.ts, entry.raw)


kind = Kind(
    "agentstates",
    keys=("runtime", "scope"),
    records={TURNED: Turned},
    fold=Fold(initial, apply, keep, restore),
    redacted={TURNED: ("state", "label")},
)
