"""Broken in what belongs to a trace: events, planner events, trajectories."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from foldlog.models import PlannerEvent, RemoteBinding, StoredEvent, Trajectory
from tests.testing.broken.registry import found_by
from tests.testing.copying import fingerprint
from tests.testing.plain_store import PlainStore

# --- events ---------------------------------------------------------------------------------------


@found_by(
    "ExactPayloads.test_bytes_and_their_text_are_different_events",
    "StateStore.test_each_concurrent_writer_finds_its_events_in_order",
    "StateStore.test_equal_timestamps_keep_the_order_of_saves",
    "StateStore.test_equal_timestamps_keep_their_order_after_a_restart",
    "StateStore.test_events_that_differ_in_any_field_are_different",
)
class DropsATie(PlainStore):
    """Keys the events of a trace by their timestamp."""

    async def load_history(self, trace_id: str) -> list[StoredEvent]:
        history = await super().load_history(trace_id)
        return list({event.ts: event for event in history}.values())


@found_by(
    "StateStore.test_history_is_ordered_by_timestamp",
    "StateStore.test_history_stays_ordered_after_a_restart",
)
class OrdersByArrival(PlainStore):
    async def load_history(self, trace_id: str) -> list[StoredEvent]:
        return self.given(self.data.events.get(self.place(trace_id), []))


@found_by(
    "StateStore.test_each_concurrent_writer_finds_its_events_in_order",
    "StateStore.test_equal_timestamps_keep_the_order_of_saves",
    "StateStore.test_equal_timestamps_keep_their_order_after_a_restart",
)
class BreaksTiesByName(PlainStore):
    async def load_history(self, trace_id: str) -> list[StoredEvent]:
        history = await super().load_history(trace_id)
        return sorted(history, key=lambda event: (event.ts, event.node_name or ""))


@found_by(
    "PlannerEvents.test_saving_an_event_again_after_a_restart_keeps_one",
    "PlannerEvents.test_two_stores_saving_one_event_keep_one",
    "StateStore.test_saving_an_event_again_after_a_restart_keeps_one",
    "StateStore.test_two_stores_saving_one_event_keep_one",
)
class RemembersEventsInTheProcess(PlainStore):
    """Forgets what it has seen when it is restarted."""

    @cached_property
    def seen(self) -> set[Any]:
        return set()

    def is_new(self, place: Any, content: str) -> bool:
        known = (place, content) in self.seen
        self.seen.add((place, content))
        return not known


@found_by(
    "StateStore.test_concurrent_saves_of_one_event_keep_one",
    "StateStore.test_two_stores_saving_one_event_keep_one",
)
class LooksThenSaves(PlainStore):
    """Checks for a duplicate, then waits for its disk, then appends."""

    async def save_runtime_event(self, event: StoredEvent) -> None:
        place = self.place("__global__" if event.trace_id is None else event.trace_id)
        event = self.taken(event)
        if fingerprint(event) not in map(fingerprint, self.data.events[place]):
            await asyncio.sleep(0)
            self.data.events[place].append(event)


@found_by(
    "ExactPayloads.test_an_event_that_holds_nan_is_still_saved_once",
    "StateStore.test_concurrent_saves_of_one_event_keep_one",
    "StateStore.test_saving_an_event_again_after_a_restart_keeps_one",
    "StateStore.test_saving_an_event_twice_keeps_one",
    "StateStore.test_the_order_of_payload_keys_makes_no_other_event",
    "StateStore.test_two_stores_saving_one_event_keep_one",
)
class RepeatsEvents(PlainStore):
    """Keeps a retry as one more event."""

    async def save_runtime_event(self, event: StoredEvent) -> None:
        self.data.fingerprints.clear()
        await super().save_runtime_event(event)


@found_by(
    "ExactPayloads.test_an_event_that_holds_nan_is_still_saved_once",
    "StateStore.test_concurrent_saves_of_one_event_keep_one",
    "StateStore.test_saving_an_event_again_after_a_restart_keeps_one",
    "StateStore.test_saving_an_event_twice_does_not_fail",
    "StateStore.test_saving_an_event_twice_keeps_one",
    "StateStore.test_the_order_of_payload_keys_makes_no_other_event",
    "StateStore.test_two_stores_saving_one_event_keep_one",
)
class RaisesOnADuplicate(PlainStore):
    """An insert without ON CONFLICT."""

    async def save_runtime_event(self, event: StoredEvent) -> None:
        before = len(self.data.fingerprints)
        await super().save_runtime_event(event)
        if len(self.data.fingerprints) == before:
            raise ValueError("duplicate key value violates unique constraint")


@found_by(
    "ExactPayloads.test_an_event_that_holds_nan_is_still_saved_once",
    "ExactPayloads.test_bytes_and_their_text_are_different_events",
    "StateStore.test_events_that_differ_in_any_field_are_different",
)
class ComparesEventsWithEquals(PlainStore):
    """To Python 1, 1.0 and True are equal, and NaN is not equal to itself."""

    async def save_runtime_event(self, event: StoredEvent) -> None:
        place = self.place("__global__" if event.trace_id is None else event.trace_id)
        event = self.taken(event)
        if event not in self.data.events[place]:
            self.data.events[place].append(event)


@found_by(
    "StateStore.test_the_order_of_payload_keys_makes_no_other_event",
)
class FingerprintsUnsortedJson(PlainStore):
    """Takes the same payload, its keys in another order, for another event."""

    async def save_runtime_event(self, event: StoredEvent) -> None:
        place = self.place("__global__" if event.trace_id is None else event.trace_id)
        event = self.taken(event)
        if self.is_new(place, repr(event)):
            self.data.events[place].append(event)


@found_by(
    "StateStore.test_any_kind_is_kept",
    "StateStore.test_hostile_text_in_every_field_is_data",
)
class RefusesUnknownKinds(PlainStore):
    async def save_runtime_event(self, event: StoredEvent) -> None:
        if not event.kind.startswith(("node_", "trace_")):
            raise ValueError(event.kind)
        await super().save_runtime_event(event)


@found_by(
    "StateStore.test_an_event_without_a_trace_is_kept",
    "StateStore.test_any_kind_is_kept",
)
class CutsKinds(PlainStore):
    """`kind VARCHAR(12)`, in a database that cuts silently."""

    async def save_runtime_event(self, event: StoredEvent) -> None:
        await super().save_runtime_event(replace(event, kind=event.kind[:12]))


@found_by(
    "StateStore.test_an_event_without_a_trace_is_kept",
)
class DropsGlobalEvents(PlainStore):
    """Events without a trace belong to nobody."""

    async def save_runtime_event(self, event: StoredEvent) -> None:
        if event.trace_id is not None:
            await super().save_runtime_event(event)


@found_by(
    "StateStore.test_an_event_comes_back_as_it_was",
)
class KeepsMilliseconds(PlainStore):
    async def save_runtime_event(self, event: StoredEvent) -> None:
        await super().save_runtime_event(replace(event, ts=round(event.ts, 3)))


@found_by(
    "StateStore.test_absent_names_are_not_blank_ones",
    "StateStore.test_events_that_differ_in_any_field_are_different",
)
class StoresBlanksForNone(PlainStore):
    """Columns that are NOT NULL."""

    async def save_runtime_event(self, event: StoredEvent) -> None:
        event = replace(event, node_name=event.node_name or "", node_id=event.node_id or "")
        await super().save_runtime_event(event)


@found_by(
    "StateStore.test_any_mapping_serves_as_a_payload",
)
class TakesDictsOnly(PlainStore):
    """`json.dumps(event.payload)`, which knows no other mapping."""

    async def save_runtime_event(self, event: StoredEvent) -> None:
        if isinstance(event.payload, MappingProxyType):
            raise TypeError("Object of type mappingproxy is not JSON serializable")
        await super().save_runtime_event(event)


@found_by(
    "StateStore.test_hostile_traces_never_collide",
)
class TakesIdsForPatterns(PlainStore):
    """Answers for every trace that a pattern matches."""

    async def load_history(self, trace_id: str) -> list[StoredEvent]:
        if trace_id == ">":
            return self.given([event for events in self.data.events.values() for event in events])
        return await super().load_history(trace_id)


@found_by(
    "Bindings.test_a_binding_comes_back_as_it_was",
    "Bindings.test_a_binding_is_replaced_by_its_key",
    "Bindings.test_a_binding_moves_with_its_router",
    "Bindings.test_a_binding_saved_as_terminal_is_not_found",
    "Bindings.test_a_router_lists_its_own_bindings",
    "Bindings.test_a_terminal_binding_is_listed_but_not_found",
    "Bindings.test_a_terminal_binding_stays_so_after_a_restart",
    "Bindings.test_bindings_survive_a_restart",
    "Bindings.test_each_part_of_the_key_tells_bindings_apart",
    "Bindings.test_find_matches_router_agent_and_skill",
    "Bindings.test_find_never_crosses_tenants_or_users",
    "Bindings.test_find_prefers_the_binding_saved_last",
    "Bindings.test_find_prefers_the_same_after_a_restart",
    "Bindings.test_find_without_a_tenant_finds_what_nobody_owns",
    "Bindings.test_hostile_ids_never_collide",
    "Bindings.test_marking_an_unknown_binding_changes_nothing",
    "Bindings.test_saving_a_binding_twice_keeps_one",
    "Bindings.test_what_was_loaded_may_be_changed",
    "Bindings.test_what_was_saved_may_be_changed_afterwards",
    "ExactPayloads.test_bindings_are_exact",
    "StateStore.test_saving_a_remote_binding_again_does_not_fail",
    "StateStore.test_the_required_methods_are_there",
)
class SavesBindingsWithoutAwait(PlainStore):
    """A method that is not async."""

    def save_remote_binding(self, binding: RemoteBinding) -> None:  # type: ignore[override]
        return None


# --- planner events -------------------------------------------------------------------------------


@found_by(
    "PlannerEvents.test_events_keep_the_order_of_emission",
    "PlannerEvents.test_planner_events_survive_a_restart",
)
class SortsPlannerEvents(PlainStore):
    """By their timestamps, as runtime events are."""

    async def list_planner_events(self, trace_id: str) -> list[PlannerEvent]:
        return sorted(await super().list_planner_events(trace_id), key=lambda event: event.ts)


@found_by(
    "PlannerEvents.test_saving_an_event_again_after_a_restart_keeps_one",
    "PlannerEvents.test_saving_an_event_twice_keeps_one",
    "PlannerEvents.test_two_stores_saving_one_event_keep_one",
)
class RepeatsPlannerEvents(PlainStore):
    async def save_planner_event(self, trace_id: str, event: PlannerEvent) -> None:
        self.data.planner[self.place(trace_id)].append(self.taken(event))


@found_by(
    "PlannerEvents.test_a_planner_event_comes_back_as_it_was",
    "PlannerEvents.test_events_that_differ_in_any_field_are_different",
    "PlannerEvents.test_planner_events_survive_a_restart",
)
class ForgetsThoughts(PlainStore):
    async def save_planner_event(self, trace_id: str, event: PlannerEvent) -> None:
        await super().save_planner_event(trace_id, replace(event, thought=None))


@found_by(
    "Aliases.test_planner_events_are_saved_by_their_old_name",
    "PlannerEvents.test_planner_events_are_no_runtime_events",
)
class MixesTheTwoChannels(PlainStore):
    """Keeps planner events in the table of runtime events."""

    async def save_planner_event(self, trace_id: str, event: PlannerEvent) -> None:
        await super().save_planner_event(trace_id, event)
        kind, ts, node = event.event_type, event.ts, event.node_name
        await self.save_runtime_event(StoredEvent(trace_id, ts, kind, node, None, event.extra))


@found_by(
    "Aliases.test_planner_events_are_listed_by_their_old_name",
)
class GetsTheOtherEvents(PlainStore):
    """Takes the old name of `list_planner_events` for one of `load_history`."""

    async def get_events(self, trace_id: str) -> list[Any]:
        return await self.load_history(trace_id)


# --- trajectories ---------------------------------------------------------------------------------


@found_by(
    "Trajectories.test_another_sessions_trace_is_none",
)
class IgnoresTheSessionOfATrajectory(PlainStore):
    async def get_trajectory(self, trace_id: str, session_id: str) -> Trajectory | None:
        table = self.data.trajectories
        found = [trajectory for place, trajectory in table.items() if place[1] == trace_id]
        last = found[-1] if found else None
        return self.given(table.get(self.place(session_id, trace_id), last))


@found_by(
    "Trajectories.test_a_trace_saved_again_is_the_newest",
    "Trajectories.test_hostile_ids_never_collide",
    "Trajectories.test_the_order_of_traces_survives_a_restart",
    "Trajectories.test_traces_are_limited_to_the_newest",
    "Trajectories.test_traces_are_listed_newest_first",
)
class ListsTracesOldestFirst(PlainStore):
    async def list_traces(self, session_id: str, limit: int = 50) -> list[str]:
        return (await super().list_traces(session_id, limit))[::-1]


@found_by(
    "Trajectories.test_a_trace_saved_again_is_the_newest",
    "Trajectories.test_the_order_of_traces_survives_a_restart",
)
class ListsTracesByFirstSave(PlainStore):
    async def save_trajectory(self, trace_id: str, session_id: str, trajectory: Trajectory) -> None:
        before = list(self.data.traces[self.place(session_id)])
        await super().save_trajectory(trace_id, session_id, trajectory)
        if trace_id in before:
            self.data.traces[self.place(session_id)] = dict.fromkeys(before)


@found_by(
    "Trajectories.test_a_limit_below_one_lists_nothing",
)
class SlicesTraces(PlainStore):
    """`traces[:-1]` is all but the last."""

    async def list_traces(self, session_id: str, limit: int = 50) -> list[str]:
        return (await super().list_traces(session_id, 1_000_000))[:limit]


@found_by(
    "Trajectories.test_a_trajectory_comes_back_as_it_was",
    "Trajectories.test_a_trajectory_survives_a_restart",
    "Trajectories.test_what_was_loaded_may_be_changed",
    "Trajectories.test_what_was_saved_may_be_changed_afterwards",
)
class ForgetsWhatWasGathered(PlainStore):
    """Keeps a trajectory's query and steps."""

    async def save_trajectory(self, trace_id: str, session_id: str, trajectory: Trajectory) -> None:
        bare = replace(trajectory, sources=[], hint_state={})
        await super().save_trajectory(trace_id, session_id, bare)
