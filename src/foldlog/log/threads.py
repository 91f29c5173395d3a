"""Running what blocks in a thread, to its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def run_to_end(
    work: Callable[..., T], *args: Any, stopping: threading.Event | None = None
) -> T:
    """Return what `work` returns in a thread, which has ended when this has.

    A caller that is cancelled meanwhile sets `stopping`, and goes when the thread has ended.
    """
    running = asyncio.ensure_future(asyncio.to_thread(work, *args))
    try:
        return await asyncio.shield(running)
    finally:
        if stopping is not None:
            stopping.set()
        while not running.done():
            with suppress(asyncio.CancelledError):  # the first is raised in the end
                await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # which is either raised, or of a caller that was cancelled
