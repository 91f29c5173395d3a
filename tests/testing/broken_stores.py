"""Stores with one bug each, and the tests of the kit that find it: these and no others.

Each overrides one method of the plain store. They are bugs that stores have had.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

from foldlog.models import (
    ArtifactRef,
    ArtifactScope,
    PlannerEvent,
    RemoteBinding,
    StateUpdate,
    SteeringEvent,
    StoredEvent,
    TaskState,
    Trajectory,
)
from tests.testing.plain_store import Data, PlainArtifacts, PlainStore, copied, fingerprint, page

BROKEN: dict[type[PlainStore], set[str]] = {}


def found_by(*tests: str) -> Callable[[type[PlainStore]], type[PlainStore]]:
    """The tests that must fail on the store, by `<contract>.<test>`; all others must pass."""

    def register(store: type[PlainStore]) -> type[PlainStore]:
        BROKEN[store] = set(tests)
        return store

    return register


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
        return copied(self.data.events.get(trace_id, []))


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

    def __init__(self, data: Data) -> None:
        super().__init__(data)
        self.seen: set[Any] = set()

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

    async def save_event(
        self, event: StoredEvent | str, planner_event: PlannerEvent | None = None
    ) -> None:
        if isinstance(event, StoredEvent):
            trace_id = event.trace_id or "__global__"
            event = replace(event, payload=copied(dict(event.payload)))
            known = [fingerprint(each) for each in self.data.events.get(trace_id, [])]
            if fingerprint(event) not in known:
                await asyncio.sleep(0)
                self.data.events[trace_id].append(event)
        else:
            await super().save_event(event, planner_event)


@found_by(
    "StateStore.test_what_was_loaded_may_be_changed",
)
class SharesEvents(PlainStore):
    async def load_history(self, trace_id: str) -> list[StoredEvent]:
        return sorted(self.data.events.get(trace_id, []), key=lambda event: event.ts)


@found_by(
    "Aliases.test_planner_events_are_saved_by_their_old_name",
    "PlannerEvents.test_planner_events_are_no_runtime_events",
    "StateStore.test_an_unknown_trace_has_no_history",
)
class RaisesOnAnUnknownTrace(PlainStore):
    async def load_history(self, trace_id: str) -> list[StoredEvent]:
        if trace_id not in self.data.events:
            raise KeyError(trace_id)
        return await super().load_history(trace_id)


@found_by(
    "StateStore.test_any_kind_is_kept",
    "StateStore.test_hostile_text_in_every_field_is_data",
)
class RefusesUnknownKinds(PlainStore):
    async def save_event(
        self, event: StoredEvent | str, planner_event: PlannerEvent | None = None
    ) -> None:
        if isinstance(event, StoredEvent) and not event.kind.startswith(("node_", "trace_")):
            raise ValueError(event.kind)
        await super().save_event(event, planner_event)


@found_by(
    "ExactPayloads.test_bytes_and_their_text_are_different_events",
    "ExactPayloads.test_events_are_exact",
    "ExactPayloads.test_keys_that_are_no_strings_are_exact",
)
class WritesJson(PlainStore):
    """Loses what JSON lacks: NaN becomes null, bytes become text."""

    async def save_event(
        self, event: StoredEvent | str, planner_event: PlannerEvent | None = None
    ) -> None:
        if isinstance(event, StoredEvent):
            event = replace(event, payload=_as_json(event.payload))
        await super().save_event(event, planner_event)


@found_by(
    "StateStore.test_hostile_traces_never_collide",
)
class TakesIdsForPatterns(PlainStore):
    """Answers for every trace that a pattern matches."""

    async def load_history(self, trace_id: str) -> list[StoredEvent]:
        if trace_id == ">":
            return [event for trace in self.data.events.values() for event in copied(trace)]
        return await super().load_history(trace_id)


# --- bindings -------------------------------------------------------------------------------------


@found_by(
    "Bindings.test_a_binding_is_replaced_by_its_key",
    "Bindings.test_a_binding_moves_with_its_router",
    "Bindings.test_saving_a_binding_twice_keeps_one",
)
class AppendsBindings(PlainStore):
    """An upsert that appends."""

    async def save_remote_binding(self, binding: RemoteBinding) -> None:
        key = (binding.trace_id, binding.context_id, binding.task_id)
        self.data.bindings[*key, len(self.data.bindings)] = copied(binding)  # type: ignore[index]

    async def mark_binding_terminal(
        self, *, trace_id: str, context_id: str | None, task_id: str
    ) -> None:
        for key, binding in self.data.bindings.items():
            if key[:3] == (trace_id, context_id, task_id):
                binding.is_terminal = True


@found_by(
    "Bindings.test_find_never_crosses_tenants_or_users",
    "Bindings.test_find_without_a_tenant_finds_what_nobody_owns",
)
class CrossesTenants(PlainStore):
    async def find_binding(
        self,
        *,
        router_session_id: str,
        agent_url: str,
        remote_skill: str,
        tenant_id: str | None = None,
        user_id: str | None = None,
    ) -> RemoteBinding | None:
        wanted = (router_session_id, agent_url, remote_skill)
        for binding in reversed(self.data.bindings.values()):
            found = (binding.router_session_id, binding.agent_url, binding.remote_skill)
            if found == wanted and not binding.is_terminal:
                return copied(binding)
        return None


# --- pauses and memory ----------------------------------------------------------------------------


@found_by(
    "PlannerState.test_a_missing_pause_is_none",
    "PlannerState.test_a_taken_pause_is_none",
    "PlannerState.test_an_expired_pause_is_none",
)
class GivesAnEmptyPause(PlainStore):
    """Returns {} for a missing token."""

    async def load_planner_state(self, token: str) -> dict[str, Any] | None:
        return await super().load_planner_state(token) or {}


@found_by(
    "PlannerState.test_exactly_one_of_many_callers_resumes",
    "PlannerState.test_exactly_one_of_many_stores_resumes",
)
class ResumesTwice(PlainStore):
    """Reads, then deletes: two callers at once both get the pause."""

    async def load_planner_state(self, token: str) -> dict[str, Any] | None:
        expiry, held = self.data.pauses.get(token, (0.0, None))
        await asyncio.sleep(0)
        taken = await super().load_planner_state(token)
        return taken or (copied(held) if self.data.now < expiry else None)


@found_by(
    "PlannerState.test_a_late_retry_does_not_bring_a_taken_pause_back",
    "PlannerState.test_a_pause_is_taken_by_its_load",
    "PlannerState.test_a_pause_saved_again_is_one_pause",
    "PlannerState.test_a_taken_pause_is_none",
    "PlannerState.test_a_taken_pause_stays_taken_after_a_restart",
    "PlannerState.test_another_store_sees_a_pause_at_once",
    "PlannerState.test_exactly_one_of_many_callers_resumes",
    "PlannerState.test_exactly_one_of_many_stores_resumes",
)
class NeverConsumesAPause(PlainStore):
    async def load_planner_state(self, token: str) -> dict[str, Any] | None:
        expiry, payload = self.data.pauses.get(token, (0.0, None))
        return copied(payload) if self.data.now < expiry else None


@found_by(
    "PlannerState.test_a_late_retry_does_not_bring_a_taken_pause_back",
)
class RevivesAPause(PlainStore):
    """A save that is retried after the resume makes a new pause."""

    async def save_planner_state(self, token: str, payload: dict[str, Any]) -> None:
        self.data.taken.clear()
        await super().save_planner_state(token, payload)


@found_by(
    "PlannerState.test_an_expired_pause_is_none",
)
class KeepsPausesForEver(PlainStore):
    async def load_planner_state(self, token: str) -> dict[str, Any] | None:
        now, self.data.now = self.data.now, 0.0
        try:
            return await super().load_planner_state(token)
        finally:
            self.data.now = now


@found_by(
    "MemoryState.test_what_was_loaded_may_be_changed",
)
class SharesMemory(PlainStore):
    async def load_memory_state(self, key: str) -> dict[str, Any] | None:
        return self.data.memory.get(key)


@found_by(
    "MemoryState.test_hostile_keys_never_collide",
    "MemoryState.test_keys_that_look_alike_are_different",
)
class FoldsTheCaseOfKeys(PlainStore):
    """A case-insensitive collation."""

    async def save_memory_state(self, key: str, state: dict[str, Any]) -> None:
        await super().save_memory_state(key.lower(), state)

    async def load_memory_state(self, key: str) -> dict[str, Any] | None:
        return await super().load_memory_state(key.lower())


# --- tasks ----------------------------------------------------------------------------------------


@found_by(
    "Tasks.test_a_changed_status_is_saved_with_its_time",
    "Tasks.test_another_store_sees_a_task_at_once",
    "Tasks.test_saving_a_task_leaves_the_others",
    "Tasks.test_the_last_save_wins",
    "Tasks.test_the_last_save_wins_after_a_restart",
)
class KeepsTheFirstTask(PlainStore):
    """An insert that does nothing on conflict."""

    async def save_task(self, state: TaskState) -> None:
        if (state.session_id, state.task_id) not in self.data.tasks:
            await super().save_task(state)


@found_by(
    "Tasks.test_a_task_comes_back_as_it_was",
    "Tasks.test_a_task_survives_a_restart",
    "Tasks.test_the_context_it_was_spawned_with_is_kept",
)
class ForgetsTheContextOfTasks(PlainStore):
    async def save_task(self, state: TaskState) -> None:
        context = state.context_snapshot.model_copy(
            update={"context_version": None, "context_hash": None}
        )
        await super().save_task(replace(state, context_snapshot=context))


# --- cursors --------------------------------------------------------------------------------------


class _OwnPages(PlainStore):
    """For stores that page in their own way; the two lists alike."""

    def page(
        self, items: dict[str, Any], task_id: str | None, since_id: str | None, limit: int
    ) -> list[Any]:
        raise NotImplementedError

    async def list_updates(
        self,
        session_id: str,
        *,
        task_id: str | None = None,
        since_id: str | None = None,
        limit: int = 500,
    ) -> list[StateUpdate]:
        return self.page(self.data.updates.get(session_id, {}), task_id, since_id, limit)


@found_by(
    "Updates.test_a_filtered_page_is_the_first_after_its_cursor",
    "Updates.test_a_page_is_the_first_after_its_cursor",
    "Updates.test_a_poller_behind_writers_misses_nothing",
    "Updates.test_paging_goes_on_after_a_restart",
    "Updates.test_paging_loses_nothing",
    "Updates.test_paging_one_task_loses_nothing",
    "Updates.test_the_default_limit_is_500_after_a_cursor",
)
class PagesFromTheWrongEnd(_OwnPages):
    """Gives the last items after a cursor, not the first."""

    def page(
        self, items: dict[str, Any], task_id: str | None, since_id: str | None, limit: int
    ) -> list[Any]:
        after = page(items, task_id, since_id, len(items))
        return after[len(after) - min(max(limit, 0), len(after)) :]


@found_by(
    "Updates.test_a_filtered_page_is_the_first_after_its_cursor",
    "Updates.test_the_limit_counts_what_the_filter_leaves",
)
class FiltersAfterTheLimit(_OwnPages):
    def page(
        self, items: dict[str, Any], task_id: str | None, since_id: str | None, limit: int
    ) -> list[Any]:
        listed = page(items, None, since_id, limit)
        return [item for item in listed if task_id in (None, item.task_id)]


@found_by(
    "Updates.test_a_cursor_counts_among_all_tasks",
    "Updates.test_paging_one_task_loses_nothing",
)
class CountsTheCursorInTaskOrder(_OwnPages):
    """Looks for the cursor among the items of the task."""

    def page(
        self, items: dict[str, Any], task_id: str | None, since_id: str | None, limit: int
    ) -> list[Any]:
        of_task = {id_: item for id_, item in items.items() if task_id in (None, item.task_id)}
        return page(of_task, None, since_id, limit)


@found_by(
    "Updates.test_an_unknown_cursor_is_no_cursor",
    "Updates.test_an_unknown_session_is_empty",
)
class RaisesOnAnUnknownCursor(_OwnPages):
    def page(
        self, items: dict[str, Any], task_id: str | None, since_id: str | None, limit: int
    ) -> list[Any]:
        if since_id is not None and since_id not in items:
            raise KeyError(since_id)
        return page(items, task_id, since_id, limit)


@found_by(
    "Updates.test_an_unknown_cursor_is_no_cursor",
)
class GivesNothingAfterAnUnknownCursor(_OwnPages):
    def page(
        self, items: dict[str, Any], task_id: str | None, since_id: str | None, limit: int
    ) -> list[Any]:
        if since_id is not None and since_id not in items:
            return []
        return page(items, task_id, since_id, limit)


@found_by(
    "Updates.test_a_cursor_counts_among_all_tasks",
    "Updates.test_a_cursor_is_exclusive",
    "Updates.test_a_filtered_page_is_the_first_after_its_cursor",
    "Updates.test_a_page_is_the_first_after_its_cursor",
    "Updates.test_a_poller_behind_writers_misses_nothing",
    "Updates.test_hostile_ids_are_cursors_and_filters_like_others",
    "Updates.test_paging_goes_on_after_a_restart",
    "Updates.test_paging_loses_nothing",
    "Updates.test_paging_one_task_loses_nothing",
    "Updates.test_the_default_limit_is_500_after_a_cursor",
    "Updates.test_the_order_is_the_same_after_a_restart",
)
class RepeatsTheCursor(_OwnPages):
    """An inclusive cursor."""

    def page(
        self, items: dict[str, Any], task_id: str | None, since_id: str | None, limit: int
    ) -> list[Any]:
        listed = page(items, task_id, since_id, limit)
        return [items[since_id], *listed][:limit] if since_id in items else listed  # type: ignore[index]


@found_by(
    "Updates.test_a_limit_below_one_lists_nothing",
)
class TakesZeroForNoLimit(_OwnPages):
    """`items[-0:]`."""

    def page(
        self, items: dict[str, Any], task_id: str | None, since_id: str | None, limit: int
    ) -> list[Any]:
        return page(items, task_id, since_id, limit or len(items))


@found_by(
    "Updates.test_a_cursor_counts_among_all_tasks",
    "Updates.test_a_filtered_page_is_the_first_after_its_cursor",
    "Updates.test_a_poller_behind_writers_misses_nothing",
    "Updates.test_a_task_is_listed_alone",
    "Updates.test_any_content_is_held",
    "Updates.test_each_concurrent_writer_finds_its_items_in_order",
    "Updates.test_every_type_is_held",
    "Updates.test_hostile_ids_are_cursors_and_filters_like_others",
    "Updates.test_items_of_one_moment_keep_the_order_of_saves",
    "Updates.test_paging_goes_on_after_a_restart",
    "Updates.test_paging_one_task_loses_nothing",
    "Updates.test_the_order_is_the_same_after_a_restart",
    "Updates.test_two_stores_writing_lose_nothing",
)
class OrdersUpdatesById(_OwnPages):
    def page(
        self, items: dict[str, Any], task_id: str | None, since_id: str | None, limit: int
    ) -> list[Any]:
        return page(dict(sorted(items.items())), task_id, since_id, limit)


@found_by(
    "Updates.test_an_id_is_kept_once",
    "Updates.test_an_id_is_kept_once_after_a_restart",
)
class ReplacesUpdates(PlainStore):
    """A retry moves the update to the end, behind cursors that were given out."""

    async def save_update(self, update: StateUpdate) -> None:
        self.data.updates[update.session_id].pop(update.update_id, None)
        await super().save_update(update)


@found_by(
    "Steering.test_a_lone_surrogate_is_made_harmless",
    "Steering.test_a_long_list_is_cut",
    "Steering.test_a_long_string_is_cut",
    "Steering.test_a_payload_that_holds_itself_is_made_harmless",
    "Steering.test_a_payload_that_stays_too_big_is_summarised",
    "Steering.test_a_wide_object_is_cut",
    "Steering.test_deep_nesting_is_cut",
    "Steering.test_text_counts_in_bytes",
    "Steering.test_what_json_lacks_is_made_harmless",
)
class KeepsRawSteering(PlainStore):
    """Keeps what the user sent."""

    async def save_steering(self, event: SteeringEvent) -> None:
        self.data.steering[event.session_id].setdefault(event.event_id, deepcopy(event))


@found_by(
    "Steering.test_what_was_loaded_may_be_changed",
)
class SharesSteering(PlainStore):
    async def list_steering(
        self,
        session_id: str,
        *,
        task_id: str | None = None,
        since_id: str | None = None,
        limit: int = 500,
    ) -> list[SteeringEvent]:
        items = self.data.steering.get(session_id, {})
        copies = page(items, task_id, since_id, limit)
        return [items[copy.event_id] for copy in copies]


# --- traces ---------------------------------------------------------------------------------------


@found_by(
    "Trajectories.test_another_sessions_trace_is_none",
)
class IgnoresTheSessionOfATrajectory(PlainStore):
    async def get_trajectory(self, trace_id: str, session_id: str) -> Trajectory | None:
        found = [t for (_, trace), t in self.data.trajectories.items() if trace == trace_id]
        return copied(
            self.data.trajectories.get((session_id, trace_id), found[-1] if found else None)
        )


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
        self.data.trajectories[session_id, trace_id] = copied(trajectory)


@found_by(
    "PlannerEvents.test_events_keep_the_order_of_emission",
    "PlannerEvents.test_events_that_differ_in_any_field_are_different",
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
        self.data.planner[trace_id].append(copied(event))


# --- artifacts ------------------------------------------------------------------------------------


class _NamesByContent(PlainArtifacts):
    async def put_bytes(
        self, data: bytes, *, scope: ArtifactScope | None = None, **described: Any
    ) -> ArtifactRef:
        ref = await super().put_bytes(data, scope=scope, **described)
        _, held, expiry = self.held.pop(ref.id)
        ref = ref.model_copy(update={"id": str(ref.sha256)[:12]}, deep=True)
        return copied(self.held.setdefault(ref.id, (ref, held, expiry))[0])


@found_by(
    "Artifacts.test_names_are_data_and_never_paths",
    "Artifacts.test_the_same_content_in_two_scopes_is_two_artifacts",
)
class NamesArtifactsByContent(PlainStore):
    """One id for the same bytes, whoever owns them."""

    def __init__(self, data: Data) -> None:
        super().__init__(data)
        self.artifact_store = _NamesByContent(data)


class _ForgetsScopes(PlainArtifacts):
    async def get_with_session_check(self, artifact_id: str, session_id: str) -> bytes | None:
        return await self.get(artifact_id)


@found_by(
    "SessionArtifacts.test_a_session_check_hides_what_others_own",
)
class ShowsArtifactsToAnySession(PlainStore):
    def __init__(self, data: Data) -> None:
        super().__init__(data)
        self.artifact_store = _ForgetsScopes(data)


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, float) and value != value:
        return None
    if isinstance(value, list | tuple | set | frozenset):
        return [_as_json(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _as_json(item) for key, item in value.items()}
    return value
