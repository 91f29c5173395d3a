"""What is in memory of a view, without waiting for anything."""

from __future__ import annotations

import pytest

import foldlog
from foldlog import kinds
from tests.conftest import OpenStore
from tests.support.build import task


async def test_a_view_that_is_in_memory_is_looked_at_at_once(reopen: OpenStore) -> None:
    store, key = await reopen(), kinds.tasks("session")
    assert store.peek(key, len) is None  # nobody has read it
    await store.save_task(task(task_id="one"))
    assert await store.view(key, len) == 1
    assert store.peek(key, len) == 1
    async with store.atomic():
        await store.save_task(task(task_id="two"))
        assert store.peek(key, len) == 1
    stranger = foldlog.Kind("strangers", keys=("name",), fold=foldlog.every)
    with pytest.raises(foldlog.ConfigurationError):
        store.peek(stranger("x"), len)
