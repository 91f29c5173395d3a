"""Bring one plan into a store: read what is there, save what is missing."""

from __future__ import annotations

from asyncio import TaskGroup
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from foldlog.errors import FoldlogError
from foldlog.importer.planning import ImportPlan
from foldlog.importer.report import Counts
from foldlog.models import (
    PlannerEvent,
    StateUpdate,
    SteeringEvent,
    StoredEvent,
    TaskState,
    Trajectory,
)
from foldlog.protocols import (
    SupportsPlannerEvents,
    SupportsSteering,
    SupportsTasks,
    SupportsTrajectories,
)

# Without a cursor a store lists the latest `limit`; this is all of them.
_ALL = 2**31 - 1


class ImportTarget(
    SupportsTasks, SupportsSteering, SupportsTrajectories, SupportsPlannerEvents, Protocol
):
    """What the importer needs of a store."""

    async def load_history(self, trace_id: str) -> Sequence[StoredEvent]:
        """Return the events of the trace `trace_id`."""

    async def save_events(self, events: Iterable[StoredEvent]) -> None:
        """Save `events` in order. An event that cannot be held is refused before any is saved."""


class TraceTaken(FoldlogError):
    """The trace holds messages that the conversation does not. Nothing of it was saved."""

    def __init__(self, trace_id: str) -> None:
        super().__init__(
            f"trace {trace_id!r} already holds another conversation; import with another prefix"
        )


@dataclass(frozen=True, slots=True)
class Missing:
    """What of a plan is still to be saved. `tasks` are the states the task goes through."""

    events: list[StoredEvent]
    steering: list[SteeringEvent]
    updates: list[StateUpdate]
    planner_events: list[PlannerEvent]
    tasks: list[TaskState]
    trajectory: Trajectory | None


async def save(store: ImportTarget, plan: ImportPlan) -> tuple[Counts, Counts]:
    """Save what the store lacks of the plan. Returns what was appended and what was there.

    Raises `TraceTaken`, and whatever the store raises. A save that was cut short is completed by
    the next one.
    """
    missing = await _missing(store, plan)
    await _append(store, plan, missing)
    appended = Counts(
        events=len(missing.events),
        steering=len(missing.steering),
        updates=len(missing.updates),
        planner_events=len(missing.planner_events),
        tasks=int(bool(missing.tasks)),
        trajectories=int(missing.trajectory is not None),
    )
    present = Counts(
        events=len(plan.events) - appended.events,
        steering=len(plan.steering) - appended.steering,
        updates=len(plan.updates) - appended.updates,
        planner_events=len(plan.planner_events) - appended.planner_events,
        tasks=1 - appended.tasks,
        trajectories=1 - appended.trajectories,
    )
    return appended, present


async def _missing(store: ImportTarget, plan: ImportPlan) -> Missing:
    trace_id = plan.trace_id
    with first_error():
        async with TaskGroup() as group:
            history = group.create_task(store.load_history(trace_id))
            steering = group.create_task(store.list_steering(trace_id, limit=_ALL))
            updates = group.create_task(store.list_updates(trace_id, limit=_ALL))
            planner_events = group.create_task(store.list_planner_events(trace_id))
            tasks = group.create_task(store.list_tasks(trace_id))
            trajectory = group.create_task(store.get_trajectory(trace_id, trace_id))
    steered = {event.event_id for event in steering.result()}
    updated = {update.update_id for update in updates.result()}
    called = {_call(event) for event in planner_events.result()}
    return Missing(
        events=_missing_events(plan, history.result()),
        # A store keeps the sanitized event, so only its id can be compared.
        steering=[event for event in plan.steering if event.event_id not in steered],
        updates=[update for update in plan.updates if update.update_id not in updated],
        planner_events=[event for event in plan.planner_events if _call(event) not in called],
        tasks=_missing_tasks(plan, tasks.result()),
        trajectory=None if _same(trajectory.result(), plan.trajectory) else plan.trajectory,
    )


def _missing_events(plan: ImportPlan, history: Sequence[StoredEvent]) -> list[StoredEvent]:
    planned = {event.ts: event for event in plan.events}
    messages = [event for event in history if event.kind.startswith("message.")]
    if not all(_same(event, planned.get(event.ts)) for event in messages):
        raise TraceTaken(plan.trace_id)
    there = {event.ts for event in messages}
    return [event for event in plan.events if event.ts not in there]


def _missing_tasks(plan: ImportPlan, tasks: Sequence[TaskState]) -> list[TaskState]:
    there = next((task for task in tasks if task.task_id == plan.ended.task_id), None)
    if there is None:
        return [plan.started, plan.ended]
    return [] if _same(there, plan.ended) else [plan.ended]


def _call(event: PlannerEvent) -> tuple[object, object]:
    """The message and the call that name an event: a planner event has no id."""
    return event.extra.get("message"), event.extra.get("call")


def _same(one: object, other: object) -> bool:
    """Equal, or alike down to a NaN, which equals nothing."""
    return one == other or repr(one) == repr(other)


async def _append(store: ImportTarget, plan: ImportPlan, missing: Missing) -> None:
    """The messages come first and alone: what cannot be held fails here, before anything else.

    The task ends after all the rest is saved, so that an ended task has everything it needs.
    """
    if missing.events:
        await store.save_events(missing.events)
    for state in missing.tasks[:-1]:
        await store.save_task(state)
    with first_error():
        async with TaskGroup() as group:
            # Tasks start in this order, and a store appends to one subject in call order.
            for steering in missing.steering:
                group.create_task(store.save_steering(steering))
            for update in missing.updates:
                group.create_task(store.save_update(update))
            for event in missing.planner_events:
                group.create_task(store.save_planner_event(plan.trace_id, event))
            if missing.trajectory is not None:
                group.create_task(
                    store.save_trajectory(plan.trace_id, plan.trace_id, missing.trajectory)
                )
    for state in missing.tasks[-1:]:
        await store.save_task(state)


@contextmanager
def first_error() -> Iterator[None]:
    """Lets a task group fail with the error itself, as the code would without a group."""
    try:
        yield
    except ExceptionGroup as group:
        error: Exception = group
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        raise error from group
