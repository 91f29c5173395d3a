"""How the work of an execution ends: told from its exception, and waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


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
