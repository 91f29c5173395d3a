"""The state of one agent, key by key, as its turns have left it.

A turn is one change of several keys. Values come as deltas to the value before: writers
compare-and-set. Reading a key puts its value together; folding a turn copies nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, ClassVar, Final

import msgspec

from foldlog import codec
from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind
from foldlog.words import Line, Shown
from foldlog_projections.agents import agentlist
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
    """`agent.turned`: a turn is complete. `label` describes it to readers of the log.

    A large one comes in parts, which take effect together with the last: those that name the turn
    and are `partial` wait for it, and are void if another turn comes first. A large delta is cut:
    changes of one key, in a row, that hold bytes are its parts.
    """

    changes: tuple[Change, ...]
    turn: str = ""
    label: str = ""
    partial: bool = False


class Entry(msgspec.Struct, array_like=True, eq=False):
    """One key's value as of one version. The value never changes; its encoding may.

    `version` is the sequence at which it was written, `ts` the writer's clock in Unix seconds.
    The value is `base` after the first `count` of `deltas`, all encoded.
    """

    type: str
    schema: int
    private: bool
    version: int
    ts: float
    base: bytes = b"\xc0"
    deltas: list[bytes] = []
    count: int = 0

    @property
    def raw(self) -> bytes:
        """The value, encoded.

        Raises:
            msgspec.MsgspecError: a delta is to another value.
        """
        if self.count:
            value = _native.decode(self.base)
            for delta in self.deltas[: self.count]:
                value = patch(value, _native.decode(delta))
            self.base, self.deltas, self.count = _encode(value), [], 0
        return self.base

    def followed_by(self, change: Change, version: int, ts: float) -> Entry:
        """The entry after a change."""
        # Entries in a row share their list of deltas: each knows how many of them are its own.
        deltas = self.deltas if self.count == len(self.deltas) else self.deltas[: self.count]
        deltas.append(bytes(change.delta))
        about = change.type, change.schema, change.private, version, ts
        return Entry(*about, self.base, deltas, len(deltas))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entry):
            return False
        return self.raw == other.raw and _encode(self) == _encode(other)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # it may be put together


@dataclass(slots=True)
class AgentState:
    """`waiting` are the changes of the turn named `turn` that is not complete."""

    entries: dict[str, Entry] = field(default_factory=dict)
    turn: str = ""
    waiting: list[Change] = field(default_factory=list)


_BYTES: Final = (0xC4, 0xC5, 0xC6)
"""With one of these MessagePack begins bytes."""

_native: Final[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder()
_encode: Final = msgspec.msgpack.Encoder().encode


def _apply(state: AgentState, turned: Turned, envelope: Recorded) -> AgentState:
    """Fold a turn in. Entries are replaced, never changed: readers may keep them."""
    if turned.turn != state.turn:
        state.turn, state.waiting = turned.turn, []
    if turned.partial:
        state.waiting += turned.changes
        return state
    changes = [*state.waiting, *turned.changes]
    state.turn, state.waiting = "", []
    for change in _whole(changes):
        if change.gone:
            state.entries.pop(change.key, None)
            continue
        before = state.entries.get(change.key) or Entry("", 1, False, 0, 0.0)
        state.entries[change.key] = before.followed_by(change, envelope.seq, envelope.ts)
    return state


def _whole(changes: Iterable[Change]) -> Iterator[Change]:
    """Changes, with the parts of a delta that was cut put together."""
    for (_, is_cut), group in groupby(changes, key=_key_and_form):
        if is_cut:
            first, *others = group
            parts = (_native.decode(each.delta) for each in (first, *others))
            yield msgspec.structs.replace(first, delta=msgspec.Raw(b"".join(parts)))
        else:
            yield from group


def _key_and_form(change: Change) -> tuple[str, bool]:
    return change.key, memoryview(change.delta)[0] in _BYTES


def _keep(state: AgentState) -> bytes:
    for entry in state.entries.values():
        _ = entry.raw  # put together, so that no deltas stay
    return _encode(state)


def _line(turned: Turned) -> Line:
    return Line(turned.label or "agent turn", ", ".join(each.key for each in turned.changes))


def _entries(state: AgentState) -> dict[str, Any]:
    return {
        name: {"type": each.type, "state": codec.decode(each.raw)}
        for name, each in state.entries.items()
    }


kind: Final = Kind(
    "agentstates",
    keys=("runtime", "scope"),
    listed=[agentlist.listing],
    records={TURNED: Turned},
    fold=Fold(AgentState, _apply, state=AgentState, keep=_keep),
    redacted={TURNED: ("state", "label")},
    shown=Shown({TURNED: _line}, entries=_entries, group="memory"),
)
