"""A store described for comparison: what its sessions, traces and memories hold, by id."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

from foldlog.cli.difference import Described
from foldlog.cli.jsonable import compact, jsonable
from foldlog.errors import PastErased

if TYPE_CHECKING:
    from foldlog.opening import Store


async def session(store: Store, session_id: str) -> Described:
    """What a session holds. What was removed since is there as what is gone."""
    from foldlog.models import ArtifactScope

    try:
        tasks, updates, steering, traces, artifacts = await asyncio.gather(
            store.list_tasks(session_id),
            store.list_updates(session_id, limit=sys.maxsize),
            store.list_steering(session_id, limit=sys.maxsize),
            store.list_traces(session_id, limit=sys.maxsize),
            store.artifact_store.list(scope=ArtifactScope(session_id=session_id)),
        )
        traces = list(reversed(traces))
        found = await asyncio.gather(*(store.get_trajectory(t, session_id) for t in traces))
    except PastErased as error:
        return {"gone": {session_id: error.reason}}
    return {
        "task": {each.task_id: _described(each) for each in tasks},
        "update": {each.update_id: _described(each) for each in updates},
        "steering": {each.event_id: _described(each) for each in steering},
        "trajectory": {trace: _described(each) for trace, each in zip(traces, found, strict=True)},
        "artifact": {each.id: _described(each) for each in artifacts},
    }


async def everything(store: Store) -> dict[str, Described]:
    """What a namespace holds: each session, and under "" its traces' events and its memories."""
    from foldlog.store.events import event_id

    described = {name: await session(store, name) for name in await store.sessions()}
    rest: dict[str, dict[str, Any]] = {"event": {}, "memory": {}}
    for subject in await store.log.subjects("events"):
        trace = subject.keys[0]
        for event in await store.load_history(trace):
            if not (trace.startswith("session:") and event.kind.startswith("session.")):
                rest["event"][f"{trace} {event_id(event)[:8]}"] = jsonable(event)
    for subject in await store.log.subjects("memory"):
        rest["memory"][subject.keys[0]] = jsonable(await store.load_memory_state(subject.keys[0]))
    return described | {"": rest}


def _described(value: object) -> Any:
    """The value without whose it is: that is said once, and is what differs between sessions."""
    return _without_owner(jsonable(value))


def _without_owner(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_owner(v) for k, v in value.items() if k != "session_id"}
    return value


def one_line(value: object) -> str:
    """A value in a line, as JSON."""
    return value if isinstance(value, str) else compact(value)
