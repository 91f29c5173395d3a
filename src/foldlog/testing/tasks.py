"""`save_task` and `list_tasks`: the last state of every task of a session."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any, Final

from foldlog.testing.base import Contract, Reopen
from foldlog.testing.build import MOMENT
from foldlog.testing.exact import plain, same, scribble
from foldlog.testing.values import JSON_VALUES, nested

ELSEWHERE: Final = datetime(2024, 5, 16, 1, 2, 3, 4, tzinfo=timezone(timedelta(hours=5.5)))
"""A time whose offset is not UTC's."""


class TasksContract(Contract):
    """What a session's tasks were when they were saved last."""

    strong = True

    async def test_a_task_comes_back_as_it_was(self, store: Any) -> None:
        """MUST, TaskState; required test 10."""
        saved = self._full_task()
        await store.save_task(saved)
        [loaded] = await store.list_tasks("test-session")
        assert isinstance(loaded, self.models.TaskState)
        assert loaded.status is self.models.TaskStatus.RUNNING
        assert loaded.task_type is self.models.TaskType.FOREGROUND
        assert same(plain(loaded), plain(saved))

    async def test_a_task_survives_a_restart(self, store: Any, restart: Reopen) -> None:
        """MUST, Session Hydration Flow."""
        saved = self._full_task()
        await store.save_task(saved)
        [loaded] = await (await restart()).list_tasks("test-session")
        assert same(plain(loaded), plain(saved))

    async def test_the_context_it_was_spawned_with_is_kept(self, store: Any) -> None:
        """MUST, Context Versioning: version, hash, and copies of the four contexts."""
        context = self._full_task().context_snapshot
        await store.save_task(self.build.task(context_snapshot=context))
        [loaded] = await store.list_tasks("session")
        assert isinstance(loaded.context_snapshot, self.models.TaskContextSnapshot)
        assert same(plain(loaded.context_snapshot), plain(context))

    async def test_results_come_back_exactly(self, store: Any) -> None:
        """MUST, TaskState: a result payload, without loss."""
        payload = {f"v{n}": nested(value) for n, value in enumerate(JSON_VALUES)}
        await store.save_task(self.build.task(result=payload, progress=payload))
        [loaded] = await store.list_tasks("session")
        assert same(plain(loaded.result), payload)
        assert same(plain(loaded.progress), payload)

    async def test_an_unknown_session_has_no_tasks(self, store: Any) -> None:
        """MUST, section 8: empty, not an error."""
        assert list(await store.list_tasks("nonexistent")) == []

    async def test_every_status_and_type_is_held(self, store: Any) -> None:
        """MUST, TaskState: the whole life cycle."""
        saved = {}
        for status in self.models.TaskStatus:
            for kind in self.models.TaskType:
                name = f"{status.value}-{kind.value}"
                saved[name] = (status, kind)
                await store.save_task(self.build.task(name, status=status, task_type=kind))
        listed = await store.list_tasks("session")
        assert {task.task_id: (task.status, task.task_type) for task in listed} == saved

    async def test_saving_a_task_twice_keeps_one(self, store: Any) -> None:
        """MUST, section 8: upsert-safe."""
        for _ in range(3):
            await store.save_task(self.build.task())
        assert await self._tasks(store) == {"task": plain(self.build.task())}

    async def test_the_last_save_wins(self, store: Any) -> None:
        """MUST, section 8: also when it repeats what was there before the last."""
        status = self.models.TaskStatus
        for each in (status.RUNNING, status.PAUSED, status.RUNNING):
            await store.save_task(self.build.task(status=each))
            assert await self._tasks(store) == {"task": plain(self.build.task(status=each))}

    async def test_the_last_save_wins_after_a_restart(self, store: Any, restart: Reopen) -> None:
        """MUST, section 8."""
        for priority in (1, 2, 3, 2):
            await store.save_task(self.build.task(priority=priority))
        last = self.build.task(priority=2)
        assert await self._tasks(await restart()) == {"task": plain(last)}

    async def test_saving_a_task_leaves_the_others(self, store: Any) -> None:
        """MUST, section 8: *all* tasks are listed."""
        for name in ("a", "b", "c"):
            await store.save_task(self.build.task(name))
        await store.save_task(self.build.task("a", priority=9))
        listed = await self._tasks(store)
        assert {name: task["priority"] for name, task in listed.items()} == {"a": 9, "b": 5, "c": 5}

    async def test_sessions_do_not_see_each_others_tasks(self, store: Any) -> None:
        """MUST, section 8: the tasks *for the session*."""
        await store.save_task(self.build.task("a", "one"))
        await store.save_task(self.build.task("b", "two"))
        assert await self._tasks(store, "one") == {"a": plain(self.build.task("a", "one"))}
        assert await self._tasks(store, "two") == {"b": plain(self.build.task("b", "two"))}

    async def test_one_id_in_two_sessions_is_two_tasks(self, store: Any) -> None:
        """Beyond: ids are the sessions' own."""
        for session_id, priority in (("one", 1), ("two", 2)):
            await store.save_task(self.build.task("same", session_id, priority=priority))
        for session_id, priority in (("one", 1), ("two", 2)):
            task = self.build.task("same", session_id, priority=priority)
            assert await self._tasks(store, session_id) == {"same": plain(task)}

    async def test_hostile_ids_never_collide(self, store: Any) -> None:
        """Beyond: an id is data."""
        for number, id_ in enumerate(self.hostile_ids):
            await store.save_task(self.build.task("task", id_, priority=number))
            await store.save_task(self.build.task(id_, "session", priority=number))
        of_session = await self._tasks(store)
        for number, id_ in enumerate(self.hostile_ids):
            assert of_session[id_]["priority"] == number, id_
            [task] = (await self._tasks(store, id_)).values()
            assert (task["task_id"], task["priority"]) == ("task", number), id_

    async def test_another_store_sees_a_task_at_once(self, store: Any, beside: Reopen) -> None:
        """SHOULD, Consistency Model: strong reads for interactive users."""
        other = await beside()
        for number in range(20):
            writer, reader = (store, other) if number % 2 else (other, store)
            await writer.save_task(self.build.task(priority=number))
            for each in (reader, writer):  # so that both have read before the other one writes
                assert (await self._tasks(each))["task"]["priority"] == number

    async def test_concurrent_writers_lose_nothing(self, store: Any) -> None:
        """Beyond: what was awaited without an error is there."""
        await self.at_once(store.save_task(self.build.task(f"t{n}")) for n in range(200))
        assert sorted(await self._tasks(store)) == sorted(f"t{n}" for n in range(200))

    async def test_two_stores_writing_lose_nothing(self, store: Any, beside: Reopen) -> None:
        """Beyond: the same, in two processes; and everybody who comes later agrees."""
        stores = (store, await beside())
        await self.at_once(
            stores[n % 2].save_task(self.build.task(f"t{n % 50}", priority=n)) for n in range(100)
        )
        seen = [await self._tasks(await beside()) for _ in range(2)]
        assert sorted(seen[0]) == sorted(f"t{n}" for n in range(50))
        assert seen[1] == seen[0]

    async def test_what_was_saved_may_be_changed_afterwards(self, store: Any) -> None:
        """Beyond: a task changes by being saved."""
        task = self.build.task(progress={"steps": [1]}, result={"rows": [1]})
        saved = plain(task)
        await store.save_task(task)
        scribble(task)
        assert await self._tasks(store) == {"task": saved}

    async def test_what_was_loaded_may_be_changed(self, store: Any) -> None:
        """Beyond: one reader cannot change what another sees."""
        task = self.build.task(progress={"steps": [1]}, result={"rows": [1]})
        saved = plain(task)
        await store.save_task(task)
        scribble(await store.list_tasks("session"))
        assert await self._tasks(store) == {"task": saved}

    async def test_a_changed_status_is_saved_with_its_time(self, store: Any) -> None:
        """MUST, TaskState: `update_status` and `save_task` are a transition."""
        task = self.build.task()
        await store.save_task(task)
        task.update_status(self.models.TaskStatus.CANCELLED)
        await store.save_task(task)
        [loaded] = await store.list_tasks("session")
        assert loaded.status is self.models.TaskStatus.CANCELLED
        assert loaded.created_at == MOMENT
        assert loaded.updated_at == task.updated_at

    async def test_the_offset_of_a_time_is_kept(self, store: Any) -> None:
        """Beyond: the instant is what the specification asks for."""
        await store.save_task(self.build.task(updated_at=ELSEWHERE))
        [loaded] = await store.list_tasks("session")
        assert same(loaded.updated_at, ELSEWHERE, offsets=True)
        assert same(loaded.created_at, MOMENT, offsets=True)

    def _full_task(self) -> Any:
        return self.build.task(
            "test-task",
            "test-session",
            status=self.models.TaskStatus.RUNNING,
            task_type=self.models.TaskType.FOREGROUND,
            priority=-3,
            context_snapshot=self.build.snapshot(
                "test-task",
                "test-session",
                trace_id="trace",
                spawned_from_task_id="parent",
                spawned_from_event_id="event",
                spawn_reason="because",
                query="what?",
                propagate_on_cancel="isolate",
                notify_on_complete=False,
                context_version=7,
                context_hash="abc123",
                llm_context={"a": [1, {"b": None}]},
                tool_context={"tenant": "acme"},
                memory={"summary": "short"},
                artifacts=[{"id": "art_1"}],
            ),
            trace_id="trace",
            result={"answer": [1, "two", None]},
            error="none really",
            description="Test task",
            progress={"done": 1, "of": 3},
            updated_at=ELSEWHERE,
        )

    async def _tasks(self, store: Any, session_id: str = "session") -> dict[str, Any]:
        listed = list(await store.list_tasks(session_id))
        by_id = {task.task_id: plain(task) for task in listed}
        assert len(by_id) == len(listed), "a task is listed twice"
        return by_id
