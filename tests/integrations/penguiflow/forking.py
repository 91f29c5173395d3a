"""A process that forks while its store is in use: `forking.py PATH NAMESPACE`.

Says how its children ended and which updates there are at the end, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable

from penguiflow.state import StateUpdate, UpdateType

from foldlog.integrations.penguiflow import PenguiFlowStateStore

PATIENCE = 30  # seconds until a child that hangs is killed


def main(path: str, namespace: str) -> None:
    store = PenguiFlowStateStore(path=path, namespace=namespace, on_error="raise")
    asyncio.run(store.save_update(update("before")))
    ends = [
        forked(lambda: asyncio.run(use(store, "child"))),
        forked(lambda: None),  # has a store that it never uses
        forked(lambda: asyncio.run(store.close())),
    ]
    asyncio.run(store.save_update(update("after")))
    updates = asyncio.run(store.list_updates("s"))
    asyncio.run(store.close())
    print(json.dumps([ends, [each.update_id for each in updates]]))  # noqa: T201


async def use(store: PenguiFlowStateStore, update_id: str) -> None:
    await store.save_update(update(update_id))
    assert [each.update_id for each in await store.list_updates("s")] == ["before", update_id]
    await store.close()


def forked(body: Callable[[], None]) -> int:
    """The exit code of a child that does `body` and ends as processes do."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(PATIENCE)
        body()
        sys.exit()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def update(update_id: str) -> StateUpdate:
    return StateUpdate(
        session_id="s",
        task_id="t",
        update_id=update_id,
        update_type=UpdateType.PROGRESS,
        content={},
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
