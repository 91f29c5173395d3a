"""What becomes of a call that fails: an error for its caller, or a count and a line in the log."""

from __future__ import annotations

import asyncio
from collections import Counter
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from foldlog.errors import FoldlogError
from foldlog.store.failures import failure_event, log_failure


class Failures:
    """The failures of one adapter that no caller sees.

    Args:
        degrade: callers see none, as `Report.swallows` says.
    """

    def __init__(self, *, degrade: bool) -> None:
        self.counts: Counter[str] = Counter()
        self._degrade = degrade

    def of(self, method: str, trace_id: str | None = None) -> Report:
        """Return where the failure of one call of `method` goes."""
        return Report(method, trace_id, self.counts, self._degrade)


@dataclass(frozen=True, slots=True)
class Report:
    """Where the failure of one call goes."""

    method: str
    trace_id: str | None
    counts: Counter[str]
    degrade: bool

    def swallows(self, error: FoldlogError) -> bool:
        """Return whether the failure ends here, counted and logged, or is for the caller."""
        if self.degrade:
            self._note(error)
        return self.degrade

    def unheard(self, ended: asyncio.Task[Any] | Future[Any]) -> None:
        """Count and log the failure, if it is one, of what has ended with nobody waiting for it."""
        error = None if ended.cancelled() else ended.exception()
        if error is not None:
            self._note(error)

    def _note(self, error: BaseException) -> None:
        self.counts[self.method] += 1
        log_failure(failure_event(self.method), self.method, self.trace_id, error)
