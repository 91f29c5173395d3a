"""What a snapshot holds, as bytes and back: a *head*, and *parts* that it names by their digests.

The parts hold the ids that were applied, in order. They follow from the log alone and never change.
The head covers the full pages of a sequence (`Items`), and of other folds the whole state.
"""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from foldlog.envelope import Position
from foldlog.errors import AppendFailed
from foldlog.subjects import escape
from foldlog.upcasting import UPCASTERS
from foldlog_projections.fold import DIGESTS, Conflict, Folded, Projection, Replaced
from foldlog_projections.items import ORDINAL, PAGE, Items, Places, between

S = TypeVar("S")

FORMAT: Final = 5 if sys.byteorder == "little" else -5
"""Changes with what heads and parts look like; ordinals are as this machine has them."""

PART_BYTES: Final = 256 * 1024
"""A part is closed at this size: few requests to load, little to write again before it is."""

_DIGEST_BYTES: Final = 16

MIN_LONG: Final = PAGE
"""Envelopes that a fold has at least before anybody looks for its snapshot."""

DUE_ENVELOPES: Final = 1024
DUE_BYTES: Final = 1024 * 1024
"""A snapshot is due when as much is to be read that it does not cover."""

EARLY_ENVELOPES: Final = PAGE
EARLY_SHARE: Final = 1 / 8
"""Of a view with early snapshots one is due when so many envelopes, and such a share of all, are
not covered: it is written whole each time.
"""


class Unusable(Exception):
    """Bytes that are no snapshot of this view: of another version or log, torn, or damaged."""


class Sealed(NamedTuple):
    """A part that is stored: the ordinal that comes after its last, and its digest."""

    end: int
    digest: bytes


class Restored(NamedTuple, Generic[S]):
    """A fold as a snapshot has it. It stands while the log holds `end`.

    `state_bytes`: what the state took there.
    """

    folded: Folded[S]
    end: Position
    sealed: tuple[Sealed, ...]
    state_bytes: int


class Head(msgspec.Struct, array_like=True, frozen=True):
    """The head; `refused` are the fold's hashes, joined; `rest` is the part that is not full."""

    format: int
    identity: str
    projection: str
    version: int
    payload_version: int
    end: Position
    cleared_at: int
    refused: bytes
    parts: list[Sealed]
    rest: bytes
    state: bytes
    newest: list[tuple[Replaced, tuple[tuple[str, int], ...]]] = []
    barred: dict[str, int] = {}
    digests: bytes = b""
    conflicts: dict[str, Conflict] = {}


class Part(msgspec.Struct, array_like=True, frozen=True):
    """Ids by ordinal; of a sequence also where its pages begin, and the ordinals by key.

    The ids are one text, a line each: thousands of them are read three times as fast that way.
    Only where one holds a line break they are a list.
    """

    ids: str | list[str]
    marks: list[int]
    places: dict[str, bytes]


_encoder: Final = msgspec.msgpack.Encoder()
_head_decoder: Final = msgspec.msgpack.Decoder(Head)
_part_decoder: Final = msgspec.msgpack.Decoder(Part)


def is_due(envelopes: int, size: int) -> bool:
    """Whether so many envelopes, of `size` bytes, are worth a snapshot."""
    return envelopes >= DUE_ENVELOPES or (size >= DUE_BYTES and envelopes >= PAGE)


def is_due_early(projection: Projection[Any], envelopes: int, of: int) -> bool:
    """Whether so many envelopes of all are worth a snapshot that hinders nobody."""
    is_enough = envelopes >= max(EARLY_ENVELOPES, EARLY_SHARE * of)
    return projection.early_snapshots and is_enough


def slot_of(projection: Projection[Any]) -> str:
    """Where a projection's snapshots stand beside others of the same subject."""
    return "" if projection.family == projection.name else escape(projection.name)


