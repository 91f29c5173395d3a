"""The first page of a long sequence that is not in memory: read without the rest."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import foldlog
from foldlog import memory_store
from foldlog.store.core import core_of
from foldlog_projections.folds import all_records
from tests.views.support import Log


class Added(msgspec.Struct):
    number: int


SUMS = foldlog.Kind(
    "sums",
    keys=("name",),
    records={"sum.added": Added},
    fold=foldlog.Fold(int, lambda total, added, _: total + added.number),
    id=lambda added, _: str(added.number),
)
KEY = SUMS("a")


class Unpurged(Log):
    """A log on which a clearing stops before anything is removed."""

    async def purge(self, *_: Any, **__: Any) -> None:
        return


def opened(log: Log) -> foldlog.Store:
    return memory_store(log=log, kinds=[SUMS])


async def first(store: foldlog.Store, limit: int) -> list[int]:
    return [item.record.number for item in await store.items(KEY, limit=limit)]


def is_in_memory(store: foldlog.Store) -> bool:
    core = core_of(store)
    return core.hot_views.peek(all_records(SUMS), core.subject_of(KEY)) is not None


async def filled(log: Log) -> foldlog.Store:
    """A store that has the sum in memory, and not the records."""
    writer = opened(log)
    for number in range(400):
        await writer.append(KEY, Added(number))
    store = opened(log)
    assert await store.view(KEY) == sum(range(400))
    return store


async def test_the_first_page_is_read_without_the_rest() -> None:
    store = await filled(Log())
    assert await first(store, 10) == list(range(10))
    assert not is_in_memory(store)
    assert await first(store, 400) == list(range(400))
    assert is_in_memory(store)
    await store.append(KEY, Added(400))
    assert (await first(store, 401))[-1] == 400


async def test_a_repeat_is_no_record_of_the_first_page() -> None:
    log = Log()
    for numbers in ([0, 1, 2], [1, 2, 3], range(4, 300)):
        await opened(log).append(KEY, *map(Added, numbers))
    store = opened(log)
    await store.view(KEY)
    assert await first(store, 5) == [0, 1, 2, 3, 4]
    assert not is_in_memory(store)


@pytest.mark.parametrize("log", [Log(), Unpurged()], ids=["purged", "not purged yet"])
async def test_the_first_page_begins_behind_a_clearing(log: Log) -> None:
    store = await filled(log)
    await opened(log).erase(KEY)
    for number in range(1_000, 1_300):
        await opened(log).append(KEY, Added(number))
    await store.view(KEY, consistency="strong")
    assert await first(store, 5) == list(range(1_000, 1_005))
    assert not is_in_memory(store)


async def test_nothing_is_the_first_page_of_nothing() -> None:
    store = await filled(Log())
    assert await first(store, 0) == []
