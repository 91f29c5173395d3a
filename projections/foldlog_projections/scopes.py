"""The index of one scope: its keys, their hints, and how they are linked. It holds no values.

Time is the log's: an expired key goes with the next envelope that the log records; readers look
at `expires_at` until then.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind, fields_of

WRITTEN: Final = "scope.written"
DELETED: Final = "scope.deleted"
LINKED: Final = "scope.linked"
UNLINKED: Final = "scope.unlinked"

Edge = tuple[str, str]
"""Where a link leads, and its relation."""


class Written(msgspec.Struct, frozen=True, omit_defaults=True):
    """`scope.written`: the key has a new value; the other fields are those of `scoped.written`.

    `size` is in bytes, of the encoded value.
    """

    key: str
    tier: str = ""
    lifetime: str = ""
    content_kind: str = ""
    salience: float | None = None
    ttl: int = -1
    size: int = 0
    blob: str = ""


class Deleted(msgspec.Struct, frozen=True):
    """`scope.deleted`: the key is gone, and with it every link from it and to it."""

    key: str


class Linked(msgspec.Struct, frozen=True, omit_defaults=True):
    """`scope.linked` and `scope.unlinked`; `metadata` is an encoded payload."""

    from_key: str
    to_key: str
    relation: str
    metadata: msgspec.Raw = msgspec.Raw(b"\xc0")


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A key that has a value. `version` is the id of the envelope that wrote it, `ordinal` which
    envelope of the scope that was. Times in Unix seconds; `expires_at` 0 for never.
    """

    version: str
    ordinal: int
    recorded_at: float
    expires_at: float = 0.0
    tier: str = ""
    lifetime: str = ""
    content_kind: str = ""
    salience: float | None = None
    size: int = 0

    def is_over(self, now: float) -> bool:
        """Whether its time is over; `now` in Unix seconds."""
        return self.expires_at != 0.0 and self.expires_at <= now


@dataclass(slots=True, eq=False)
class State:
    """`entries` and `gone` (the ordinal at which each key went) are in the order of last changes,
    `keys` sorted. `links` lead from a key to its edges, each with its encoded metadata, in the
    order in which they were made; `incoming` has the keys that link to a key. `count` is the number
    of envelopes. `blobs` hold values, present and past, by their versions.
    """

    count: int = 0
    entries: dict[str, Entry] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    gone: dict[str, int] = field(default_factory=dict)
    links: dict[str, dict[Edge, bytes]] = field(default_factory=dict)
    incoming: dict[str, dict[str, None]] = field(default_factory=dict)
    blobs: dict[str, str] = field(default_factory=dict)
    expiring: list[tuple[float, int, str]] = field(default_factory=list)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and _keep(self) == _keep(other)

    __hash__ = None  # type: ignore[assignment]  # it changes


_encode: Final = msgspec.msgpack.Encoder().encode
_decoder: Final = msgspec.msgpack.Decoder(
    tuple[int, dict[str, Entry], dict[str, int], dict[str, dict[Edge, bytes]], dict[str, str]]
)
_key: Final = fields_of("key")
_link: Final = fields_of("from_key", "to_key", "relation")


def _replaced(envelope: Recorded) -> Any:
    """The key, or the link."""
    return (_link if envelope.type in (LINKED, UNLINKED) else _key)(envelope)


def _apply(state: State, record: Any, envelope: Recorded) -> State:
    """Fold one record in, after the keys whose time was over when the log recorded it."""
    ordinal, now = state.count, envelope.recorded_at
    state.count += 1
    while state.expiring and state.expiring[0][0] <= now:
        _, written, key = heapq.heappop(state.expiring)
        if key in state.entries and state.entries[key].ordinal == written:
            _drop(state, key, ordinal)
    match record:
        case Written():
            _write(state, record, envelope.id, ordinal, now)
        case Deleted(key):
            _drop(state, key, ordinal)
        case Linked(from_key, to_key, relation, metadata) if envelope.type == LINKED:
            state.links.setdefault(from_key, {})[to_key, relation] = bytes(metadata)
            state.incoming.setdefault(to_key, {})[from_key] = None
        case Linked(from_key, to_key, relation):
            _unlink(state, from_key, (to_key, relation))
    return state


def _keep(state: State) -> bytes:
    return _encode((state.count, state.entries, state.gone, state.links, state.blobs))


def _restore(kept: bytes) -> State:
    """The state that was kept, with its indexes built anew."""
    count, entries, gone, links, blobs = _decoder.decode(kept)
    expiring = sorted(
        (entry.expires_at, entry.ordinal, key) for key, entry in entries.items() if entry.expires_at
    )
    state = State(count, entries, sorted(entries), gone, links, blobs=blobs, expiring=expiring)
    for from_key, edges in links.items():
        for to_key, _ in edges:
            state.incoming.setdefault(to_key, {})[from_key] = None
    return state


def with_prefix(state: State, prefix: str) -> list[str]:
    """The keys that begin with `prefix`, sorted; those included whose time is over."""
    keys, start = state.keys, bisect_left(state.keys, prefix)
    if not prefix:
        return keys[:]
    end = bisect_left(keys, True, lo=start, key=lambda key: not key.startswith(prefix))
    return keys[start:end]


def _write(state: State, written: Written, version: str, ordinal: int, now: float) -> None:
    key = written.key
    if state.entries.pop(key, None) is None:
        insort(state.keys, key)
        state.gone.pop(key, None)
    expires_at = now + written.ttl / 1000 if written.ttl >= 0 else 0.0
    if expires_at:
        heapq.heappush(state.expiring, (expires_at, ordinal, key))
    if written.blob:
        state.blobs[version] = written.blob
    hints = written.tier, written.lifetime, written.content_kind, written.salience
    state.entries[key] = Entry(version, ordinal, now, expires_at, *hints, written.size)


def _drop(state: State, key: str, ordinal: int) -> None:
    if state.entries.pop(key, None) is None:
        return
    del state.keys[bisect_left(state.keys, key)]
    state.gone[key] = ordinal
    for edge in list(state.links.get(key, ())):
        _unlink(state, key, edge)
    for from_key in list(state.incoming.get(key, ())):
        for edge in [edge for edge in state.links[from_key] if edge[0] == key]:
            _unlink(state, from_key, edge)


def _unlink(state: State, from_key: str, edge: Edge) -> None:
    edges = state.links.get(from_key)
    if edges is None or edges.pop(edge, None) is None:
        return
    to_key = edge[0]
    if not any(other == to_key for other, _ in edges):
        sources = state.incoming[to_key]
        del sources[from_key]
        if not sources:
            del state.incoming[to_key]
    if not edges:
        del state.links[from_key]


kind = Kind(
    "scopes",
    keys=("scope",),
    records={WRITTEN: Written, DELETED: Deleted, LINKED: Linked, UNLINKED: Linked},
    fold=Fold(State, _apply, keep=_keep, restore=_restore, replaces=_replaced),
    redacted={LINKED: ("metadata",)},
)
