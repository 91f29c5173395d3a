"""A thread as its records leave it: checkpoints by namespace, their values, and who holds it."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Set
from hashlib import blake2b
from typing import ClassVar, Final

import msgspec
from msgspec.structs import replace

from foldlog_projections.langgraph.bodies import Body, Version, unpack
from foldlog_projections.langgraph.checkpointrecords import Put, Reason, Written
from foldlog_projections.langgraph.namespaces import Checkpoint, Namespaces, Pending, Row

_PLACE_BYTES: Final = 8

_MOST_SINCE: Final = 256
"""Records since a snapshot that are remembered until the rest of it is decoded."""


class Hold(msgspec.Struct, array_like=True, frozen=True):
    """Who holds a thread; `until` is when the lease ends, by the log's clock."""

    token: str
    thread: str
    holder: str
    lease: float
    until: float


class Kept(msgspec.Struct, array_like=True):
    """A thread as bytes: what makes an empty one hold the same.

    `records` are of all checkpoints, `newest` of the latest of each namespace; `valued` are hashes
    of the versions in which a channel has a value.
    """

    records: bytes
    newest: bytes
    valued: bytes
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
_decode_remains: Final = msgspec.msgpack.Decoder(Remains).decode


class Thread:
    """A thread's checkpoints by namespace, and who holds it.

    One that was restored holds the latest checkpoint of each namespace, and what was saved since.
    The others stay encoded until one of them is asked for.

    Attributes:
        refused: the latest records that had no effect.
        gone: the places of all checkpoints that were ever removed, as `place_of` has them.
        copying: the parts that have come of copies of other threads.
    """

    __slots__ = ("_kept", "_since", "_spaces", "_valued", "copying", "gone", "hold", "refused")
    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # it changes

    def __init__(self) -> None:
        self.hold: Hold | None = None
        self.refused: dict[str, Reason] = {}
        self.gone: set[int] = set()
        self.copying: dict[str, list[bytes]] = {}
        self._spaces = Namespaces()
        self._kept = b""
        self._valued: set[int] = set()
        self._since: list[Put | Written] = []

    def __bool__(self) -> bool:
        return any(each.checkpoints for each in self._spaces.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thread) and self.keep() == other.keep()

    def __repr__(self) -> str:
        return f"<Thread of {sum(len(each.ids) for each in self.namespaces.values())} checkpoints>"

    @property
    def namespaces(self) -> Namespaces:
        """All checkpoints."""
        if self._kept:
            self._spaces = Namespaces()
            self._spaces.take(self._kept)
            for record in self._since:
                self._spaces.hold(record)
            self._kept, self._valued, self._since = b"", set(), []
        return self._spaces

    def holds_another(self, thread_id: str) -> bool:
        """Whether what is held is the thread that this one is a fork of."""
        return self.hold is not None and self.hold.thread != thread_id

    def admits(self, token: str, at: float) -> bool:
        """Whether the run with that token, "" for none, may write to it at a time."""
        if self.hold is None:
            return not token
        return token == self.hold.token or (not token and at > self.hold.until)

    # --- what it holds ---------------------------------------------------------------------------

    def checkpoint(self, ns: str, id: str | None) -> Checkpoint | None:
        """A checkpoint by its id, None if there is none; without an id the latest one."""
        spaces = self.namespaces if id is not None and self._is_older(ns, id) else self._spaces
        return spaces.checkpoint(ns, id)

    def values(self, ns: str, checkpoint: Checkpoint) -> dict[str, Body]:
        """The values by channel of a checkpoint that the thread holds."""
        return self._spaces[ns].values(checkpoint)

    def row(self, ns: str, checkpoint: Checkpoint) -> Row:
        """A checkpoint that the thread holds, with what belongs to it."""
        return self._spaces.row(ns, checkpoint)

    def written(self, ns: str, id: str) -> list[Pending]:
        """What was written after a checkpoint, in order; nothing, if there is none."""
        spaces = self.namespaces if self._is_older(ns, id) else self._spaces
        return spaces[ns].written(id) if ns in spaces else []

    def newest_first(self, ns: str | None, before: str | None) -> Iterator[tuple[str, Checkpoint]]:
        """The checkpoints of a namespace, or of all, with ids below `before`."""
        return self.namespaces.newest_first(ns, before)

    def is_gone(self, ns: str, id: str | None) -> bool:
        """Whether that checkpoint was removed, and has not come again. None, or "": it was not."""
        if not id or not self.gone or place_of(ns, id) not in self.gone:
            return False
        return self.checkpoint(ns, id) is None

    # --- what is saved, and removed --------------------------------------------------------------

    def put(self, put: Put) -> bool:
        """Take a checkpoint in, unless it refers to what is not there."""
        spaces = self.namespaces if self._needs_older(put) else self._spaces
        is_taken = spaces.put(put)
        self._note(put)
        return is_taken

    def write(self, written: Written) -> None:
        """Take in what a task wrote."""
        is_older = self._is_older(written.ns, written.id)
        spaces = self.namespaces if is_older else self._spaces
        spaces.write(written)
        self._note(written)

    def take(self, copied: bytes) -> None:
        """Hold what another thread holds: see `Namespaces.copied`."""
        self.namespaces.take(copied)

    def remove(self, ns: str, ids: Set[str]) -> None:
        """Remove checkpoints with all that is theirs, and remember that they are gone."""
        if ns in self.namespaces:
            self.namespaces[ns].remove(ids)
        self.gone.update(place_of(ns, id) for id in ids)

    def _is_older(self, ns: str, id: str) -> bool:
        """Whether a checkpoint, if there is one, is among those that are encoded still."""
        space = self._spaces.get(ns) if self._kept else None
        return space is not None and bool(space.ids) and id < space.ids[0]

    def _needs_older(self, put: Put) -> bool:
        """Whether a checkpoint refers to one that is encoded still, or to a value of one."""
        space = self._spaces.get(put.ns) if self._kept else None
        if space is None:
            return False
        if self._is_older(put.ns, put.id) or (put.base and put.base not in space.checkpoints):
            return True
        for channel, value in put.values.items():
            if value.since is not None and (channel, unpack(value.since)) not in space.bodies:
                return True
        return any(
            (channel, unpack(version)) not in space.bodies
            and _value_place(put.ns, channel, unpack(version)) in self._valued
            for channel, version in put.versions.items()
            if channel not in put.values
        )

    def _note(self, record: Put | Written) -> None:
        if self._kept:
            self._since.append(record)
            if len(self._since) > _MOST_SINCE:
                _ = self.namespaces

    # --- as bytes -------------------------------------------------------------------------------

    def keep(self) -> bytes:
        """All of it as bytes: equal threads have equal bytes."""
        spaces = self.namespaces
        valued = {_value_place(ns, *each) for ns, space in spaces.items() for each in space.bodies}
        return _encode(
            Kept(
                spaces.copied(),
                spaces.newest(),
                _joined(valued),
                self.hold,
                self.refused,
                _joined(self.gone),
                self.copying,
            )
        )

    @classmethod
    def restore(cls, kept: bytes) -> Thread:
        """The thread that `keep` has made the bytes from."""
        found, thread = _decode(kept), cls()
        thread._spaces.take(found.newest)
        thread._kept, thread._valued = found.records, _places_in(found.valued)
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
        """The thread after a clearing that has left that."""
        left, thread = _decode_remains(remains), cls()
        thread.gone, thread.hold = _places_in(left.gone), left.hold
        return thread


def place_of(ns: str, id: str) -> int:
    """A hash of where a checkpoint stands in a thread."""
    return int.from_bytes(blake2b(f"{ns}\0{id}".encode(), digest_size=_PLACE_BYTES).digest())


def _joined(places: Set[int]) -> bytes:
    """Places as bytes, in order."""
    return struct.pack(f">{len(places)}Q", *sorted(places))


def _places_in(joined: bytes) -> set[int]:
    """The places that `_joined` was given."""
    return set(struct.unpack(f">{len(joined) // _PLACE_BYTES}Q", joined))


def _value_place(ns: str, channel: str, version: Version) -> int:
    """A hash of where a value stands in a thread. Versions that are equal have the same one."""
    number = version if isinstance(version, str) else float(version)
    return place_of(f"{ns}\0{channel}", f"{number}")
