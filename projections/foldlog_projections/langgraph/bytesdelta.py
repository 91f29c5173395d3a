"""What changed between two byte strings, so that what grows is stored once.

A delta is a list of pieces, whose sum is the new string: bytes stand for themselves, and a pair
`(start, end)` for that range of the old string. Whatever serialiser made the bytes, a list that
grew by an element is one range and the element; one that lost its oldest elements, or had one
replaced, is two ranges and what is new.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

Piece = bytes | tuple[int, int]

_LEAST: Final = 24
"""Bytes that are worth a range."""

_PROBES: Final = 64
"""How often a place is looked for where the new string goes on as the old one did."""


def difference(old: bytes, new: bytes) -> list[Piece]:
    """Return what makes `new` of `old`."""
    if old and new.startswith(old):
        return [(0, len(old)), new[len(old) :]] if len(new) > len(old) else [(0, len(old))]
    if not old or len(new) < _LEAST:
        return [new] if new else []
    pieces: list[Piece] = []
    begin = _common_start(old, new)
    if begin < _LEAST:
        begin = 0
    else:
        pieces.append((0, begin))
    most = min(len(old), len(new)) - begin
    end = _common_end(old, new, most)
    if end < _LEAST:
        end = 0
    pieces += _middle(old, begin, len(old) - end, new[begin : len(new) - end])
    if end:
        pieces.append((len(old) - end, len(old)))
    return pieces


def _middle(old: bytes, start: int, stop: int, new: bytes) -> list[Piece]:
    """Pieces for what lies between a common start and a common end."""
    pieces: list[Piece] = []
    literal = at = 0
    for _ in range(_PROBES if stop - start >= _LEAST else 0):
        if len(new) - at < _LEAST:
            break
        found = old.find(new[at : at + _LEAST], start, stop)
        if found < 0:
            at += _LEAST
            continue
        while at > literal and found > start and old[found - 1] == new[at - 1]:
            at, found = at - 1, found - 1
        length = _common_start(old[found:stop], new[at:])
        if at > literal:
            pieces.append(new[literal:at])
        pieces.append((found, found + length))
        literal = at = at + length
    if literal < len(new):
        pieces.append(new[literal:])
    return pieces


def _common_start(one: bytes, other: bytes) -> int:
    """How many bytes two strings begin with alike."""
    most = min(len(one), len(other))
    return _longest(most, lambda low, high: one[low:high] == other[low:high])


def _common_end(one: bytes, other: bytes, most: int) -> int:
    """How many bytes, up to `most`, two strings end with alike."""
    first, second = len(one), len(other)
    return _longest(
        most,
        lambda low, high: one[first - high : first - low] == other[second - high : second - low],
    )


def _longest(most: int, are_alike: Callable[[int, int], bool]) -> int:
    """Up to which byte two strings are alike, given whether they are so between two bytes."""
    if are_alike(0, most):
        return most
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        if are_alike(low, middle):
            low = middle
        else:
            high = middle
    return low
