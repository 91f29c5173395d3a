"""The kit on the plain store, in strict mode: run by `test_kit`, in a process of its own.

Written as a third party would. No file of tests by its name, so that nobody else collects it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import pytest_asyncio

from foldlog import testing
from tests.testing.plain_store import Data, PlainStore

Reopen = Callable[[], Awaitable[PlainStore]]


@pytest.fixture
def data() -> Data:
    return Data()


@pytest_asyncio.fixture
async def store(data: Data) -> PlainStore:
    return PlainStore(data)


@pytest_asyncio.fixture
async def reopen(data: Data) -> Reopen:
    async def open_store() -> PlainStore:
        return PlainStore(data)

    return open_store


class TestStateStore(testing.StateStoreContract): ...


class TestBindings(testing.BindingsContract): ...


class TestPlannerState(testing.PlannerStateContract): ...


class TestMemoryState(testing.MemoryStateContract): ...


class TestTasks(testing.TasksContract): ...


class TestUpdates(testing.UpdatesContract): ...


class TestSteering(testing.SteeringContract): ...


class TestTrajectories(testing.TrajectoriesContract): ...


class TestPlannerEvents(testing.PlannerEventsContract): ...


class TestArtifacts(testing.ArtifactsContract): ...


class TestSessionArtifacts(testing.SessionArtifactsContract): ...


class TestExactPayloads(testing.ExactPayloadsContract): ...


class TestAliases(testing.AliasesContract): ...
