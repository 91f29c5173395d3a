"""`save_trajectory`, `get_trajectory`, `list_traces`: what a planner did, per trace."""

from __future__ import annotations

from typing import Any

from foldlog.testing.base import Contract, Reopen
from foldlog.testing.exact import plain, same, scribble
from foldlog.testing.values import JSON_VALUES, nested


class TrajectoriesContract(Contract):
    """The last trajectory of a trace, for its session only."""

    async def test_a_trajectory_comes_back_as_it_was(self, store: Any) -> None:
        """MUST, section 10: steps, contexts and what was gathered."""
        saved = self._full_trajectory()
        await store.save_trajectory("trace", "session", saved)
        loaded = await store.get_trajectory("trace", "session")
        assert isinstance(loaded, self.models.Trajectory)
        assert loaded.serialise() == saved.serialise()

    async def test_a_trajectory_survives_a_restart(self, store: Any, restart: Reopen) -> None:
        """MUST, section 10: replay."""
        saved = self._full_trajectory()
        await store.save_trajectory("trace", "session", saved)
        again = await restart()
        assert (await again.get_trajectory("trace", "session")).serialise() == saved.serialise()
        assert list(await again.list_traces("session")) == ["trace"]

    async def test_metadata_comes_back_exactly(self, store: Any) -> None:
        """Beyond: without loss."""
        metadata = {f"v{n}": nested(value) for n, value in enumerate(JSON_VALUES)}
        await self._save(store, metadata=metadata)
        loaded = await store.get_trajectory("trace", "session")
        assert same(plain(loaded.metadata), metadata)

    async def test_an_unknown_trace_is_none(self, store: Any) -> None:
        """MUST, section 10."""
        assert await store.get_trajectory("nonexistent", "session") is None

    async def test_another_sessions_trace_is_none(self, store: Any) -> None:
        """MUST, section 10: a trace id alone opens nothing."""
        await self._save(store)
        assert await store.get_trajectory("trace", "other") is None
        assert await store.get_trajectory("trace", "session") is not None

    async def test_an_unknown_session_has_no_traces(self, store: Any) -> None:
        """MUST, section 10."""
        assert list(await store.list_traces("nonexistent")) == []

    async def test_the_last_save_wins(self, store: Any) -> None:
        """MUST, Idempotency Requirements: also when it repeats what was before the last."""
        for query in ("a", "b", "a", "a", "c", "a"):
            await self._save(store, query=query)
            assert (await store.get_trajectory("trace", "session")).query == query
        assert list(await store.list_traces("session")) == ["trace"]

    async def test_traces_are_listed_newest_first(self, store: Any) -> None:
        """MUST, section 10."""
        for trace_id in ("a", "c", "b"):
            await self._save(store, trace_id)
        assert list(await store.list_traces("session")) == ["b", "c", "a"]

    async def test_a_trace_saved_again_is_the_newest(self, store: Any) -> None:
        """MUST, RFC of the unified store: by the last save, not the first."""
        for trace_id in ("a", "b", "c"):
            await self._save(store, trace_id)
        await self._save(store, "a", query="changed")
        assert list(await store.list_traces("session")) == ["a", "c", "b"]

    async def test_the_order_of_traces_survives_a_restart(
        self, store: Any, restart: Reopen
    ) -> None:
        """MUST, section 10 and RFC of the unified store."""
        for trace_id in ("a", "b", "c", "a"):
            await self._save(store, trace_id)
        assert list(await (await restart()).list_traces("session")) == ["a", "c", "b"]

    async def test_sessions_do_not_see_each_others_traces(self, store: Any) -> None:
        """MUST, section 10: the traces *for the session*."""
        await self._save(store, "one")
        await store.save_trajectory("two", "other", self.build.trajectory())
        assert list(await store.list_traces("session")) == ["one"]
        assert list(await store.list_traces("other")) == ["two"]

    async def test_traces_are_limited_to_the_newest(self, store: Any) -> None:
        """MUST, signature: 50 unless asked."""
        for number in range(60):
            await self._save(store, f"t{number}")
        newest_first = [f"t{number}" for number in reversed(range(60))]
        assert list(await store.list_traces("session")) == newest_first[:50]
        assert list(await store.list_traces("session", limit=3)) == newest_first[:3]
        assert list(await store.list_traces("session", 1_000)) == newest_first

    async def test_a_limit_below_one_lists_nothing(self, store: Any) -> None:
        """Beyond: a limit is never exceeded."""
        for trace_id in ("a", "b"):
            await self._save(store, trace_id)
        assert len(await store.list_traces("session")) == 2
        for limit in (0, -1):
            assert list(await store.list_traces("session", limit=limit)) == []

    async def test_concurrent_writers_lose_nothing(self, store: Any) -> None:
        """Beyond: what was awaited without an error is there."""
        await self.at_once(self._save(store, f"t{n}", query=f"q{n}") for n in range(40))
        assert sorted(await store.list_traces("session")) == sorted(f"t{n}" for n in range(40))
        for number in range(40):
            loaded = await store.get_trajectory(f"t{number}", "session")
            assert loaded.query == f"q{number}"

    async def test_two_stores_writing_lose_nothing(self, store: Any, beside: Reopen) -> None:
        """Beyond: in two processes, and everybody who comes later agrees."""
        stores = (store, await beside())
        await self.at_once(
            self._save(stores[n % 2], f"t{n % 20}", query=f"q{n}") for n in range(40)
        )
        one, two = await beside(), await beside()
        listed = list(await one.list_traces("session"))
        assert sorted(listed) == sorted(f"t{n}" for n in range(20))
        assert list(await two.list_traces("session")) == listed
        for number in range(20):
            loaded = (await one.get_trajectory(f"t{number}", "session")).query
            assert loaded in (f"q{number}", f"q{number + 20}")
            assert (await two.get_trajectory(f"t{number}", "session")).query == loaded

    async def test_hostile_ids_never_collide(self, store: Any) -> None:
        """Beyond: an id is data."""
        for number, id_ in enumerate(self.hostile_ids):
            await store.save_trajectory(id_, "session", self.build.trajectory(f"t{number}"))
            await store.save_trajectory(f"trace-{number}", id_, self.build.trajectory())
        assert list(await store.list_traces("session", 1_000)) == list(self.hostile_ids)[::-1]
        for number, id_ in enumerate(self.hostile_ids):
            assert (await store.get_trajectory(id_, "session")).query == f"t{number}", id_
            assert list(await store.list_traces(id_)) == [f"trace-{number}"], id_

    async def test_session_and_trace_are_not_glued_together(self, store: Any) -> None:
        """Beyond: two ids are two ids."""
        parts = [("a", "b.c"), ("a.b", "c"), ("x", "y:z"), ("x:y", "z"), ("x", "y"), ("y", "x")]
        for number, (session_id, trace_id) in enumerate(parts):
            await store.save_trajectory(trace_id, session_id, self.build.trajectory(f"q{number}"))
        for number, (session_id, trace_id) in enumerate(parts):
            assert trace_id in await store.list_traces(session_id)
            assert (await store.get_trajectory(trace_id, session_id)).query == f"q{number}"

    async def test_what_was_saved_may_be_changed_afterwards(self, store: Any) -> None:
        """Beyond: a planner goes on with the trajectory it saved."""
        trajectory = self._full_trajectory()
        await store.save_trajectory("trace", "session", trajectory)
        scribble(trajectory)
        loaded = await store.get_trajectory("trace", "session")
        assert loaded.serialise() == self._full_trajectory().serialise()

    async def test_what_was_loaded_may_be_changed(self, store: Any) -> None:
        """Beyond: one reader cannot change what another sees."""
        await store.save_trajectory("trace", "session", self._full_trajectory())
        scribble(await store.get_trajectory("trace", "session"))
        scribble(await store.list_traces("session"))
        loaded = await store.get_trajectory("trace", "session")
        assert loaded.serialise() == self._full_trajectory().serialise()
        assert list(await store.list_traces("session")) == ["trace"]

    async def _save(self, store: Any, trace_id: str = "trace", **fields: Any) -> None:
        await store.save_trajectory(trace_id, "session", self.build.trajectory(**fields))

    def _full_trajectory(self) -> Any:
        action = {"thought": "look it up", "next_node": "search", "args": {"q": "x"}}
        return self.models.Trajectory.from_serialised(
            {
                "query": "where?",
                "llm_context": {"a": [1, None]},
                "tool_context": {"tenant": "acme"},
                "artifacts": {"chart": {"id": "art_1"}},
                "sources": [{"url": "x"}],
                "metadata": {"ratio": -0.5, "nested": {"l": [[]]}},
                "steps": [
                    {"action": action, "observation": {"rows": [1, 2]}},
                    {"action": action, "observation": None, "error": "no rows"},
                ],
                "hint_state": {"hint": 1},
                "resume_user_input": "yes",
                "steering_inputs": ["stop", "go"],
            }
        )
