"""The checkpoints of a thread by namespace, in memory, and the records that make them anew."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from foldlog_projections.langgraph.bodies import (
    Body,
    Since,
    Version,
    pack,
    packed,
    unpack,
    unpacked,
)
from foldlog_projections.langgraph.checkpointrecords import Put, Typed, Value, Write, Written


class Checkpoint(msgspec.Struct, frozen=True, gc=False):
    """A checkpoint as the fold has it. It never changes."""

    id: str
    parent: str | None
    rest: Typed
    metadata: Typed
    versions: dict[str, Version]
    seen: dict[str, dict[str, Version]]


class Pending(msgspec.Struct, frozen=True, gc=False):
    """A write as the fold has it: its task, and its place in the graph."""

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
        """Remove checkpoints with what was written after them."""
        self.ids = [id for id in self.ids if id not in ids]
        for id in ids:
            self.checkpoints.pop(id, None)
            self.writes.pop(id, None)
        self.sweep()

    def sweep(self) -> None:
        """Remove the values that no checkpoint has."""
        used = {item for each in self.checkpoints.values() for item in each.versions.items()}
        self.bodies = {item: body for item, body in self.bodies.items() if item in used}


class Again(msgspec.Struct, array_like=True):
    """A record that has namespaces hold a part of what others do."""

    put: Put | None = None
    written: Written | None = None


_encode: Final = msgspec.msgpack.Encoder().encode
_decode_records: Final = msgspec.msgpack.Decoder(list[Again]).decode


class Namespaces(dict[str, Namespace]):
    """Namespaces by name; a checkpoint and what was written after it stand in one of them."""

    def namespace(self, ns: str) -> Namespace:
        """A namespace, which is made if it is not there."""
        found = self.get(ns)
        if found is None:
            found = self[ns] = Namespace()
        return found

    def checkpoint(self, ns: str, id: str | None) -> Checkpoint | None:
        """A checkpoint by its id, None if there is none; without an id the latest one."""
        space = self.get(ns)
        if space is None:
            return None
        if id is None:
            return space.checkpoints[space.ids[-1]] if space.ids else None
        return space.checkpoints.get(id)

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
        is_another = put.id not in space.checkpoints
        if not space.ids or put.id > space.ids[-1]:
            space.ids.append(put.id)
        elif is_another:
            insort(space.ids, put.id)
        space.checkpoints[put.id] = Checkpoint(
            put.id, put.parent, put.rest, put.metadata, versions, seen
        )
        if not is_another:
            space.sweep()
        return True

    def write(self, written: Written) -> None:
        """Take in what a task wrote."""
        writes = self.namespace(written.ns).writes.setdefault(written.id, {})
        for each in written.writes:
            place = written.task, each.index
            if each.index < 0 or place not in writes:
                writes[place] = Pending(written.task, written.path, each)

    def row(self, ns: str, checkpoint: Checkpoint) -> Row:
        """A checkpoint that the thread holds, with what belongs to it."""
        space = self[ns]
        return Row(ns, checkpoint, space.values(checkpoint), space.written(checkpoint.id))

    def newest_first(self, ns: str | None, before: str | None) -> Iterator[tuple[str, Checkpoint]]:
        """The checkpoints of a namespace, or of all, with ids below `before`."""
        spaces = self if ns is None else {ns: self.get(ns, Namespace())}
        found = []
        for name, space in spaces.items():
            ids = space.ids if before is None else space.ids[: bisect_left(space.ids, before)]
            found += [(id, name) for id in ids]
        if len(spaces) > 1:
            found.sort()
        for id, name in reversed(found):
            yield name, self[name].checkpoints[id]

    def records(self) -> list[Put | Written]:
        """Records that make an empty thread hold what this one does."""
        found: list[Put | Written] = []
        for ns in sorted(self):
            space, has = self[ns], set[tuple[str, Version]]()
            put = set[str]()
            for id in space.ids:
                found.append(_put_again(ns, space, space.checkpoints[id], put, has))
                put.add(id)
            found += _written_again(ns, space)
        return found

    def copied(self) -> bytes:
        """What `take` has others hold as well: all checkpoints, and what was written."""
        return _again(self.records())

    def newest(self) -> bytes:
        """As `copied`, of the latest checkpoint of each namespace, and of what comes after it."""
        found: list[Put | Written] = []
        for ns in sorted(self):
            space = self[ns]
            latest = self.checkpoint(ns, None)
            if latest is not None:
                found.append(_put_again(ns, space, latest, set(), set()))
            found += _written_again(ns, space, "" if latest is None else latest.id)
        return _again(found)

    def take(self, copied: bytes) -> None:
        """Hold what others hold."""
        for again in _decode_records(copied):
            self.hold(again.put or again.written)

    def hold(self, record: Put | Written | None) -> None:
        """Take in a checkpoint, or what a task wrote."""
        if isinstance(record, Put):
            self.put(record)
        elif record is not None:
            self.write(record)


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


def value_of(body: Body, base: Body | None, since: Since) -> Value:
    """A value as its bytes differ from those of another version."""
    version = None if base is None or since is None else pack(since)
    return Value(body.form, *body.since(base), version)


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
        values[channel] = value_of(body, base, since)
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


def _written_again(ns: str, space: Namespace, since: str = "") -> Iterator[Written]:
    for id in sorted(each for each in space.writes if each >= since):
        for each in space.written(id):
            key = f"{ns}/{id}/{each.task}/{each.write.index}"
            yield Written(key, id, each.task, (each.write,), ns, each.path)


def _again(records: list[Put | Written]) -> bytes:
    return _encode(
        [Again(put=each) if isinstance(each, Put) else Again(written=each) for each in records]
    )
