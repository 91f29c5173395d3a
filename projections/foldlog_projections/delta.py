"""What changed between two values, and how to make one of the other.

Values are what MessagePack has, with `foldlog.codec`'s extensions left as they are. "The same"
means the same bytes: 1, 1.0 and True differ, and so does another order of keys. A delta is itself
such a value, so that it can be appended.

    [0, value]                          it is this now
    [1, {key: delta}, [key, ...]]       a map: these keys changed or are new, those are gone
    [2, [[index, delta], ...], at, n, [item, ...]]
                                        a list: these items changed; then n items at `at` give way
    [3, tail]                           a string or bytes that grew by `tail`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")

Delta = list[Any]

_SET, _EDIT, _SPLICE, _GROW = range(4)

_encode: Final = msgspec.msgpack.Encoder().encode


def difference(old: Any, new: Any) -> Delta | None:
    """Return what makes `new` of `old`, or None if they are the same.

    It holds parts of `new`: neither may change before the delta is encoded.
    """
    encoded = _encode(new)
    if _encode(old) == encoded:
        return None
    delta: Delta | None = None
    if isinstance(old, dict) and isinstance(new, dict):
        delta = _of_maps(old, new)
    elif isinstance(old, list) and isinstance(new, list):
        delta = _of_lists(old, new)
    elif _has_grown(old, new):
        delta = [_GROW, new[len(old) :]]
    if delta is None or len(_encode(delta)) > len(encoded) + 2:
        return [_SET, new]
    return delta


def patch(value: Any, delta: Delta) -> Any:
    """Return what `delta` makes of `value`, which may be changed and returned.

    Raises:
        msgspec.ValidationError: the delta is to another value, or of a later version.
    """
    try:
        return _patched(value, delta)
    except (AttributeError, LookupError, TypeError, ValueError) as fault:
        raise msgspec.ValidationError(f"a delta to another value: {fault!r}") from fault


def _patched(value: Any, delta: Delta) -> Any:
    match delta[0]:
        case 0:
            return delta[1]
        case 1:
            _, changed, gone = delta
            for key in gone:
                del value[key]
            for key, change in changed.items():
                value[key] = _patched(value.get(key), change)
        case 2:
            _, edits, at, dropped, items = delta
            for index, change in edits:
                value[index] = _patched(value[index], change)
            value[at : at + dropped] = items
        case 3:
            value += delta[1]
        case operation:
            raise msgspec.ValidationError(f"operation {operation!r} is not known to this version")
    return value


def pieces(delta: Delta, limit: int) -> Iterator[Delta]:
    """Yield deltas that, one after the other, do what `delta` does.

    Each takes about `limit` bytes at most, unless a number or a key takes more by itself.
    """
    if len(_encode(delta)) <= limit:
        yield delta
        return
    match delta:
        case [0, dict() as whole]:
            yield [_SET, {}]
            yield from _edits(whole.items(), limit)
        case [0, list() as items]:
            yield [_SET, []]
            yield from _insertions(0, items, limit)
        case [0, str() | bytes() as text]:
            yield [_SET, text[:0]]
            yield from ([_GROW, part] for part in _parts(text, limit))
        case [1, changed, gone]:
            yield [_EDIT, {}, gone]
            for key, change in changed.items():
                yield from ([_EDIT, {key: piece}, []] for piece in pieces(change, limit))
        case [2, edits, at, dropped, items]:
            for index, change in edits:
                for piece in pieces(change, limit):
                    yield [_SPLICE, [[index, piece]], 0, 0, []]
            yield [_SPLICE, [], at, dropped, []]
            yield from _insertions(at, items, limit)
        case [3, tail]:
            yield from ([_GROW, part] for part in _parts(tail, limit))
        case _:
            yield delta


def _edits(items: Iterable[tuple[Any, Any]], limit: int) -> Iterator[Delta]:
    """New keys of a map, as many at a time as fit."""
    for few in _batches(items, limit):
        if len(few) > 1 or len(_encode(few)) <= limit:
            yield [_EDIT, {key: [_SET, value] for key, value in few}, []]
        else:
            [(key, value)] = few
            yield from ([_EDIT, {key: piece}, []] for piece in pieces([_SET, value], limit))


def _insertions(at: int, items: Iterable[Any], limit: int) -> Iterator[Delta]:
    """New items of a list from `at` on, as many at a time as fit."""
    for few in _batches(items, limit):
        if len(few) > 1 or len(_encode(few)) <= limit:
            yield [_SPLICE, [], at, 0, few]
        else:
            yield [_SPLICE, [], at, 0, [None]]
            for piece in pieces([_SET, few[0]], limit):
                yield [_SPLICE, [[at, piece]], 0, 0, []]
        at += len(few)


def _batches(items: Iterable[T], limit: int) -> Iterator[list[T]]:
    batch: list[T] = []
    size = 0
    for item in items:
        taken = len(_encode(item))
        if batch and size + taken > limit:
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += taken
    if batch:
        yield batch


def _parts(text: Any, limit: int) -> Iterator[Any]:
    width = max(limit // 4, 1)  # a character takes up to four bytes
    return (text[start : start + width] for start in range(0, len(text), width))


def _has_grown(old: Any, new: Any) -> bool:
    is_text = type(old) is type(new) and isinstance(old, str | bytes)
    return is_text and len(old) > 0 and bool(new.startswith(old))


def _of_maps(old: dict[Any, Any], new: dict[Any, Any]) -> Delta | None:
    stays = [key for key in old if key in new]
    # A key that equals another of a different type, or none at all (NaN), or that has another
    # place: then the map is replaced.
    if _encode([*stays, *(key for key in new if key not in old)]) != _encode(list(new)):
        return None
    gone = [key for key in old if key not in new]
    if any(key != key for key in (*gone, *new)):
        return None
    changed = {
        key: change
        for key, value in new.items()
        if (change := difference(old[key], value) if key in old else [_SET, value]) is not None
    }
    return [_EDIT, changed, gone]


def _of_lists(old: list[Any], new: list[Any]) -> Delta:
    size = len(old)
    if _encode(new[:size]) == _encode(old):  # it grew at the end: nearly always
        return [_SPLICE, [], size, 0, new[size:]]
    before, after = [_encode(item) for item in old], [_encode(item) for item in new]
    shorter = min(size, len(new))
    start = 0
    while start < shorter and before[start] == after[start]:
        start += 1
    end = 0
    while end < shorter - start and before[-1 - end] == after[-1 - end]:
        end += 1
    shared = shorter - end  # up to here items stand opposite each other
    edits = [
        [index, change]
        for index in range(start, shared)
        if (change := difference(old[index], new[index])) is not None
    ]
    return [_SPLICE, edits, shared, size - end - shared, new[shared : len(new) - end]]
