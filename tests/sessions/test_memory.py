"""Short-term memory: what it keeps, what gives way, whose it is, and how it fares when it fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import foldlog
from foldlog.sessions import (
    ConversationTurn,
    MemoryBudget,
    MemoryBudgetExceeded,
    MemoryHealth,
    MemoryIsolation,
    MemoryKeyMissing,
    MemoryState,
    Session,
    ShortTermMemory,
    ShortTermMemoryConfig,
    TrajectoryDigest,
)
from foldlog.sessions.memory import machine
from tests.sessions.conftest import OpenSession


def turn(number: int | str = 0, **fields: Any) -> ConversationTurn:
    return ConversationTurn(f"q{number}", f"a{number}", ts=1.5, **fields)


def config(strategy: str = "rolling_summary", **fields: Any) -> ShortTermMemoryConfig:
    budget = {
        name: fields.pop(name)
        for name in ("full_zone_turns", "summary_max_tokens", "total_max_tokens", "overflow_policy")
        if name in fields
    }
    fields.setdefault("retry_backoff_base_s", 0.0)
    return ShortTermMemoryConfig(
        strategy=strategy,  # type: ignore[arg-type]
        budget=MemoryBudget(**({"full_zone_turns": 2} | budget)),
        token_estimator=fields.pop("token_estimator", len),
        **fields,
    )


def messages(turns: tuple[ConversationTurn, ...]) -> list[str]:
    return [each.user_message for each in turns]


async def summed(request: Mapping[str, Any]) -> dict[str, str]:
    """A summarizer: all that it was ever told, in order."""
    users = [each["user"] for each in request["turns"]]
    return {"summary": " ".join([*request["previous_summary"].split(), *users])}


# --- strategies ---------------------------------------------------------------------------------


async def kept(session: Session, strategy: str) -> ShortTermMemory:
    memory = await session.memory(config(strategy), key="k", summarizer=summed)
    for number in range(5):
        await memory.add_turn(turn(number))
    await memory.flush()
    return memory


async def test_none_keeps_nothing(store: foldlog.Store, session: Session) -> None:
    memory = await kept(session, "none")
    assert (memory.get_llm_context(), await store.load_memory_state("k")) == ({}, None)


async def test_truncation_keeps_recent_turns(session: Session) -> None:
    memory = await kept(session, "truncation")
    recent = [{"user": "q3", "assistant": "a3"}, {"user": "q4", "assistant": "a4"}]
    assert memory.get_llm_context() == {"conversation_memory": {"recent_turns": recent}}


async def test_a_rolling_summary_has_the_rest(session: Session) -> None:
    memory = await kept(session, "rolling_summary")
    context = memory.get_llm_context()["conversation_memory"]
    assert context["summary"] == "q0 q1 q2"
    assert [each["user"] for each in context["recent_turns"]] == ["q3", "q4"]
    assert (memory.health, memory.state.pending) == (MemoryHealth.HEALTHY, ())


async def test_turns_that_wait_are_shown_as_they_are(session: Session) -> None:
    asked = asyncio.Event()

    async def slow(request: Mapping[str, Any]) -> dict[str, str]:
        asked.set()
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    memory = await session.memory(config(), key="k", summarizer=slow)
    for number in range(3):
        await memory.add_turn(turn(number))
    await asked.wait()
    context = memory.get_llm_context()["conversation_memory"]
    assert [each["user"] for each in context["pending_turns"]] == ["q0"]


async def test_a_memory_is_taken_up_where_it_was_left(
    session: Session, open_session: OpenSession
) -> None:
    memory = await kept(session, "rolling_summary")
    again = await (await open_session()).memory(config(), key="k", summarizer=summed)
    assert again.state.to_dict() == memory.state.to_dict()
    assert again.get_llm_context() == memory.get_llm_context()


async def test_a_memory_is_taken_up_as_the_log_has_it(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not as pushes have told so far, or a worker would save over what another one did."""
    session = await store.session("s")
    await kept(session, "truncation")
    last, asked = store.log.last, list[Any]()

    async def noted(*args: Any, **options: Any) -> Any:
        asked.append(options["strong"])
        return await last(*args, **options)

    monkeypatch.setattr(store.log, "last", noted)
    memory = await session.memory(config("truncation"), key="k")
    assert messages(memory.state.turns) == ["q3", "q4"]
    assert asked == [True]


