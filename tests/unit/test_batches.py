"""Many things, some at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from foldlog.batches import in_batches, side_by_side


def test_batches_hold_everything_in_order() -> None:
    assert list(in_batches("abcde", 2)) == ["ab", "cd", "e"]
    assert list(in_batches([], 2)) == []


@pytest.mark.parametrize("count", [0, 1, 2, 7])
async def test_results_come_in_order_and_so_many_calls_at_once(count: int) -> None:
    under_way, most, taken = 0, 0, 0

    def items() -> Iterator[int]:
        nonlocal taken
        for item in range(1, count + 1):
            taken = item
            yield item

    async def call(item: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        assert taken <= item + 2  # those behind are not taken yet
        for _ in range(count - item):  # the first ones end last
            await asyncio.sleep(0)
        under_way -= 1
        return -item

    assert await side_by_side(items(), call, at_once=3) == [-n for n in range(1, count + 1)]
    assert most == min(count, 3)


async def test_a_call_that_fails_ends_the_others_before_it_raises() -> None:
    ended = list[int]()

    async def call(item: int) -> None:
        if item == 2:
            raise ValueError("two")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(item)

    with pytest.raises(ValueError, match="two"):
        await side_by_side([1, 2, 3], call)
    assert sorted(ended) == [1, 3]
