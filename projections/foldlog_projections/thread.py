"""A thread as its records leave it: checkpoints by namespace, their values, and who holds it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from foldlog_projections.bodies import (
    Body,
    Since,
    Version,
    pack,
    packed,
    unpack,
    unpacked,
)
from foldlog_projections.checkpointrecords import Put, Reason, Typed, Value, Write, Written

_PLACE_BYTES: Final = 8


class Checkpoint(msgspec.Struct, frozen=True, gc=False):
    """A checkpoint as the fold has it. It never changes."""

    id: str
    parent: str | None
    rest: Typed
    metadata: Typed
    versions: dict[str, Version]
    seen: dict[str, dict[str, Version]]


class Hold(msgspec.Struct, array_like=True, frozen=True):
    """Who holds a thread; `until` is when the lease ends, by the log's clock."""

    token: str
    thread: str
    holder: str
    lease: float
    until: float


class Pending(msgspec.Struct, frozen=True, gc=False):
    """A write as the fold has it: of which task, at which place in the graph."""

    task: str
    path: str
    write: Write


class Row(NamedTuple):
    """A checkpoint with its values by channel, and what was written after it, in order."""

    ns: str
    checkpoint: Checkpoint
    values: dict[str, Body]
    writes: list[Pending]


@dataclass(slots=True)
class Namespace:
    """The checkpoints of one namespace; `ids` are theirs, ascending."""

    checkpoints: dict[str, Checkpoint] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)
    bodies: dict[tuple[str, Version], Body] = field(default_factory=dict)
    writes: dict[str, dict[tuple[str, int], Pending]] = field(default_factory=dict)

    def values(self, checkpoint: Checkpoint) -> dict[str, Body]:
        """The values of a checkpoint's channels; a channel without one is not there."""
        found = {}
        for item in checkpoint.versions.items():
            body = self.bodies.get(item)
            if body is not None:
                found[item[0]] = body
        return found

    def written(self, id: str) -> list[Pending]:
        """What was written after a checkpoint, by path, task and index."""
        writes = self.writes.get(id)
        if not writes:
            return []
        return sorted(writes.values(), key=lambda each: (each.path, each.task, each.write.index))

    def remove(self, ids: Set[str]) -> None:
        """Remove checkpoints, what was written after them, and the values that no other has."""
        self.ids = [id for id in self.ids if id not in ids]
        for id in ids:
            self.checkpoints.pop(id, None)
            self.writes.pop(id, None)
        used = {item for each in self.checkpoints.values() for item in each.versions.items()}
        self.bodies = {item: body for item, body in self.bodies.items() if item in used}


class Again(msgspec.Struct, array_like=True):
    """A record that makes a thread hold a part of what another one does."""

    put: Put | None = None
    written: Written | None = None


class Kept(msgspec.Struct, array_like=True):
    """A thread as bytes: what makes an empty one hold the same."""

    records: bytes
    hold: Hold | None
    refused: dict[str, Reason]
    gone: bytes
    copying: dict[str, list[bytes]]


class Remains(msgspec.Struct, array_like=True, frozen=True):
    """What a clearing leaves of a thread: the places of all checkpoints, and who holds it."""

    gone: bytes
    hold: Hold | None


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Kept).decode
_decode_records: Final = msgspec.msgpack.Decoder(list[Again]).decode
_decode_remains: Final = msgspec.msgpack.Decoder(Remains).decode


