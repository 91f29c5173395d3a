"""A store described for comparison: the views of its sessions, and all others, as plain values."""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from foldlog.cli.difference import Described
from foldlog.differences import fields_of
from foldlog.errors import PastErased
from foldlog.jsonable import compact, jsonable
from foldlog.store.core import core_of
from foldlog.store.ownership import lineage_of, views_of

if TYPE_CHECKING:
    from foldlog.kind import Key, Kind
    from foldlog.opening import Store
    from foldlog_projections.agentstates import AgentState


async def session(store: Store, session_id: str) -> Described:
    """What a session holds, of every kind that belongs to it; what was removed since is gone.

    Ids and values leave out whose they are: that is said once, and differs between sessions.
    """
    try:
        return await _described(store, await _views_of(store, session_id), session_id)
    except PastErased as error:
        return {"gone": {session_id: error.reason}}


async def execution(store: Store, state_id: str) -> Described:
    """What an execution has recorded; nothing if there is none of that name."""
    from foldlog_projections import states

    return await _described(store, [states.kind(state_id)], "")


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
    for kind in core_of(store).kinds.values():
        if kind.of is None and kind.owner != "session" and not _leads(store, kind):
            found = await store.keys(kind)
            rest += [key for key in found if key not in claimed and key.keys[-1] != WHOLE]
    return described | {"": await _described(store, rest, "")}


def one_line(value: object) -> str:
    """A value in a line, as JSON."""
    return value if isinstance(value, str) else compact(value)


def _leads(store: Store, kind: Kind[Any]) -> bool:
    """Whether a kind only leads to others: a list of theirs, or one of foldlog's that owns them."""
    from foldlog_projections.registry import KINDS

    lists = (each.list for known in core_of(store).kinds.values() for each in known.listed)
    return (kind.owns is not None and kind in KINDS) or kind in lists


async def _views_of(store: Store, session_id: str) -> list[Key[Any]]:
    """The session's views. What a fork shares of memory stands under the fork's own keys."""
    from foldlog_projections import memory

    origins, origin = set[str](), (await lineage_of(core_of(store), session_id)).shared
    while origin is not None:
        origins.add(origin.session_id)
        origin = (await lineage_of(core_of(store), origin.session_id)).shared
    views: dict[Key[Any], None] = {}
    for key in await views_of(core_of(store), session_id):
        if key.kind is memory.kind and memory.session_of(key.keys[0]) in origins:
            key = memory.kind(memory.key_in(key.keys[0], session_id))
        if not _leads(store, key.kind):
            views[key] = None
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
    read = _READERS.get(key.kind.name)
    if read is not None:
        return await read(store, *key.keys)
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


# --- what a fork finds at its origin, and what is stored as bytes ---------------------------------


async def _memory(store: Store, key: str) -> Mapping[str, Any]:
    state = await store.load_memory_state(key)
    return {} if state is None else {"": state}


async def _trajectory(store: Store, session_id: str, trace_id: str) -> Mapping[str, Any]:
    found = await store.get_trajectory(trace_id, session_id)
    return {} if found is None else {"": found}


async def _events(store: Store, trace_id: str) -> Mapping[str, Any]:
    from foldlog.store.events import event_id

    is_audit = trace_id.startswith("session:")
    found = {}
    for event in await store.load_history(trace_id):
        if not (is_audit and event.kind.startswith("session.")):
            # Of a fork and its origin, the trace is another.
            named = dataclasses.replace(event, trace_id="session") if is_audit else event
            found[event_id(named)[:8]] = named
    return found


async def _artifacts(store: Store, session_id: str) -> Mapping[str, Any]:
    from foldlog.models import ArtifactScope

    scope = ArtifactScope(session_id=session_id)
    return {ref.id: ref for ref in await store.artifact_store.list(scope=scope)}


async def _agent(store: Store, runtime: str, scope: str) -> Mapping[str, Any]:
    from foldlog import codec

    state: AgentState = await store.view("agentstates", runtime, scope)
    return {
        name: {"type": entry.type, "state": codec.decode(entry.raw)}
        for name, entry in state.entries.items()
    }


async def _checkpoints(store: Store, thread_id: str) -> Mapping[str, Any]:
    import hashlib

    from foldlog_projections import checkpoints
    from foldlog_projections.thread import Thread

    def plain(form: str | None, data: bytes) -> Any:
        """A value that every program can read; of others, which it is."""
        from foldlog import codec

        if form in (None, "msgpack", "null"):
            with suppress(ValueError):
                return codec.decode(data) if data else None
        return f"{form} {hashlib.blake2b(data, digest_size=8).hexdigest()}"

    def show(thread: Thread) -> dict[str, Any]:
        found = {}
        for ns, space in thread.namespaces.items():
            for each in space.checkpoints.values():
                found[" ".join(filter(None, (ns, each.id)))] = {
                    "parent": each.parent,
                    "metadata": plain(*each.metadata),
                    "values": {
                        name: plain(body.form, body.data)
                        for name, body in space.values(each).items()
                    },
                    "writes": [
                        [one.task, one.write.channel, plain(one.write.form, one.write.data)]
                        for one in space.written(each.id)
                    ],
                }
        return found

    return await store.query(checkpoints.kind(thread_id), show)


async def _states(store: Store, state_id: str) -> Mapping[str, Any]:
    """An execution in the words of its program; left out is who ran it when."""
    from foldlog_projections import states

    state = _opened(states.kind, await store.view("states", state_id))
    if state["value"] is None and not state["steps"]:
        return {}
    steps = {
        name: {field: value for field, value in step.items() if field in _OF_A_STEP}
        | ({"attempt": step["attempt"]} if step["attempt"] > 1 else {})
        for name, step in state["steps"].items()
    }
    saved = {name: value for name, value in (state["value"] or {}).items() if name != "state_id"}
    return {"": saved | {"steps": steps}}


_OF_A_STEP: Final = ("phase", "request", "result", "artifact_id", "error", "message")

_READERS: Final[dict[str, Callable[..., Awaitable[Mapping[str, Any]]]]] = {
    "agentstates": _agent,
    "artifacts": _artifacts,
    "checkpoints": _checkpoints,
    "events": _events,
    "memory": _memory,
    "states": _states,
    "trajectory": _trajectory,
}
