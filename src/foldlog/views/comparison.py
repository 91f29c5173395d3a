"""Two folds of one subject: what they count, their digests, and where they first differ. Pure."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Set
from itertools import islice, zip_longest
from typing import Any, Final, NamedTuple

import msgspec

from foldlog_projections.fold import Folded
from foldlog_projections.items import PAGE, Items, between

_DIGEST_BYTES: Final = 8
_SHOWN: Final = 60
_NOTHING: Final = object()


class Side(NamedTuple):
    """One of two folds: the envelopes in effect, a digest of ids and state, and its version."""

    envelopes: int
    digest: str
    version: int


class Difference(NamedTuple):
    """A view, as `projection/key`, of which another fold was served than the log gives.

    `first` names the first difference: where it is, then what was served and what was rebuilt.
    """

    view: str
    served: Side
    rebuilt: Side
    first: str


def side(folded: Folded[Any], version: int) -> Side:
    """What stands for a fold where it is shown."""
    return Side(len(folded.seen), digest(folded), version)


def digest(folded: Folded[Any]) -> str:
    """A digest of a fold: of the ids in effect in order, of what is refused, and of the state."""
    hashed = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    hashed.update("\n".join(folded.seen).encode("utf-8", "surrogatepass"))
    hashed.update(repr((folded.cleared_at, sorted(folded.refused))).encode())
    state = folded.state
    if isinstance(state, Items):
        hashed.update(repr((state.marks, _listed(state))).encode())
    else:
        hashed.update(repr(plain(state)).encode("utf-8", "surrogatepass"))
    return hashed.hexdigest()


def prefix(folded: Folded[Items], count: int) -> Folded[Items]:
    """The fold of a sequence as it was after its first `count` envelopes: what of it is here.

    Where `count` fills no page, what comes after the last full one has to be.
    """
    state = folded.state
    full, rest = divmod(count, PAGE)
    items = Items(state.marks[:full], between(state.places, 0, count))
    for number in range(len(items.marks)):  # fewer, if the fold is shorter than that
        page = state.page(number)
        if page is not None and len(page) == PAGE:
            items.fill(number, page)
    if rest and full < len(state.marks):
        items.extend((state.page(full) or [])[:rest])
    ids = dict(zip(islice(folded.seen, count), range(count), strict=False))
    return Folded(items, ids, folded.refused, folded.cleared_at)


def first_difference(served: Folded[Any], rebuilt: Folded[Any]) -> str | None:
    """Where two folds differ first, in words; None if they do not.

    Of a sequence only those pages are compared that both have in memory.
    """
    for ordinal, (old, new) in enumerate(zip_longest(served.seen, rebuilt.seen)):
        if old != new:
            return _words(f"envelope {ordinal}", _named(old), _named(new))
    if served.cleared_at != rebuilt.cleared_at:
        return _words("cleared at sequence", served.cleared_at, rebuilt.cleared_at)
    if served.refused != rebuilt.refused:
        return _words("refused ids", len(served.refused), len(rebuilt.refused))
    if isinstance(served.state, Items) and isinstance(rebuilt.state, Items):
        return _of_items(served.state, rebuilt.state)
    if _is_equal(served.state, rebuilt.state):
        return None
    return _of_values(plain(served.state), plain(rebuilt.state), "state")


def plain(value: Any) -> Any:
    """A value as lists, dicts and scalars: structs and objects by field, sets sorted."""
    if value is None or isinstance(value, str | bytes | int | float):
        return value
    if isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if dataclasses.is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_key(key): plain(each) for key, each in value.items()}
    if isinstance(value, Set):
        return sorted(map(plain, value), key=repr)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: plain(each) for name, each in value._asdict().items()}
    if isinstance(value, Iterable):
        return [plain(each) for each in value]
    return {name: plain(each) for name, each in vars(value).items()} or repr(value)


def _is_equal(old: Any, new: Any) -> bool:
    if type(old) is not type(new) or not bool(old == new):
        return False
    return not isinstance(old, dict) or list(old) == list(new)  # equal dicts may differ in order


def _of_items(served: Items, rebuilt: Items) -> str | None:
    for number, (old, new) in enumerate(zip_longest(served.marks, rebuilt.marks)):
        if old != new:
            return _words(f"page {number} begins at sequence", old, new)
    difference = _of_values(_listed(served), _listed(rebuilt), "index")
    if difference is not None:
        return difference
    for number in range(len(served.marks)):
        old, new = served.page(number), rebuilt.page(number)
        if old is None or new is None or old == new:
            continue
        for index, (one, other) in enumerate(zip_longest(old, new)):
            if one != other:
                return _of_values(plain(one), plain(other), f"envelope {number * PAGE + index}")
    return None


def _of_values(old: Any, new: Any, path: str) -> str | None:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            found = _of_values(old.get(key, _NOTHING), new.get(key, _NOTHING), f"{path}.{key}")
            if found is not None:
                return found
        return None if list(old) == list(new) else _words(f"{path}: order", list(old), list(new))
    if isinstance(old, list) and isinstance(new, list):
        for index, (one, other) in enumerate(zip_longest(old, new, fillvalue=_NOTHING)):
            found = _of_values(one, other, f"{path}[{index}]")
            if found is not None:
                return found
        return None
    # By text, so that NaN is NaN, and 1 is not True.
    return None if repr(old) == repr(new) else _words(path, old, new)


def _listed(items: Items) -> dict[str, list[int]]:
    return {key: list(place) for key, place in items.places.items()}


def _key(key: Any) -> str:
    return key if isinstance(key, str) else repr(key)


def _named(id: str | None) -> Any:
    return _NOTHING if id is None else id


def _words(what: str, served: Any, rebuilt: Any) -> str:
    return f"{what}: {_short(served)} was served, {_short(rebuilt)} is in the log"


def _short(value: Any) -> str:
    if value is _NOTHING:
        return "nothing"
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
