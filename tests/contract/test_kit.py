"""The contract kit on every backend: what any store owes, foldlog's own stores owe first."""

from __future__ import annotations

from typing import Any

import pytest

import foldlog
from foldlog import ArtifactRetentionConfig, testing
from foldlog.testing.retention import OpenWithRetention
from tests.conftest import OpenStore


@pytest.fixture
def open_with_retention(reopen: OpenStore) -> OpenWithRetention:
    """Opens a store that keeps artifacts as told."""

    async def open_store(**limits: Any) -> foldlog.Store:
        return await reopen(retention=ArtifactRetentionConfig(**limits))

    return open_store


class TestStateStore(testing.StateStoreContract):
    """Required methods."""


class TestBindings(testing.BindingsContract):
    """Conversation bindings."""


class TestPlannerState(testing.PlannerStateContract):
    """Pauses."""


class TestMemoryState(testing.MemoryStateContract):
    """Short-term memory."""


class TestTasks(testing.TasksContract):
    """Tasks."""


class TestUpdates(testing.UpdatesContract):
    """Updates."""

    paged = 2_000


class TestSteering(testing.SteeringContract):
    """Steering."""

    paged = 2_000


class TestTrajectories(testing.TrajectoriesContract):
    """Trajectories."""


class TestPlannerEvents(testing.PlannerEventsContract):
    """Planner events."""


class TestArtifacts(testing.ArtifactsContract):
    """Artifacts."""


class TestSessionArtifacts(testing.SessionArtifactsContract):
    """Artifacts by session."""


class TestRetention(testing.RetentionContract):
    """Retention of artifacts."""


class TestExactPayloads(testing.ExactPayloadsContract):
    """Payloads beyond JSON."""


@pytest.mark.long
@pytest.mark.parametrize("contract", [testing.UpdatesContract, testing.SteeringContract])
async def test_paging_loses_nothing_of_ten_thousand(
    store: foldlog.Store, contract: type[testing.CursorContract]
) -> None:
    await contract().test_paging_loses_nothing(store)
