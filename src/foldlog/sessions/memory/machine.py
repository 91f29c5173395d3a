"""What becomes of a memory when a turn is added, and when an attempt to summarise ends. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from foldlog.sessions.errors import MemoryBudgetExceeded
from foldlog.sessions.memory.config import ShortTermMemoryConfig
from foldlog.sessions.memory.state import ConversationTurn, MemoryHealth, MemoryState

_Turns = tuple[ConversationTurn, ...]


class Attempt(NamedTuple):
    """What a summarizer is asked to add to the previous summary."""

    turns: _Turns
    previous_summary: str


def with_turn(
    state: MemoryState, turn: ConversationTurn, config: ShortTermMemoryConfig
) -> MemoryState:
    """Add a turn, and remove what the budget does not allow. Errors as `within_budget`."""
    if config.strategy == "none":
        return state
    turns = (*state.turns, turn)
    full = max(len(turns) - config.budget.full_zone_turns, 0)
    old = turns[:full]
    state = replace(state, turns=turns[full:])
    if config.strategy == "rolling_summary":
        if state.health is MemoryHealth.DEGRADED:
            state = replace(state, backlog=_newest((*state.backlog, *old), config))
        else:
            state = replace(state, pending=(*state.pending, *old))
    return within_budget(state, config)


def due(state: MemoryState, config: ShortTermMemoryConfig) -> float | None:
    """The time of the next attempt in Unix seconds; None if there is nothing to summarise."""
    if config.strategy != "rolling_summary":
        return None
    # A recovery whose process died before its end may be made again at once.
    recovers = state.health in (MemoryHealth.DEGRADED, MemoryHealth.RECOVERING)
    return state.due_at if (state.backlog if recovers else state.pending) else None


def begun(state: MemoryState) -> MemoryState:
    """The memory while an attempt is made: see `attempt`."""
    if state.health is MemoryHealth.DEGRADED:
        return replace(state, health=MemoryHealth.RECOVERING, due_at=0.0)
    return state


def attempt(state: MemoryState) -> Attempt:
    """What the attempt that has begun asks the summarizer."""
    recovers = state.health is MemoryHealth.RECOVERING
    return Attempt(state.backlog if recovers else state.pending, state.summary)


def succeeded(
    state: MemoryState, asked: Attempt, summary: str, config: ShortTermMemoryConfig
) -> MemoryState:
    """Take the summary; turns added meanwhile stay pending. Errors as `within_budget`."""
    state = replace(
        state,
        health=MemoryHealth.HEALTHY,
        summary=_cut(summary, config),
        pending=tuple(turn for turn in state.pending if turn not in asked.turns),
        backlog=tuple(turn for turn in state.backlog if turn not in asked.turns),
        attempts=0,
        due_at=0.0,
    )
    return within_budget(state, config)


def failed(state: MemoryState, config: ShortTermMemoryConfig, now: float) -> MemoryState:
    """Note that an attempt failed. `now` in Unix seconds."""
    attempts = state.attempts + 1
    if state.health is not MemoryHealth.RECOVERING and attempts <= config.retry_attempts:
        pause = config.retry_backoff_base_s * 2 ** (attempts - 1)
        return replace(state, health=MemoryHealth.RETRY, attempts=attempts, due_at=now + pause)
    return replace(
        state,
        health=MemoryHealth.DEGRADED,
        backlog=_newest((*state.backlog, *state.pending), config),
        pending=(),
        attempts=0,
        due_at=now + config.degraded_retry_interval_s,
    )


def path(before: MemoryHealth, after: MemoryHealth) -> list[tuple[MemoryHealth, MemoryHealth]]:
    """The transitions that lead from one health to another, in order."""
    if (before, after) == (MemoryHealth.HEALTHY, MemoryHealth.DEGRADED):  # no retry is configured
        return [(before, MemoryHealth.RETRY), (MemoryHealth.RETRY, after)]
    return [] if before is after else [(before, after)]


def llm_context(state: MemoryState, config: ShortTermMemoryConfig) -> dict[str, Any]:
    """The part of a memory that goes into a model's prompt."""
    if config.strategy == "none":
        return {}
    memory: dict[str, Any] = {"recent_turns": shown(state.turns, config)}
    if _has_summary(state, config):
        if state.pending:
            memory["pending_turns"] = shown(state.pending, config)
        if state.summary:
            memory["summary"] = state.summary
    return {"conversation_memory": memory}


def shown(turns: Sequence[ConversationTurn], config: ShortTermMemoryConfig) -> list[dict[str, Any]]:
    """Turns as a model's prompt has them."""
    return [turn.for_model(include_digest=config.include_trajectory_digest) for turn in turns]


def tokens(state: MemoryState, config: ShortTermMemoryConfig) -> int:
    """How many tokens the memory takes in a prompt, by the config's estimate."""
    memory = llm_context(state, config).get("conversation_memory", {})
    return config.token_estimator(json.dumps(memory, ensure_ascii=False, sort_keys=True))


def within_budget(state: MemoryState, config: ShortTermMemoryConfig) -> MemoryState:
    """Remove what the budget does not allow.

    Raises:
        MemoryBudgetExceeded: the memory is too large, and its policy is "error".
    """
    limit = config.budget.total_max_tokens
    policy = config.budget.overflow_policy
    while limit and (size := tokens(state, config)) > limit:
        if policy == "error":
            raise MemoryBudgetExceeded("memory", size, limit)
        has_summary = _has_summary(state, config)
        if policy == "truncate_summary" and has_summary and state.summary:
            # A token is at least one character.
            state = replace(state, summary=state.summary[max(size - limit, 1) :])
        elif has_summary and state.pending:
            state = replace(state, pending=state.pending[1:])
        elif state.turns:
            state = replace(state, turns=state.turns[1:])
        elif has_summary and state.summary:
            state = replace(state, summary="")
        else:
            break  # the budget is smaller than an empty memory
    return state


def _has_summary(state: MemoryState, config: ShortTermMemoryConfig) -> bool:
    """Whether a prompt gets more than the recent turns."""
    return config.strategy == "rolling_summary" and state.health is not MemoryHealth.DEGRADED


def _cut(summary: str, config: ShortTermMemoryConfig) -> str:
    """The end of a summary that its budget allows."""
    limit = config.budget.summary_max_tokens
    while summary and (size := config.token_estimator(summary)) > limit:
        if config.budget.overflow_policy == "error":
            raise MemoryBudgetExceeded("summary", size, limit)
        summary = summary[max(size - limit, 1) :] if limit else ""
    return summary


def _newest(turns: _Turns, config: ShortTermMemoryConfig) -> _Turns:
    return turns[-config.recovery_backlog_limit :]
