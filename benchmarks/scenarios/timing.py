"""The clock of every scenario: one call after another, or many side by side."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Timing(NamedTuple):
    """How long it all took, and each call of it, in seconds."""

    seconds: float
    calls: list[float]

    @property
    def rate(self) -> float:
        """Calls a second."""
        return len(self.calls) / self.seconds


async def one_by_one(call: Callable[[T], Awaitable[object]], items: Iterable[T]) -> Timing:
    """Await `call` for each item, one after another."""
    return await side_by_side(call, [list(items)])


async def side_by_side(
    call: Callable[[T], Awaitable[object]], work: Sequence[Sequence[T]]
) -> Timing:
    """Await `call` for each item of each worker; a worker goes on when its last call is done."""
    calls: list[float] = []

    async def worker(items: Sequence[T]) -> None:
        for item in items:
            began = time.perf_counter()
            await call(item)
            calls.append(time.perf_counter() - began)

    gc.collect()
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for items in work:
            group.create_task(worker(items))
    return Timing(time.perf_counter() - began, calls)


async def in_waves(
    call: Callable[[Sequence[T]], Awaitable[object]], waves: Sequence[Sequence[T]]
) -> Timing:
    """Await `call` for each wave, one after another; an item takes as long as its wave."""
    timing = await one_by_one(call, waves)
    calls = [took for took, wave in zip(timing.calls, waves, strict=True) for _ in wave]
    return Timing(timing.seconds, calls)
