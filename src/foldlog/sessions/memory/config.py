"""What a short-term memory keeps, and how patient it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from foldlog.errors import ConfigurationError
from foldlog.sessions.memory.budget import MemoryBudget, estimate_tokens
from foldlog.sessions.memory.isolation import MemoryIsolation

MemoryStrategy = Literal["none", "truncation", "rolling_summary"]


@dataclass(frozen=True, slots=True)
class ShortTermMemoryConfig:
    """How a memory works.

    `strategy`: "none" keeps nothing; "truncation" keeps recent turns; "rolling_summary" keeps them
    and a summary of those before. `recovery_backlog_limit`: turns kept for a recovery.
    `retry_attempts`: how often a summarizer that failed is asked again, after
    `retry_backoff_base_s` seconds, twice as long each time. `degraded_retry_interval_s`: seconds
    between attempts to recover. `token_estimator`: how many tokens a text takes. `summarizer_model`
    is only told to whoever reads the saved memory.

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
            raise ConfigurationError(f"there is no memory strategy {self.strategy!r:.80}")
        for name in ("retry_attempts", "retry_backoff_base_s"):
            if getattr(self, name) < 0:
                raise ConfigurationError(f"{name} is not negative")
        for name in ("recovery_backlog_limit", "degraded_retry_interval_s"):
            if getattr(self, name) <= 0:
                # Without one nothing is left to recover; without the other nobody rests.
                raise ConfigurationError(f"{name} is positive")

    def snapshot(self) -> dict[str, Any]:
        """What of it is saved with a memory, for whoever looks at one."""
        return {
            "strategy": self.strategy,
            "budget": asdict(self.budget),
            "isolation": asdict(self.isolation),
            "summarizer_model": self.summarizer_model,
            "include_trajectory_digest": self.include_trajectory_digest,
            "recovery_backlog_limit": self.recovery_backlog_limit,
            "retry_attempts": self.retry_attempts,
        }
