"""Positions: moments of a whole log, as values to keep, compare and print.

One shard's part is its *reach*: the last record that belongs to the moment. Several shards have no
single order, so two positions may be incomparable: each is ahead of the other somewhere.
"""

from __future__ import annotations

import hashlib
import math
import re
from typing import Final

import msgspec

from foldlog.errors import UnknownMoment

_REACH: Final = re.compile(
    r"(?P<seq>[0-9]{1,20})(?:\.(?P<index>[0-9]{1,20}))?(?:~(?P<mark>[0-9a-f]{8}))?"
)


class Reach(msgspec.Struct, frozen=True, eq=False):
    """How far one shard goes: up to sequence `seq`, and that record included.

    `index`: of that record only the envelopes up to this one; None: all. `mark` tells the last of
    them from what may stand there in a log that was restored; "" where it is not known. It plays no
    part in comparisons.
    """

    seq: int
    index: int | None = None
    mark: str = ""

    @property
    def place(self) -> tuple[int, float]:
        """What reaches are compared by."""
        return self.seq, math.inf if self.index is None else self.index

    @property
    def whole(self) -> int:
        """The last sequence whose record is included whole."""
        return self.seq if self.index is None else self.seq - 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reach) and self.place == other.place

    def __hash__(self) -> int:
        return hash(self.place)

    def __str__(self) -> str:
        index = "" if self.index is None else f".{self.index}"
        return f"{self.seq}{index}{self.mark and '~' + self.mark}"


class LogPosition(msgspec.Struct, frozen=True):
    """A moment of a log, made by `await store.position()`.

    `a <= b` means that everything a reader at `a` sees was there at `b` already. Its text, as
    `@1234~9f3a1c2e`, is what the command line takes. msgspec and pickle write it like any struct.

    Attributes:
        shards: how far each shard goes.
    """

    shards: tuple[Reach, ...]

    def __post_init__(self) -> None:
        if type(self.shards) is not tuple or {*map(type, self.shards)} - {Reach}:
            raise UnknownMoment(repr(self.shards), "LogPosition.parse() reads a text as @1234")

    @classmethod
    def parse(cls, text: str) -> LogPosition:
        """Return the position that `str` made a text of.

        Args:
            text: as in `@1234~9f3a1c2e`.

        Raises:
            UnknownMoment: the text is no position.
        """
        parts = text[1:].split(",") if text.startswith("@") else []
        found = [_REACH.fullmatch(part) for part in parts]
        if not found or None in found:
            raise UnknownMoment(text, "a position looks like @1234, or @1234,87 with two shards")
        return cls(tuple(_reach(match) for match in found if match is not None))

    def __le__(self, other: LogPosition) -> bool:
        if not isinstance(other, LogPosition) or len(self.shards) != len(other.shards):
            return NotImplemented
        pairs = zip(self.shards, other.shards, strict=True)
        return all(mine.place <= theirs.place for mine, theirs in pairs)

    def __lt__(self, other: LogPosition) -> bool:
        before = self.__le__(other)
        return before if before is NotImplemented else before and self != other

    def __str__(self) -> str:
        return "@" + ",".join(map(str, self.shards))


def mark_of(id: str) -> str:
    """The mark of an envelope in a reach, made of its id: eight hexadecimal digits."""
    return hashlib.blake2b(id.encode(), digest_size=4).hexdigest()


def _reach(match: re.Match[str]) -> Reach:
    index = match["index"]
    return Reach(int(match["seq"]), None if index is None else int(index), match["mark"] or "")
