"""Cancelling a coroutine at its nth step: wherever it awaits, it can be cancelled there."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Stepped(Coroutine[Any, Any, Any]):
    """`coroutine`, of which the task that runs it is cancelled when it awaits for the nth time."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], nth: int) -> None:
        self._coroutine = coroutine
        self._left = nth

    def send(self, value: Any) -> Any:
        return self._stepped(self._coroutine.send(value))

    def throw(self, *error: Any) -> Any:
        return self._stepped(self._coroutine.throw(*error))

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Any:
        raise NotImplementedError("it is for a task")

    def _stepped(self, awaited: Any) -> Any:
        self._left -= 1
        if self._left == 0:
            task = asyncio.current_task()
            assert task is not None
            asyncio.get_running_loop().call_soon(task.cancel)
        return awaited


async def cancelled_at(coroutine: Coroutine[Any, Any, Any], nth: int) -> bool:
    """Run `coroutine` and cancel it at its nth step; return whether it came to that.

    Raises what the coroutine raises, but for its cancellation.
    """
    task = asyncio.get_running_loop().create_task(Stepped(coroutine, nth))
    await asyncio.wait([task])
    if task.cancelled():
        return True
    task.result()
    return False