class Thread:
    """A thread's checkpoints by namespace, and who holds it.

    Attributes:
        refused: the latest records that had no effect.
        gone: the places of all checkpoints that were ever removed, as `place_of` has them.
        copying: the parts that have come of copies of other threads.
    """

    __slots__ = ("copying", "gone", "hold", "namespaces", "refused")
    __hash__ = None  # type: ignore[assignment]  # it changes

    def __init__(self) -> None:
        self.namespaces: dict[str, Namespace] = {}
        self.hold: Hold | None = None
        self.refused: dict[str, Reason] = {}
        self.gone: set[int] = set()
        self.copying: dict[str, list[bytes]] = {}

    def __bool__(self) -> bool:
        return any(each.checkpoints for each in self.namespaces.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thread) and self.keep() == other.keep()

    def __repr__(self) -> str:
        return f"<Thread of {sum(len(each.ids) for each in self.namespaces.values())} checkpoints>"

    def namespace(self, ns: str) -> Namespace:
        """A namespace, which is made if it is not there."""
        found = self.namespaces.get(ns)
        if found is None:
            found = self.namespaces[ns] = Namespace()
        return found

    def holds_another(self, thread_id: str) -> bool:
        """Whether what is held is the thread that this one is a fork of."""
        return self.hold is not None and self.hold.thread != thread_id

    def admits(self, token: str, at: float) -> bool:
        """Whether the run with that token, "" for none, may write to it at a time."""
        if self.hold is None:
            return not token
        return token == self.hold.token or (not token and at > self.hold.until)

    def checkpoint(self, ns: str, id: str | None) -> Checkpoint | None:
        """A checkpoint by its id, None if there is none; without an id the latest one."""
        space = self.namespaces.get(ns)
        if space is None:
            return None
        if id is None:
            return space.checkpoints[space.ids[-1]] if space.ids else None
        return space.checkpoints.get(id)

    def is_gone(self, ns: str, id: str | None) -> bool:
        """Whether that checkpoint was removed, and has not come again. None, or "": it was not."""
        if not id or not self.gone or place_of(ns, id) not in self.gone:
            return False
        return self.checkpoint(ns, id) is None

    def put(self, put: Put) -> bool:
        """Take a checkpoint in, unless it refers to what is not there."""
        old = self.checkpoint(put.ns, put.base) if put.base else None
        if put.base and old is None:
            return False
        space = self.namespace(put.ns)
        strings = dict[str, Version]()
        versions = dict(old.versions) if old is not None else {}
        for channel in put.dropped:
            versions.pop(channel, None)
        versions |= unpacked(put.versions, strings)
        seen = dict(old.seen) if old is not None else {}
        for node in put.unseen:
            seen.pop(node, None)
        for node, changed in put.seen.items():
            seen[node] = seen.get(node, {}) | unpacked(changed, strings)
        bodies = {}
        for channel, value in put.values.items():
            base = None
            if value.since is not None:
                base = space.bodies.get((channel, unpack(value.since)))
                if base is None:
                    return False
            body = Body.following(base, value.form, value.head, value.pieces)
            bodies[channel, versions[channel]] = body
        space.bodies |= bodies
        if not space.ids or put.id > space.ids[-1]:
            space.ids.append(put.id)
        elif put.id not in space.checkpoints:
            insort(space.ids, put.id)
        space.checkpoints[put.id] = Checkpoint(
            put.id, put.parent, put.rest, put.metadata, versions, seen
        )
        return True

    def write(self, written: Written) -> None:
        """Take in what a task wrote."""
        writes = self.namespace(written.ns).writes.setdefault(written.id, {})
        for each in written.writes:
            place = written.task, each.index
            if each.index < 0 or place not in writes:
                writes[place] = Pending(written.task, written.path, each)

    def remove(self, ns: str, ids: Set[str]) -> None:
        """Remove checkpoints with all that is theirs, and remember that they are gone."""
        if ns in self.namespaces:
            self.namespaces[ns].remove(ids)
        self.gone.update(place_of(ns, id) for id in ids)

    def row(self, ns: str, checkpoint: Checkpoint) -> Row:
        """A checkpoint that the thread holds, with what belongs to it."""
        space = self.namespaces[ns]
        return Row(ns, checkpoint, space.values(checkpoint), space.written(checkpoint.id))

    def newest_first(self, ns: str | None, before: str | None) -> Iterator[tuple[str, Checkpoint]]:
        """The checkpoints of a namespace, or of all, with ids below `before`."""
        spaces = self.namespaces if ns is None else {ns: self.namespaces.get(ns, Namespace())}
        found = []
        for name, space in spaces.items():
            ids = space.ids if before is None else space.ids[: bisect_left(space.ids, before)]
            found += [(id, name) for id in ids]
        if len(spaces) > 1:
            found.sort()
        for id, name in reversed(found):
            yield name, self.namespaces[name].checkpoints[id]

    def records(self) -> list[Put | Written]:
        """Records that make an empty thread hold what this one does."""
        found: list[Put | Written] = []
        for ns in sorted(self.namespaces):
            space, has = self.namespaces[ns], set[tuple[str, Version]]()
            put = set[str]()
            for id in space.ids:
                found.append(_put_again(ns, space, space.checkpoints[id], put, has))
                put.add(id)
            for id in sorted(space.writes):
                for each in space.written(id):
                    key = f"{ns}/{id}/{each.task}/{each.write.index}"
                    found.append(Written(key, id, each.task, (each.write,), ns, each.path))
        return found

    def copied(self) -> bytes:
        """What `take` has another thread hold as well: all checkpoints, and what was written."""
        records = [
            Again(put=each) if isinstance(each, Put) else Again(written=each)
            for each in self.records()
        ]
        return _encode(records)

    def take(self, copied: bytes) -> None:
        """Hold what another thread holds."""
        for again in _decode_records(copied):
            if again.put is not None:
                self.put(again.put)
            if again.written is not None:
                self.write(again.written)

    def keep(self) -> bytes:
        """All of it as bytes: equal threads have equal bytes."""
        gone = _joined(self.gone)
        return _encode(Kept(self.copied(), self.hold, self.refused, gone, self.copying))

    @classmethod
    def restore(cls, kept: bytes) -> Thread:
        """The thread of which `keep` made the bytes."""
        found, thread = _decode(kept), cls()
        thread.take(found.records)
        thread.hold, thread.refused = found.hold, found.refused
        thread.gone, thread.copying = _places_in(found.gone), found.copying
        return thread

    def remains(self) -> bytes:
        """What a clearing leaves: the places of all checkpoints that it has, or has removed.

        Who holds it still does, without the name: users may have written that.
        """
        held = {place_of(ns, id) for ns, space in self.namespaces.items() for id in space.ids}
        hold = None if self.hold is None else replace(self.hold, holder="another run")
        return _encode(Remains(_joined(held | self.gone), hold))

    @classmethod
    def after_clearing(cls, remains: bytes) -> Thread:
        """The thread of which a clearing has left that."""
        left, thread = _decode_remains(remains), cls()
        thread.gone, thread.hold = _places_in(left.gone), left.hold
        return thread


