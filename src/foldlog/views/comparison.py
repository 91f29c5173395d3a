"""Two folds of one subject: where they first differ, and a summary of each. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from foldlog.fields import fields_of
from foldlog.views.fold import Fold
from foldlog_projections.items import PAGE, Items

_DIGEST_BYTES: Final = 8
_SHOWN: Final = 60
_NOTHING: Final = object()


class Side(NamedTuple):
    """One of two folds: how many envelopes it has, and a digest of ids and state."""

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


def difference(served: Fold[Any], rebuilt: Fold[Any], first: str) -> Difference:
    """Return what to show of two folds that differ."""
    name = f"{rebuilt.projection.name}/{'/'.join(rebuilt.subject.keys)}"
    return Difference(name, _side(served), _side(rebuilt), first)


def compare(served: Fold[Any], rebuilt: Fold[Any]) -> Difference | None:
    """Return how two folds of one subject, up to one sequence, differ; None if they do not.

    Of a sequence, only pages that both have in memory are compared.
    """
    old, new = _parts(served), _parts(rebuilt)
    for name, part in old.items():
        other = new.get(name, _NOTHING)
        first = None if _is_equal(part, other) else _first(plain(part), plain(other), name)
        if first is not None:
            return difference(served, rebuilt, first)
    for one, another in _pages(served, rebuilt):
        first = None if one == another else _first(plain(one), plain(another), "envelope")
        if first is not None:
            return difference(served, rebuilt, first)
    return None


def plain(value: Any) -> Any:
    """Return a value as lists, dicts and scalars: structs and objects by field, sets sorted."""
    if value is _NOTHING or value is None or isinstance(value, str | bytes | int | float):
        return value
    fields = fields_of(value)
    if fields is not None:
        return {name: plain(field) for name, field in fields.items()}
    if isinstance(value, Mapping):
        return {
            key if isinstance(key, str) else repr(key): plain(each) for key, each in value.items()
        }
    if isinstance(value, Set):
        return sorted(map(plain, value), key=repr)
    if isinstance(value, Iterable):
        return [plain(each) for each in value]
    return {name: plain(each) for name, each in vars(value).items()} or repr(value)


def _parts(fold: Fold[Any]) -> dict[str, Any]:
    """What a fold consists of, but for the pages of a sequence."""
    folded, state = fold.folded, fold.folded.state
    if fold.projection.latest_only:
        return {"state": state}  # the rest need not go back to the subject's beginning
    parts = {
        "ids": folded.seen,
        "cleared at sequence": folded.cleared_at,
        "refused ids": folded.refused,
        "replaced": folded.newest,
    }
    if isinstance(state, Items):
        return {**parts, "pages begin at sequence": state.marks, "index": state.places}
    return {**parts, "state": state}


def _pages(served: Fold[Any], rebuilt: Fold[Any]) -> Iterator[tuple[Any, Any]]:
    """The pages that both folds have in memory, as envelopes by ordinal."""
    old, new = served.folded.state, rebuilt.folded.state
    for number in range(len(old.marks) if isinstance(old, Items) else 0):
        pages = old.page(number), new.page(number)
        if None not in pages:
            one, other = (dict(enumerate(page, number * PAGE)) for page in pages)
            yield one, other


def _side(fold: Fold[Any]) -> Side:
    parts = repr(plain(_parts(fold))).encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(parts, digest_size=_DIGEST_BYTES).hexdigest()
    return Side(len(fold.folded.seen), digest)


def _is_equal(old: Any, new: Any) -> bool:
    if type(old) is not type(new) or not bool(old == new):
        return False
    return not isinstance(old, dict) or list(old) == list(new)  # equal dicts may differ in order


def _first(old: Any, new: Any, path: str) -> str | None:
    """Where two plain values first differ, in words; None if nowhere."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            found = _first(old.get(key, _NOTHING), new.get(key, _NOTHING), f"{path}.{key}")
            if found is not None:
                return found
        return None if list(old) == list(new) else _words(f"{path}: order", list(old), list(new))
    if isinstance(old, list) and isinstance(new, list):
        for index, (one, other) in enumerate(zip_longest(old, new, fillvalue=_NOTHING)):
            found = _first(one, other, f"{path}[{index}]")
            if found is not None:
                return found
        return None
    # By text, so that NaN is NaN, and 1 is not True.
    return None if repr(old) == repr(new) else _words(path, old, new)


def _words(what: str, served: Any, rebuilt: Any) -> str:
    return f"{what}: {_short(served)} was served, {_short(rebuilt)} is in the log"


def _short(value: Any) -> str:
    text = "nothing" if value is _NOTHING else repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
