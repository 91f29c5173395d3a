"""Asking again while the log is away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from foldlog import AppendUnknown, LogUnavailable

T = TypeVar("T")

PATIENCE: Final = 120.0
"""Seconds after which a store that does not come back is called lost."""


async def answered(ask: Callable[[], Awaitable[T]]) -> T:
    """The answer, however often it has to be asked for; each attempt takes what the store waits.

    Raises:
        TimeoutError: none came.
    """
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await ask()
            except (AppendUnknown, LogUnavailable):
                await asyncio.sleep(0)
