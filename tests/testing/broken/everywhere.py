"""Broken in the same way in all that they keep."""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import Any

from foldlog.models import (
    PlannerEvent,
    RemoteBinding,
    StateUpdate,
    SteeringEvent,
    StoredEvent,
    TaskState,
    Trajectory,
)
from tests.testing.broken.registry import LISTS, each, each_limit, found_by
from tests.testing.copying import copied, fingerprint
from tests.testing.plain_artifacts import Artifact, PlainArtifacts
from tests.testing.plain_store import Data, PlainStore

# --- whose it is ----------------------------------------------------------------------------------


class _Keeping(PlainArtifacts):
    def taken(self, value: Any) -> Any:
        return value


@found_by(
    "Artifacts.test_references_belong_to_the_caller",
    "Bindings.test_what_was_saved_may_be_changed_afterwards",
    "MemoryState.test_what_was_saved_may_be_changed_afterwards",
    "PlannerEvents.test_what_was_saved_may_be_changed_afterwards",
    "PlannerState.test_what_was_saved_may_be_changed_afterwards",
    "StateStore.test_what_was_saved_may_be_changed_afterwards",
    "Steering.test_what_was_saved_may_be_changed_afterwards",
    "Tasks.test_what_was_saved_may_be_changed_afterwards",
    "Trajectories.test_what_was_saved_may_be_changed_afterwards",
    "Updates.test_what_was_saved_may_be_changed_afterwards",
)
class KeepsTheCallersObjects(PlainStore):
    Artifacts = _Keeping

    def taken(self, value: Any) -> Any:
        return value

    def sanitised(self, event: SteeringEvent) -> SteeringEvent:
        sanitised = super().sanitised(event)
        return event if sanitised == event else sanitised


@found_by(
    "Artifacts.test_references_belong_to_the_caller",
    "Bindings.test_what_was_loaded_may_be_changed",
    "MemoryState.test_what_was_loaded_may_be_changed",
    "PlannerEvents.test_what_was_loaded_may_be_changed",
    "SessionArtifacts.test_what_was_listed_may_be_changed",
    "StateStore.test_what_was_loaded_may_be_changed",
    "Steering.test_what_was_loaded_may_be_changed",
    "Tasks.test_what_was_loaded_may_be_changed",
    "Trajectories.test_what_was_loaded_may_be_changed",
    "Updates.test_what_was_loaded_may_be_changed",
)
class HandsOutItsOwnObjects(PlainStore):
    class Artifacts(PlainArtifacts):
        def given(self, value: Any) -> Any:
            return value

    def given(self, value: Any) -> Any:
        return value


# --- where it is kept -----------------------------------------------------------------------------


@found_by(
    "Artifacts.test_another_store_sees_a_deletion",
    "Artifacts.test_artifacts_survive_a_restart",
    "Bindings.test_a_terminal_binding_stays_so_after_a_restart",
    "Bindings.test_bindings_survive_a_restart",
    "Bindings.test_find_prefers_the_same_after_a_restart",
    "MemoryState.test_memory_survives_a_restart",
    "MemoryState.test_two_stores_leave_one_of_their_states",
    "PlannerEvents.test_planner_events_survive_a_restart",
    "PlannerEvents.test_saving_an_event_again_after_a_restart_keeps_one",
    "PlannerEvents.test_two_stores_saving_one_event_keep_one",
    "PlannerEvents.test_two_stores_writing_lose_nothing",
    "PlannerState.test_a_pause_survives_a_restart",
    "PlannerState.test_another_store_sees_a_pause_at_once",
    "Retention.test_limits_hold_for_a_store_opened_later",
    "SessionArtifacts.test_artifacts_are_listed_after_a_restart",
    "SessionArtifacts.test_two_stores_saving_the_same_content_make_one_artifact",
    "StateStore.test_equal_timestamps_keep_their_order_after_a_restart",
    "StateStore.test_history_stays_ordered_after_a_restart",
    "StateStore.test_saving_an_event_again_after_a_restart_keeps_one",
    "StateStore.test_two_stores_saving_one_event_keep_one",
    "StateStore.test_two_stores_writing_lose_nothing",
    "Steering.test_a_steering_event_survives_a_restart",
    "Steering.test_another_store_sees_it_at_once",
    "Tasks.test_a_task_survives_a_restart",
    "Tasks.test_another_store_sees_a_task_at_once",
    "Tasks.test_the_last_save_wins_after_a_restart",
    "Tasks.test_two_stores_writing_lose_nothing",
    "Trajectories.test_a_trajectory_survives_a_restart",
    "Trajectories.test_the_order_of_traces_survives_a_restart",
    "Trajectories.test_two_stores_writing_lose_nothing",
    "Updates.test_an_update_survives_a_restart",
    *each(
        LISTS,
        [
            "test_an_id_is_kept_once_after_a_restart",
            "test_paging_goes_on_after_a_restart",
            "test_the_order_is_the_same_after_a_restart",
            "test_two_stores_saving_one_id_keep_one",
            "test_two_stores_writing_lose_nothing",
        ],
    ),
)
class ForgetsEverythingWhenItIsRestarted(PlainStore):
    """Keeps it in the process."""

    def __init__(self, data: Data, *retention: Any) -> None:
        super().__init__(Data(clock=data.clock), *retention)


