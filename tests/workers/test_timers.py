"""Timers come back at their time, to one of those who wait, until they are done."""

from __future__ import annotations

import asyncio
import time

import foldlog
from foldlog.log.timers import Due, Timers
from foldlog.store.core import core_of
from tests.conftest import OpenStore


def timers_of(store: foldlog.Store) -> Timers:
    timers = core_of(store).backend.timers
    assert timers is not None
    return timers


async def gathered(timers: Timers, count: int) -> list[Due]:
    """So many timers that are due, each done."""
    found: list[Due] = []
    while len(found) < count:
        due = await timers.due(10.0)
        await timers.done(due)
        found += due
    return found


async def test_a_timer_comes_back_at_its_time_and_once(store: foldlog.Store) -> None:
    timers, began = timers_of(store), time.time()
    await timers.arm("a", began + 1.2, b"x")
    [due] = await gathered(timers, 1)
    assert due.data == b"x"
    assert time.time() >= began + 1.0
    assert await timers.due(0.2) == []


async def test_one_whose_time_has_passed_comes_at_once(store: foldlog.Store) -> None:
    timers = timers_of(store)
    await timers.arm("a", 1_000_000.0, b"x")
    assert [each.data for each in await gathered(timers, 1)] == [b"x"]


async def test_arming_a_key_again_replaces_its_timer(store: foldlog.Store) -> None:
    timers, now = timers_of(store), time.time()
    await timers.arm("a", now + 3_600, b"later")
    await timers.arm("a", now, b"sooner")
    assert [each.data for each in await gathered(timers, 1)] == [b"sooner"]


async def test_each_of_many_goes_to_one_of_those_who_wait(reopen: OpenStore) -> None:
    one, two = timers_of(await reopen()), timers_of(await reopen())
    if type(one).__name__ == "MemoryTimers":
        two = one  # what another process has is another log
    at, wanted = time.time() + 1.0, {str(n).encode() for n in range(300)}
    for data in wanted:
        await one.arm(data.decode(), at, data)
    found: list[bytes] = []

    async def take(timers: Timers) -> None:
        while len(found) < len(wanted):
            due = await timers.due(1.0)
            found.extend(each.data for each in due)
            await timers.done(due)

    await asyncio.gather(take(one), take(two))
    assert len(found) == len(wanted)
    assert {*found} == wanted
