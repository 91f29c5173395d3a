"""What of a memory gives way when it is too large."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

import foldlog
from foldlog.sessions import (
    MemoryBudgetExceeded,
    MemoryHealth,
    MemoryState,
    Session,
)
from foldlog.sessions.memory import machine
from tests.sessions.remembering import config, messages, summed, turn


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