@found_by(
    "Bindings.test_a_router_lists_its_own_bindings",
    "Bindings.test_a_terminal_binding_is_listed_but_not_found",
    "Bindings.test_each_part_of_the_key_tells_bindings_apart",
    "Bindings.test_hostile_ids_never_collide",
    "Bindings.test_marking_an_unknown_binding_changes_nothing",
    "MemoryState.test_hostile_keys_never_collide",
    "MemoryState.test_keys_that_look_alike_are_different",
    "PlannerEvents.test_hostile_traces_never_collide",
    "PlannerEvents.test_traces_do_not_see_each_other",
    "PlannerState.test_another_store_sees_at_once_that_a_pause_is_taken",
    "PlannerState.test_exactly_one_of_many_callers_resumes",
    "PlannerState.test_exactly_one_of_many_stores_resumes",
    "PlannerState.test_hostile_tokens_never_collide",
    "PlannerState.test_tokens_do_not_see_each_other",
    "StateStore.test_hostile_traces_never_collide",
    "StateStore.test_traces_do_not_see_each_other",
    "Tasks.test_hostile_ids_never_collide",
    "Tasks.test_one_id_in_two_sessions_is_two_tasks",
    "Tasks.test_sessions_do_not_see_each_others_tasks",
    "Trajectories.test_another_sessions_trace_is_none",
    "Trajectories.test_concurrent_writers_lose_nothing",
    "Trajectories.test_hostile_ids_never_collide",
    "Trajectories.test_session_and_trace_are_not_glued_together",
    "Trajectories.test_sessions_do_not_see_each_others_traces",
    "Trajectories.test_two_stores_writing_lose_nothing",
    *each(
        LISTS,
        [
            "test_an_unknown_cursor_is_no_cursor",
            "test_hostile_sessions_never_collide",
            "test_one_id_in_two_sessions_is_two_items",
        ],
    ),
)
class ForgetsTheIdInItsKeys(PlainStore):
    """`f"history:"`, without what should follow."""

    def place(self, *ids: str | None) -> Any:
        return ()


@found_by(
    "Bindings.test_hostile_ids_never_collide",
    "MemoryState.test_hostile_keys_never_collide",
    "MemoryState.test_keys_that_look_alike_are_different",
    "PlannerEvents.test_hostile_traces_never_collide",
    "PlannerState.test_hostile_tokens_never_collide",
    "StateStore.test_hostile_traces_never_collide",
    "Steering.test_hostile_sessions_never_collide",
    "Tasks.test_hostile_ids_never_collide",
    "Trajectories.test_hostile_ids_never_collide",
    "Updates.test_hostile_sessions_never_collide",
)
class FoldsTheCaseOfIds(PlainStore):
    """A case-insensitive collation."""

    def place(self, *ids: str | None) -> Any:
        return tuple(id_ and id_.lower() for id_ in ids)


