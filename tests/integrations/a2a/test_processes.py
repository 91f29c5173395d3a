"""A task that one process begins is continued by another and followed from a third."""

from __future__ import annotations

from pathlib import Path

from a2a.types import TaskState

import foldlog
from foldlog.integrations.a2a import FoldlogVersionedTaskStore
from tests.integrations.a2a.support import ANN
from tests.support.workers import starting

WORKER = Path(__file__).with_name("worker.py")


async def test_a_task_whose_server_is_killed_goes_on_in_another(tmp_path: Path) -> None:
    async with starting(WORKER, tmp_path) as start:
        writer = await start("begin")
        task_id = await writer.hear()
        while await writer.hear() < 5:
            pass
        follower = await start(task_id, "follow")
        first = await follower.hear()  # the task as it is, whoever runs it
        seen = [int(await follower.hear()) for _ in range(3)]
        await writer.kill()
        told = [each for each in await writer.hear_rest() if isinstance(each, int)]

        other = await start(task_id, "end")
        count = (await other.hear_rest())[-1]
        await other.finish()
        seen += map(int, await follower.hear_rest())
        await follower.finish()

    assert count >= max(told) + 3
    assert first + len(seen) == count
    assert seen == list(range(first, count))  # each once, in order, across the kill
    async with foldlog.connect(path=tmp_path) as store:
        stored = await FoldlogVersionedTaskStore(store).get(task_id, ANN)
        assert stored is not None
        assert stored.task.status.state == TaskState.TASK_STATE_COMPLETED
        assert [int(p.text) for p in stored.task.artifacts[0].parts] == list(range(count))
        assert await store.sessions() == [stored.task.context_id]
