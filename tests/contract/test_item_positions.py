"""Items know where they stand; a page begins behind any position of the log."""

from __future__ import annotations

import itertools

import pytest

import foldlog
from foldlog import LogPosition, StateUpdate, UpdateType, kinds
from foldlog.errors import PayloadError
from foldlog.store.core import core_of
from foldlog.store.removal import session_sizes


def said(session: str, number: int) -> StateUpdate:
    return StateUpdate(
        session_id=session,
        task_id="t",
        update_id=f"{session}-{number}",
        update_type=UpdateType.PROGRESS,
        content=number,
    )


async def numbers(
    store: foldlog.Store, after: LogPosition | None, *, limit: int = 500, newest_first: bool = False
) -> list[int]:
    found = await store.items(
        kinds.updates("s"), after=after, limit=limit, newest_first=newest_first
    )
    return [item.record.content for item in found]


@pytest.mark.parametrize("batch", [1, 7, 300])
async def test_a_page_behind_a_position_begins_with_the_next_record(
    store: foldlog.Store, batch: int
) -> None:
    """Also where a record of the log holds more envelopes than a page of the view."""
    count = 600
    for start in range(0, count, batch):
        async with store.atomic():
            for number in range(start, start + batch):
                await store.save_update(said("s", number))
        if batch == 1 and start % 50 == 0:
            await store.save_update(said("other", start))
    count = -(-count // batch) * batch
    items = await store.items(kinds.updates("s"), limit=count)
    positions = [item.position for item in items]
    assert all(a < b for a, b in itertools.pairwise(positions))

    for place in (0, 1, 126, 127, 128, 129, 255, 299, 300, 301, count - 2, count - 1):
        behind = list(range(place + 1, count))
        assert await numbers(store, positions[place], limit=count) == behind
        assert await numbers(store, positions[place], limit=3) == behind[:3]
        before = list(range(place))[::-1]
        assert await numbers(store, positions[place], newest_first=True, limit=count) == before
        assert await numbers(store, positions[place], newest_first=True, limit=3) == before[:3]


async def test_a_position_of_an_item_is_a_moment(store: foldlog.Store) -> None:
    for number in range(3):
        await store.save_update(said("s", number))
        await store.save_memory_state("m", {"n": number})
    item = (await store.items(kinds.updates("s")))[1]
    past = store.at(item.position)
    assert await numbers(past, None) == [0, 1]
    assert await past.load_memory_state("m") == {"n": 0}


async def test_positions_anywhere_in_the_log_will_do(store: foldlog.Store) -> None:
    begin = await store.position()
    await store.save_update(said("s", 0))
    await store.save_update(said("other", 0))
    between = await store.position()
    await store.save_update(said("s", 1))
    assert await numbers(store, begin) == [0, 1]
    assert await numbers(store, between) == [1]
    assert await numbers(store, between, newest_first=True) == [0]
    assert await numbers(store, await store.position()) == []
    assert await numbers(store, begin, limit=0) == []
    with pytest.raises(PayloadError, match="shards"):
        await numbers(store, LogPosition(begin.shards * 9))


async def test_writers_number_what_they_append(store: foldlog.Store) -> None:
    await store.save_update(said("s", 0))
    await store.save_update(said("s", 1))
    first, second = await store.items(kinds.updates("s"))
    assert first.writer == second.writer != ""
    assert first.number < second.number


async def test_sizes_of_sessions_grow_with_what_is_saved(store: foldlog.Store) -> None:
    assert await session_sizes(core_of(store)) == {}
    await store.save_update(said("s", 0))
    await store.save_update(said("t", 0))
    before = await session_sizes(core_of(store))
    await store.save_update(said("t", 1))
    after = await session_sizes(core_of(store))
    assert list(after) == ["s", "t"]
    assert after["s"] == before["s"]
    assert after["t"] > before["t"]
    await store.clear_session("s")
    assert list(await session_sizes(core_of(store))) == ["t"]
