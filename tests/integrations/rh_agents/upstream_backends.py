"""A pytest plugin: rh-agents' backends in files and in memory are foldlog's, which block."""

from __future__ import annotations

from typing import Any, Final

import rh_agents.state_backends as theirs
from rh_agents.core.state_recovery import StateSnapshot
from standing_in import IS_OURS, place

from foldlog.integrations.rh_agents import SyncArtifactBackend, SyncStateBackend

NOT_OURS: Final[dict[str, str]] = {}
"""Tests of files rather than of a backend, and why."""


class FileSystemStateBackend(SyncStateBackend):
    """In place of theirs, with a log of its own. What it loads is of their classes."""

    def __init__(self, base_path: str = "") -> None:
        super().__init__(**place())

    def load_state(self, state_id: str) -> StateSnapshot | None:  # type: ignore[override]
        found = super().load_state(state_id)
        return None if found is None else StateSnapshot.model_validate(found.model_dump())


class FileSystemArtifactBackend(SyncArtifactBackend):
    """In place of theirs, with a log of its own."""

    def __init__(self, base_path: str = "") -> None:
        super().__init__(**place())


def stand_in() -> None:
    theirs.FileSystemStateBackend = FileSystemStateBackend
    theirs.FileSystemArtifactBackend = FileSystemArtifactBackend


def pytest_collection_modifyitems(items: list[Any]) -> None:
    for item in items if IS_OURS else ():
        if hasattr(item.module, "InMemoryStateBackend"):
            item.module.InMemoryStateBackend = FileSystemStateBackend