class Sealing:
    """A snapshot in the making: first each of `parts` is to be stored, then `head`.

    It is of the fold as it was when this was made; the fold may go on meanwhile. `covered` is how
    many of its envelopes the snapshot covers; 0 if there can be none.

    Args:
        end: where the last envelope stands that was applied.
        sealed: the parts that are stored already.
    """

    def __init__(
        self,
        projection: Projection[Any],
        folded: Folded[Any],
        end: Position,
        sealed: tuple[Sealed, ...],
        identity: str,
    ) -> None:
        self.covered: int = len(folded.seen)
        self.end: Position = end
        self.sealed: tuple[Sealed, ...] = sealed
        self._items: Items | None = None
        state = b""
        if isinstance(folded.state, Items):
            self._items = folded.state
            self.covered -= self.covered % PAGE
            last = self._items.page(self.covered // PAGE - 1) if self.covered else None
            if last is None:
                self.covered = 0
            else:
                self.end = last[-1].position
        elif projection.keep is not None:
            try:
                state = projection.keep(folded.state)
            except Exception as error:  # one of users' own may raise anything
                raise AppendFailed(f"{projection.name} cannot keep it: {error!r}") from error
        self._start = sealed[-1].end if sealed else 0
        self._ids = list(islice(folded.seen, self._start, self.covered))
        self._head = Head(
            format=FORMAT,
            identity=identity,
            projection=projection.name,
            version=projection.version,
            payload_version=UPCASTERS.fingerprint,
            end=self.end,
            cleared_at=folded.cleared_at,
            refused=b"".join(sorted(folded.refused)),
            parts=[],
            rest=b"",
            state=state,
            newest=list(folded.newest.items()),
            barred=folded.barred,
            digests=folded.digests[: self.covered].tobytes(),
            conflicts=folded.conflicts,
        )

    def parts(self) -> Iterator[tuple[int, bytes]]:
        """Yield what is to be stored, by number, and have it in `sealed` then."""
        size = begun = 0
        for end in range(PAGE, len(self._ids) + 1, PAGE):
            size += sum(map(len, self._ids[end - PAGE : end]))
            if size >= PART_BYTES:
                data = self._part(begun, end)
                self.sealed = (*self.sealed, Sealed(self._start + end, _digest(data)))
                yield len(self.sealed), data
                size, begun = 0, end

    def head(self) -> bytes:
        """What is to be stored under number 0, at last."""
        begun = self.sealed[-1].end if self.sealed else 0
        rest = self._part(begun - self._start, len(self._ids))
        body = _encoder.encode(
            msgspec.structs.replace(self._head, parts=list(self.sealed), rest=rest)
        )
        return _digest(body) + body

    def _part(self, start: int, end: int) -> bytes:
        marks: list[int] = []
        places: Places = {}
        if self._items is not None:
            first, after = self._start + start, self._start + end
            marks = self._items.marks[first // PAGE : after // PAGE]
            places = between(self._items.places, first, after)
        ordinals = {key: place.tobytes() for key, place in places.items()}
        ids = self._ids[start:end]
        joined = "\n".join(ids)
        is_plain = joined.count("\n") == len(ids) - 1
        return _encoder.encode(Part(joined if is_plain else ids, marks, ordinals))


def is_keepable(projection: Projection[Any]) -> bool:
    """Whether there are snapshots of a projection's folds."""
    if projection.latest_only:
        return False
    return projection.keep is not None or isinstance(projection.initial(), Items)


def read_head(data: bytes, projection: Projection[Any], identity: str) -> Head | None:
    """The head of a snapshot; None if it is of another version, or of another log."""
    digest, body = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    if _digest(body) != digest:
        raise Unusable("its head is damaged")
    try:
        head = _head_decoder.decode(body)
    except msgspec.MsgspecError:
        return None  # whole, so of a version that writes it otherwise
    versions = projection.version, UPCASTERS.fingerprint
    expected = (FORMAT, identity, projection.name, *versions)
    found = (head.format, head.identity, head.projection, head.version, head.payload_version)
    return head if found == expected else None


def restore(projection: Projection[S], head: Head, parts: Sequence[bytes | None]) -> Restored[S]:
    """The fold that a snapshot holds."""
    for sealed, data in zip(head.parts, parts, strict=True):
        if data is None or _digest(data) != sealed.digest:
            raise Unusable("its parts are not those of its head")
    try:
        decoded = [_part_decoder.decode(data) for data in (*parts, head.rest) if data is not None]
        texts = (p.ids.split("\n") if isinstance(p.ids, str) else p.ids for p in decoded)
        ids = list(chain.from_iterable(texts))
        folded = Folded(
            state=_state(projection, head, decoded, len(ids)),
            seen=dict(zip(ids, range(len(ids)), strict=True)),
            refused=frozenset(head.refused[at : at + 8] for at in range(0, len(head.refused), 8)),
            barred=head.barred,
            digests=array(DIGESTS, head.digests),
            conflicts=head.conflicts,
            cleared_at=head.cleared_at,
            newest=dict(head.newest),
        )
    except (msgspec.MsgspecError, ValueError) as error:
        raise Unusable(str(error)) from error
    if len(folded.seen) != len(ids):
        raise Unusable("an id stands in it twice")
    return Restored(folded, head.end, tuple(head.parts), len(head.state))


def _state(projection: Projection[Any], head: Head, parts: list[Part], length: int) -> Any:
    if projection.restore is not None:
        try:
            return projection.restore(head.state)
        except Exception as error:  # one of users' own may raise anything
            raise Unusable(f"{projection.name} cannot restore it: {error!r}") from error
    places: Places = {}
    for part in parts:
        for key, ordinals in part.places.items():
            places.setdefault(key, array(ORDINAL)).frombytes(ordinals)
    items = Items(chain.from_iterable(part.marks for part in parts), places)
    if len(items) != length or not length:
        raise Unusable("its pages and its ids differ in number, or it covers nothing")
    return items


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:_DIGEST_BYTES]
