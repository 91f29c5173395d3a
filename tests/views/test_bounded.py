"""What a view keeps is bounded by what it holds now, not by what has passed through it."""

from __future__ import annotations

from collections.abc import Callable

import foldlog
from foldlog.log.memory import MemoryLog
from foldlog_projections import tasks, waiting
from tests.support.build import task

PROCESSES = 300
PAUSES = 2_000
FEW = 16
HOUR = 3600.0


async def test_a_view_forgets_the_processes_that_wrote_to_it_long_ago(
    advance_clock: Callable[[float], None],
) -> None:
    log = MemoryLog()
    for number in range(PROCESSES):
        async with foldlog.memory_store(log=log) as store:
            await store.list_tasks("session", consistency="strong")
            await store.save_task(task(priority=number))
        advance_clock(HOUR)
    async with foldlog.memory_store(log=log) as store:
        folded = await store._core.read(tasks.kind, "session", consistency="strong")
        assert [each.priority for each in await store.list_tasks("session")] == [PROCESSES - 1]
        assert len(folded.newest) <= FEW


async def test_pauses_that_were_resumed_leave_nothing_on_the_list_of_what_waits() -> None:
    async with foldlog.memory_store() as store:
        key = store._core.log.namespace.key_on(0, waiting.kind.name)
        sizes = []
        for start in range(0, PAUSES, PAUSES // 2):
            for number in range(start, start + PAUSES // 2):
                await store.save_planner_state(f"token-{number}", {"number": number})
                assert await store.load_planner_state(f"token-{number}") == {"number": number}
            assert await store.waiting() == []
            folded = await store._core.read(waiting.kind, key, consistency="strong")
            assert not folded.state
            view = store._core.hot_views.peek(waiting.kind, store._core.subject(waiting.kind, key))
            assert view is not None
            sizes.append(view.estimate())
        assert len(folded.seen) <= FEW
        assert sizes[1] <= 1.1 * sizes[0]
