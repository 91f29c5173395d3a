"""How large a memory may be, in tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from foldlog.errors import ConfigurationError

OverflowPolicy = Literal["truncate_summary", "truncate_oldest", "error"]


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """`full_zone_turns` recent turns are kept as they are. Sizes in tokens; a total of 0 has no
    limit, a summary of 0 is none.

    `overflow_policy` says what gives way in a memory that is too large: "truncate_oldest": turns,
    oldest first; "truncate_summary": the summary, from its beginning, and then turns; "error":
    nothing, MemoryBudgetExceeded is raised.

    Raises:
        ConfigurationError: a value makes no sense.
    """

    full_zone_turns: int = 5
    summary_max_tokens: int = 1000
    total_max_tokens: int = 10000
    overflow_policy: OverflowPolicy = "truncate_oldest"

    def __post_init__(self) -> None:
        for name in ("full_zone_turns", "summary_max_tokens", "total_max_tokens"):
            if getattr(self, name) < 0:
                raise ConfigurationError(f"{name} is not negative")
        if self.total_max_tokens and self.summary_max_tokens > self.total_max_tokens:
            raise ConfigurationError("the summary's budget is a part of the total")
        if self.overflow_policy not in get_args(OverflowPolicy):
            raise ConfigurationError(f"there is no overflow policy {self.overflow_policy!r:.80}")


def estimate_tokens(text: str) -> int:
    """About how many tokens a text takes: a fourth of its characters."""
    return len(text) // 4 + 1
