"""The state of the folds that keep every envelope: pages of them, and indexes over all.

The envelopes of a long subject need not all be in memory. A page that is *absent* has its place
and its marks; a reader who needs it reads it from the log first, and puts it in.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, cast

import msgspec

from foldlog.envelope import Recorded

PAGE: Final = 128
"""Envelopes a page: few enough to read for one of them, many enough for a short index."""

ORDINAL: Final = "I"
"""The type of ordinals in an array: 32 bits."""

Places = dict[str, "array[int]"]


class Kept(msgspec.Struct):
    """A sequence as bytes. `last` is its last page if that is not full; the log has the others."""

    marks: list[int]
    places: dict[str, bytes]
    last: list[Recorded]


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Kept).decode


class Items:
    """Envelopes in log order, each known by its ordinal, which counts from 0.

    `marks` are the sequences at which the pages begin, `places` the ordinals of the envelopes that
    have a key, by key. Both are complete whatever is absent.
    """

    __slots__ = ("_count", "_last", "_pages", "absent", "marks", "places")

    def __init__(
        self,
        marks: Iterable[int] = (),
        places: Places | None = None,
        last: Sequence[Recorded] = (),
    ) -> None:
        """Begin empty; or with full pages that are absent, and then the page that is not full."""
        self.marks = list(marks)
        self.places = {} if places is None else places
        self._last = list(last)
        self.absent = len(self.marks) - bool(last)
        self._count = PAGE * self.absent + len(last)
        self._pages: list[list[Recorded] | None] = [None] * self.absent
        if last:
            self._pages.append(self._last)

    @classmethod
    def restore(cls, kept: bytes) -> Items:
        """The sequence that was kept as these bytes; its full pages are absent."""
        found = _decode(kept)
        places = {key: array(ORDINAL, place) for key, place in found.places.items()}
        return cls(found.marks, places, found.last)

    def keep(self) -> bytes:
        """Its indexes and the page that is not full as bytes, for `restore`."""
        places = {key: place.tobytes() for key, place in self.places.items()}
        return _encode(Kept(self.marks, places, self._last if self._count % PAGE else []))

    def append(self, envelope: Recorded, key: str | None = None) -> None:
        """Add an envelope at the end."""
        ordinal = self._count
        if ordinal % PAGE:
            self._last.append(envelope)
        else:
            self._last = [envelope]
            self._pages.append(self._last)
            self.marks.append(envelope.seq)
        if key is not None:
            place = self.places.get(key)
            if place is None:
                self.places[key] = array(ORDINAL, (ordinal,))
            else:
                place.append(ordinal)
        self._count = ordinal + 1

    def page(self, number: int) -> list[Recorded] | None:
        """A page, or None if it is absent. Never change it."""
        return self._pages[number]

    def fill(self, number: int, envelopes: list[Recorded]) -> None:
        """Put in what an absent page holds: exactly PAGE envelopes."""
        self._pages[number] = envelopes
        self.absent -= 1

    def release(self) -> bool:
        """Make full pages absent, from the last but one back to one that is; return if any were.

        So releasing again and again while it grows looks at each page once.
        """
        absent = self.absent
        for number in range(self._count // PAGE - 2, -1, -1):
            if self._pages[number] is None:
                break
            self._pages[number] = None
            self.absent += 1
        return self.absent > absent

    def missing(self, ordinals: Sequence[int]) -> list[int]:
        """The absent pages among those that hold `ordinals`, which ascend; in order."""
        if not self.absent or not ordinals:
            return []
        if isinstance(ordinals, range):
            numbers: Iterable[int] = range(ordinals[0] // PAGE, ordinals[-1] // PAGE + 1)
        else:
            numbers = dict.fromkeys(ordinal // PAGE for ordinal in ordinals)
        return [number for number in numbers if self._pages[number] is None]

    def copy(self) -> Items:
        """The same envelopes, to which others may be appended. Full pages never change."""
        copied = Items()
        copied.marks, copied.absent, copied._count = list(self.marks), self.absent, self._count
        copied.places = {key: place[:] for key, place in self.places.items()}
        copied._pages, copied._last = list(self._pages), list(self._last)
        if self._count % PAGE:
            copied._pages[-1] = copied._last
        return copied

    def take(self, ordinals: Sequence[int]) -> list[Recorded]:
        """The envelopes at `ordinals`, which ascend. None may be absent."""
        if isinstance(ordinals, range):
            return self._run(ordinals.start, ordinals.stop)
        pages = cast("list[list[Recorded]]", self._pages)
        return [pages[ordinal // PAGE][ordinal % PAGE] for ordinal in ordinals]

    def after(self, ordinal: int, limit: int, key: str | None = None) -> Sequence[int]:
        """The first `limit` ordinals greater than `ordinal`, of those with `key` if it is given."""
        if key is None:
            return range(ordinal + 1, min(ordinal + 1 + limit, self._count))
        place = self.places.get(key, _NONE)
        start = bisect_right(place, ordinal)
        return place[start : start + limit]

    def latest(self, limit: int, key: str | None = None) -> Sequence[int]:
        """The last `limit` ordinals, of those with `key` if it is given; `limit` is positive."""
        if key is None:
            return range(max(self._count - limit, 0), self._count)
        return self.places.get(key, _NONE)[-limit:]

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Recorded]:
        """Every envelope. None may be absent."""
        return chain.from_iterable(cast("list[list[Recorded]]", self._pages))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Items) and (self._pages, self.marks, self.places) == (
            other._pages,
            other.marks,
            other.places,
        )

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"Items({self._pages!r})"

    def _run(self, start: int, stop: int) -> list[Recorded]:
        pages = cast("list[list[Recorded]]", self._pages)
        if stop <= start:
            return []
        first, last = start // PAGE, (stop - 1) // PAGE
        found = pages[first][start % PAGE :] if first < last else []
        for number in range(first + 1, last):
            found += pages[number]
        begin = 0 if first < last else start % PAGE
        return found + pages[last][begin : (stop - 1) % PAGE + 1]


_NONE: Final[array[int]] = array(ORDINAL)