async def test_a_digest_is_shown_if_it_is_wanted(session: Session) -> None:
    digest = TrajectoryDigest(["search"], "found", artifacts_refs=["a"])
    for wanted in (True, False):
        chosen = config("truncation", include_trajectory_digest=wanted)
        memory = await session.memory(chosen, key=f"k{wanted}")
        await memory.add_turn(turn(trajectory_digest=digest))
        [shown] = memory.get_llm_context()["conversation_memory"]["recent_turns"]
        assert ("trajectory_digest" in shown) is wanted


async def test_what_cannot_be_saved_is_not_kept(session: Session) -> None:
    memory = await session.memory(config("truncation"), key="k")
    with pytest.raises(foldlog.PayloadError):
        await memory.add_turn(turn(artifacts_shown={"x": object()}))
    assert memory.state.turns == ()


async def test_rolling_summaries_need_a_summarizer(session: Session) -> None:
    with pytest.raises(foldlog.ConfigurationError):
        await session.memory(config(), key="k")


# --- budgets ------------------------------------------------------------------------------------


def filled(summary: str = "", pending: int = 0, turns: int = 0) -> MemoryState:
    return MemoryState(
        summary=summary,
        pending=tuple(turn(f"p{n}") for n in range(pending)),
        turns=tuple(turn(f"t{n}") for n in range(turns)),
    )


def size(state: MemoryState) -> int:
    return machine.tokens(state, config())


def test_the_oldest_turns_give_way_first_and_the_summary_last() -> None:
    state = filled("summary", pending=2, turns=2)
    for kept_ in (
        filled("summary", pending=1, turns=2),
        filled("summary", turns=2),
        filled("summary", turns=1),
        filled("summary"),
        filled(),
    ):
        limit = size(kept_)
        chosen = config(total_max_tokens=limit, summary_max_tokens=1)
        cut = machine.within_budget(state, chosen)
        assert len(cut.pending) == len(kept_.pending)
        assert len(cut.turns) == len(kept_.turns)
        assert cut.summary == kept_.summary
        assert size(cut) <= limit


def test_the_beginning_of_the_summary_gives_way_first_if_that_is_wanted() -> None:
    state = filled("0123456789", pending=1, turns=1)
    chosen = config(
        total_max_tokens=size(state) - 4,
        summary_max_tokens=1,
        overflow_policy="truncate_summary",
    )
    cut = machine.within_budget(state, chosen)
    assert (cut.summary, len(cut.pending), len(cut.turns)) == ("456789", 1, 1)
    less = machine.within_budget(
        state,
        config(
            total_max_tokens=size(filled(turns=1)),
            summary_max_tokens=1,
            overflow_policy="truncate_summary",
        ),
    )
    assert (less.summary, len(less.pending), len(less.turns)) == ("", 0, 1)


async def test_an_error_leaves_the_memory_as_it_was(session: Session) -> None:
    chosen = config(
        "truncation", total_max_tokens=100, summary_max_tokens=10, overflow_policy="error"
    )
    memory = await session.memory(chosen, key="k")
    await memory.add_turn(turn(0))
    with pytest.raises(MemoryBudgetExceeded) as exceeded:
        await memory.add_turn(turn("x" * 100))
    assert exceeded.value.limit == 100
    assert messages(memory.state.turns) == ["q0"]
    await memory.add_turn(turn(1))


async def test_a_summary_that_is_too_large_is_cut_at_its_beginning(session: Session) -> None:
    memory = await session.memory(
        config(summary_max_tokens=5, full_zone_turns=0), key="k", summarizer=summed
    )
    for number in range(4):
        await memory.add_turn(turn(number))
        await memory.flush()
    assert memory.state.summary == "q2 q3"


async def test_a_summary_that_may_not_be_cut_counts_as_a_failure(session: Session) -> None:
    chosen = config(
        summary_max_tokens=1,
        full_zone_turns=0,
        overflow_policy="error",
        retry_attempts=0,
    )
    memory = await session.memory(chosen, key="k", summarizer=summed)
    await memory.add_turn(turn(0))
    await memory.flush()
    assert (memory.health, messages(memory.state.backlog)) == (MemoryHealth.DEGRADED, ["q0"])


