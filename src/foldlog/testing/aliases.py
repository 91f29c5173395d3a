"""The method names of earlier releases, which the specification recommends to keep."""

from __future__ import annotations

from typing import Any

from foldlog.testing.base import Contract
from foldlog.testing.exact import plain


class AliasesContract(Contract):
    """SHOULD, Compatibility Adapters: the old names do what the new ones do."""

    async def test_updates_by_their_old_names(self, store: Any) -> None:
        """SHOULD, Legacy Method Mappings: `save_task_update`, `list_task_updates`."""
        for number in range(4):
            update = self.build.update(f"u{number}", task_id=f"task-{number % 2}")
            await store.save_task_update(update)
        for query in ({}, {"task_id": "task-1", "since_id": "u0", "limit": 1}):
            listed = await store.list_task_updates("session", **query)
            expected = await store.list_updates("session", **query)
            assert [plain(update) for update in listed] == [plain(update) for update in expected]
            assert listed

    async def test_planner_events_are_listed_by_their_old_name(self, store: Any) -> None:
        """SHOULD, Legacy Method Mappings: `get_events`."""
        await store.save_planner_event("trace", self.build.planner_event())
        [listed] = await store.get_events("trace")
        assert plain(listed) == plain(self.build.planner_event())

    async def test_planner_events_are_saved_by_their_old_name(self, store: Any) -> None:
        """SHOULD, Legacy Method Mappings: `save_event(trace_id, event)`."""
        await store.save_event("trace", self.build.planner_event())
        [listed] = await store.list_planner_events("trace")
        assert plain(listed) == plain(self.build.planner_event())
        assert list(await store.load_history("trace")) == []
