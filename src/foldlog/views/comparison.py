"""Two folds of one subject: where they first differ, and what to show of them. Pure."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Set
from itertools import zip_longest
from typing import Any, Final, NamedTuple

import msgspec

from foldlog.views.fold import Fold
from foldlog_projections.items import PAGE, Items

_DIGEST_BYTES: Final = 8
_SHOWN: Final = 60
_NOTHING: Final = object()


class Side(NamedTuple):
    """One of two folds: the envelopes that it has, and a digest of ids and state."""

    envelopes: int
    digest: str


class Difference(NamedTuple):
    """A view, as `projection/key`, of which another fold was served than the log gives.

    `first` names the first difference: where it is, then what was served and what was rebuilt.
    """

    view: str
    served: Side
    rebuilt: Side
    first: str


def difference(served: Fold[Any] | None, rebuilt: Fold[Any], first: str) -> Difference:
    """What to show of two folds that differ. None: nothing could be served."""
    name = f"{rebuilt.projection.name}/{'/'.join(rebuilt.subject.keys)}"
    return Difference(name, _side(served), _side(rebuilt), first)


def first_difference(served: Fold[Any], rebuilt: Fold[Any]) -> str | None:
    """Where two folds of one subject, up to one sequence, differ first, in words; None if nowhere.

    Of a sequence only those pages are compared that both have in memory.
    """
    old, new = served.folded, rebuilt.folded
    if not rebuilt.projection.latest_only:  # one has the end of the subject only
        for ordinal, (one, other) in enumerate(zip_longest(old.seen, new.seen)):
            if one != other:
                return _words(f"envelope {ordinal}", _named(one), _named(other))
        if old.cleared_at != new.cleared_at:
            return _words("cleared at sequence", old.cleared_at, new.cleared_at)
        if old.refused != new.refused:
            return _words("refused ids", len(old.refused), len(new.refused))
        if old.newest != new.newest:
            return _words("replaced keys", len(old.newest), len(new.newest))
    if isinstance(old.state, Items) and isinstance(new.state, Items):
        return _of_items(old.state, new.state)
    if _is_equal(old.state, new.state):
        return None
    return _of_values(plain(old.state), plain(new.state), "state")


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


def _side(fold: Fold[Any] | None) -> Side:
    if fold is None:
        return Side(0, "")
    folded, state = fold.folded, fold.folded.state
    hashed = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    hashed.update("\n".join(folded.seen).encode("utf-8", "surrogatepass"))
    hashed.update(repr((folded.cleared_at, sorted(folded.refused))).encode())
    shown = (state.marks, _listed(state)) if isinstance(state, Items) else plain(state)
    hashed.update(repr(shown).encode("utf-8", "surrogatepass"))
    return Side(len(folded.seen), hashed.hexdigest())


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
