"""What has to go so that an artifact fits: decided from the fold, without I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from foldlog.errors import ArtifactLimitExceeded
from foldlog.models import ArtifactRetentionConfig
from foldlog_projections.artifacts import Held, Saved


class _Limit(NamedTuple):
    """A limit of the configuration, on the number or the bytes of what a trace or session holds."""

    name: str
    scope: str
    trace_id: str | None
    counts_bytes: bool

    def weight(self, saved: Saved) -> int:
        """What an artifact takes up of it."""
        return saved.size_bytes if self.counts_bytes else 1


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
    limits = _limits(new)
    for limit in limits:
        if limit.weight(new) > getattr(retention, limit.name):
            raise ArtifactLimitExceeded(limit.scope, limit.name, getattr(retention, limit.name))
    evicted: list[Held] = []
    for limit in limits:
        allowed = getattr(retention, limit.name)
        members = [
            each for each in held if each not in evicted and limit.trace_id in (None, each.trace_id)
        ]
        used = limit.weight(new) + sum(limit.weight(each.saved) for each in members)
        for candidate in members:
            if used <= allowed:
                break
            if retention.cleanup_strategy == "none":
                raise ArtifactLimitExceeded(limit.scope, limit.name, allowed)
            evicted.append(candidate)
            used -= limit.weight(candidate.saved)
    return evicted


def _limits(new: Saved) -> list[_Limit]:
    """The narrow ones first: what they evict makes room in the wide ones, too."""
    session_id = new.scope.session_id if new.scope else None
    trace_id = new.scope.trace_id if new.scope else None
    session = f"session {session_id!r}" if session_id else "what belongs to no session"
    of_session = [
        _Limit("max_artifacts_per_session", session, None, counts_bytes=False),
        _Limit("max_session_bytes", session, None, counts_bytes=True),
    ]
    if trace_id is None:
        return of_session
    trace = f"trace {trace_id!r}"
    return [
        _Limit("max_artifacts_per_trace", trace, trace_id, counts_bytes=False),
        _Limit("max_trace_bytes", trace, trace_id, counts_bytes=True),
        *of_session,
    ]
