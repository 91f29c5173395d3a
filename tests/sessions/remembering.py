"""What the tests of a memory share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foldlog.sessions import (
    ConversationTurn,
    MemoryBudget,
    ShortTermMemoryConfig,
)


def turn(number: int | str = 0, **fields: Any) -> ConversationTurn:
    """A question and its answer."""
    return ConversationTurn(f"q{number}", f"a{number}", ts=1.5, **fields)


def config(strategy: str = "rolling_summary", **fields: Any) -> ShortTermMemoryConfig:
    """A memory of two recent turns, whose tokens are characters; the fields of its budget too."""
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
    """What the user said."""
    return [each.user_message for each in turns]


async def summed(request: Mapping[str, Any]) -> dict[str, str]:
    """A summarizer: all that it was ever told, in order."""
    users = [each["user"] for each in request["turns"]]
    return {"summary": " ".join([*request["previous_summary"].split(), *users])}
