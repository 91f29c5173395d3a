"""Whose a view is, and what a fork shares with the session that it comes from.

`owned_by` says all that is a session's: it is cleared, erased, exported, copied and forked with it.
The subjects of a fork read through to its origin's (`foldlog.log.forks`); its lineage leads to all
the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, Protocol, TypeVar

from foldlog.envelope import Recorded, draft
from foldlog.errors import LogCorrupt, SessionHasForks
from foldlog.kind import Key, Kind
from foldlog.log.port import Append, Log
from foldlog.position import LogPosition
from foldlog.store.clearing import (
    Area,
    Holding,
    Named,
    Prefix,
    clear,
    read_holdings,
    read_what_can_be,
)
from foldlog.store.core import Core
from foldlog.store.decisions import At, Decided, decide_drafts
from foldlog.store.payloads import dump, encode
from foldlog.views import Consistency, refold
from foldlog_projections import lineage
from foldlog_projections.fold import start, step
from foldlog_projections.folds import all_records, every
from foldlog_projections.lineage import Began, Ended, Fork, Lineage

WHOLE: Final = "\0"
"""A last key that stands for all views whose other keys are the same."""


_NAMED: Final = attrgetter("named")
"""All that a view names, that of before a tombstone included."""


def session_kinds(core: Core) -> list[Kind[Any]]:
    """The kinds with one view for each session, under its id alone."""
    return [kind for kind in core.kinds_of("session") if len(kind.keys) == 1]


async def lineage_of(core: Core, session_id: str, consistency: Consistency = "session") -> Lineage:
    """Return a session's lineage. Use it before the next await; never change it."""
    return (await core.read(lineage.kind, session_id, consistency=consistency)).state


def origin_log(core: Core, began: Began) -> Log:
    """The log as of the moment at which a fork left its origin."""
    return core.log_at(LogPosition.parse(began.position))


async def owned_by(
    core: Core,
    session_id: str,
    origin: Began | None,
    *,
    by: Callable[[Holding[Any]], Iterable[Named]] = _NAMED,
) -> list[Area]:
    """All that is a session's, what it only shares with its origin left out.

    Those that kinds declare as a session's; those that such views name in turn; and those of
    the traces that they name.

    Args:
        by: what counts of that which a view names.
    """
    found = dict[Area, None]()
    log = core.forked_log
    for kind in core.kinds.values():
        area = None if kind.of is not None else area_of(kind, session_id)
        if area is not None:
            await _add_owned(core, found, area, log, by)
    shared = await shared_by(core, origin)
    found = {area: None for area in found if area not in shared}
    whole = {(area.kind, area.keys) for area in found if isinstance(area, Prefix)}
    return [
        area
        for area in found
        if isinstance(area, Prefix)
        or not any((area.kind, area.keys[:n]) in whole for n in range(1, len(area.keys)))
    ]


async def shared_by(core: Core, origin: Began | None) -> dict[Area, None]:
    """What a fork's lists name because its origin's did; it stays with the origin."""
    shared = dict[Area, None]()
    for kind in session_kinds(core) if origin is not None else ():
        if kind.owns is not None and origin is not None:
            area = kind(origin.session_id)
            await _add_owned(core, shared, area, origin_log(core, origin), _NAMED)
            shared.pop(area)
    return shared


async def views_of(core: Core, session_id: str) -> list[Key[Any]]:
    """The views of a session that hold records, what it shares included.

    What a fork reads of its origin under its own keys is named by these.
    """
    found = dict[Key[Any], None]()
    origins = await origins_of(core, session_id)
    for area in await owned_by(core, session_id, None):
        keys = [area] if isinstance(area, Key) else await core.keys(area.kind, area.keys)
        for key in keys:
            if key.kind.keys_in is not None and key.kind.session_of(key.keys) in origins:
                key = key.kind(*key.kind.keys_in(key.keys, session_id))
            if key.keys[-1] != WHOLE:
                found[key] = None
    return list(found)


async def origins_of(core: Core, session_id: str) -> list[str]:
    """The sessions that a fork goes on from, the nearest first."""
    found = list[str]()
    while (origin := (await lineage_of(core, session_id)).shared) is not None:
        session_id = origin.session_id
        found.append(session_id)
    return found


