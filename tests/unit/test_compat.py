"""Stores of any age, called by whichever name they know."""

from __future__ import annotations

from typing import Any

import pytest

import foldlog
from foldlog import compat
from tests.support.build import binding, planner_event, update


class Old:
    """A store of before the unified protocol."""

    def __init__(self) -> None:
        self.updates: list[foldlog.StateUpdate] = []
        self.events: list[foldlog.PlannerEvent] = []
        self.asked: dict[str, Any] = {}

    async def save_task_update(self, update: foldlog.StateUpdate) -> None:
        self.updates.append(update)

    async def list_task_updates(self, session_id: str, **query: Any) -> tuple[Any, ...]:
        self.asked = {"session_id": session_id} | query
        return tuple(self.updates)

    async def save_event(self, trace_id: str, event: foldlog.PlannerEvent) -> None:
        self.events.append(event)

    async def get_events(self, trace_id: str) -> tuple[foldlog.PlannerEvent, ...]:
        return tuple(self.events)


class Minimal:
    """A store with the required methods and no other."""

    def __init__(self) -> None:
        self.called = False

    async def save_event(self, event: foldlog.StoredEvent) -> None:
        self.called = True


async def test_the_new_names_are_used_where_they_exist() -> None:
    async with foldlog.memory_store() as store:
        await compat.save_update_compat(store, update("a"))
        await compat.save_update_compat(store, update("b"))
        await compat.save_planner_event_compat(store, "trace", planner_event())
        await compat.maybe_save_remote_binding(store, binding())
        listed = await compat.list_updates_compat(store, "session", since_id="a", limit=5)
        assert listed == [update("b")]
        events = await compat.list_planner_events_compat(store, "trace")
        assert events == [planner_event()]
        assert await store.list_bindings(trace_id="trace") == [binding()]


async def test_the_old_names_are_used_where_the_new_ones_are_missing() -> None:
    store = Old()
    await compat.save_update_compat(store, update("a"))
    await compat.save_planner_event_compat(store, "trace", planner_event())
    query: dict[str, Any] = {"task_id": "task", "since_id": "x", "limit": 7}
    assert await compat.list_updates_compat(store, "session", **query) == [update("a")]
    assert store.asked == {"session_id": "session"} | query
    assert await compat.list_planner_events_compat(store, "trace") == [planner_event()]


async def test_the_new_name_wins_where_both_exist() -> None:
    class Both(Old):
        async def save_planner_event(self, trace_id: str, event: foldlog.PlannerEvent) -> None:
            self.saved = trace_id

    store = Both()
    await compat.save_planner_event_compat(store, "trace", planner_event())
    assert store.saved == "trace"
    assert store.events == []


async def test_a_store_with_neither_name_is_a_missing_capability() -> None:
    for call, missing in (
        (compat.save_update_compat(object(), update("a")), ["save_update", "save_task_update"]),
        (compat.list_updates_compat(object(), "s"), ["list_updates", "list_task_updates"]),
        (compat.save_planner_event_compat(object(), "t", planner_event()), ["save_planner_event"]),
        (
            compat.list_planner_events_compat(object(), "t"),
            ["list_planner_events", "get_events"],
        ),
        (compat.maybe_save_remote_binding(object(), binding()), ["save_remote_binding"]),
    ):
        with pytest.raises(foldlog.MissingCapability) as refused:
            await call
        assert refused.value.missing == missing
        assert isinstance(refused.value, TypeError)


async def test_a_store_of_runtime_events_is_not_given_planner_events() -> None:
    store = Minimal()
    with pytest.raises(foldlog.MissingCapability):
        await compat.save_planner_event_compat(store, "trace", planner_event())
    assert not store.called


async def test_what_the_store_raises_is_its_own() -> None:
    class Failing(Old):
        async def save_event(self, trace_id: str, event: foldlog.PlannerEvent) -> None:
            raise TypeError("from within")

    with pytest.raises(TypeError, match="from within") as raised:
        await compat.save_planner_event_compat(Failing(), "trace", planner_event())
    assert not isinstance(raised.value, foldlog.MissingCapability)


async def test_without_a_store_a_binding_is_nobodys() -> None:
    await compat.maybe_save_remote_binding(None, binding())
