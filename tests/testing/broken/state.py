"""Broken in what is kept under a key: bindings, pauses, memory."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from foldlog.models import RemoteBinding
from tests.testing.broken.registry import found_by
from tests.testing.plain_store import PlainStore

# --- bindings -------------------------------------------------------------------------------------


@found_by(
    "Bindings.test_a_binding_is_replaced_by_its_key",
    "Bindings.test_a_binding_moves_with_its_router",
    "Bindings.test_a_binding_saved_as_terminal_is_not_found",
    "Bindings.test_saving_a_binding_twice_keeps_one",
)
class AppendsBindings(PlainStore):
    """An upsert that appends."""

    async def save_remote_binding(self, binding: RemoteBinding) -> None:
        place = self.place(binding.trace_id, binding.context_id, binding.task_id)
        self.data.bindings[place, len(self.data.bindings)] = self.taken(binding)

    async def mark_binding_terminal(
        self, *, trace_id: str, context_id: str | None, task_id: str
    ) -> None:
        for (place, _), binding in self.data.bindings.items():
            if place == self.place(trace_id, context_id, task_id):
                binding.is_terminal = True


@found_by(
    "Bindings.test_a_binding_is_replaced_by_its_key",
    "Bindings.test_a_binding_moves_with_its_router",
    "Bindings.test_a_binding_saved_as_terminal_is_not_found",
    "Bindings.test_find_prefers_the_binding_saved_last",
    "Bindings.test_find_prefers_the_same_after_a_restart",
    "Bindings.test_saving_a_binding_twice_keeps_one",
    "StateStore.test_saving_a_remote_binding_again_does_not_fail",
)
class RaisesOnABindingItHas(PlainStore):
    """An insert without ON CONFLICT."""

    async def save_remote_binding(self, binding: RemoteBinding) -> None:
        if self.place(binding.trace_id, binding.context_id, binding.task_id) in self.data.bindings:
            raise ValueError("duplicate key value violates unique constraint")
        await super().save_remote_binding(binding)


@found_by(
    "Bindings.test_find_prefers_the_binding_saved_last",
    "Bindings.test_find_prefers_the_same_after_a_restart",
)
class UpdatesBindingsInPlace(PlainStore):
    """A binding saved again keeps its place in the table."""

    async def save_remote_binding(self, binding: RemoteBinding) -> None:
        place = self.place(binding.trace_id, binding.context_id, binding.task_id)
        self.data.bindings[place] = self.taken(binding)


@found_by(
    "Bindings.test_a_binding_comes_back_as_it_was",
    "Bindings.test_bindings_survive_a_restart",
)
class ForgetsTheRemoteTask(PlainStore):
    async def save_remote_binding(self, binding: RemoteBinding) -> None:
        await super().save_remote_binding(replace(binding, last_remote_task_id=None))


@found_by(
    "Bindings.test_a_binding_moves_with_its_router",
    "Bindings.test_a_router_lists_its_own_bindings",
    "Bindings.test_hostile_ids_never_collide",
)
class ListsEveryBinding(PlainStore):
    """A query without its WHERE."""

    async def list_bindings(self, *, router_session_id: str) -> list[RemoteBinding]:
        return self.given(list(self.data.bindings.values()))


@found_by(
    "Bindings.test_find_never_crosses_tenants_or_users",
    "Bindings.test_find_without_a_tenant_finds_what_nobody_owns",
)
class CrossesTenants(PlainStore):
    async def find_binding(self, **query: Any) -> RemoteBinding | None:
        owners = {(each.tenant_id, each.user_id) for each in self.data.bindings.values()}
        for tenant_id, user_id in owners:
            anybodys = query | {"tenant_id": tenant_id, "user_id": user_id}
            if (found := await super().find_binding(**anybodys)) is not None:
                return found
        return None


@found_by(
    "Bindings.test_find_matches_router_agent_and_skill",
)
class IgnoresTheSkill(PlainStore):
    """Finds whatever the agent does."""

    async def find_binding(self, **query: Any) -> RemoteBinding | None:
        for skill in {each.remote_skill for each in self.data.bindings.values()}:
            found = await super().find_binding(**query | {"remote_skill": skill})
            if found is not None:
                return found
        return None


@found_by(
    "Bindings.test_a_binding_saved_as_terminal_is_not_found",
    "Bindings.test_a_terminal_binding_is_listed_but_not_found",
    "Bindings.test_a_terminal_binding_stays_so_after_a_restart",
)
class FindsTerminalBindings(PlainStore):
    async def find_binding(self, **query: Any) -> RemoteBinding | None:
        wanted = ("router_session_id", "agent_url", "remote_skill", "tenant_id", "user_id")
        for binding in reversed(self.data.bindings.values()):
            if self.route(binding) == tuple(query.get(name) for name in wanted):
                return self.given(binding)
        return None


@found_by(
    "Bindings.test_marking_an_unknown_binding_changes_nothing",
)
class MarksByTheTaskAlone(PlainStore):
    """Ends every binding of that task id, whatever trace it is of."""

    async def mark_binding_terminal(
        self, *, trace_id: str, context_id: str | None, task_id: str
    ) -> None:
        for binding in self.data.bindings.values():
            binding.is_terminal = binding.is_terminal or binding.task_id == task_id


# --- pauses ---------------------------------------------------------------------------------------


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
        pause = self.data.pauses.get(self.place(token))
        await asyncio.sleep(0)
        taken = await super().load_planner_state(token)
        if taken is None and pause is not None and self.data.clock.now < pause.expiry:
            return self.given(pause.payload)
        return taken


@found_by(
    "PlannerState.test_a_late_retry_does_not_bring_a_taken_pause_back",
    "PlannerState.test_a_pause_is_taken_by_its_load",
    "PlannerState.test_a_pause_saved_again_is_one_pause",
    "PlannerState.test_a_taken_pause_is_none",
    "PlannerState.test_a_taken_pause_stays_taken_after_a_restart",
    "PlannerState.test_another_store_sees_at_once_that_a_pause_is_taken",
    "PlannerState.test_exactly_one_of_many_callers_resumes",
    "PlannerState.test_exactly_one_of_many_stores_resumes",
)
class NeverConsumesAPause(PlainStore):
    async def load_planner_state(self, token: str) -> dict[str, Any] | None:
        pause = self.data.pauses.get(self.place(token))
        if pause is None or self.data.clock.now >= pause.expiry:
            return None
        return self.given(pause.payload)


@found_by(
    "PlannerState.test_a_waiting_pause_may_be_replaced",
)
class KeepsTheFirstPause(PlainStore):
    """An insert that does nothing on conflict."""

    async def save_planner_state(self, token: str, payload: dict[str, Any]) -> None:
        if self.place(token) not in self.data.pauses:
            await super().save_planner_state(token, payload)


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
        if (pause := self.data.pauses.get(self.place(token))) is not None:
            pause.expiry = float("inf")
        return await super().load_planner_state(token)


# --- memory ---------------------------------------------------------------------------------------


@found_by(
    "MemoryState.test_concurrent_writers_leave_one_of_their_states",
    "MemoryState.test_reading_does_not_consume",
    "MemoryState.test_two_stores_leave_one_of_their_states",
    "MemoryState.test_what_was_loaded_may_be_changed",
)
class ConsumesMemory(PlainStore):
    """Takes memory for a pause."""

    async def load_memory_state(self, key: str) -> dict[str, Any] | None:
        return self.given(self.data.memory.pop(self.place(key), None))


@found_by(
    "MemoryState.test_concurrent_writers_leave_one_of_their_states",
    "MemoryState.test_two_stores_leave_one_of_their_states",
)
class KeepsSiblings(PlainStore):
    """Keeps both of two states saved at once, and gives each reader another."""

    async def save_memory_state(self, key: str, state: dict[str, Any]) -> None:
        before = self.data.memory.get(self.place(key))
        await asyncio.sleep(0)
        now = self.data.memory.get(self.place(key))
        siblings = [] if now is before else now["siblings"]
        self.data.memory[self.place(key)] = {"siblings": [*siblings, self.taken(state)]}

    async def load_memory_state(self, key: str) -> dict[str, Any] | None:
        kept = self.data.memory.get(self.place(key))
        if kept is None:
            return None
        kept["siblings"].append(kept["siblings"].pop(0))
        return self.given(kept["siblings"][-1])


@found_by(
    "MemoryState.test_what_was_loaded_may_be_changed",
)
class SharesMemory(PlainStore):
    """Gives every reader the same dict; the rest is copied."""

    async def load_memory_state(self, key: str) -> dict[str, Any] | None:
        return self.data.memory.get(self.place(key))