async def state_of(core: Core, key: Key[S], consistency: Consistency = "session") -> S:
    """The state of a view; of a fork's, with what its origin's held up to the fork.

    Use it before the next await; never change it.
    """
    kind, keys = key
    own = await core.read(kind, *keys, consistency=consistency)
    session_id, read_through = kind.session_of(keys), list[Recorded]()
    if own.cleared_at or (kind.latest_only and own.count) or kind.keys_in is None:
        return own.state
    while session_id and (origin := (await lineage_of(core, session_id, consistency)).shared):
        session_id = origin.session_id
        subject = core.subject(kind, *kind.keys_in(keys, session_id))
        found = await refold(origin_log(core, origin), all_records(kind), subject)
        read_through[:0] = found.state
        if found.cleared_at:
            break
    if not read_through:
        return own.state
    own_records = await refold(core.forked_log, all_records(kind), core.subject(kind, *keys))
    folded = start(kind)
    for envelope in (*read_through, *own_records.state):
        step(kind, folded, envelope)
    return folded.state


async def _add_owned(
    core: Core,
    found: dict[Area, None],
    area: Area,
    log: Log,
    by: Callable[[Holding[Any]], Iterable[Named]],
) -> None:
    """Enter an area, and all that it names, by the log given."""
    if area in found:
        return
    found[area] = None
    if area.kind.owns is not None and isinstance(area, Key):
        [held] = await read_holdings(core, area, log=log)
        for each in areas_named(core, by(held)):
            await _add_owned(core, found, each, log, by)


def areas_named(core: Core, named: Iterable[Named]) -> list[Area]:
    """What a state names: traces, and other views."""
    found = list[Area]()
    for name, keys in named:
        if name == "trace":
            found += [_area(kind, keys[0]) for kind in core.kinds_of("trace")]
        else:
            found.append(key_named(core, name, keys))
    return found


def key_named(core: Core, name: str, keys: tuple[str, ...]) -> Key[Any]:
    """The view of a kind's name and keys, also where this program lacks the kind."""
    return Key(core.kinds.get(name) or _unknown_kind(name, len(keys)), keys)


async def relatives(core: Core, session_id: str) -> list[str]:
    """All other sessions that may share what this one holds, as of now."""
    found, ahead = set[str](), [session_id]
    while ahead:
        each = ahead.pop()
        if each not in found:
            found.add(each)
            known = await lineage_of(core, each, "strong")
            ahead += [*known.forks, *([known.origin.session_id] if known.origin else [])]
    return sorted(found - {session_id})


async def close_lineage(core: Core, session_id: str) -> Began | None:
    """Let nobody fork a session as it was before now; return its origin."""
    key = lineage.kind(session_id)

    def origin_of(state: Lineage) -> Began | None:
        if state.forks:
            raise SessionHasForks(session_id, sorted(state.forks))
        return state.origin

    def decision(at: At) -> dict[Key[Any], Decided]:
        return {key: Decided([encode(key.kind, Ended())], origin_of(at.folded.state))}

    origin: Began | None
    try:
        origin = (await decide_drafts(core, [key], decision, in_atomic="at once"))[key].value
    except LogCorrupt:
        origin = origin_of((await read_what_can_be(core, lineage.kind, session_id)).state)
        await clear(core, [key])
        await decide_drafts(core, [key], decision, in_atomic="at once")
    return origin


async def leave_origin(core: Core, session_id: str, origin: Began) -> None:
    """Have the origin of a session that was cleared forget it. Leaving again is safe."""
    ended = draft(lineage.ENDED, dump(Fork(session_id)), id=f"ended:{session_id}")
    parent = core.subject(lineage.kind, origin.session_id)
    await core.append_at_once([Append(parent, (ended,))])


def area_of(kind: Kind[Any], session_id: str) -> Area | None:
    """Return the views of a kind that are a session's by their keys; None: none are."""
    if kind.owner == "session":
        return _area(kind, session_id)
    return _area(kind, f"session:{session_id}") if kind.owner in ("trace", "scope") else None


def _area(kind: Kind[Any], first: str) -> Area:
    return kind(first) if len(kind.keys) == 1 else Prefix(kind, (first,))


@lru_cache
def _unknown_kind(name: str, count: int) -> Kind[Any]:
    """A kind that this program does not know: its records can be removed all the same."""
    named = tuple(f"key_{number}" for number in range(count))
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
