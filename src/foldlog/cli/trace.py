"""What `history` and `replay` share: the choice of events, and how fast they come."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated

import typer

from foldlog.cli import completing

if TYPE_CHECKING:
    from foldlog.models import StoredEvent

Trace = Annotated[
    str,
    typer.Argument(
        help="The trace's id, or a session's; __global__ for events without a trace.",
        autocompletion=completing.trace_ids,
    ),
]
Tail = Annotated[int | None, typer.Option(min=0, help="Only the last N events.", metavar="N")]
Delay = Annotated[
    float, typer.Option(min=0, help="Seconds to wait between two events.", metavar="SECONDS")
]


def last(events: list[StoredEvent], tail: int | None) -> list[StoredEvent]:
    """The last `tail` events; all of them where that is None."""
    return events if tail is None else events[max(len(events) - tail, 0) :]


async def timed(events: list[StoredEvent], speed: float) -> AsyncIterator[tuple[int, StoredEvent]]:
    """The events, numbered from 1, as far apart as they were, divided by `speed`."""
    clock = asyncio.get_running_loop().time
    began = clock()
    for place, event in enumerate(events, 1):
        after = (event.ts - events[0].ts) / speed
        if math.isfinite(after):
            await asyncio.sleep(began + after - clock())
        yield place, event


async def paced(events: list[StoredEvent], delay: float) -> AsyncIterator[tuple[int, StoredEvent]]:
    """The events, numbered from 1, with `delay` seconds between two of them."""
    for place, event in enumerate(events, 1):
        if place > 1:
            await asyncio.sleep(delay)
        yield place, event
