"""Back-pressure: who may go, who waits, and in which order."""

from __future__ import annotations

import asyncio

import pytest

from foldlog.log.jetstream.appender import BackPressure


async def turns() -> None:
    """Let every task that can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_what_fits_is_taken() -> None:
    room = BackPressure(10)
    assert room.take(6)
    assert room.take(4)
    assert not room.take(1)
    room.give(4)
    assert room.take(1)


def test_what_exceeds_the_limit_goes_alone() -> None:
    room = BackPressure(10)
    assert room.take(11)
    assert not room.take(1)
    room.give(11)
    assert room.take(1)
    assert not room.take(11)


async def test_first_come_first_served() -> None:
    room = BackPressure(10)
    assert room.take(10)
    order: list[int] = []

    async def writer(size: int) -> None:
        await room.wait(size)
        order.append(size)

    waiting = [asyncio.create_task(writer(size)) for size in (8, 1, 3)]
    await turns()
    assert not room.take(0)  # nobody overtakes
    room.give(2)
    await turns()
    assert order == []
    room.give(8)
    await turns()
    assert order == [8, 1]
    room.give(8)
    await asyncio.gather(*waiting)
    assert order == [8, 1, 3]


@pytest.mark.parametrize("admitted", [False, True])
async def test_one_who_is_cancelled_took_nothing(admitted: bool) -> None:
    room = BackPressure(10)
    assert room.take(10)
    first = asyncio.create_task(room.wait(10))
    second = asyncio.create_task(room.wait(10))
    await turns()
    if admitted:
        room.give(10)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    if not admitted:
        room.give(10)
    await asyncio.wait_for(second, 10)
    room.give(10)
    assert room.take(10)


async def test_a_cancelled_head_does_not_hold_up_who_fits() -> None:
    room = BackPressure(10)
    assert room.take(5)
    large = asyncio.create_task(room.wait(10))
    small = asyncio.create_task(room.wait(5))
    await turns()
    large.cancel()
    await asyncio.wait_for(small, 10)