def place_of(ns: str, id: str) -> int:
    """A hash of where a checkpoint stands in a thread."""
    return int.from_bytes(blake2b(f"{ns}\0{id}".encode(), digest_size=_PLACE_BYTES).digest())


def _joined(places: Set[int]) -> bytes:
    """Places as bytes, in order."""
    return b"".join(each.to_bytes(_PLACE_BYTES) for each in sorted(places))


def _places_in(joined: bytes) -> set[int]:
    """The places that `_joined` was given."""
    found = range(0, len(joined), _PLACE_BYTES)
    return {int.from_bytes(joined[at : at + _PLACE_BYTES]) for at in found}


def changes(
    old: Checkpoint | None,
    versions: Mapping[str, Version],
    seen: Mapping[str, Mapping[str, Version]],
) -> dict[str, Any]:
    """The fields of a Put that say how its versions differ from those of a checkpoint."""
    if old is None:
        return {
            "versions": packed(versions),
            "seen": {node: packed(each) for node, each in seen.items()},
        }
    unseen = [
        node
        for node, each in old.seen.items()
        if node not in seen or not each.keys() <= seen[node].keys()
    ]
    found = {}
    for node, each in seen.items():
        before = {} if node in unseen else old.seen.get(node, {})
        if each != before or (node in unseen):
            found[node] = packed({n: v for n, v in each.items() if before.get(n) != v})
    return {
        "versions": packed({n: v for n, v in versions.items() if old.versions.get(n) != v}),
        "dropped": tuple(n for n in old.versions if n not in versions),
        "seen": found,
        "unseen": tuple(unseen),
    }


def value_of(form: str, data: bytes, base: Body | None, since: Since) -> Value:
    """A value as its bytes differ from those of another version."""
    head, pieces = Body.of(form, data).since(base)
    return Value(form, head, pieces, None if base is None or since is None else pack(since))


def _put_again(
    ns: str,
    space: Namespace,
    checkpoint: Checkpoint,
    put: set[str],
    has: set[tuple[str, Version]],
) -> Put:
    old = space.checkpoints[checkpoint.parent] if checkpoint.parent in put else None
    values = {}
    for item in checkpoint.versions.items():
        channel, _ = item
        body = space.bodies.get(item)
        if body is None or item in has:
            continue
        since = None if old is None else old.versions.get(channel)
        base = None if since is None else space.bodies.get((channel, since))
        head, pieces = body.since(base)
        values[channel] = Value(
            body.form, head, pieces, None if base is None or since is None else pack(since)
        )
        has.add(item)
    return Put(
        f"{ns}/{checkpoint.id}",
        checkpoint.id,
        checkpoint.rest,
        checkpoint.metadata,
        ns,
        checkpoint.parent,
        "" if old is None else old.id,
        values=values,
        **changes(old, checkpoint.versions, checkpoint.seen),
    )
