"""`save_planner_state` and `load_planner_state`: pause here, resume anywhere, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

from foldlog.testing.base import Contract, Reopen
from foldlog.testing.exact import same, scribble
from foldlog.testing.values import JSON_VALUES, nested

PAUSE: Final[dict[str, Any]] = {
    "trajectory": {"version": 1, "steps": []},
    "reason": "await_input",
    "payload": {"example": True},
    "constraints": None,
    "tool_context": {"tenant_id": "test", "user_id": "test"},
}


class PlannerStateContract(Contract):
    """A pause is stored whole, and taken by exactly one caller.

    Attributes:
        pause_ttl: seconds after which a pause is certainly gone; `advance_clock` makes them pass.
    """

    strong = True

    pause_ttl: ClassVar[float] = 3600.0

    async def test_a_pause_comes_back_as_it_was(self, store: Any) -> None:
        """MUST, section 4; required test 6."""
        await store.save_planner_state("token", PAUSE)
        assert same(await store.load_planner_state("token"), PAUSE)

    async def test_a_pause_comes_back_without_loss(self, store: Any) -> None:
        """MUST, section 4, "gold standard": the payload is a wire format."""
        payload = {f"v{n}": nested(value) for n, value in enumerate(JSON_VALUES)}
        await store.save_planner_state("token", payload)
        assert same(await store.load_planner_state("token"), payload)

    async def test_a_pause_is_taken_by_its_load(self, store: Any) -> None:
        """SHOULD, section 5; required test 7."""
        await self._pause_and_resume(store)
        assert not await store.load_planner_state("token")

    async def test_a_missing_pause_is_none(self, store: Any) -> None:
        """SHOULD, section 5: None, because `{}` reads like a pause without a trajectory."""
        assert await store.load_planner_state("nonexistent") is None

    async def test_a_taken_pause_is_none(self, store: Any) -> None:
        """SHOULD, section 5: taken is missing."""
        await self._pause_and_resume(store)
        assert await store.load_planner_state("token") is None

    async def test_an_empty_pause_is_not_a_missing_one(self, store: Any) -> None:
        """Beyond: `{}` that was saved is `{}`."""
        await store.save_planner_state("token", {})
        assert await store.load_planner_state("token") == {}

    async def test_a_pause_saved_again_is_one_pause(self, store: Any) -> None:
        """SHOULD, sections 4 and 5: saving is idempotent, and a token is used once."""
        for _ in range(3):
            await store.save_planner_state("token", PAUSE)
        assert await store.load_planner_state("token") == PAUSE
        assert not await store.load_planner_state("token")

    async def test_a_waiting_pause_may_be_replaced(self, store: Any) -> None:
        """SHOULD, section 4: its example updates on conflict; a token has one payload, the last."""
        await store.save_planner_state("token", {"n": 1})
        await store.save_planner_state("token", {"n": 2})
        assert await store.load_planner_state("token") == {"n": 2}

    async def test_tokens_do_not_see_each_other(self, store: Any) -> None:
        """MUST, section 4: a token is unique per pause."""
        await store.save_planner_state("a", {"n": 1})
        await store.save_planner_state("b", {"n": 2})
        assert await store.load_planner_state("a") == {"n": 1}
        assert await store.load_planner_state("b") == {"n": 2}

    async def test_hostile_tokens_never_collide(self, store: Any) -> None:
        """Beyond: an id is data."""
        for number, token in enumerate(self.hostile_ids):
            await store.save_planner_state(token, {"n": number})
        for number, token in enumerate(self.hostile_ids):
            assert await store.load_planner_state(token) == {"n": number}, token

    async def test_a_pause_survives_a_restart(self, store: Any, restart: Reopen) -> None:
        """MUST, Consistency Model: another process resumes."""
        await store.save_planner_state("token", PAUSE)
        assert await (await restart()).load_planner_state("token") == PAUSE

    async def test_a_taken_pause_stays_taken_after_a_restart(
        self, store: Any, restart: Reopen
    ) -> None:
        """SHOULD, section 5: one-time use outlives the process."""
        await self._pause_and_resume(store)
        assert not await (await restart()).load_planner_state("token")

    async def test_exactly_one_of_many_callers_resumes(self, store: Any) -> None:
        """SHOULD, section 5: one-time use, when everybody asks at once."""
        for token in ("one", "two", "three"):
            await store.save_planner_state(token, PAUSE)
            loads = await self.at_once(store.load_planner_state(token) for _ in range(32))
            assert [load for load in loads if load] == [PAUSE]

    async def test_exactly_one_of_many_stores_resumes(self, store: Any, beside: Reopen) -> None:
        """SHOULD, section 5: one-time use; strong, says the Consistency Model, across processes."""
        stores = (store, await beside(), await beside())
        for token in ("one", "two", "three"):
            await store.save_planner_state(token, PAUSE)
            loads = await self.at_once(stores[n % 3].load_planner_state(token) for n in range(48))
            assert [load for load in loads if load] == [PAUSE]

    async def test_another_store_sees_a_pause_at_once(self, store: Any, beside: Reopen) -> None:
        """MUST, Consistency Model: strong."""
        other = await beside()
        for number in range(10):
            await store.save_planner_state(f"token-{number}", {"n": number})
            assert await other.load_planner_state(f"token-{number}") == {"n": number}

    async def test_another_store_sees_at_once_that_a_pause_is_taken(
        self, store: Any, beside: Reopen
    ) -> None:
        """SHOULD, section 5: one-time use; strong, says the Consistency Model."""
        other = await beside()
        for number in range(10):
            await self._pause_and_resume(store, f"token-{number}")
            assert not await other.load_planner_state(f"token-{number}")

    async def test_a_late_retry_does_not_bring_a_taken_pause_back(self, store: Any) -> None:
        """Beyond: a save that is retried after the resume would let it happen twice."""
        await self._pause_and_resume(store)
        await store.save_planner_state("token", PAUSE)
        assert not await store.load_planner_state("token")

    async def test_an_expired_pause_is_none(
        self, store: Any, pass_time: Callable[[float], None]
    ) -> None:
        """SHOULD, sections 4 and 5: a pause ends, and then is missing."""
        await store.save_planner_state("early", PAUSE)
        await store.save_planner_state("late", PAUSE)
        pass_time(self.pause_ttl / 2)
        assert await store.load_planner_state("early") == PAUSE
        pass_time(self.pause_ttl / 2 + 1)
        assert await store.load_planner_state("late") is None

    async def test_what_was_saved_may_be_changed_afterwards(self, store: Any) -> None:
        """Beyond: a pause is what the planner was when it paused."""
        payload: dict[str, Any] = {"steps": [1]}
        await store.save_planner_state("token", payload)
        scribble(payload)
        assert await store.load_planner_state("token") == {"steps": [1]}

    async def _pause_and_resume(self, store: Any, token: str = "token") -> None:
        await store.save_planner_state(token, PAUSE)
        assert await store.load_planner_state(token)
