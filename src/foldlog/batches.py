"""Many things: some at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from operator import length_hint
from typing import Final, TypeVar

S = TypeVar("S")
T = TypeVar("T")

AT_ONCE: Final = 64
"""How many calls are under way, where nothing says another number."""


def in_batches(items: Sequence[S], size: int) -> Iterator[Sequence[S]]:
    """Yield items in order, so many at a time; the last time what is left."""
    return (items[start : start + size] for start in range(0, len(items), size))


async def side_by_side(
    items: Iterable[S], call: Callable[[S], Awaitable[T]], *, at_once: int = AT_ONCE
) -> list[T]:
    """Await a call for each item, some at once, begun in order; return the results in order.

    Items are taken when their turn comes. When a call fails, or this is cancelled, the others have
    ended before it raises.
    """
    tasks = min(at_once, length_hint(items, at_once))
    if tasks == 1:
        return [await call(item) for item in items]
    waiting, results = enumerate(items), dict[int, T]()

    async def work() -> None:
        for number, item in waiting:
            results[number] = await call(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(tasks):
                group.create_task(work(), name="foldlog side by side")
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [results[number] for number in sorted(results)]
