"""What the handle of a run says in a process that pushes have not reached yet."""

from __future__ import annotations

from typing import Any

import pytest

import foldlog
from foldlog import LogTimeout
from foldlog.log.port import OnRecord
from foldlog.views.view import View
from tests.conftest import OpenStore
from tests.runs.running import R, S


def hear_nothing(store: foldlog.Store) -> None:
    """Have pushes not come to a store, whose views are believed to be current."""

    def hints(of: View[Any]) -> OnRecord:
        return lambda record: None

    store._core.hot_views._hints = hints  # type: ignore[method-assign]


async def test_a_run_that_another_process_has_just_begun_is_there(reopen: OpenStore) -> None:
    store, other = [await reopen() for _ in range(2)]
    hear_nothing(other)
    assert await other.list_tasks(S) == []
    async with store.run(R, session_id=S):
        pass
    assert await other.queues.handle(R, session_id=S).result(timeout=30) is None


async def test_a_run_that_another_process_has_just_begun_again_has_not_failed(
    reopen: OpenStore,
) -> None:
    store, other = [await reopen() for _ in range(2)]
    hear_nothing(other)
    with pytest.raises(ValueError, match="first"):
        async with store.run(R, session_id=S):
            raise ValueError("the first time")
    assert [each.status.value for each in await other.list_tasks(S)] == ["FAILED"]
    async with store.run(R, session_id=S):
        with pytest.raises(LogTimeout):
            await other.queues.handle(R, session_id=S).result(timeout=0.1)
