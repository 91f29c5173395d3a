"""A memory's health, and the machine in which its summarizer fails and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from foldlog.sessions import (
    ConversationTurn,
    MemoryBudget,
    MemoryHealth,
    ShortTermMemory,
    ShortTermMemoryConfig,
)
from tests.support.stores import Backend, MemoryBackend

T = TypeVar("T")

EDGES = {
    (MemoryHealth.HEALTHY, MemoryHealth.RETRY),  # the summarizer failed
    (MemoryHealth.RETRY, MemoryHealth.HEALTHY),  # it succeeded when it was asked again
    (MemoryHealth.RETRY, MemoryHealth.DEGRADED),  # it failed once too often
    (MemoryHealth.DEGRADED, MemoryHealth.RECOVERING),  # another attempt, after a while
    (MemoryHealth.RECOVERING, MemoryHealth.HEALTHY),  # which succeeded
    (MemoryHealth.RECOVERING, MemoryHealth.DEGRADED),  # which failed
}


class HealthMachine(RuleBasedStateMachine):
    """A memory whose summarizer fails, hangs and comes back, and whose process dies."""

    def make_backend(self) -> Backend:
        return MemoryBackend()

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.mood = "works"
        self.now = 1000.0
        self.told = 0
        self.health = MemoryHealth.HEALTHY
        self.attempts = 0
        self.due_at = 0.0
        self.unsummed: list[str] = []
        self.summed: list[str] = []
        self.ways: list[tuple[MemoryHealth, MemoryHealth]] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    @initialize()
    def begin(self) -> None:
        self.backend = self.make_backend()
        self.store = self.run(self.backend.open())
        self.open()

    def open(self) -> None:
        self.entered = asyncio.Event()
        config = ShortTermMemoryConfig(
            strategy="rolling_summary",
            budget=MemoryBudget(full_zone_turns=1, summary_max_tokens=10**6, total_max_tokens=0),
            retry_attempts=2,
            retry_backoff_base_s=10.0,
            degraded_retry_interval_s=100.0,
            recovery_backlog_limit=1000,
        )
        self.memory = ShortTermMemory(
            config,
            self.store,
            "k",
            summarizer=self.summarize,
            on_health=self.changed,
            clock=lambda: self.now,
        )
        self.run(self.memory.hydrate())

    async def summarize(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self.entered.set()
        if self.mood == "hangs":
            await asyncio.get_running_loop().create_future()
        if self.mood == "fails":
            raise RuntimeError("the model is away")
        words = [request["previous_summary"], *(turn["user"] for turn in request["turns"])]
        return {"summary": " ".join(filter(None, words))}

    async def changed(self, before: MemoryHealth, after: MemoryHealth) -> None:
        self.ways.append((before, after))

    @rule(mood=st.sampled_from(["works", "fails", "fails", "works"]))
    def choose(self, mood: str) -> None:
        self.mood = mood

    @rule(seconds=st.sampled_from([1.0, 10.0, 20.0, 100.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.settle()

    @rule()
    def talk(self) -> None:
        self.say()
        self.settle()

    @rule()
    def die(self) -> None:
        self.reopen()
        self.settle()

    @rule()
    def die_while_it_is_summarised(self) -> None:
        before, self.mood = self.mood, "hangs"
        self.entered.clear()
        self.say()
        if self.is_due():

            async def until_it_hangs() -> None:
                self.memory._schedule()
                await self.entered.wait()

            self.run(until_it_hangs())
            if self.health is MemoryHealth.DEGRADED:
                self.health = MemoryHealth.RECOVERING
                self.due_at = 0.0
        self.mood = before
        self.run(self.memory.close())
        saved = self.run(self.store.load_memory_state("k"))
        assert saved is not None
        assert saved["health"] == self.health, "it was saved where it stood"
        self.reopen()
        self.settle()

    @rule()
    def ask_it_twice_at_once(self) -> None:
        async def both() -> None:
            await asyncio.gather(self.memory.flush(), self.memory.flush())

        if not self.is_due():
            self.run(both())
            self.compare()

    def teardown(self) -> None:
        if hasattr(self, "memory"):
            self.run(self.memory.close())
            self.run(self.store.close())
        self.runner.close()

    # --- the model --------------------------------------------------------------------------------

    def say(self) -> None:
        self.told += 1
        turn = ConversationTurn(f"q{self.told}", "a")
        self.run(self.memory.add_turn(turn))
        if self.told > 1:
            self.unsummed.append(f"q{self.told - 1}")

    def reopen(self) -> None:
        self.run(self.memory.close())
        self.run(self.store.close())
        self.store = self.run(self.backend.open())
        self.open()

    def is_due(self) -> bool:
        return bool(self.unsummed) and self.due_at <= self.now

    def settle(self) -> None:
        """Have the memory do what is due, and the model, too."""
        self.run(self.memory.flush())
        while self.is_due():
            self.attempt()
            if self.health is MemoryHealth.DEGRADED:
                break
        self.compare()

    def attempt(self) -> None:
        recovers = self.health in (MemoryHealth.DEGRADED, MemoryHealth.RECOVERING)
        if self.mood == "works":
            self.summed += self.unsummed
            self.unsummed = []
            self.health, self.attempts, self.due_at = MemoryHealth.HEALTHY, 0, 0.0
        elif not recovers and self.attempts < 2:
            self.attempts += 1
            self.health = MemoryHealth.RETRY
            self.due_at = self.now + 10.0 * 2 ** (self.attempts - 1)
        else:
            self.health, self.attempts = MemoryHealth.DEGRADED, 0
            self.due_at = self.now + 100.0

    def compare(self) -> None:
        state = self.memory.state
        assert state.health is self.health
        assert (state.attempts, state.due_at) == (self.attempts, self.due_at)
        assert state.summary.split() == self.summed
        waiting = state.backlog if self.health is MemoryHealth.DEGRADED else state.pending
        assert [turn.user_message for turn in waiting] == self.unsummed
        assert {(turn.user_message) for turn in state.turns} == (
            {f"q{self.told}"} if self.told else set()
        )

    @invariant()
    def health_takes_no_way_that_is_not_drawn(self) -> None:
        assert set(self.ways) <= EDGES

    @invariant()
    def what_is_saved_is_what_it_holds(self) -> None:
        if hasattr(self, "memory"):
            saved = self.run(self.store.load_memory_state("k"))
            assert saved is None or saved == self.memory.state.to_dict()
