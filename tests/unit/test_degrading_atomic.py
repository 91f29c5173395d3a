"""A block of a degrading store that was not stored: nothing goes on as if it had been."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

import foldlog
from foldlog import LogUnavailable
from foldlog.errors import Misuse
from foldlog.log.memory import MemoryLog
from foldlog.log.port import Append
from tests.support.degrading import failures_of


class Away(MemoryLog):
    """A log that takes nothing."""

    async def append(self, appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        raise LogUnavailable("away")


async def save_in_a_block(store: foldlog.Store, *keys: str) -> list[str]:
    """Save memories in one block; return what was called when it ended."""
    called: list[str] = []
    async with store.atomic():
        for key in keys:
            await store.save_memory_state(key, {"key": key})
        store._core.after_stored(lambda: called.append("stored"))
        store._core.unless_stored(lambda: called.append("not stored"))
    return called


async def test_what_waits_for_a_block_learns_that_it_was_not_stored() -> None:
    async with foldlog.memory_store(log=Away(), on_error="degrade") as store:
        assert await save_in_a_block(store, "a") == ["not stored"]
        assert failures_of(store)["atomic"] == 1


async def test_a_block_on_several_shards_is_refused_also_there() -> None:
    async with foldlog.memory_store(shards=8, on_error="degrade") as store:
        shards = {store._core.subject("memory", key).shard: key for key in map(str, range(50))}
        one, other = itertools.islice(shards.values(), 2)
        with pytest.raises(Misuse):
            await save_in_a_block(store, one, other)
        assert await store.views([foldlog.kinds.memory(one), foldlog.kinds.memory(other)]) == [
            None,
            None,
        ]
