"""What becomes of a memory when a turn is added, and when an attempt to summarise ends. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from foldlog.sessions.errors import MemoryBudgetExceeded
from foldlog.sessions.memory.config import ShortTermMemoryConfig
from foldlog.sessions.memory.health import MemoryHealth
from foldlog.sessions.memory.state import ConversationTurn, MemoryState


class Attempt(NamedTuple):
    """What a summarizer is to be asked: these turns, after that summary."""

    turns: tuple[ConversationTurn, ...]
    previous_summary: str


class Moved(NamedTuple):
    """A memory, and the ways by which its health has come there, in order."""

    state: MemoryState
    path: tuple[tuple[MemoryHealth, MemoryHealth], ...] = ()


def with_turn(
    state: MemoryState, turn: ConversationTurn, config: ShortTermMemoryConfig
) -> MemoryState:
    """A turn is added, and what is too old or too large for the recent ones gives way.

    Raises:
        MemoryBudgetExceeded: nothing may give way.
    """
    if config.strategy == "none":
        return state
    turns = (*state.turns, turn)
    full = config.budget.full_zone_turns
    old, recent = turns[: max(len(turns) - full, 0)], turns[max(len(turns) - full, 0) :]
    state = replace(state, turns=recent)
    if config.strategy == "rolling_summary":
        if state.health is MemoryHealth.DEGRADED:
            state = replace(state, backlog=_newest([*state.backlog, *old], config))
        else:
            state = replace(state, pending=(*state.pending, *old))
    return within_budget(state, config)


def due(state: MemoryState, config: ShortTermMemoryConfig) -> float | None:
    """From when on an attempt may be made, in Unix seconds; None, if there is nothing to attempt.

    A recovery that its process did not live to see the end of may be made again at once.
    """
    if config.strategy != "rolling_summary":
        return None
    if state.health in (MemoryHealth.DEGRADED, MemoryHealth.RECOVERING):
        waits = bool(state.backlog)
    else:
        waits = bool(state.pending)
    return state.due_at if waits else None


def begun(state: MemoryState) -> Moved:
    """An attempt is made: see `attempt`."""
    if state.health is MemoryHealth.DEGRADED:
        return _to(Moved(state), MemoryHealth.RECOVERING, due_at=0.0)
    return Moved(state)


def attempt(state: MemoryState) -> Attempt:
    """What an attempt that has begun is about."""
    recovers = state.health is MemoryHealth.RECOVERING
    return Attempt(state.backlog if recovers else state.pending, state.summary)


def succeeded(
    state: MemoryState, asked: Attempt, summary: str, config: ShortTermMemoryConfig
) -> Moved:
    """The summarizer gave a summary. Turns that were added meanwhile wait for the next.

    Raises:
        MemoryBudgetExceeded: it is too large, and nothing may give way.
    """
    state = replace(
        state,
        summary=_cut(summary, config),
        pending=_without(state.pending, asked.turns),
        backlog=_without(state.backlog, asked.turns),
        attempts=0,
        due_at=0.0,
    )
    moved = Moved(state)
    if state.health is not MemoryHealth.HEALTHY:
        moved = _to(moved, MemoryHealth.HEALTHY)
    return moved._replace(state=within_budget(moved.state, config))


def failed(state: MemoryState, config: ShortTermMemoryConfig, now: float) -> Moved:
    """The summarizer gave none. `now` in Unix seconds."""
    moved = Moved(state)
    attempts = state.attempts + 1
    if state.health is MemoryHealth.HEALTHY:
        moved = _to(moved, MemoryHealth.RETRY)
    if state.health is not MemoryHealth.RECOVERING and attempts <= config.retry_attempts:
        pause = config.retry_backoff_base_s * 2 ** (attempts - 1)
        return moved._replace(state=replace(moved.state, attempts=attempts, due_at=now + pause))
    return _to(
        moved,
        MemoryHealth.DEGRADED,
        backlog=_newest([*state.backlog, *state.pending], config),
        pending=(),
        attempts=0,
        due_at=now + config.degraded_retry_interval_s,
    )


def llm_context(state: MemoryState, config: ShortTermMemoryConfig) -> dict[str, Any]:
    """What of a memory goes into a model's prompt."""
    if config.strategy == "none":
        return {}

    def shown(turns: Sequence[ConversationTurn]) -> list[dict[str, Any]]:
        digest = config.include_trajectory_digest
        return [turn.for_model(include_digest=digest) for turn in turns]

    memory: dict[str, Any] = {"recent_turns": shown(state.turns)}
    if _is_summed_up(state, config):
        if state.pending:
            memory["pending_turns"] = shown(state.pending)
        if state.summary:
            memory["summary"] = state.summary
    return {"conversation_memory": memory}


def _is_summed_up(state: MemoryState, config: ShortTermMemoryConfig) -> bool:
    """Whether a prompt gets more than the recent turns."""
    return config.strategy == "rolling_summary" and state.health is not MemoryHealth.DEGRADED


def tokens(state: MemoryState, config: ShortTermMemoryConfig) -> int:
    """How many tokens it takes there, by the config's estimate."""
    memory = llm_context(state, config).get("conversation_memory", {})
    return config.token_estimator(json.dumps(memory, ensure_ascii=False, sort_keys=True))


def within_budget(state: MemoryState, config: ShortTermMemoryConfig) -> MemoryState:
    """As much of a memory as its budget allows.

    Raises:
        MemoryBudgetExceeded: it is too large, and nothing may give way.
    """
    limit = config.budget.total_max_tokens
    policy = config.budget.overflow_policy
    if not limit:
        return state
    while (size := tokens(state, config)) > limit:
        if policy == "error":
            raise MemoryBudgetExceeded("memory", size, limit)
        sums_up = _is_summed_up(state, config)
        if policy == "truncate_summary" and sums_up and state.summary:
            # By what is too much: a token is a character at least.
            state = replace(state, summary=state.summary[max(size - limit, 1) :])
        elif sums_up and state.pending:
            state = replace(state, pending=state.pending[1:])
        elif state.turns:
            state = replace(state, turns=state.turns[1:])
        elif sums_up and state.summary:
            state = replace(state, summary="")
        else:
            break  # the budget is smaller than an empty memory
    return state


def _to(moved: Moved, health: MemoryHealth, **changes: Any) -> Moved:
    before = moved.state.health
    return Moved(replace(moved.state, health=health, **changes), (*moved.path, (before, health)))


def _cut(summary: str, config: ShortTermMemoryConfig) -> str:
    """The end of a summary that its budget allows."""
    limit = config.budget.summary_max_tokens
    size = config.token_estimator(summary) if summary else 0
    if size > limit and config.budget.overflow_policy == "error":
        raise MemoryBudgetExceeded("summary", size, limit)
    while summary and (size := config.token_estimator(summary)) > limit:
        summary = summary[max(size - limit, 1) :] if limit else ""
    return summary


def _newest(
    turns: Sequence[ConversationTurn], config: ShortTermMemoryConfig
) -> tuple[ConversationTurn, ...]:
    limit = config.recovery_backlog_limit
    return tuple(turns[len(turns) - limit :] if len(turns) > limit else turns)


def _without(
    turns: tuple[ConversationTurn, ...], done: tuple[ConversationTurn, ...]
) -> tuple[ConversationTurn, ...]:
    return tuple(turn for turn in turns if turn not in done)
