"""Broken in what belongs to a session: tasks, updates, steering."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from dataclasses import replace
from datetime import UTC
from typing import Any

from foldlog.models import StateUpdate, SteeringEvent, TaskState, TaskStatus
from foldlog.steering import sanitize_steering_event
from tests.testing.broken.registry import LISTS, each, found_by
from tests.testing.plain_store import PlainStore

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
        if state.task_id not in self.data.tasks[self.place(state.session_id)]:
            await super().save_task(state)


@found_by(
    "Tasks.test_a_changed_status_is_saved_with_its_time",
    "Tasks.test_another_store_sees_a_task_at_once",
    "Tasks.test_saving_a_task_leaves_the_others",
    "Tasks.test_saving_a_task_twice_keeps_one",
    "Tasks.test_the_last_save_wins",
    "Tasks.test_the_last_save_wins_after_a_restart",
    "Tasks.test_two_stores_writing_lose_nothing",
)
class AppendsTasks(PlainStore):
    """An upsert that appends."""

    async def save_task(self, state: TaskState) -> None:
        tasks = self.data.tasks[self.place(state.session_id)]
        tasks[f"{state.task_id} #{len(tasks)}"] = self.taken(state)


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


@found_by(
    "Tasks.test_every_status_and_type_is_held",
    "Tasks.test_the_last_save_wins",
)
class KnowsNoPause(PlainStore):
    """An older list of statuses."""

    async def save_task(self, state: TaskState) -> None:
        paused = state.status is TaskStatus.PAUSED
        await super().save_task(replace(state, status=TaskStatus.RUNNING) if paused else state)


@found_by(
    "Tasks.test_the_offset_of_a_time_is_kept",
)
class KeepsTimesInUtc(PlainStore):
    """`TIMESTAMPTZ`: the instant is kept, where it was is not. Only a test beyond minds."""

    async def save_task(self, state: TaskState) -> None:
        await super().save_task(replace(state, updated_at=state.updated_at.astimezone(UTC)))


@found_by(
    "Tasks.test_hostile_ids_never_collide",
    "Tasks.test_one_id_in_two_sessions_is_two_tasks",
)
class KeysTasksByTheirIdAlone(PlainStore):
    """`task_id PRIMARY KEY`: a task of that id in another session takes its place."""

    async def save_task(self, state: TaskState) -> None:
        for tasks in self.data.tasks.values():
            tasks.pop(state.task_id, None)
        await super().save_task(state)


# --- updates and steering -------------------------------------------------------------------------


@found_by(
    *each(
        LISTS,
        [
            "test_a_filtered_page_is_the_first_after_its_cursor",
            "test_a_page_is_the_first_after_its_cursor",
            "test_a_poller_behind_writers_misses_nothing",
            "test_paging_goes_on_after_a_restart",
            "test_paging_loses_nothing",
            "test_paging_one_task_loses_nothing",
            "test_the_default_limit_is_500_after_a_cursor",
        ],
    ),
)
class PagesFromTheWrongEnd(PlainStore):
    """Gives the last items after a cursor, not the first."""

    def page(
        self, items: dict[str, Any], task_id: str | None, since_id: str | None, limit: int
    ) -> list[Any]:
        after = super().page(items, task_id, since_id, len(items))
        return after[len(after) - min(max(limit, 0), len(after)) :]


@found_by(
    *each(
        LISTS,
        [
            "test_the_limit_counts_what_the_filter_leaves",
            "test_without_a_cursor_the_latest_are_listed",
        ],
    ),
)
class BeginsAtTheBeginning(PlainStore):
    """Without a cursor, gives the first items."""

    def page(
        self, items: dict[str, Any], task_id: str | None, since_id: str | None, limit: int
    ) -> list[Any]:
        if since_id in items:
            return super().page(items, task_id, since_id, limit)
        return super().page(items, task_id, None, len(items))[: max(limit, 0)]


@found_by(
    *each(
        LISTS,
        [
            "test_a_filtered_page_is_the_first_after_its_cursor",
            "test_the_limit_counts_what_the_filter_leaves",
        ],
    ),
)
class FiltersAfterTheLimit(PlainStore):
    def page(
        self, items: dict[str, Any], task_id: str | None, since_id: str | None, limit: int
    ) -> list[Any]:
        listed = super().page(items, None, since_id, limit)
        return [item for item in listed if task_id in (None, item.task_id)]


@found_by(
    *each(LISTS, ["test_a_cursor_counts_among_all_tasks", "test_paging_one_task_loses_nothing"]),
)
class CountsTheCursorInTaskOrder(PlainStore):
    """Looks for the cursor among the items of the task."""

    def page(
        self, items: dict[str, Any], task_id: str | None, since_id: str | None, limit: int
    ) -> list[Any]:
        of_task = {id_: item for id_, item in items.items() if task_id in (None, item.task_id)}
        return super().page(of_task, None, since_id, limit)


@found_by(
    *each(LISTS, ["test_an_unknown_cursor_is_no_cursor", "test_an_unknown_session_is_empty"]),
)
class RaisesOnAnUnknownCursor(PlainStore):
    def page(
        self, items: dict[str, Any], task_id: str | None, since_id: str | None, limit: int
    ) -> list[Any]:
        if since_id is not None and since_id not in items:
            raise KeyError(since_id)
        return super().page(items, task_id, since_id, limit)


@found_by(
    *each(LISTS, ["test_an_unknown_cursor_is_no_cursor"]),
)
class GivesNothingAfterAnUnknownCursor(PlainStore):
    def page(
        self, items: dict[str, Any], task_id: str | None, since_id: str | None, limit: int
    ) -> list[Any]:
        if since_id is not None and since_id not in items:
            return []
        return super().page(items, task_id, since_id, limit)


@found_by(
    *each(
        LISTS,
        [
            "test_a_cursor_counts_among_all_tasks",
            "test_a_cursor_is_exclusive",
            "test_a_filtered_page_is_the_first_after_its_cursor",
            "test_a_page_is_the_first_after_its_cursor",
            "test_a_poller_behind_writers_misses_nothing",
            "test_hostile_ids_are_cursors_and_filters_like_others",
            "test_paging_goes_on_after_a_restart",
            "test_paging_loses_nothing",
            "test_paging_one_task_loses_nothing",
            "test_the_default_limit_is_500_after_a_cursor",
            "test_the_order_is_the_same_after_a_restart",
        ],
    ),
)
class RepeatsTheCursor(PlainStore):
    """An inclusive cursor."""

    def page(
        self, items: dict[str, Any], task_id: str | None, since_id: str | None, limit: int
    ) -> list[Any]:
        listed = super().page(items, task_id, since_id, limit)
        return [items[since_id], *listed][:limit] if since_id in items else listed  # type: ignore[index]


@found_by(
    *each(LISTS, ["test_a_limit_below_one_lists_nothing"]),
)
class TakesZeroForNoLimit(PlainStore):
    """`items[-0:]`."""

    def page(
        self, items: dict[str, Any], task_id: str | None, since_id: str | None, limit: int
    ) -> list[Any]:
        return super().page(items, task_id, since_id, limit or len(items))


@found_by(
    *each(
        LISTS,
        [
            "test_a_poller_behind_writers_misses_nothing",
            "test_each_concurrent_writer_finds_its_items_in_order",
            "test_paging_loses_nothing",
            "test_the_default_limit_is_500",
            "test_two_stores_writing_lose_nothing",
        ],
    ),
)
class CapsThePages(PlainStore):
    """No page is longer than a hundred, whatever limit is asked for."""

    def page(
        self, items: dict[str, Any], task_id: str | None, since_id: str | None, limit: int
    ) -> list[Any]:
        return super().page(items, task_id, since_id, min(limit, 100))


@found_by(
    "Updates.test_any_content_is_held",
    *each(
        LISTS,
        [
            "test_a_cursor_counts_among_all_tasks",
            "test_a_filtered_page_is_the_first_after_its_cursor",
            "test_a_poller_behind_writers_misses_nothing",
            "test_a_task_is_listed_alone",
            "test_each_concurrent_writer_finds_its_items_in_order",
            "test_every_type_is_held",
            "test_hostile_ids_are_cursors_and_filters_like_others",
            "test_items_of_one_moment_keep_the_order_of_saves",
            "test_paging_goes_on_after_a_restart",
            "test_paging_one_task_loses_nothing",
            "test_the_order_is_the_same_after_a_restart",
            "test_two_stores_writing_lose_nothing",
        ],
    ),
)
class OrdersById(PlainStore):
    def page(
        self, items: dict[str, Any], task_id: str | None, since_id: str | None, limit: int
    ) -> list[Any]:
        return super().page(dict(sorted(items.items())), task_id, since_id, limit)


@found_by(
    *each(LISTS, ["test_an_id_is_kept_once", "test_an_id_is_kept_once_after_a_restart"]),
)
class MovesWhatIsRepeated(PlainStore):
    """A retry moves the item to the end, behind cursors that were given out."""

    async def save_update(self, update: StateUpdate) -> None:
        self.data.updates[self.place(update.session_id)].pop(update.update_id, None)
        await super().save_update(update)

    async def save_steering(self, event: SteeringEvent) -> None:
        self.data.steering[self.place(event.session_id)].pop(event.event_id, None)
        await super().save_steering(event)


@found_by(
    *each(
        LISTS,
        ["test_concurrent_saves_of_one_id_keep_one", "test_two_stores_saving_one_id_keep_one"],
    ),
)
class LooksThenAppends(PlainStore):
    """Checks for the id, then waits for its disk, then appends."""

    async def save_update(self, update: StateUpdate) -> None:
        updates = self.data.updates[self.place(update.session_id)]
        if update.update_id not in updates:
            await asyncio.sleep(0)
            taken = update.update_id in updates
            key = f"{update.update_id} #{len(updates)}" if taken else update.update_id
            updates[key] = self.taken(update)

    async def save_steering(self, event: SteeringEvent) -> None:
        events = self.data.steering[self.place(event.session_id)]
        if event.event_id not in events:
            await asyncio.sleep(0)
            taken = event.event_id in events
            key = f"{event.event_id} #{len(events)}" if taken else event.event_id
            events[key] = self.taken(self.sanitised(event))


@found_by(
    *each(LISTS, ["test_one_id_in_two_sessions_is_two_items"]),
)
class KeysItemsByTheirIdAlone(PlainStore):
    """`update_id UNIQUE`: the item of that id in another session is dropped."""

    async def save_update(self, update: StateUpdate) -> None:
        if not any(update.update_id in held for held in self.data.updates.values()):
            await super().save_update(update)

    async def save_steering(self, event: SteeringEvent) -> None:
        if not any(event.event_id in held for held in self.data.steering.values()):
            await super().save_steering(event)


@found_by(
    "Steering.test_a_steering_event_comes_back_as_it_was",
    "Steering.test_a_steering_event_survives_a_restart",
    "Updates.test_an_update_comes_back_as_it_was",
    "Updates.test_an_update_survives_a_restart",
)
class ForgetsTheTrace(PlainStore):
    async def save_update(self, update: StateUpdate) -> None:
        await super().save_update(update.model_copy(update={"trace_id": None}))

    async def save_steering(self, event: SteeringEvent) -> None:
        await super().save_steering(event.model_copy(update={"trace_id": None}))


@found_by(
    "Aliases.test_updates_by_their_old_names",
)
class IgnoresQueriesUnderOldNames(PlainStore):
    async def list_task_updates(self, session_id: str, **query: Any) -> list[StateUpdate]:
        return await self.list_updates(session_id)


# --- steering -------------------------------------------------------------------------------------


@found_by(
    "Steering.test_a_lone_surrogate_is_made_harmless",
    "Steering.test_a_long_list_is_cut",
    "Steering.test_a_long_string_is_cut",
    "Steering.test_a_payload_that_holds_itself_is_made_harmless",
    "Steering.test_a_payload_that_stays_too_big_is_summarised",
    "Steering.test_a_wide_object_is_cut",
    "Steering.test_deep_nesting_is_cut",
    "Steering.test_text_counts_in_bytes",
    "Steering.test_the_callers_event_is_not_touched",
    "Steering.test_what_json_lacks_is_made_harmless",
)
class KeepsRawSteering(PlainStore):
    """Keeps what the user sent."""

    async def save_steering(self, event: SteeringEvent) -> None:
        events = self.data.steering[self.place(event.session_id)]
        events.setdefault(event.event_id, deepcopy(event))  # `copied` cannot, of what holds itself

    async def list_steering(
        self,
        session_id: str,
        *,
        task_id: str | None = None,
        since_id: str | None = None,
        limit: int = 500,
    ) -> list[SteeringEvent]:
        events = self.data.steering[self.place(session_id)]
        return deepcopy(self.page(events, task_id, since_id, limit))


@found_by(
    "Steering.test_a_string_at_the_limit_is_kept",
)
class CutsHarmlessSteering(PlainStore):
    """Cuts strings well below the limit."""

    def sanitised(self, event: SteeringEvent) -> SteeringEvent:
        cut = {k: v[:100] if isinstance(v, str) else v for k, v in event.payload.items()}
        return sanitize_steering_event(event.model_copy(update={"payload": cut}))


@found_by(
    "Steering.test_the_callers_event_is_not_touched",
)
class SanitisesInPlace(PlainStore):
    """What the caller holds is cut, too."""

    def sanitised(self, event: SteeringEvent) -> SteeringEvent:
        event.payload = sanitize_steering_event(event).payload
        return event
