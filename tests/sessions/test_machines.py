"""The state machines against models of them: tasks with their groups, patches, a memory's health.

Two actors, each with a store of its own, do what they like to one session, also at the same time,
and each may be restarted at every step. What happens at the same time must have happened in some
order.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import Awaitable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from foldlog.sessions import (
    ConversationTurn,
    IllegalTransition,
    MemoryBudget,
    MemoryHealth,
    MergeStrategy,
    Session,
    ShortTermMemory,
    ShortTermMemoryConfig,
    context_hash,
)
from foldlog.sessions.errors import GroupSealed, TaskExists, UnknownTask
from foldlog.sessions.memory import EDGES
from foldlog.store.memory import Memory
from tests.sessions.support import patch, statuses, told
from tests.support.stores import Backend, EmbeddedBackend, MemoryBackend

T = TypeVar("T")
Op = tuple[Any, ...]

BASE = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
FINAL = {"COMPLETE", "FAILED", "CANCELLED"}

actors = st.integers(0, 1)
ids = st.sampled_from(["a", "b", "c", "d"])


class Refused(Exception):
    """What a model says where the session raises an error of that name."""


class Acted(RuleBasedStateMachine):
    """Actors on one session, and a model of it."""

    def make_backend(self) -> Backend:
        return MemoryBackend()

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    @initialize()
    def begin(self) -> None:
        self.backend = self.make_backend()
        self.stores = [self.run(self.backend.open()) for _ in range(2)]
        self.sessions = [self.run(store.session("s")) for store in self.stores]
        self.prepare()

    def prepare(self) -> None:
        """What there is before anything happens."""

    @rule(actor=actors)
    def restart(self, actor: int) -> None:
        self.run(self.sessions[actor].close())
        self.run(self.stores[actor].close())
        self.stores[actor] = self.run(self.backend.open())
        self.sessions[actor] = self.run(self.stores[actor].session("s"))

    def teardown(self) -> None:
        if hasattr(self, "stores"):
            for store in self.stores:
                self.run(store.close())
        self.runner.close()

    # --- doing, alone and at the same time --------------------------------------------------------

    model: Any

    def does(self, session: Session, op: Op) -> Awaitable[Any]:
        raise NotImplementedError

    def together(self, ops: list[tuple[int, Op]]) -> None:
        """Have actors do these at the same time; some order of them must explain what they got."""

        async def one(actor: int, op: Op) -> Any:
            try:
                return await self.does(self.sessions[actor], op)
            except (IllegalTransition, TaskExists, UnknownTask, GroupSealed) as error:
                return type(error).__name__

        async def every() -> list[Any]:
            return await asyncio.gather(*(one(actor, op) for actor, op in ops))

        results = self.run(every())
        for order in itertools.permutations(range(len(ops))):
            model = copy.deepcopy(self.model)
            expected: list[Any] = [None] * len(ops)
            for index in order:
                try:
                    expected[index] = model.do(*ops[index][1])
                except Refused as refused:
                    expected[index] = str(refused)
            if expected == results and self.is_as(model):
                self.model = model
                return
        raise AssertionError(f"no order of {ops} gives {results}")

    def is_as(self, model: Any) -> bool:
        """Whether the session stands as the model does."""
        raise NotImplementedError


# --- tasks --------------------------------------------------------------------------------------


class Tasks:
    """Tasks as they are drawn, with their families and one group."""

    ways: Mapping[str, tuple[set[str], str]] = {
        "start": ({"PENDING"}, "RUNNING"),
        "complete": ({"RUNNING"}, "COMPLETE"),
        "fail": ({"PENDING", "RUNNING", "PAUSED"}, "FAILED"),
        "pause": ({"RUNNING"}, "PAUSED"),
        "resume": ({"PAUSED"}, "RUNNING"),
    }

    def __init__(self) -> None:
        self.status: dict[str, str] = {}
        self.parent: dict[str, tuple[str, bool]] = {}
        self.grouped: set[str] = set()
        self.sealed = False
        self.moves = 0

    def do(self, what: str, id: str = "", *more: Any) -> None:
        if what == "seal":
            self.sealed = True
        elif what == "spawn":
            self.spawn(id, *more)
        elif id not in self.status:
            raise Refused("UnknownTask")
        elif what == "cancel":
            self.cancel(id)
        else:
            before, after = self.ways[what]
            if self.status[id] not in before:
                raise Refused("IllegalTransition")
            self.move(id, after)

    def spawn(self, id: str, parent: str, isolated: bool, grouped: bool) -> None:
        if id in self.status:
            raise Refused("TaskExists")
        if not isolated and self.status.get(parent) == "CANCELLED":
            raise Refused("IllegalTransition")
        if grouped and self.sealed:
            raise Refused("GroupSealed")
        self.parent[id] = parent, isolated
        if grouped:
            self.grouped.add(id)
        self.move(id, "PENDING")

    def cancel(self, id: str) -> None:
        if self.status[id] in FINAL:
            raise Refused("IllegalTransition")
        reached, ahead = {id}, [id]
        while ahead:
            above = ahead.pop()
            for child, (parent, isolated) in self.parent.items():
                if parent == above and not isolated and child not in reached:
                    reached.add(child)
                    ahead.append(child)
        for each in reached:
            if self.status[each] not in FINAL:
                self.move(each, "CANCELLED")

    def move(self, id: str, status: str) -> None:
        self.status[id] = status
        self.moves += 1

    @property
    def group(self) -> str:
        stand = {self.status[id] for id in self.grouped}
        if not self.sealed:
            return "open"
        if stand - FINAL:
            return "sealed"
        return "failed" if stand - {"COMPLETE"} else "complete"


OPS = st.one_of(
    st.tuples(st.just("spawn"), ids, ids, st.booleans(), st.booleans()),
    st.tuples(st.sampled_from([*Tasks.ways, "start", "start", "cancel"]), ids),
    st.just(("seal",)),
)


class TaskMachine(Acted):
    """Tasks, from spawning to their end."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Tasks()

    def prepare(self) -> None:
        self.run(self.sessions[0].create_group("g", group_id="g"))

    @rule(actor=actors, op=OPS)
    def alone(self, actor: int, op: Op) -> None:
        self.together([(actor, op)])

    @rule(ops=st.lists(st.tuples(actors, OPS), min_size=2, max_size=3))
    def at_once(self, ops: list[tuple[int, Op]]) -> None:
        self.together(ops)

    async def does(self, session: Session, op: Op) -> None:
        match op:
            case ("seal",):
                await session.seal_group("g")
            case ("spawn", id, parent, isolated, grouped):
                await session.spawn_task(
                    task_id=id,
                    parent_task_id=parent,
                    propagate_on_cancel="isolate" if isolated else "cascade",
                    group_id="g" if grouped else None,
                )
            case ("fail", id):
                await session.fail_task(id, "broken")
            case (what, id):
                await getattr(session, f"{what}_task")(id)

    def is_as(self, model: Tasks) -> bool:
        return self.run(statuses(self.stores[0])) == model.status

    @invariant()
    def every_actor_sees_the_same(self) -> None:
        if not hasattr(self, "sessions"):
            return
        for session in self.sessions:
            state = self.run(session.refresh())
            assert {t.task_id: t.status.value for t in state.tasks} == self.model.status
            if "g" in state.groups:
                assert state.group("g").status == self.model.group

    @invariant()
    def every_move_is_told_once(self) -> None:
        if hasattr(self, "stores"):
            assert len(self.run(told(self.stores[1], "STATUS_CHANGE"))) == self.model.moves
            ends = self.run(told(self.stores[1], "NOTIFICATION", task_id="g"))
            assert len(ends) == (self.model.group in ("complete", "failed"))


