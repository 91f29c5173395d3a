"""How a call ended, in one word of a small set: an attribute of metrics and spans."""

from __future__ import annotations

import asyncio
from typing import Final

from foldlog.errors import (
    AppendConflict,
    AppendFailed,
    AppendUnknown,
    FoldlogError,
    LogCorrupt,
    LogRewound,
    LogTimeout,
    LogUnavailable,
    StoreClosed,
)

OK: Final = "ok"

_WORDS: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (AppendConflict, "conflict"),
    (AppendFailed, "not-committed"),
    (AppendUnknown, "unknown"),
    (LogTimeout, "timeout"),
    (LogUnavailable, "unavailable"),
    (LogCorrupt, "corrupt"),
    (LogRewound, "corrupt"),
    (StoreClosed, "closed"),
    (FoldlogError, "refused"),
    (asyncio.CancelledError, "cancelled"),
)

OUTCOMES: Final = (OK, *dict.fromkeys(word for _, word in _WORDS), "error")


def outcome_of(error: BaseException) -> str:
    """The word for what a call raised."""
    return next((word for kind, word in _WORDS if isinstance(error, kind)), "error")
