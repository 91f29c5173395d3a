"""What changed between two values, and how to make one of the other.

The format is in `docs/reference/log-format.md`.

Values are what MessagePack has, with `foldlog.codec`'s extensions left as they are. Two values are
the same if their bytes are: 1, 1.0 and True differ, and so does another order of keys.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

Delta = list[Any]

_SET, _EDIT, _SPLICE, _GROW = range(4)

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Delta).decode


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


def touched(delta: Any) -> str:
    """Return the names that a delta between maps touches, on one line."""
    match delta:
        case [0 | 1, dict() as changed, *_]:
            return ", ".join(map(str, changed))
    return ""


def patch(value: Any, delta: Delta) -> Any:
    """Return what `delta` makes of `value`, which may be changed and returned."""
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


def cut(delta: bytes, limit: int) -> list[bytes]:
    """Return an encoded delta in parts of at most `limit` bytes."""
    return [delta[at : at + limit] for at in range(0, len(delta), limit)]


def joined(parts: list[Any]) -> list[Delta]:
    """The delta whose parts these are; or, where nothing was cut, deltas that follow each other."""
    return [_decode(b"".join(parts))] if isinstance(parts[0], bytes) else parts


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
