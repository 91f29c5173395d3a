"""What has to go so that an artifact fits: decided from the fold, without I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from foldlog.errors import ArtifactLimitExceeded
from foldlog.models import ArtifactRetentionConfig
from foldlog_projections.artifacts import Held, Saved


class _Budget(NamedTuple):
    scope: str
    members: Sequence[Held]
    of_count: tuple[str, int]
    of_bytes: tuple[str, int]


def going_order(
    held: Mapping[str, Held], retention: ArtifactRetentionConfig, read_at: Mapping[str, float]
) -> list[Held]:
    """Return what a session holds, first to go first.

    "lru" goes by the last read, in Unix seconds by artifact id, or the save if that is later.
    """
    first_saved_first = list(held.values())
    if retention.cleanup_strategy != "lru":
        return first_saved_first
    return sorted(
        first_saved_first,
        key=lambda each: max(each.ts, read_at.get(each.saved.artifact_id, each.ts)),
    )


def to_evict(held: Sequence[Held], new: Saved, retention: ArtifactRetentionConfig) -> list[Held]:
    """Return those of `held`, which come first to go first, that must go for `new` to fit.

    Raises:
        ArtifactLimitExceeded: `new` alone exceeds a budget, or nothing may be evicted.
    """
    evicted: list[Held] = []
    for budget in _budgets(held, new, retention):
        evicted += _evict(budget, new, evicted, may_evict=retention.cleanup_strategy != "none")
    return evicted


def _budgets(held: Sequence[Held], new: Saved, retention: ArtifactRetentionConfig) -> list[_Budget]:
    """The narrow one first: what it evicts makes room in the wide one, too."""
    session_id = new.scope.session_id if new.scope else None
    trace_id = new.scope.trace_id if new.scope else None
    budgets = [
        _Budget(
            f"session {session_id!r}" if session_id else "what belongs to no session",
            held,
            ("max_artifacts_per_session", retention.max_artifacts_per_session),
            ("max_session_bytes", retention.max_session_bytes),
        )
    ]
    if trace_id is not None:
        trace = _Budget(
            f"trace {trace_id!r}",
            [each for each in held if each.trace_id == trace_id],
            ("max_artifacts_per_trace", retention.max_artifacts_per_trace),
            ("max_trace_bytes", retention.max_trace_bytes),
        )
        budgets.insert(0, trace)
    for budget in budgets:
        for (limit, allowed), needed in ((budget.of_count, 1), (budget.of_bytes, new.size_bytes)):
            if needed > allowed:
                raise ArtifactLimitExceeded(budget.scope, limit, allowed)
    return budgets


def _evict(budget: _Budget, new: Saved, gone: Sequence[Held], *, may_evict: bool) -> list[Held]:
    members = [each for each in budget.members if each not in gone]
    count, size = len(members) + 1, sum(each.saved.size_bytes for each in members) + new.size_bytes
    evicted: list[Held] = []
    for candidate in members:
        over = [
            (limit, allowed)
            for (limit, allowed), used in ((budget.of_count, count), (budget.of_bytes, size))
            if used > allowed
        ]
        if not over:
            break
        if not may_evict:
            raise ArtifactLimitExceeded(budget.scope, *over[0])
        evicted.append(candidate)
        count, size = count - 1, size - candidate.saved.size_bytes
    return evicted
