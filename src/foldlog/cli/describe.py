"""A store described for comparison: the views of its sessions, and all others, as plain values."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from foldlog.cli.difference import Described
from foldlog.differences import fields_of
from foldlog.errors import PastErased
from foldlog.jsonable import compact, jsonable
from foldlog.store.core import core_of
from foldlog.store.ownership import state_of, views_of

if TYPE_CHECKING:
    from foldlog.kind import Key, Kind
    from foldlog.opening import Store
    from foldlog.story import Part


async def session(store: Store, session_id: str) -> Described:
    """What a session holds, of every kind that belongs to it; what was removed since is gone.

    Ids and values leave out whose they are: that is said once, and differs between sessions.
    """
    try:
        return await _described(store, await _views_of(store, session_id), session_id)
    except PastErased as error:
        return {"gone": {session_id: error.reason}}


async def story(store: Store, session_id: str) -> list[Part]:
    """What happened in a session, in order; or, if there is none, in a trace of that name."""
    from foldlog.story import tell
    from foldlog.ui.run import Run, place_of

    try:
        views = await Run("session", session_id).views(store) or [
            kind(session_id) for kind in core_of(store).kinds_of("trace")
        ]
        pages = [(key, await store.items(key, limit=sys.maxsize)) for key in views]
    except PastErased:
        return []
    found = sorted(
        ((key, item) for key, page in pages for item in page), key=lambda each: place_of(each[1])
    )
    return tell((key, item.recorded_at, key.line(item)) for key, item in found)


async def titles(store: Store, session_ids: Iterable[str]) -> dict[str, str]:
    """The title of each session: what its user said first, or what its run or task is for."""
    from foldlog.ui.catalogue import Catalogue

    catalogue = Catalogue(store)
    return {id: await catalogue.title(id) for id in session_ids}


async def named(store: Store, name: str) -> Described:
    """What views of that name hold which are no session's: a trace, and others."""
    kinds = [each for each in _others(store) if len(each.keys) == 1]
    return await _described(store, [kind(name) for kind in kinds], "")


async def everything(store: Store) -> dict[str, Described]:
    """What a namespace holds: each session, and under "" what belongs to none."""
    from foldlog.store.ownership import WHOLE

    described = dict[str, Described]()
    claimed: set[Key[Any]] = set()
    for name in await store.sessions():
        described[name] = await session(store, name)
        if "gone" not in described[name]:
            claimed.update(await _views_of(store, name))
    rest: list[Key[Any]] = []
    for kind in _others(store):
        found = await store.keys(kind)
        rest += [key for key in found if key not in claimed and key.keys[-1] != WHOLE]
    return described | {"": await _described(store, rest, "")}


def one_line(value: object) -> str:
    """A value in a line, as JSON."""
    return value if isinstance(value, str) else compact(value)


def _others(store: Store) -> list[Kind[Any]]:
    """The kinds whose views are not a session's by their first key alone."""
    kinds = (
        each for each in core_of(store).kinds.values() if each.of is None and not each.of_storage
    )
    return [each for each in kinds if each.owner != "session" and not _leads(store, each)]


def _leads(store: Store, kind: Kind[Any]) -> bool:
    """Whether a kind only leads to others: a list of theirs, or one of foldlog's that owns them."""
    from foldlog_projections.registry import KINDS

    lists = (each.list for known in core_of(store).kinds.values() for each in known.listed)
    return (kind.owns is not None and kind in KINDS) or kind in lists


async def _views_of(store: Store, session_id: str) -> list[Key[Any]]:
    views = await views_of(core_of(store), session_id)
    views = [key for key in views if not _leads(store, key.kind)]
    return sorted(views, key=lambda key: key.kind.owner != "session")  # its own first


async def _described(store: Store, views: Iterable[Key[Any]], session_id: str) -> Described:
    found: dict[str, dict[str, Any]] = {}
    for key in views:
        types = {type_.partition(".")[0] for type_ in key.kind.records}
        name = types.pop() if len(types) == 1 else key.kind.name
        place = _place(key, session_id)
        for id, value in (await _entries(store, key)).items():
            plain = _without_owner(jsonable(value), session_id)
            found.setdefault(name, {})[" ".join([*place, *([id] if id else [])])] = plain
    return found


async def _entries(store: Store, key: Key[Any]) -> Mapping[str, Any]:
    """What a view holds, by id; under "" what is one value."""
    entries = key.kind.shown.entries
    if entries is not None:
        return entries(await state_of(core_of(store), key))
    state = await store.view(key)
    if isinstance(state, list):
        items = await store.items(key, limit=sys.maxsize)
        return _numbered((item.id, item.record) for item in items)
    if isinstance(state, dict):
        return {one_line(id): _opened(key.kind, value) for id, value in state.items()}
    return {} if state == key.kind.initial() else {"": _opened(key.kind, state)}


def _numbered(values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Values by id; of those with one id, all but the first have a number."""
    seen, found = Counter[str](), dict[str, Any]()
    for id, value in values:
        seen[id] += 1
        found[id if seen[id] == 1 else f"{id}#{seen[id]}"] = value
    return found


def _opened(kind: Kind[Any], value: Any) -> Any:
    """A value with records in place of envelopes, and values in place of encoded ones."""
    import msgspec

    from foldlog import codec
    from foldlog.envelope import Recorded

    if isinstance(value, Recorded):
        value = kind.decode(value)
    if isinstance(value, msgspec.Raw | bytes):
        if not bytes(value):
            return None
        with suppress(msgspec.MsgspecError, ValueError):
            return codec.decode(bytes(value))
    if isinstance(value, Mapping):
        return {name: _opened(kind, each) for name, each in value.items()}
    fields = fields_of(value)
    if fields is not None:
        return {name: _opened(kind, each) for name, each in fields.items()}
    return value


def _place(key: Key[Any], session_id: str) -> list[str]:
    """The keys of a view without the session whose it is."""
    if not session_id:
        return list(key.keys)
    keys = key.keys[1:] if key.kind.owner == "session" else key.keys
    return [each.removesuffix(f":{session_id}") for each in keys]


def _without_owner(value: Any, session_id: str) -> Any:
    if session_id and isinstance(value, dict):
        return {k: _without_owner(v, session_id) for k, v in value.items() if k != "session_id"}
    return value
