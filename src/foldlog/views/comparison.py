"""What reads are answered from, compared with folds of the log: where the two first differ."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from foldlog.differences import ABSENT, differences, fields_of
from foldlog.envelope import CLEARED
from foldlog.log.port import Log, Record
from foldlog.subjects import Subject
from foldlog.views.fold import Fold, holds, read_all
from foldlog.views.refolding import FoldsOf
from foldlog.views.views import Views
from foldlog_projections.fold import Projection
from foldlog_projections.items import PAGE, Items

_DIGEST_BYTES: Final = 8
_SHOWN: Final = 60

_ATTEMPTS: Final = 50
"""How often a view that is written to all the time is tried again."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of two folds.

    Attributes:
        envelopes: how many envelopes it has.
        digest: a digest of their ids and of the state.
    """

    envelopes: int
    digest: str


@dataclass(frozen=True, slots=True)
class Difference:
    """A view whose reads were answered with something else than the log gives.

    Attributes:
        view: the view, as `projection/key`.
        served: what reads were answered from.
        rebuilt: what the log gives.
        first: the first difference: where it is, then what was served and what was rebuilt.
    """

    view: str
    served: Side
    rebuilt: Side
    first: str


class Served:
    """Compares folds with what is served: the view in memory, and the snapshot."""

    def __init__(self, log: Log, views: Views, folds_of: FoldsOf) -> None:
        self._log = log
        self._views = views
        self._folds_of = folds_of
        self._snapshots: dict[str, set[str]] = {}
        self._lost: set[str] = set()

    async def look(self, projections: Sequence[Projection[Any]]) -> None:
        """See which views have snapshots, and which shards serve nothing because of a loss."""
        self._lost = {loss.stream for loss in await self._log.check()}
        if self._views.snapshots is not None:
            for each in projections:
                self._snapshots[each.name] = await self._views.snapshots.names(each)

    def is_hot(self, subject: Subject) -> bool:
        """Whether a read of any of its views is answered from memory."""
        return any(self._views.peek(each, subject) for each in self._folds_of(subject.family))

    def serves(self, shard: int) -> bool:
        """Whether reads of a shard are answered at all."""
        return self._log.namespace.stream(shard) not in self._lost

    async def compare(self, rebuilt: Fold[Any]) -> tuple[Difference | None, int]:
        """Return how what is served differs, and how many envelopes its snapshot covers.

        The fold goes on to where what is served has come.
        """
        if not self.serves(rebuilt.subject.shard):
            return None, 0
        found, covered = None, 0
        if self._views.peek(rebuilt.projection, rebuilt.subject):
            found = await self._compare_memory(rebuilt)
        if rebuilt.subject.name in self._snapshots.get(rebuilt.projection.name, ()):
            of_snapshot, covered = await self._compare_snapshot(rebuilt)
            found = found or of_snapshot
        return found, covered

    async def _compare_memory(self, rebuilt: Fold[Any]) -> Difference | None:
        projection, subject = rebuilt.projection, rebuilt.subject
        for _ in range(_ATTEMPTS):
            served = self._views.peek(projection, subject)
            if served is not None and served.applied < rebuilt.applied:
                await self._views.refresh(served, "strong")
            records = await read_all(self._log, subject, rebuilt.applied)
            # Nothing is awaited from here on: both stand still.
            served = self._views.peek(projection, subject)
            if served is None:
                return None
            _go_on(rebuilt, [each for each in records if each.seq <= served.applied])
            if served.applied == rebuilt.applied:
                return _compare(served, rebuilt)
        return None

    async def _compare_snapshot(self, rebuilt: Fold[Any]) -> tuple[Difference | None, int]:
        snapshots = self._views.snapshots
        assert snapshots is not None, "else there would be no name of one"
        restored = await snapshots.load(rebuilt.projection, rebuilt.subject)
        if restored is None:
            return None, 0
        served = Fold(rebuilt.projection, rebuilt.subject)
        served.folded, end = restored.folded, restored.end
        covered = len(served.folded.seen)
        records = await read_all(self._log, rebuilt.subject, end.seq - 1)
        if not records or not holds(end, records[0]):
            first = f"sequence {end.seq}: the snapshot ends there, and the log does not hold it"
            return _difference(served, rebuilt, first), 0
        if records[0].envelopes[0].type == CLEARED:
            return None, 0  # it was cleared since, and readers see that
        _go_on(rebuilt, [each for each in records if each.seq > rebuilt.applied])
        _go_on(served, records)
        found = _compare(served, rebuilt)
        return found, 0 if found else covered


def _go_on(fold: Fold[Any], records: Iterable[Record]) -> None:
    for record in records:
        fold.advance(record.envelopes)


def _difference(served: Fold[Any], rebuilt: Fold[Any], first: str) -> Difference:
    name = f"{rebuilt.projection.name}/{'/'.join(rebuilt.subject.keys)}"
    return Difference(name, _side(served), _side(rebuilt), first)


def _side(fold: Fold[Any]) -> Side:
    parts = repr(_plain(_parts(fold))).encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(parts, digest_size=_DIGEST_BYTES).hexdigest()
    return Side(len(fold.folded.seen), digest)


def _compare(served: Fold[Any], rebuilt: Fold[Any]) -> Difference | None:
    """How two folds of one subject, up to one sequence, differ; None if they do not.

    Of a sequence, only pages that both have in memory are compared.
    """
    new = _parts(rebuilt)
    pairs = [(name, part, new.get(name, ABSENT)) for name, part in _parts(served).items()]
    for name, old, other in (*pairs, *_pages(served, rebuilt)):
        first = _first(name, old, other)
        if first is not None:
            return _difference(served, rebuilt, first)
    return None


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


def _pages(served: Fold[Any], rebuilt: Fold[Any]) -> Iterator[tuple[str, Any, Any]]:
    """The pages that both folds have in memory, as envelopes by ordinal."""
    old, new = served.folded.state, rebuilt.folded.state
    for number in range(len(old.marks) if isinstance(old, Items) else 0):
        pages = old.page(number), new.page(number)
        if None not in pages:
            one, other = (dict(enumerate(page, number * PAGE)) for page in pages)
            yield "envelope", one, other


def _first(name: str, old: Any, new: Any) -> str | None:
    """Where two parts first differ, in words; None if nowhere."""
    is_equal = type(old) is type(new) and bool(old == new)
    if is_equal and not (isinstance(old, dict) and list(old) != list(new)):
        return None
    old, new = _plain(old), _plain(new)
    for path, one, other in differences(old, new, name):
        return f"{path}: {_short(one)} was served, {_short(other)} is in the log"
    return None if repr(old) == repr(new) else f"{name}: another order was served"


def _plain(value: Any) -> Any:
    """A value as lists, dicts and scalars: structs and objects by field, sets sorted."""
    if value is ABSENT or value is None or isinstance(value, str | bytes | int | float):
        return value
    fields = fields_of(value)
    if fields is not None:
        return {name: _plain(field) for name, field in fields.items()}
    if isinstance(value, Mapping):
        return {
            key if isinstance(key, str) else repr(key): _plain(each) for key, each in value.items()
        }
    if isinstance(value, Set):
        return sorted(map(_plain, value), key=repr)
    if isinstance(value, Iterable):
        return [_plain(each) for each in value]
    return {name: _plain(each) for name, each in vars(value).items()} or repr(value)


def _short(value: Any) -> str:
    text = "nothing" if value is ABSENT else repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
