"""Calling stores of any age: the new name of a method first, then the one it had before.

StateStore specification 2.11, section "Compatibility Adapters". A store that has neither raises
`MissingCapability`, a TypeError, and was not called. Whatever the store itself raises propagates.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from foldlog.errors import MissingCapability

if TYPE_CHECKING:
    from foldlog.models import PlannerEvent, RemoteBinding, StateUpdate

__all__ = [
    "list_planner_events_compat",
    "list_updates_compat",
    "maybe_save_remote_binding",
    "save_planner_event_compat",
    "save_update_compat",
]

_Method = Callable[..., Awaitable[Any]]


async def save_update_compat(store: object, update: StateUpdate) -> None:
    """Save an update by `save_update`, else `save_task_update`.

    Args:
        store: a store of any age.
        update: the update.

    Raises:
        MissingCapability: the store has neither method. What the store raises is raised.
    """
    await _method(store, "updates", "save_update", "save_task_update")(update)


async def list_updates_compat(
    store: object,
    session_id: str,
    *,
    task_id: str | None = None,
    since_id: str | None = None,
    limit: int = 500,
) -> list[StateUpdate]:
    """Return a page of updates by `list_updates`, else `list_task_updates`.

    Args:
        store: a store of any age.
        session_id: whose updates.
        task_id: only those of this task.
        since_id: the page begins after this `update_id`.
        limit: how many at most.

    Raises:
        MissingCapability: the store has neither method. What the store raises is raised.
    """
    method = _method(store, "updates", "list_updates", "list_task_updates")
    return list(await method(session_id, task_id=task_id, since_id=since_id, limit=limit))


async def save_planner_event_compat(store: object, trace_id: str, event: PlannerEvent) -> None:
    """Save a planner event by `save_planner_event`, else `save_event(trace_id, event)`.

    A `save_event` that takes one argument saves runtime events and is not called.

    Args:
        store: a store of any age.
        trace_id: the trace.
        event: the event.

    Raises:
        MissingCapability: the store has neither method. What the store raises is raised.
    """
    method = getattr(store, "save_planner_event", None)
    if method is None:
        method = getattr(store, "save_event", None)
        if method is None or not _takes_two(method):
            raise MissingCapability("planner events", ["save_planner_event"])
    await method(trace_id, event)


async def list_planner_events_compat(store: object, trace_id: str) -> list[PlannerEvent]:
    """Return a trace's planner events by `list_planner_events`, else `get_events`.

    Args:
        store: a store of any age.
        trace_id: the trace.

    Raises:
        MissingCapability: the store has neither method. What the store raises is raised.
    """
    method = _method(store, "planner events", "list_planner_events", "get_events")
    return list(await method(trace_id))


async def maybe_save_remote_binding(store: object | None, binding: RemoteBinding) -> None:
    """Save a binding by `save_remote_binding`; without a store, do nothing.

    Args:
        store: a store of any age, or None.
        binding: the binding.

    Raises:
        MissingCapability: the store lacks the method. What the store raises is raised.
    """
    if store is not None:
        await _method(store, "remote bindings", "save_remote_binding")(binding)


def _method(store: object, feature: str, *names: str) -> _Method:
    for name in names:
        method: _Method | None = getattr(store, name, None)
        if method is not None:
            return method
    raise MissingCapability(feature, list(names))


def _takes_two(method: _Method) -> bool:
    # Asked of the signature: a TypeError from the call could be the store's own.
    try:
        inspect.signature(method).bind("trace", "event")
    except TypeError:
        return False
    return True
