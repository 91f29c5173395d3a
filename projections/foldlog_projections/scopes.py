"""The index of one scope: which keys there are, what is known of them, and how they are linked.
from foldlog.kind import Fold, Kind

It holds no values: those stand under the keys' own subjects (`scoped`). Time is the log's: a key
whose time is over goes with the first envelope that the log records afterwards; who reads in
between looks at `expires_at`.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind

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


class _Kept(msgspec.Struct, array_like=True):
    count: int
    entries: list[tuple[str, Entry]]
    gone: list[tuple[str, int]]
    links: list[tuple[str, str, str, bytes]]
    blobs: dict[str, str]


@dataclass(slots=True, eq=False)
class State:
    """`entries` and `gone` (the ordinal at which each key went) stand in the order in which they
    last changed, `keys` sorted. `links` lead from a key to its edges, each with its encoded
    metadata, in the order in which they were made; `incoming` says who links to a key. `count` is
    how many envelopes there were. `blobs` hold values, present and past, by their versions.
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
        return isinstance(other, State) and keep(self) == keep(other)

    __hash__ = None  # type: ignore[assignment]  # it changes


_written: Final = msgspec.msgpack.Decoder(Written)
_deleted: Final = msgspec.msgpack.Decoder(Deleted)
_linked: Final = msgspec.msgpack.Decoder(Linked)
_encoder: Final = msgspec.msgpack.Encoder()
_kept: Final = msgspec.msgpack.Decoder(_Kept)


def initial() -> State:
    """No keys."""
    return State()


def replaces(envelope: Recorded, /) -> str | tuple[str | None, ...]:
    """The key, or the link."""
    if envelope.type in (LINKED, UNLINKED):
        link = _linked.decode(envelope.payload)
        return link.from_key, link.to_key, link.relation
    return _deleted.decode(envelope.payload).key


def apply(state: State, envelope: Recorded, /) -> State:
    """Fold one envelope in, after what was over when the log recorded it."""
    ordinal, now = state.count, envelope.recorded_at
    state.count += 1
    while state.expiring and state.expiring[0][0] <= now:
        _, written, key = heapq.heappop(state.expiring)
        if key in state.entries and state.entries[key].ordinal == written:
            _drop(state, key, ordinal)
    if envelope.type == WRITTEN:
        _write(state, _written.decode(envelope.payload), envelope.id, ordinal, now)
    elif envelope.type == DELETED:
        _drop(state, _deleted.decode(envelope.payload).key, ordinal)
    elif envelope.type == LINKED:
        link = _linked.decode(envelope.payload)
        edges = state.links.setdefault(link.from_key, {})
        edges[link.to_key, link.relation] = bytes(link.metadata)
        state.incoming.setdefault(link.to_key, {})[link.from_key] = None
    elif envelope.type == UNLINKED:
        link = _linked.decode(envelope.payload)
        _unlink(state, link.from_key, (link.to_key, link.relation))
    else:
        raise msgspec.ValidationError(f"{envelope.type} is not known to this version")
    return state


def keep(state: State, /) -> bytes:
    """The state as bytes."""
    links = [
        (from_key, to_key, relation, metadata)
        for from_key, edges in state.links.items()
        for (to_key, relation), metadata in edges.items()
    ]
    entries, gone = list(state.entries.items()), list(state.gone.items())
    return _encoder.encode(_Kept(state.count, entries, gone, links, state.blobs))


def restore(kept: bytes, /) -> State:
    """The state that `keep` was given.

    Raises:
        msgspec.MsgspecError: the bytes are of no such state.
    """
    read = _kept.decode(kept)
    state = State(
        read.count,
        dict(read.entries),
        sorted(key for key, _ in read.entries),
        dict(read.gone),
        blobs=read.blobs,
        expiring=sorted(
            (entry.expires_at, entry.ordinal, key)
            for key, entry in read.entries
            if entry.expires_at
        ),
    )
    for from_key, to_key, relation, metadata in read.links:
        state.links.setdefault(from_key, {})[to_key, relation] = metadata
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
    state.entries[key] = Entry(
        version,
        ordinal,
        now,
        expires_at,
        written.tier,
        written.lifetime,
        written.content_kind,
        written.salience,
        written.size,
    )


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
    fold=Fold(initial, apply, keep, restore, replaces),
    redacted={LINKED: ("metadata",)},
)
