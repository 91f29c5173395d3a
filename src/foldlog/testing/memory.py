"""`save_memory_state` and `load_memory_state`: the last state under a key."""

from __future__ import annotations

from typing import Any, Final

from foldlog.testing.base import Contract, Reopen
from foldlog.testing.exact import same, scribble
from foldlog.testing.values import JSON_VALUES, nested

STATE: Final[dict[str, Any]] = {
    "version": 1,
    "health": "healthy",
    "summary": "",
    "turns": [{"user_message": "hi", "assistant_response": None, "ts": 1702857600.25}],
    "pending": [],
    "backlog": [{"user_message": "still there?"}],
    "config_snapshot": {"budget": 10_000},
}


class MemoryStateContract(Contract):
    """Short-term memory that outlives its process."""

    async def test_memory_comes_back_as_it_was(self, store: Any) -> None:
        """SHOULD, section 7; required test 8: the exact state."""
        await store.save_memory_state("tenant:user:session", STATE)
        assert same(await store.load_memory_state("tenant:user:session"), STATE)

    async def test_memory_comes_back_without_loss(self, store: Any) -> None:
        """SHOULD, section 7: the exact state, whatever is in it."""
        state = {f"v{n}": nested(value) for n, value in enumerate(JSON_VALUES)}
        await store.save_memory_state("key", state)
        assert same(await store.load_memory_state("key"), state)

    async def test_a_missing_key_is_none(self, store: Any) -> None:
        """MUST, section 7; required test 9."""
        assert await store.load_memory_state("nonexistent:key") is None

    async def test_empty_memory_is_not_missing_memory(self, store: Any) -> None:
        """SHOULD, section 7: `{}` that was saved is `{}`."""
        await store.save_memory_state("key", {})
        assert await store.load_memory_state("key") == {}

    async def test_the_last_save_wins(self, store: Any) -> None:
        """SHOULD, section 6: an upsert, also when it repeats what was there before the last."""
        for number in (1, 2, 1, 1, 3, 1):
            await store.save_memory_state("key", {"n": number})
            assert await store.load_memory_state("key") == {"n": number}

    async def test_reading_does_not_consume(self, store: Any) -> None:
        """MUST, Idempotency Requirements: a read."""
        await store.save_memory_state("key", {"n": 1})
        for _ in range(3):
            assert await store.load_memory_state("key") == {"n": 1}

    async def test_keys_that_look_alike_are_different(self, store: Any) -> None:
        """MUST, section 6: a composite key of tenant, user and session."""
        keys = ["a:b:c", "a:b:c:", "a:b", "a::b:c", "A:b:c", "a.b.c", "a:b:c "]
        for key in keys:
            await store.save_memory_state(key, {"key": key})
        loaded = [await store.load_memory_state(key) for key in keys]
        assert loaded == [{"key": key} for key in keys]

    async def test_hostile_keys_never_collide(self, store: Any) -> None:
        """Beyond: an id is data."""
        for number, key in enumerate(self.hostile_ids):
            await store.save_memory_state(key, {"n": number})
        for number, key in enumerate(self.hostile_ids):
            assert await store.load_memory_state(key) == {"n": number}, key

    async def test_memory_survives_a_restart(self, store: Any, restart: Reopen) -> None:
        """MUST, section 7: session hydration, of the last state."""
        for number in (2, 1, 3, 1):
            await store.save_memory_state("key", STATE | {"version": number})
        assert same(await (await restart()).load_memory_state("key"), STATE)

    async def test_concurrent_writers_leave_one_of_their_states(self, store: Any) -> None:
        """SHOULD, Consistency Model: last write wins, whole."""
        states = [{"n": number, "again": [number]} for number in range(40)]
        await self.at_once(store.save_memory_state("key", state) for state in states)
        first = await store.load_memory_state("key")
        assert first in states
        assert await store.load_memory_state("key") == first

    async def test_two_stores_leave_one_of_their_states(self, store: Any, beside: Reopen) -> None:
        """SHOULD, Consistency Model: the same for everybody who comes later."""
        stores = (store, await beside())
        states = [{"n": number} for number in range(40)]
        await self.at_once(
            stores[n % 2].save_memory_state("key", state) for n, state in enumerate(states)
        )
        seen = [await (await beside()).load_memory_state("key") for _ in range(2)]
        assert seen[0] in states
        assert seen[1] == seen[0]

    async def test_what_was_saved_may_be_changed_afterwards(self, store: Any) -> None:
        """SHOULD, section 7: the exact state that was saved."""
        state: dict[str, Any] = {"turns": [1]}
        await store.save_memory_state("key", state)
        scribble(state)
        assert await store.load_memory_state("key") == {"turns": [1]}

    async def test_what_was_loaded_may_be_changed(self, store: Any) -> None:
        """Beyond: memory changes by being saved, not by being read."""
        await store.save_memory_state("key", {"turns": [1]})
        scribble(await store.load_memory_state("key"))
        assert await store.load_memory_state("key") == {"turns": [1]}
