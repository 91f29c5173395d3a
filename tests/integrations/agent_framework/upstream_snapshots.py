"""A pytest plugin: agent_framework_ag_ui's store in memory is a FoldlogThreadSnapshotStore."""

from __future__ import annotations

from typing import Any, Final

import agent_framework_ag_ui as theirs
from agent_framework_ag_ui import _snapshots
from standing_in import fresh_store

from foldlog.integrations.agent_framework.snapshots import FoldlogThreadSnapshotStore

NOT_OURS: Final = {
    "test_in_memory_snapshot_store_evicts_oldest_snapshot_when_bounded": (
        "asks for the bound of a store that is in memory"
    ),
}


class InMemoryAGUIThreadSnapshotStore(FoldlogThreadSnapshotStore):
    """In place of theirs."""

    def __init__(self, **options: Any) -> None:
        super().__init__(fresh_store())


def stand_in() -> None:
    for module in (theirs, _snapshots):
        module.InMemoryAGUIThreadSnapshotStore = InMemoryAGUIThreadSnapshotStore
