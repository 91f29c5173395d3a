"""Payloads beyond JSON: what Python programs hand over, held exactly or not at all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from foldlog.protocols import missing_capabilities
from foldlog.testing.base import Contract
from foldlog.testing.exact import plain, same
from foldlog.testing.values import EXACT_VALUES, nested


class ExactPayloadsContract(Contract):
    """For stores that promise more than JSON: bytes, NaN, tuples, sets, dates, any integer.

    The specification does not ask for it. Capabilities that the store lacks are skipped.
    """

    async def test_events_are_exact(self, store: Any) -> None:
        """Beyond."""

        async def through(value: Any) -> Any:
            await store.save_event(self.build.event(payload=value))
            return (await store.load_history("trace"))[0].payload

        await self._check(store, through, "save_event", "load_history")

    async def test_pauses_are_exact(self, store: Any) -> None:
        """Beyond; section 4 asks for a payload without loss."""

        async def through(value: Any) -> Any:
            await store.save_planner_state("token", value)
            return await store.load_planner_state("token")

        await self._check(store, through, "save_planner_state", "load_planner_state")

    async def test_memory_is_exact(self, store: Any) -> None:
        """Beyond; section 7 asks for the exact state."""

        async def through(value: Any) -> Any:
            await store.save_memory_state("key", value)
            return await store.load_memory_state("key")

        await self._check(store, through, "save_memory_state", "load_memory_state")

    async def test_tasks_are_exact(self, store: Any) -> None:
        """Beyond: results, progress and the context they were spawned with."""

        async def through(value: Any) -> Any:
            context = self.build.snapshot(tool_context=value)
            saved = self.build.task(result=value, progress=value, context_snapshot=context)
            await store.save_task(saved)
            [loaded] = await store.list_tasks("session")
            assert same(plain(loaded.result), value, offsets=True)
            assert same(plain(loaded.progress), value, offsets=True)
            return loaded.context_snapshot.tool_context

        await self._check(store, through, "save_task", "list_tasks")

    async def test_updates_are_exact(self, store: Any) -> None:
        """Beyond."""

        async def through(value: Any) -> Any:
            await store.save_update(self.build.update("id", content=value))
            return (await store.list_updates("session"))[0].content

        await self._check(store, through, "save_update", "list_updates")

    async def test_bindings_are_exact(self, store: Any) -> None:
        """Beyond."""

        async def through(value: Any) -> Any:
            await store.save_remote_binding(
                self.build.binding(metadata=value, router_session_id="r", remote_skill="s")
            )
            return (await store.list_bindings(router_session_id="r"))[0].metadata

        await self._check(store, through, "list_bindings")

    async def test_planner_events_are_exact(self, store: Any) -> None:
        """Beyond."""

        async def through(value: Any) -> Any:
            await store.save_planner_event("trace", self.build.planner_event(extra=value))
            return (await store.list_planner_events("trace"))[0].extra

        await self._check(store, through, "save_planner_event", "list_planner_events")

    async def test_trajectories_are_exact(self, store: Any) -> None:
        """Beyond."""

        async def through(value: Any) -> Any:
            await store.save_trajectory("t", "session", self.build.trajectory(metadata=value))
            return (await store.get_trajectory("t", "session")).metadata

        await self._check(store, through, "save_trajectory", "get_trajectory")

    async def test_keys_that_are_no_strings_are_exact(self, store: Any) -> None:
        """Beyond: JSON would confuse 1 and "1"."""
        payload = {"d": {1: "int", 1.5: "float", None: "none", b"k": "bytes", "1": "str"}}
        await store.save_event(self.build.event(payload=payload))
        [loaded] = await store.load_history("trace")
        assert same(plain(loaded.payload), payload)

    async def test_keys_keep_their_order(self, store: Any) -> None:
        """Beyond: Python's dicts have one."""
        await store.save_event(self.build.event(payload={"z": 1, "a": {"y": 2, "b": 3}, "m": 4}))
        [loaded] = await store.load_history("trace")
        assert list(loaded.payload) == ["z", "a", "m"]
        assert list(loaded.payload["a"]) == ["y", "b"]

    async def test_an_event_that_holds_nan_is_still_saved_once(self, store: Any) -> None:
        """Beyond: NaN is not equal to itself, the event is."""
        for _ in range(2):
            await store.save_event(self.build.event(payload={"nan": float("nan"), "b": b"\xff"}))
        assert len(await store.load_history("trace")) == 1

    async def test_bytes_and_their_text_are_different_events(self, store: Any) -> None:
        """Beyond: neither a tuple and its list, nor bytes and what they print as."""
        values = [b"1", "b'1'", "1", (1,), [1], 1, 1.0, True]
        for value in values:
            await store.save_event(self.build.event(payload={"n": value}))
        loaded = [event.payload["n"] for event in await store.load_history("trace")]
        assert same(plain(loaded), values)

    async def _check(
        self, store: Any, through: Callable[[dict[str, Any]], Awaitable[Any]], *methods: str
    ) -> None:
        if missing := missing_capabilities(store, methods):
            pytest.skip(f"the store has no {', '.join(missing)}")
        payload = {f"v{number}": nested(value) for number, value in enumerate(EXACT_VALUES)}
        loaded = plain(await through(payload))
        assert loaded.keys() == payload.keys()
        inexact = [
            payload[key]["bare"]
            for key in payload
            if not same(loaded[key], payload[key], offsets=True)
        ]
        assert inexact == []
