"""A pytest plugin: agent_framework's storages of checkpoints are FoldlogCheckpointStorages.

The one in memory stores data, and knows the dataclasses of the tests; the one in files pickles, as
the one whose place it takes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import agent_framework
import agent_framework._workflows._checkpoint as theirs
from standing_in import IS_OURS, fresh_store

from foldlog.integrations.agent_framework import FoldlogCheckpointStorage

FILES: Final = "looks at the files in which the framework's own storage keeps checkpoints"
NOT_OURS: Final = {
    "test_file_checkpoint_storage_directory_creation": FILES,
    "test_file_checkpoint_storage_corrupted_file": FILES,
    "test_file_checkpoint_storage_list_ids_corrupted_file": FILES,
    "test_file_checkpoint_storage_json_serialization": FILES,
}
"""Tests of files rather than of a storage, and why."""

_types: Final[set[type]] = set()


class InMemoryCheckpointStorage(FoldlogCheckpointStorage):
    """In place of theirs: nothing is pickled."""

    def __init__(self) -> None:
        super().__init__("session", fresh_store(), types=_types)


class FileCheckpointStorage(FoldlogCheckpointStorage):
    """In place of theirs, which pickles. An empty file stands for each checkpoint there is."""

    def __init__(
        self, storage_path: Any, *, allowed_checkpoint_types: Iterable[str] | None = None
    ) -> None:
        super().__init__("session", fresh_store(), pickle_types=allowed_checkpoint_types or ())
        self._path = Path(storage_path)

    async def save(self, checkpoint: Any) -> str:
        id = await super().save(checkpoint)
        self._path.joinpath(f"{id}.json").touch()
        return id

    async def delete(self, checkpoint_id: str) -> bool:
        self._path.joinpath(f"{checkpoint_id}.json").unlink(missing_ok=True)
        return await super().delete(checkpoint_id)


def stand_in() -> None:
    for ours in (InMemoryCheckpointStorage, FileCheckpointStorage):
        for module in (agent_framework, theirs):
            setattr(module, ours.__name__, ours)


def pytest_collection_modifyitems(items: list[Any]) -> None:
    for item in items if IS_OURS else ():
        for ours in (InMemoryCheckpointStorage, FileCheckpointStorage):
            assert getattr(item.module, ours.__name__, ours) is ours
        found = vars(item.module).values()
        _types.update(
            each for each in found if isinstance(each, type) and dataclasses.is_dataclass(each)
        )
