"""What a short-term memory keeps, how large it may be, and whose it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from foldlog.errors import ConfigurationError, PayloadError
from foldlog_projections.memory import UNKNOWN, escaped

OverflowPolicy = Literal["truncate_summary", "truncate_oldest", "error"]
MemoryStrategy = Literal["none", "truncation", "rolling_summary"]


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """How large a memory may be.

    Attributes:
        full_zone_turns: recent turns that stay whole.
        summary_max_tokens: tokens of the summary; 0: no summary.
        total_max_tokens: tokens of all; 0: no limit.
        overflow_policy: what is removed from a memory that is too large: "truncate_oldest": turns,
            oldest first; "truncate_summary": the beginning of the summary, then turns; "error":
            nothing, and MemoryBudgetExceeded is raised.

    Raises:
        ConfigurationError: a value makes no sense.
    """

    full_zone_turns: int = 5
    summary_max_tokens: int = 1000
    total_max_tokens: int = 10000
    overflow_policy: OverflowPolicy = "truncate_oldest"

    def __post_init__(self) -> None:
        _check_not_negative(self, "full_zone_turns", "summary_max_tokens", "total_max_tokens")
        if self.total_max_tokens and self.summary_max_tokens > self.total_max_tokens:
            raise ConfigurationError(
                "summary_max_tokens is a part of total_max_tokens, and cannot be more"
            )
        if self.overflow_policy not in get_args(OverflowPolicy):
            known = ", ".join(map(repr, get_args(OverflowPolicy)))
            raise ConfigurationError(
                f"overflow_policy is one of {known}, not {self.overflow_policy!r:.80}"
            )


@dataclass(frozen=True, slots=True)
class MemoryIsolation:
    """Where a tool context names the memory's owner: paths of keys, separated by dots.

    Attributes:
        tenant_key, user_key, session_key: the paths.
        require_explicit_key: a context that lacks a part is refused. False: a missing part counts
            as one and the same tenant, user or session.
    """

    tenant_key: str = "tenant_id"
    user_key: str = "user_id"
    session_key: str = "session_id"
    require_explicit_key: bool = True

    def __post_init__(self) -> None:
        for name in ("tenant_key", "user_key", "session_key"):
            path = getattr(self, name)
            if not isinstance(path, str) or not path:
                raise ConfigurationError(f"{name} is a path of keys, not {path!r:.80}")

    def key(self, tool_context: Mapping[str, Any]) -> str:
        """Return `<tenant>:<user>:<session>`, each part escaped.

        Args:
            tool_context: the context to look in.

        Raises:
            PayloadError: a required part is missing.
        """
        paths = (self.tenant_key, self.user_key, self.session_key)
        return ":".join(self._part(tool_context, path) for path in paths)

    def _part(self, tool_context: Mapping[str, Any], path: str) -> str:
        value: Any = tool_context
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        is_name = isinstance(value, str | int) and not isinstance(value, bool)
        if is_name and (text := str(value).strip()):
            return escaped(text)
        if self.require_explicit_key:
            raise PayloadError(
                path, "the memory's key needs it: give it, or set require_explicit_key=False"
            )
        return UNKNOWN


def estimate_tokens(text: str) -> int:
    """About how many tokens a text takes: a fourth of its characters."""
    return len(text) // 4 + 1


@dataclass(frozen=True, slots=True)
class ShortTermMemoryConfig:
    """How a memory works.

    Attributes:
        strategy: "none" holds nothing; "truncation" holds recent turns; "rolling_summary" holds
            them and a summary of those before.
        budget: how large it may be.
        isolation: where its key is found.
        summarizer_model: saved with the memory for its readers, and not used.
        include_trajectory_digest: whether a prompt shows what the agent did in a turn.
        recovery_backlog_limit: turns that wait for a recovery.
        retry_attempts: how often a summarizer that failed is called again.
        retry_backoff_base_s: seconds before the first retry; doubled each time.
        degraded_retry_interval_s: seconds between attempts to recover.
        token_estimator: returns how many tokens a text takes.

    Raises:
        ConfigurationError: a value makes no sense.
    """

    strategy: MemoryStrategy = "none"
    budget: MemoryBudget = field(default_factory=MemoryBudget)
    isolation: MemoryIsolation = field(default_factory=MemoryIsolation)
    summarizer_model: str | None = None
    include_trajectory_digest: bool = True
    recovery_backlog_limit: int = 20
    retry_attempts: int = 3
    retry_backoff_base_s: float = 2.0
    degraded_retry_interval_s: float = 30.0
    token_estimator: Callable[[str], int] = estimate_tokens

    def __post_init__(self) -> None:
        if self.strategy not in get_args(MemoryStrategy):
            known = ", ".join(map(repr, get_args(MemoryStrategy)))
            raise ConfigurationError(f"strategy is one of {known}, not {self.strategy!r:.80}")
        _check_not_negative(self, "retry_attempts", "retry_backoff_base_s")
        for name in ("recovery_backlog_limit", "degraded_retry_interval_s"):
            if getattr(self, name) <= 0:
                # Without a backlog nothing can recover; without an interval attempts never pause.
                raise ConfigurationError(
                    f"{name} is a number above 0, not {getattr(self, name)!r:.80}"
                )

    def snapshot(self) -> dict[str, Any]:
        """Return the part of the config that is saved with a memory, for its readers."""
        return {
            "strategy": self.strategy,
            "budget": asdict(self.budget),
            "isolation": asdict(self.isolation),
            "summarizer_model": self.summarizer_model,
            "include_trajectory_digest": self.include_trajectory_digest,
            "recovery_backlog_limit": self.recovery_backlog_limit,
            "retry_attempts": self.retry_attempts,
        }


def _check_not_negative(config: object, *names: str) -> None:
    for name in names:
        if getattr(config, name) < 0:
            raise ConfigurationError(f"{name} is 0 or more, not {getattr(config, name)!r:.80}")