# --- patches ------------------------------------------------------------------------------------


class Patches:
    """What was offered, what waits, and what was decided: once."""

    def __init__(self) -> None:
        self.waiting: list[str] = []
        self.decided: dict[str, str] = {}
        self.results: list[str] = []
        self.version = 0

    def do(self, what: str, id: str = "") -> Any:
        known = id in self.waiting or id in self.decided
        match what:
            case "offer" if not known:
                self.waiting.append(id)
            case "merge" if not known:
                self.apply(id)
            case "approve":
                return id in self.waiting and self.apply(id)
            case "reject":
                if id not in self.waiting:
                    return False
                self.waiting.remove(id)
                self.decided[id] = "rejected"
                return True
            case "change":
                self.version += 1
        return None

    def apply(self, id: str) -> bool:
        if id in self.waiting:
            self.waiting.remove(id)
        self.decided[id] = "applied"
        self.results.append(id)
        self.version += 1
        return True


PATCH_OPS = st.one_of(
    st.tuples(st.sampled_from(["offer", "offer", "merge", "approve", "reject"]), ids),
    st.just(("change",)),
)


class PatchMachine(Acted):
    """Patches, from being offered to what was decided."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Patches()

    @rule(actor=actors, op=PATCH_OPS)
    def alone(self, actor: int, op: Op) -> None:
        self.together([(actor, op)])

    @rule(ops=st.lists(st.tuples(actors, PATCH_OPS), min_size=2, max_size=4))
    def at_once(self, ops: list[tuple[int, Op]]) -> None:
        self.together(ops)

    async def does(self, session: Session, op: Op) -> Any:
        match op:
            case ("change",):
                await session.update_context(memory={"n": session.context.version})
                return None
            case ("approve", id):
                return await session.apply_pending_patch(id)
            case ("reject", id):
                return await session.reject_pending_patch(id)
        strategy = MergeStrategy.HUMAN_GATED if op[0] == "offer" else MergeStrategy.APPEND
        await session.apply_context_patch(patch=patch(op[1]), strategy=strategy, patch_id=op[1])
        return None

    def is_as(self, model: Patches) -> bool:
        return all(self.matches(session, model) for session in self.sessions)

    def matches(self, session: Session, model: Patches) -> bool:
        state = self.run(session.refresh())
        results = state.context.llm_context.get("background_results", [])
        return (
            list(state.pending_patches) == model.waiting
            and {id: state.outcome(id) for id in model.decided} == model.decided
            and [each["task_id"] for each in results] == model.results
            and state.context.version == model.version
        )

    @invariant()
    def the_context_has_its_hash_and_each_question_was_asked_once(self) -> None:
        if not hasattr(self, "sessions"):
            return
        context = self.run(self.sessions[1].refresh()).context
        expected = context_hash(context.llm_context) if context.version else None
        assert context.context_hash == expected
        asked = [each["patch_id"] for each in self.run(told(self.stores[0], "CHECKPOINT"))]
        assert len(asked) == len(set(asked))
        assert set(self.model.waiting) <= set(asked)


# --- a memory's health --------------------------------------------------------------------------


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
            Memory(self.store._journal),
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


MACHINES: list[type[Any]] = [TaskMachine, PatchMachine, HealthMachine]


@pytest.mark.parametrize("machine", MACHINES)
def test_the_machine_on_the_in_memory_log(machine: type[RuleBasedStateMachine]) -> None:
    run_state_machine_as_test(
        machine, settings=settings(BASE, max_examples=15, stateful_step_count=15)
    )


@pytest.mark.parametrize("machine", MACHINES)
def test_the_machine_on_the_embedded_server(machine: type[Any], embedded_path: Path) -> None:
    class OnServer(machine):  # type: ignore[misc]
        def make_backend(self) -> Backend:
            return EmbeddedBackend(embedded_path)

    run_state_machine_as_test(
        OnServer, settings=settings(BASE, max_examples=2, stateful_step_count=10)
    )


@pytest.mark.long
@pytest.mark.parametrize("machine", MACHINES)
def test_the_machine_at_length(machine: type[RuleBasedStateMachine]) -> None:
    run_state_machine_as_test(
        machine, settings=settings(BASE, max_examples=250, stateful_step_count=30)
    )
