"""What reads are answered from, compared with new folds of the log: where the two first differ."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from foldlog.differences import ABSENT, differences
from foldlog.errors import AppendFailed, LogRewound
from foldlog.kind import Kind
from foldlog.log.port import Log
from foldlog.subjects import Subject
from foldlog.views import snapshot
from foldlog.views.fold import Fold, read_all
from foldlog.views.views import Views
from foldlog_projections.fold import Folded
from foldlog_projections.folds import RECORDS, all_records
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
        digest: a digest of the bytes that a snapshot keeps of it.
    """

    envelopes: int
    digest: str


@dataclass(frozen=True, slots=True)
class ViewDifference:
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
    """The views that reads are answered from: in memory, and in snapshots.

    Args:
        kinds: all kinds of the store, by name.
        chosen: the names of those that are meant.
    """

    def __init__(
        self, log: Log, views: Views, kinds: Mapping[str, Kind[Any]], chosen: Collection[str]
    ) -> None:
        self._log = log
        self._views = views
        self._kinds = kinds
        self._chosen = chosen
        self._of = defaultdict[str, list[Kind[Any]]](list)
        for name in chosen:
            self._of[kinds[name].family].append(kinds[name])
        self._snapshots: Mapping[str, Collection[str]] = {}
        self._lost: set[str] = set()

    async def look(self) -> None:
        """See which views have snapshots, and which shards serve nothing because of a loss."""
        self._lost = {loss.stream for loss in await self._log.check()}
        if self._views.snapshots is not None:
            self._snapshots = await self._views.snapshots.store.names()

    def is_meant(self, projection: Kind[Any]) -> bool:
        """Whether a projection was chosen; one that the store does not know goes with its family's.

        Such are the records that pages and watchers read, and kinds of views that were not named
        when the store was opened.
        """
        if projection.name in self._kinds:
            return projection.name in self._chosen
        return projection.family in self._of

    def projections(self, subject: Subject) -> list[Kind[Any]]:
        """Return the projections by which a subject is served, or may be."""
        family = self._of.get(subject.family, ())
        found: dict[str, Kind[Any]] = {each.name: each for each in family}
        for view in self._views.of(subject):
            if self.is_meant(view.projection):
                found.setdefault(view.projection.name, view.projection)
        if family and RECORDS in self._snapshots.get(subject.name, ()):
            found.setdefault(RECORDS, all_records(family[0]))
        return list(found.values())

    def is_hot(self, subject: Subject) -> bool:
        """Whether a read of any of its views is answered from memory."""
        return bool(self._views.of(subject))

    def serves(self, shard: int) -> bool:
        """Whether reads of a shard are answered at all."""
        return self._log.namespace.stream(shard) not in self._lost

    async def compare(self, rebuilt: Fold[Any]) -> tuple[ViewDifference | None, int]:
        """Return how what is served differs, and how many envelopes its snapshot covers.

        The fold goes on to where what is served has come.
        """
        projection, subject = rebuilt.projection, rebuilt.subject
        if not self.serves(subject.shard):
            return None, 0
        hot = self._views.peek(projection, subject)
        if hot is not None and hot.applied < rebuilt.applied:
            await self._views.refresh(hot, "strong")
        found = await self._meet(lambda: self._views.peek(projection, subject), rebuilt)
        if projection.name not in self._snapshots.get(subject.name, ()):
            return found, 0
        try:
            cold = await self._views.restored(projection, subject)
        except LogRewound as error:
            first = f"sequence {error.sequence}: the snapshot ends there, not so the log"
            return found or _difference(Fold(projection, subject), rebuilt, first), 0
        if cold is None:
            return found, 0
        covered = cold.folded.count - cold.unsaved
        found = found or await self._meet(lambda: cold, rebuilt)
        return found, 0 if found else covered

    async def _meet(
        self, served_now: Callable[[], Fold[Any] | None], rebuilt: Fold[Any]
    ) -> ViewDifference | None:
        """Compare at one point of the log, to which the new fold goes on."""
        for _ in range(_ATTEMPTS):
            if served_now() is None:
                return None
            records = await read_all(self._log, rebuilt.subject, rebuilt.applied)
            # Nothing is awaited from here on: both stand still.
            served = served_now()
            if served is None:
                return None
            for record in records:
                if record.seq <= served.applied:
                    rebuilt.advance(record.envelopes, record.subject)
            if served.applied == rebuilt.applied:
                first = _first(served, rebuilt)
                return None if first is None else _difference(served, rebuilt, first)
        return None


def _difference(served: Fold[Any], rebuilt: Fold[Any], first: str) -> ViewDifference:
    name = f"{rebuilt.projection.name}/{'/'.join(rebuilt.subject.keys)}"
    return ViewDifference(name, _side(served), _side(rebuilt), first)


def _side(fold: Fold[Any]) -> Side:
    digest = hashlib.blake2b(_encode(_kept(fold)), digest_size=_DIGEST_BYTES).hexdigest()
    return Side(fold.folded.count, digest)


def _kept(fold: Fold[Any]) -> Folded[bytes]:
    """A fold with its state as the bytes that a snapshot keeps, or what stands for them."""
    if fold.projection.latest_only:  # the rest need not go back to the subject's beginning
        return Folded(_encode(fold.folded.state))
    try:
        return snapshot.kept(fold.projection, fold.folded)
    except AppendFailed:  # a state of users' own that cannot be kept, and has no snapshots
        return dataclasses.replace(fold.folded, state=_encode(fold.folded.state))


def _first(served: Fold[Any], rebuilt: Fold[Any]) -> str | None:
    """Where two folds of one subject, up to one sequence, first differ, in words; or None.

    Of a sequence, only pages that both have in memory are compared.
    """
    old, new = _kept(served), _kept(rebuilt)
    if _is_same(served.folded.state, rebuilt.folded.state):
        old.state = new.state  # sets have no order
    if old != new:
        for path, one, other in differences(_plain(old), _plain(new), ""):
            return _words(path.lstrip("."), one, other)
        return "state: another order was served"
    one, other = served.folded.state, rebuilt.folded.state
    for number in range(len(one.marks) if isinstance(one, Items) else 0):
        pages = zip(one.page(number) or (), other.page(number) or (), strict=False)
        for at, (was, known) in enumerate(pages, number * PAGE):
            if was != known:
                return _words(f"envelope {at}, sequence {known.seq}", was, known)
    return None


def _is_same(old: Any, new: Any) -> bool:
    """Whether two states are equal, whatever their bytes."""
    if isinstance(old, Items) or old != new:
        return False
    return not isinstance(old, dict) or list(old) == list(new)


def _plain(kept: Folded[bytes]) -> Any:
    """A fold as lists, dicts and scalars, its state too where its bytes say how."""
    found = msgspec.to_builtins(kept, builtin_types=(bytes,))
    with suppress(msgspec.MsgspecError):
        found["state"] = msgspec.msgpack.decode(kept.state)
    return found


def _words(place: str, served: Any, rebuilt: Any) -> str:
    return f"{place}: {_short(served)} was served, {_short(rebuilt)} is in the log"


def _encode(value: Any) -> bytes:
    return msgspec.msgpack.encode(
        value, enc_hook=lambda each: getattr(each, "__dict__", None) or repr(each)
    )


def _short(value: Any) -> str:
    text = "nothing" if value is ABSENT else repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