@given(
    st.text(max_size=40),
    st.integers(0, 4),
    st.integers(0, 4),
    st.integers(1, 400),
    st.sampled_from(["truncate_summary", "truncate_oldest"]),
    st.sampled_from([len, lambda text: len(text) // 4 + 1, lambda text: len(text) * 3]),
)
def test_a_budget_is_kept_whatever_it_is(
    summary: str, pending: int, turns: int, limit: int, policy: str, estimator: Any
) -> None:
    chosen = config(
        total_max_tokens=limit,
        summary_max_tokens=1,
        overflow_policy=policy,
        token_estimator=estimator,
    )
    cut = machine.within_budget(filled(summary, pending, turns), chosen)
    empty = machine.tokens(MemoryState(), chosen)
    assert machine.tokens(cut, chosen) <= max(limit, empty)
    assert messages(cut.turns) == [f"qt{n}" for n in range(turns)][turns - len(cut.turns) :]


@pytest.mark.parametrize(
    "wrong",
    [
        {"full_zone_turns": -1},
        {"summary_max_tokens": -1},
        {"total_max_tokens": 5, "summary_max_tokens": 6},
        {"overflow_policy": "panic"},
        {"retry_attempts": -1},
        {"recovery_backlog_limit": 0},
        {"degraded_retry_interval_s": 0},
        {"strategy": "telepathy"},
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(foldlog.ConfigurationError):
        config(**wrong)


# --- isolation ----------------------------------------------------------------------------------


def test_a_key_is_found_by_its_paths() -> None:
    isolation = MemoryIsolation("org.id", "user.name", "session_id")
    context = {"org": {"id": 7}, "user": {"name": "ann"}, "session_id": "s"}
    assert isolation.key(context) == "7:ann:s"


@given(st.lists(st.text(min_size=1, max_size=3), min_size=6, max_size=6))
def test_no_two_share_a_key(parts: list[str]) -> None:
    names = ("tenant_id", "user_id", "session_id")
    one, two = ([text.strip() or "x" for text in parts[at : at + 3]] for at in (0, 3))
    keys = [MemoryIsolation().key(dict(zip(names, each, strict=True))) for each in (one, two)]
    assert (keys[0] == keys[1]) == (one == two)


def test_what_is_missing_is_refused_unless_it_may_be() -> None:
    context = {"tenant_id": "t", "session_id": "s", "user_id": " "}
    with pytest.raises(MemoryKeyMissing, match="user_id"):
        MemoryIsolation().key(context)
    lenient = MemoryIsolation(require_explicit_key=False)
    assert lenient.key(context) == "t:_:s"
    assert lenient.key({**context, "user_id": "_"}) == "t:%5F:s"


async def test_the_contexts_of_two_users_have_two_memories(
    session: Session, open_session: OpenSession
) -> None:
    for user in ("a:b", "a"):
        await session.update_context(
            tool_context={"tenant_id": "t", "user_id": user, "session_id": "b:s"}
        )
        memory = await session.memory(config("truncation"))
        assert memory.state.turns == ()
        await memory.add_turn(turn(user))
    assert memory.key == "t:a:b%3As"


# --- the format ---------------------------------------------------------------------------------

SAVED = {
    "version": 1,
    "health": "degraded",
    "summary": "they want to fly",
    "turns": [
        {
            "user_message": "hello",
            "assistant_response": "hi",
            "trajectory_digest": {
                "tools_invoked": ["search"],
                "observations_summary": "none",
                "reasoning_summary": None,
                "artifacts_refs": ["a"],
            },
            "artifacts_shown": {"a": 1},
            "artifacts_hidden_refs": ["b"],
            "ts": 1702857600.0,
        }
    ],
    "pending": [],
    "backlog": [
        {
            "user_message": "old",
            "assistant_response": "older",
            "trajectory_digest": None,
            "artifacts_shown": {},
            "artifacts_hidden_refs": [],
            "ts": 0.0,
        }
    ],
    "config_snapshot": {"strategy": "rolling_summary", "retry_attempts": 3},
}
"""As PenguiFlow writes it."""


def test_what_penguiflow_saved_comes_back_as_it_was() -> None:
    assert MemoryState.from_dict(SAVED).to_dict() == SAVED
    assert MemoryState.from_dict({**SAVED, "more": [1]}).to_dict() == {**SAVED, "more": [1]}


@pytest.mark.parametrize(
    "broken",
    [
        {"version": 2},
        {"health": "unwell"},
        {"health": None},
        {"turns": "many"},
        {"turns": [1]},
        {"turns": [{"user_message": 7}]},
        {"backlog": [{"trajectory_digest": "long"}]},
    ],
)
async def test_what_is_no_memory_is_told(
    store: foldlog.Store, session: Session, broken: dict[str, Any]
) -> None:
    await store.save_memory_state("k", {**SAVED, **broken})
    with pytest.raises(foldlog.LogCorrupt):
        await session.memory(config("truncation"), key="k")


async def test_a_memory_that_is_json_stays_json(store: foldlog.Store, session: Session) -> None:
    await kept(session, "rolling_summary")
    saved = await store.load_memory_state("k")
    assert json.loads(json.dumps(saved)) == saved


# --- what fails ---------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Moody:
    """A summarizer that does as it is told."""

    def __init__(self) -> None:
        self.fails = False
        self.asked = 0

    async def __call__(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self.asked += 1
        if self.fails:
            raise RuntimeError("the model is away")
        return await summed(request)


async def moody(
    store: foldlog.Store, summarizer: Moody, clock: Clock, **options: Any
) -> tuple[ShortTermMemory, list[tuple[str, str]]]:
    """A memory without recent turns, and the ways that its health takes."""
    from foldlog.store.memory import Memory

    ways: list[tuple[str, str]] = []

    async def on_health(before: MemoryHealth, after: MemoryHealth) -> None:
        ways.append((before.value, after.value))

    memory = ShortTermMemory(
        config(full_zone_turns=0, **options),
        Memory(store._journal),
        "k",
        summarizer=summarizer,
        on_health=on_health,
        clock=clock,
    )
    await memory.hydrate()
    return memory, ways


async def test_health_goes_the_ways_that_are_drawn(store: foldlog.Store) -> None:
    summarizer, clock = Moody(), Clock()
    memory, ways = await moody(
        store, summarizer, clock, retry_attempts=2, retry_backoff_base_s=10.0
    )
    summarizer.fails = True
    await memory.add_turn(turn(0))
    await memory.flush()
    assert (memory.health, memory.state.due_at) == (MemoryHealth.RETRY, 1010.0)
    await memory.flush()
    assert summarizer.asked == 1, "not before its time"
    clock.now = 1010.0
    await memory.flush()
    assert (memory.health, memory.state.due_at) == (MemoryHealth.RETRY, 1030.0)
    clock.now = 1030.0
    await memory.flush()
    assert (memory.health, memory.state.due_at) == (MemoryHealth.DEGRADED, 1060.0)
    assert messages(memory.state.backlog) == ["q0"]
    await memory.add_turn(turn(1))
    clock.now = 1060.0
    await memory.flush()
    assert memory.health is MemoryHealth.DEGRADED
    summarizer.fails = False
    clock.now = 1090.0
    await memory.flush()
    assert (memory.health, memory.state.summary) == (MemoryHealth.HEALTHY, "q0 q1")
    assert ways == [
        ("healthy", "retry"),
        ("retry", "degraded"),
        ("degraded", "recovering"),
        ("recovering", "degraded"),
        ("degraded", "recovering"),
        ("recovering", "healthy"),
    ]
    await memory.close()


async def test_a_retry_that_succeeds_is_healthy_again(store: foldlog.Store) -> None:
    summarizer, clock = Moody(), Clock()
    memory, ways = await moody(store, summarizer, clock, retry_backoff_base_s=10.0)
    summarizer.fails = True
    await memory.add_turn(turn(0))
    await memory.flush()
    summarizer.fails = False
    clock.now += 10
    await memory.flush()
    assert ways == [("healthy", "retry"), ("retry", "healthy")]
    assert (memory.state.attempts, memory.state.due_at) == (0, 0.0)
    await memory.close()


async def test_it_makes_the_next_attempt_by_itself(store: foldlog.Store) -> None:
    summarizer = Moody()
    memory, _ = await moody(store, summarizer, Clock(), retry_attempts=2, retry_backoff_base_s=0.0)
    healed = asyncio.Event()

    async def failing_once(request: Mapping[str, Any]) -> Mapping[str, Any]:
        summarizer.asked += 1
        if summarizer.asked == 1:
            raise RuntimeError
        healed.set()
        return await summed(request)

    memory._summarizer = failing_once
    await memory.add_turn(turn(0))
    async with asyncio.timeout(20):
        await healed.wait()
    await memory.flush()
    assert memory.health is MemoryHealth.HEALTHY
    await memory.close()


async def test_what_a_summarizer_returns_is_looked_at(store: foldlog.Store) -> None:
    async def wrong(request: Mapping[str, Any]) -> Any:
        return {"summary": 7}

    memory, _ = await moody(store, Moody(), Clock(), retry_backoff_base_s=9.0)
    memory._summarizer = wrong
    await memory.add_turn(turn(0))
    await memory.flush()
    assert memory.health is MemoryHealth.RETRY
    await memory.close()


async def test_a_summarizer_that_gives_up_by_itself_has_failed(store: foldlog.Store) -> None:
    async def cancelled(request: Mapping[str, Any]) -> Any:
        raise asyncio.CancelledError

    memory, _ = await moody(store, Moody(), Clock(), retry_backoff_base_s=9.0)
    memory._summarizer = cancelled
    await memory.add_turn(turn(0))
    async with asyncio.timeout(20):
        await memory.flush()
    assert (memory.health, messages(memory.state.pending)) == (MemoryHealth.RETRY, ["q0"])
    await memory.close()


async def test_a_summary_that_cannot_be_estimated_is_not_asked_for_again_at_once(
    store: foldlog.Store,
) -> None:
    def estimate(text: str) -> int:
        if text == "q0":
            raise ValueError(text)
        return len(text)

    summarizer = Moody()
    memory, _ = await moody(
        store, summarizer, Clock(), retry_backoff_base_s=9.0, token_estimator=estimate
    )
    await memory.add_turn(turn(0))
    async with asyncio.timeout(20):
        await memory.flush()
    assert (memory.health, summarizer.asked) == (MemoryHealth.RETRY, 1)
    assert messages(memory.state.pending) == ["q0"]
    await memory.close()


async def test_turns_added_during_a_summary_wait_for_the_next(store: foldlog.Store) -> None:
    entered, release = asyncio.Event(), asyncio.Event()

    async def slow(request: Mapping[str, Any]) -> Mapping[str, Any]:
        entered.set()
        await release.wait()
        return await summed(request)

    memory, _ = await moody(store, Moody(), Clock())
    memory._summarizer = slow
    await memory.add_turn(turn(0))
    await entered.wait()
    await memory.add_turn(turn(1))
    release.set()
    await memory.flush()
    assert (memory.state.summary, memory.state.pending) == ("q0 q1", ())
    await memory.close()


async def test_the_backlog_keeps_the_newest(store: foldlog.Store) -> None:
    summarizer = Moody()
    summarizer.fails = True
    memory, _ = await moody(store, summarizer, Clock(), retry_attempts=0, recovery_backlog_limit=3)
    for number in range(5):
        await memory.add_turn(turn(number))
        await memory.flush()
    assert messages(memory.state.backlog) == ["q2", "q3", "q4"]
    await memory.close()


async def test_a_listener_that_raises_is_heard_of(
    store: foldlog.Store, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(before: MemoryHealth, after: MemoryHealth) -> None:
        raise RuntimeError("deaf")

    summarizer = Moody()
    summarizer.fails = True
    memory, _ = await moody(store, summarizer, Clock(), retry_backoff_base_s=9.0)
    memory._on_health = broken
    await memory.add_turn(turn(0))
    await memory.flush()
    assert memory.health is MemoryHealth.RETRY
    assert "deaf" in caplog.text
    await memory.close()
