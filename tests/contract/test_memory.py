"""Short-term memory beyond `test_kit`: strong reads."""

from __future__ import annotations

import asyncio

import foldlog
from tests.conftest import OpenStore


async def test_concurrent_writers_leave_one_of_their_states(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    other = await reopen()
    writes = ((store, other)[i % 2].save_memory_state("key", {"n": i}) for i in range(40))
    await asyncio.gather(*writes)
    seen = [
        await reader.load_memory_state("key", consistency="strong")
        for reader in (store, other, await reopen())
    ]
    assert seen[0] in [{"n": i} for i in range(40)]
    assert seen == [seen[0]] * 3