@found_by(
    "Bindings.test_each_part_of_the_key_tells_bindings_apart",
    "Trajectories.test_session_and_trace_are_not_glued_together",
)
class GluesIdsTogether(PlainStore):
    def place(self, *ids: str | None) -> Any:
        return ":".join(str(id_) for id_ in ids)


@found_by(
    "Aliases.test_planner_events_are_saved_by_their_old_name",
    "Artifacts.test_a_deleted_artifact_is_gone",
    "Artifacts.test_an_artifact_expires",
    "Artifacts.test_an_unknown_artifact_is_none",
    "Artifacts.test_another_store_sees_a_deletion",
    "Bindings.test_a_binding_moves_with_its_router",
    "Bindings.test_a_binding_saved_as_terminal_is_not_found",
    "Bindings.test_a_terminal_binding_stays_so_after_a_restart",
    "Bindings.test_an_unknown_router_has_no_bindings",
    "Bindings.test_find_matches_router_agent_and_skill",
    "Bindings.test_find_never_crosses_tenants_or_users",
    "Bindings.test_find_without_a_tenant_finds_what_nobody_owns",
    "MemoryState.test_a_missing_key_is_none",
    "PlannerEvents.test_an_unknown_trace_has_no_planner_events",
    "PlannerEvents.test_planner_events_are_no_runtime_events",
    "PlannerState.test_a_late_retry_does_not_bring_a_taken_pause_back",
    "PlannerState.test_a_missing_pause_is_none",
    "PlannerState.test_a_pause_is_taken_by_its_load",
    "PlannerState.test_a_pause_saved_again_is_one_pause",
    "PlannerState.test_a_taken_pause_is_none",
    "PlannerState.test_a_taken_pause_stays_taken_after_a_restart",
    "PlannerState.test_another_store_sees_at_once_that_a_pause_is_taken",
    "PlannerState.test_exactly_one_of_many_callers_resumes",
    "PlannerState.test_exactly_one_of_many_stores_resumes",
    "Retention.test_limits_hold_for_a_store_opened_later",
    "StateStore.test_an_unknown_trace_has_no_history",
    "Steering.test_an_unknown_session_is_empty",
    "Tasks.test_an_unknown_session_has_no_tasks",
    "Trajectories.test_an_unknown_session_has_no_traces",
    "Trajectories.test_an_unknown_trace_is_none",
    "Trajectories.test_another_sessions_trace_is_none",
    "Updates.test_an_unknown_session_is_empty",
    *each_limit("Retention.test_each_session_and_trace_counts_alone"),
    *each_limit("Retention.test_fifo_evicts_the_oldest"),
    *each_limit("Retention.test_lru_evicts_what_was_read_longest_ago"),
)
class RaisesOnTheUnknown(PlainStore):
    class Artifacts(PlainArtifacts):
        def find(self, artifact_id: str) -> Artifact | None:
            return self.held[artifact_id]

    def find(self, table: dict[Any, Any], place: Any, otherwise: Any = None) -> Any:
        if place not in table:
            raise KeyError(place)
        return table[place]

    async def find_binding(self, **query: Any) -> RemoteBinding | None:
        found = await super().find_binding(**query)
        if found is None:
            raise KeyError(query["router_session_id"])
        return found


@found_by(
    "Steering.test_another_store_sees_it_at_once",
    "Tasks.test_another_store_sees_a_task_at_once",
)
class CachesWhatItRead(PlainStore):
    """Reads again after a save of its own only."""

    @cached_property
    def cache(self) -> dict[Any, Any]:
        return {}

    def find(self, table: dict[Any, Any], place: Any, otherwise: Any = None) -> Any:
        if table is self.data.pauses:
            return super().find(table, place, otherwise)
        if (id(table), place) not in self.cache:
            self.cache[id(table), place] = copied(super().find(table, place, otherwise))
        return self.cache[id(table), place]

    def taken(self, value: Any) -> Any:
        self.cache.clear()
        return super().taken(value)


