"""Whose a view is, and what a fork shares with the session that it comes from.

`owned_by` says all that is a session's: it is cleared, erased, exported, copied and forked with it.
The subjects of a fork read through to its origin's (`foldlog.log.forks`); its lineage leads to all
the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol, TypeVar

from foldlog.envelope import draft
from foldlog.errors import LogCorrupt, SessionHasForks
from foldlog.kind import Key, Kind
from foldlog.log.port import Append, Log
from foldlog.position import LogPosition
from foldlog.store.blobs import LargeValues
from foldlog.store.clearing import Area, Prefix, clear, read_what_can_be, where
from foldlog.store.decisions import At, Decided
from foldlog.store.operation import nothing, operation
from foldlog.store.payloads import dump, encode
from foldlog.subjects import Branch, Subject
from foldlog.views import Consistency, refold
from foldlog.views.fold import salvage
from foldlog_projections import lineage
from foldlog_projections.folds import every
from foldlog_projections.lineage import Began, Ended, Fork, Lineage

WHOLE: Final = "\0"
"""A last key that stands for all views whose other keys are the same."""


class Ownership(LargeValues):
    """Which views belong to sessions, where sessions come from, and which go on from them."""

    @operation(nothing, writes=True)
    async def belong(self, session_id: str, key: Key[Any]) -> None:
        """Make a view part of a session: clearing or erasing the session removes it.

        Call it before the first save. Repeating it is free while the session is in memory. It acts
        at once, also inside `atomic()`. A view may be part of several sessions; the first one that
        is cleared removes it.

        Args:
            session_id: the session.
            key: the view: `kind(*keys)`.

        Raises:
            InvalidId: the session id is empty.
            ConfigurationError: the store does not know the kind.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: it may not be part of the
                session yet; calling again is safe.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        self._subject(key)  # refuses an unknown kind
        await self.add_belongings(session_id, key)

    @property
    def session_kinds(self) -> list[Kind[Any]]:
        """Internal: the kinds with one view for each session, under its id alone."""
        return [kind for kind in self.kinds_of("session") if len(kind.keys) == 1]

    async def lineage_of(self, session_id: str, consistency: Consistency = "session") -> Lineage:
        """Internal: return a session's lineage. Use it before the next await; never change it."""
        return (await self.read(lineage.kind, session_id, consistency=consistency)).state

    def origin_log(self, began: Began) -> Log:
        """Internal: the log as of the moment at which a fork left its origin."""
        return self.log_at(LogPosition.parse(began.position))

    async def owned_by(self, session_id: str, origin: Began | None) -> list[Area]:
        """Internal: all that is a session's, what it only shares with its origin left out.

        Those that kinds declare as a session's; those that such views name in turn; and those of
        the traces that they name. What names others stands last.
        """
        found = dict[Area, None]()
        log = self.forked_log
        for kind in self.kinds.values():
            area = None if kind.of is not None else area_of(kind, session_id)
            if area is not None:
                await self._add_owned(found, area, log)
        shared = await self.shared_by(origin)
        found = {area: None for area in found if area not in shared}
        whole = {(area.kind, area.keys) for area in found if isinstance(area, Prefix)}
        single = (
            area
            for area in found
            if isinstance(area, Prefix)
            or not any((area.kind, area.keys[:n]) in whole for n in range(1, len(area.keys)))
        )
        return sorted(single, key=lambda area: area.kind.owns is not None)

    async def shared_by(self, origin: Began | None) -> dict[Area, None]:
        """Internal: what a fork's lists name because its origin's did; it stays with the origin."""
        shared = dict[Area, None]()
        for kind in self.session_kinds if origin is not None else ():
            if kind.owns is not None and origin is not None:
                area = kind(origin.session_id)
                await self._add_owned(shared, area, self.origin_log(origin))
                shared.pop(area)
        return shared

    async def views_of(self, session_id: str) -> list[Key[Any]]:
        """Internal: the views of a session that hold records, what it shares included."""
        found = dict[Key[Any], None]()
        for area in await self.owned_by(session_id, None):
            keys = [area] if isinstance(area, Key) else await self.keys(area.kind, area.keys)
            found |= dict.fromkeys(key for key in keys if key.keys[-1] != WHOLE)
        return list(found)

    def area_subject(self, area: Area) -> Subject | Branch:
        """Internal: the subject of one view, or the branch of many."""
        return where(self, area)

    async def _add_owned(self, found: dict[Area, None], area: Area, log: Log) -> None:
        """Enter an area, and all that its state names, by the log given."""
        if area in found:
            return
        found[area] = None
        if area.kind.owns is not None and isinstance(area, Key):
            for each in self.areas_named(area.kind.owns(await self.state_in(log, area))):
                await self._add_owned(found, each, log)

    def areas_named(self, named: Iterable[tuple[str, tuple[str, ...]]]) -> list[Area]:
        """Internal: what a state names: traces, and other views."""
        found = list[Area]()
        for name, keys in named:
            if name == "trace":
                found += [_area(kind, keys[0]) for kind in self.kinds_of("trace")]
            else:
                found.append(self.key_named(name, keys))
        return found

    async def state_in(self, log: Log, key: Key[S]) -> S:
        """Internal: the state of a view by a log, of all that can be read of it."""
        subject = self.subject(key.kind, *key.keys)
        try:
            return (await refold(log, key.kind, subject)).state
        except LogCorrupt:
            return (await salvage(log, key.kind, subject)).state

    def key_named(self, name: str, keys: tuple[str, ...]) -> Key[Any]:
        """Internal: the view of a kind's name and keys, also where this program lacks the kind."""
        return Key(self.kinds.get(name) or _unknown_kind(name, keys), keys)

    async def relatives(self, session_id: str) -> list[str]:
        """Internal: all other sessions that may share what this one holds, as of now."""
        found, ahead = set[str](), [session_id]
        while ahead:
            each = ahead.pop()
            if each not in found:
                found.add(each)
                known = await self.lineage_of(each, "strong")
                ahead += [*known.forks, *([known.origin.session_id] if known.origin else [])]
        return sorted(found - {session_id})

    async def close_lineage(self, session_id: str) -> Began | None:
        """Internal: let nobody fork a session as it was before now; return its origin."""
        key = lineage.kind(session_id)

        def origin_of(state: Lineage) -> Began | None:
            if state.forks:
                raise SessionHasForks(session_id, sorted(state.forks))
            return state.origin

        def decision(at: At) -> dict[Key[Any], Decided]:
            return {key: Decided([encode(key.kind, Ended())], origin_of(at.folded.state))}

        origin: Began | None
        try:
            origin = (await self.decide_drafts([key], decision, in_atomic="at once"))[key].value
        except LogCorrupt:
            origin = origin_of((await read_what_can_be(self, lineage.kind, session_id)).state)
            await clear(self, key)
            await self.decide_drafts([key], decision, in_atomic="at once")
        return origin

    async def leave_origin(self, session_id: str, origin: Began) -> None:
        """Internal.

        Have the origin of a session that was cleared forget it. Leaving again is safe.
        """
        ended = draft(lineage.ENDED, dump(Fork(session_id)), id=f"ended:{session_id}")
        parent = self.subject(lineage.kind, origin.session_id)
        await self.append_atomically([Append(parent, (ended,))])


def area_of(kind: Kind[Any], session_id: str) -> Area | None:
    """Return the views of a kind that are a session's by their keys; None: none are."""
    if kind.owner == "session":
        return _area(kind, session_id)
    return _area(kind, f"session:{session_id}") if kind.owner in ("trace", "scope") else None


def _area(kind: Kind[Any], first: str) -> Area:
    return kind(first) if len(kind.keys) == 1 else Prefix(kind, (first,))


def _unknown_kind(name: str, keys: tuple[str, ...]) -> Kind[Any]:
    """A kind that this program does not know: its records can be removed all the same."""
    named = tuple(f"key_{number}" for number, _ in enumerate(keys))
    return Kind(name, keys=named, fold=every)


class OfSession(Protocol):
    """What names its session."""

    session_id: str


S = TypeVar("S")
T = TypeVar("T", bound=OfSession)


def as_of_session(items: list[T], session_id: str) -> list[T]:
    """A session's items, as its own: what a fork shares was saved under its origin's name."""
    for item in items:
        if item.session_id != session_id:
            item.session_id = session_id
    return items
