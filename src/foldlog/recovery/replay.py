"""What becomes of a step that is asked for, and how one ends. No I/O."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from enum import Enum
from typing import Any, TypeVar

from foldlog.recovery.models import ReplayMode
from foldlog_projections.states import Step

T = TypeVar("T")


class Decision(Enum):
    """EXECUTE it, REUSE its result, or say that its outcome is UNKNOWN."""

    EXECUTE = "execute"
    REUSE = "reuse"
    UNKNOWN = "unknown"


def decide(step: Step | None, mode: ReplayMode, *, repeatable: bool = False) -> Decision:
    """Return what happens to a step, given its record.

    `repeatable`: executing it a second time does no harm, so that one whose outcome is unknown may
    be executed again.
    """
    if mode is ReplayMode.VALIDATION or step is None:
        return Decision.EXECUTE
    if is_done(step):
        return Decision.REUSE
    return Decision.UNKNOWN if is_unknown(step) and not repeatable else Decision.EXECUTE


def is_done(step: Step | None) -> bool:
    """Whether a step has happened and its result is on record."""
    return step is not None and step.phase == "done"


def is_unknown(step: Step | None) -> bool:
    """Whether a step began, and what it gave is not on record."""
    return step is not None and step.phase in ("intended", "unrecorded")


def consists_of(error: BaseException, *kinds: type[BaseException]) -> bool:
    """Whether an exception is of these kinds, or a group of nothing else.

    Steps that run side by side, in an `asyncio.TaskGroup` for instance, raise in groups.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(consists_of(each, *kinds) for each in error.exceptions)
    return isinstance(error, kinds)


async def finished(work: Coroutine[Any, Any, T]) -> T:
    """Await work that must come to its end: who is cancelled meanwhile is so when it has.

    For what records an effect that has happened. It takes no longer than the log's timeouts.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    if not task.cancelled() and (failure := task.exception()) is not None:
        cancelled.add_note(f"meanwhile: {failure!r}")
    raise cancelled
