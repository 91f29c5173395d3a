"""The importer's way to the store, with a list of the acked saves."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from foldlog.models import (
    PlannerEvent,
    StateUpdate,
    SteeringEvent,
    StoredEvent,
    TaskState,
    Trajectory,
)
from foldlog.opening import Store


class Ledger:
    """A store for the importer. `acked` are the messages whose save has returned, by trace.

    Args:
        begun: from how many records on, whose save has begun, `moment` may come.
        crowd: how many saves must be on their way then.
    """

    def __init__(self, store: Store, *, begun: int, crowd: int) -> None:
        self.load_history: Final = store.load_history
        self.list_steering: Final = store.list_steering
        self.list_updates: Final = store.list_updates
        self.list_planner_events: Final = store.list_planner_events
        self.get_events: Final = store.get_events
        self.list_tasks: Final = store.list_tasks
        self.get_trajectory: Final = store.get_trajectory
        self.list_traces: Final = store.list_traces
        self.acked: defaultdict[str, list[StoredEvent]] = defaultdict(list)
        self.in_flight: int = 0
        self._store = store
        self._to_begin = begun
        self._crowd = crowd
        self._ack = asyncio.Event()
        self._ended = False

    async def moment(self) -> bool:
        """Wait until enough is under way for a kill to be worth something.

        That is right after an ack. False: the import ended before.
        """
        while not self._ended:
            self._ack.clear()
            await self._ack.wait()
            if self.in_flight:  # by now the whole group that was acked has returned
                return True
        return False

    def end(self) -> None:
        """There will be no more saves."""
        self._ended = True
        self._ack.set()

    async def save_events(self, events: Iterable[StoredEvent]) -> None:
        """As the store's; what it acked is noted."""
        saved: Sequence[StoredEvent] = list(events)
        with self._flight(len(saved)):
            await self._store.save_events(saved)
        for event in saved:
            self.acked[event.trace_id or ""].append(event)

    async def save_task(self, state: TaskState) -> None:
        """As the store's."""
        with self._flight():
            await self._store.save_task(state)

    async def save_steering(self, event: SteeringEvent) -> None:
        """As the store's."""
        with self._flight():
            await self._store.save_steering(event)

    async def save_update(self, update: StateUpdate) -> None:
        """As the store's."""
        with self._flight():
            await self._store.save_update(update)

    async def save_planner_event(self, trace_id: str, event: PlannerEvent) -> None:
        """As the store's."""
        with self._flight():
            await self._store.save_planner_event(trace_id, event)

    async def save_trajectory(self, trace_id: str, session_id: str, trajectory: Trajectory) -> None:
        """As the store's."""
        with self._flight():
            await self._store.save_trajectory(trace_id, session_id, trajectory)

    @contextmanager
    def _flight(self, records: int = 1) -> Iterator[None]:
        self.in_flight += 1
        self._to_begin -= records
        try:
            yield
        finally:
            self.in_flight -= 1
            # While one group of saves is acked, the next one is on its way.
            if self._to_begin <= 0 and self.in_flight >= self._crowd - 1:
                self._ack.set()
