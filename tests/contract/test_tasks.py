"""Tasks beyond `test_kit`: listed in order of first save, the same for everybody."""

from __future__ import annotations

import asyncio

import foldlog
from foldlog import TaskStatus
from tests.conftest import OpenStore
from tests.support.build import task


async def test_tasks_are_listed_in_order_of_first_save(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    for name in ("c", "a", "b"):
        await store.save_task(task(name))
    await store.save_task(task("a", status=TaskStatus.COMPLETE))
    await store.save_task(task("c", status=TaskStatus.FAILED))
    for reader in (store, await reopen()):
        listed = await reader.list_tasks("session")
        assert [(t.task_id, t.status) for t in listed] == [
            ("c", TaskStatus.FAILED),
            ("a", TaskStatus.COMPLETE),
            ("b", TaskStatus.PENDING),
        ]


async def test_concurrent_writers_lose_nothing_and_agree_on_the_order(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    other = await reopen()
    writes = ((store, other)[i % 2].save_task(task(f"t{i}")) for i in range(100))
    await asyncio.gather(*writes)
    listed = [await reader.list_tasks("session") for reader in (store, other, await reopen())]
    assert {t.task_id for t in listed[0]} == {f"t{i}" for i in range(100)}
    assert len(listed[0]) == 100
    assert listed[1] == listed[0]
    assert listed[2] == listed[0]