# --- retries and races ----------------------------------------------------------------------------


@found_by(
    "Bindings.test_a_binding_is_replaced_by_its_key",
    "Bindings.test_find_prefers_the_binding_saved_last",
    "Bindings.test_find_prefers_the_same_after_a_restart",
    "MemoryState.test_memory_survives_a_restart",
    "MemoryState.test_the_last_save_wins",
    "Tasks.test_the_last_save_wins",
    "Tasks.test_the_last_save_wins_after_a_restart",
    "Trajectories.test_the_last_save_wins",
    "Trajectories.test_the_order_of_traces_survives_a_restart",
)
class SavesAContentOnce(PlainStore):
    """Takes a save that repeats what was there before the last for a retry."""

    async def save_remote_binding(self, binding: RemoteBinding) -> None:
        if self.is_new("binding", fingerprint(binding)):
            await super().save_remote_binding(binding)

    async def save_memory_state(self, key: str, state: dict[str, Any]) -> None:
        if self.is_new(("memory", key), fingerprint(state)):
            await super().save_memory_state(key, state)

    async def save_task(self, state: TaskState) -> None:
        if self.is_new("task", repr(state)):
            await super().save_task(state)

    async def save_trajectory(self, trace_id: str, session_id: str, trajectory: Trajectory) -> None:
        if self.is_new((trace_id, session_id), repr(trajectory)):
            await super().save_trajectory(trace_id, session_id, trajectory)


@found_by(
    "PlannerEvents.test_concurrent_writers_lose_nothing",
    "PlannerEvents.test_two_stores_saving_one_event_keep_one",
    "PlannerEvents.test_two_stores_writing_lose_nothing",
    "StateStore.test_concurrent_saves_of_one_event_keep_one",
    "StateStore.test_concurrent_writers_lose_nothing",
    "StateStore.test_each_concurrent_writer_finds_its_events_in_order",
    "StateStore.test_two_stores_saving_one_event_keep_one",
    "StateStore.test_two_stores_writing_lose_nothing",
    "Tasks.test_concurrent_writers_lose_nothing",
    "Tasks.test_two_stores_writing_lose_nothing",
    "Trajectories.test_concurrent_writers_lose_nothing",
    "Trajectories.test_two_stores_writing_lose_nothing",
    *each(
        LISTS,
        [
            "test_a_poller_behind_writers_misses_nothing",
            "test_concurrent_saves_of_one_id_keep_one",
            "test_each_concurrent_writer_finds_its_items_in_order",
            "test_paging_loses_nothing",
            "test_the_default_limit_is_500",
            "test_the_default_limit_is_500_after_a_cursor",
            "test_two_stores_saving_one_id_keep_one",
            "test_two_stores_writing_lose_nothing",
        ],
    ),
)
class WritesBackWhatItRead(PlainStore):
    """Reads what is there, then waits for its disk, then writes it with one item more."""

    async def save_runtime_event(self, event: StoredEvent) -> None:
        await self.overwrite("events")
        await super().save_runtime_event(event)

    async def save_task(self, state: TaskState) -> None:
        await self.overwrite("tasks")
        await super().save_task(state)

    async def save_update(self, update: StateUpdate) -> None:
        await self.overwrite("updates")
        await super().save_update(update)

    async def save_steering(self, event: SteeringEvent) -> None:
        await self.overwrite("steering")
        await super().save_steering(event)

    async def save_planner_event(self, trace_id: str, event: PlannerEvent) -> None:
        await self.overwrite("planner")
        await super().save_planner_event(trace_id, event)

    async def save_trajectory(self, trace_id: str, session_id: str, trajectory: Trajectory) -> None:
        await self.overwrite("traces")
        await super().save_trajectory(trace_id, session_id, trajectory)

    async def overwrite(self, table: str) -> None:
        """Let others write, and undo it."""
        places = getattr(self.data, table)
        before = {place: held.copy() for place, held in places.items()}
        await asyncio.sleep(0)
        places.clear()
        places.update(before)
