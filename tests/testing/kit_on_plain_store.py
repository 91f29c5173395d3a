"""The kit on the plain store, in strict mode: run by `test_kit`, in a process of its own.

Written as a third party would. No file of tests by its name, so that nobody else collects it.
"""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio

from foldlog import ArtifactRetentionConfig, testing
from foldlog.testing.retention import OpenWithRetention
from tests.testing.plain_store import Data, PlainStore


@pytest.fixture
def data() -> Data:
    return Data()


@pytest_asyncio.fixture
async def store(data: Data) -> PlainStore:
    return PlainStore(data)


@pytest_asyncio.fixture
async def reopen(data: Data) -> testing.Reopen:
    async def open_store() -> PlainStore:
        return PlainStore(data)

    return open_store


@pytest.fixture
def open_with_retention(data: Data) -> OpenWithRetention:
    async def open_store(**limits: Any) -> PlainStore:
        return PlainStore(data, ArtifactRetentionConfig(**limits))

    return open_store


class TestStateStore(testing.StateStoreContract): ...


class TestBindings(testing.BindingsContract): ...


class TestPlannerState(testing.PlannerStateContract): ...


class TestMemoryState(testing.MemoryStateContract): ...


class TestTasks(testing.TasksContract): ...


class TestUpdates(testing.UpdatesContract):
    paged = 1_000


class TestSteering(testing.SteeringContract):
    paged = 1_000


class TestTrajectories(testing.TrajectoriesContract): ...


class TestPlannerEvents(testing.PlannerEventsContract): ...


class TestArtifacts(testing.ArtifactsContract): ...


class TestSessionArtifacts(testing.SessionArtifactsContract): ...


class TestRetention(testing.RetentionContract): ...


class TestExactPayloads(testing.ExactPayloadsContract): ...


class TestAliases(testing.AliasesContract): ...
