"""Bring one plan into a store: read what is there, save what is missing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from foldlog.batches import side_by_side
from foldlog.errors import FoldlogError
from foldlog.importer.planning import MESSAGES, TASKS, ImportPlan
from foldlog.importer.report import Counts
from foldlog.opening import Store

T = TypeVar("T")

# Without a cursor a store lists the latest `limit`; this is all of them.
_ALL: Final = 2**31 - 1


class TraceTaken(FoldlogError):
    """The trace holds messages that the conversation does not. Nothing of it was saved."""

    def __init__(self, trace_id: str) -> None:
        super().__init__(
            f"trace {trace_id!r} already holds another conversation; import with another prefix"
        )


class _Sort(NamedTuple):
    """One sort of what a conversation becomes. `name` is the same for what was saved already.

    An object that the store keeps as it is has its repr, which is also that of a NaN in it.
    """

    read: Callable[[Store, str], Awaitable[Sequence[Any]]]
    save: Callable[[Store, str, Any], Awaitable[object]]
    name: Callable[[Any], object] = repr


async def _trajectories(store: Store, trace_id: str) -> list[Any]:
    found = await store.get_trajectory(trace_id, trace_id)
    return [] if found is None else [found]


_SORTS: Final = {
    MESSAGES: _Sort(
        lambda s, id: s.list_messages(id), lambda s, id, each: s.append_messages(id, [each])
    ),
    "steering": _Sort(
        lambda s, id: s.list_steering(id, limit=_ALL),
        lambda s, id, each: s.save_steering(each),
        lambda each: each.event_id,
    ),
    "updates": _Sort(
        lambda s, id: s.list_updates(id, limit=_ALL),
        lambda s, id, each: s.save_update(each),
        lambda each: each.update_id,
    ),
    TASKS: _Sort(lambda s, id: s.list_tasks(id), lambda s, id, each: s.save_task(each)),
    "trajectories": _Sort(_trajectories, lambda s, id, each: s.save_trajectory(id, id, each)),
}


async def save(store: Store, plan: ImportPlan) -> tuple[Counts, Counts]:
    """Save what the store lacks of the plan. Returns what was appended and what was there.

    Raises `TraceTaken`, and whatever the store raises. A save that was cut short is completed by
    the next one.
    """
    trace_id = plan.trace_id
    found = await side_by_side(_SORTS.values(), lambda sort: sort.read(store, trace_id))
    held = dict(zip(_SORTS, found, strict=True))
    missing = dict[str, list[Any]]()
    for name, sort in _SORTS.items():
        there = set(map(sort.name, held[name]))
        missing[name] = [each for each in plan.objects[name] if sort.name(each) not in there]
    if len(held[MESSAGES]) + len(missing[MESSAGES]) != len(plan.objects[MESSAGES]):
        raise TraceTaken(trace_id)
    # The messages come first and alone: what cannot be held fails here, before anything else. The
    # task ends after all the rest is saved, so that an ended task has everything it needs.
    if missing[MESSAGES]:
        await store.append_messages(trace_id, missing[MESSAGES])
    if all(each.task_id != plan.started.task_id for each in held[TASKS]):
        await store.save_task(plan.started)
    # They start in this order, and a store appends to one subject in call order.
    others = [
        partial(_SORTS[name].save, store, trace_id, each)
        for name in _SORTS
        if name not in (MESSAGES, TASKS)
        for each in missing[name]
    ]
    await side_by_side(others, lambda save: save())
    for each in missing[TASKS]:
        await store.save_task(each)
    appended = {name: len(missing[name]) for name in _SORTS}
    return appended, {name: len(plan.objects[name]) - appended[name] for name in _SORTS}
