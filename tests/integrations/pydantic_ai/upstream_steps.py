"""A pytest plugin: the harness' InMemoryStepStore is foldlog's."""

from __future__ import annotations

from typing import Any, Final

import pydantic_ai_harness.step_persistence as theirs
from standing_in import IS_OURS, fresh_store

from foldlog.integrations.pydantic_ai.steps import FoldlogStepStore

DEFAULT: Final = "looks at the class that StepPersistence makes where it is given no store"
NOT_OURS: Final = {
    "test_memory_backend_still_works": DEFAULT,
    "test_from_spec_explicit_memory_backend_with_kwargs": DEFAULT,
    "test_from_spec_memory_backend": DEFAULT,
}
"""Tests of something else than a store, and why."""


class InMemoryStepStore(FoldlogStepStore):
    """In place of theirs: over empty data."""

    def __init__(self) -> None:
        super().__init__(fresh_store(), "steps")


def stand_in() -> None:
    theirs.InMemoryStepStore = InMemoryStepStore


def pytest_collection_modifyitems(items: list[Any]) -> None:
    for item in items if IS_OURS else ():
        ours = getattr(item.module, "InMemoryStepStore", InMemoryStepStore)
        assert ours is InMemoryStepStore
