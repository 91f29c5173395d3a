"""The adapter under the contract kit, with PenguiFlow's own model classes."""

from __future__ import annotations

from typing import Any

import pytest
from penguiflow.artifacts import ArtifactRetentionConfig

from foldlog import testing
from foldlog.integrations.penguiflow import PenguiFlowStateStore
from foldlog.testing.retention import OpenWithRetention
from tests.integrations.penguiflow.conftest import OpenStore
from tests.integrations.penguiflow.kit import PenguiFlow, needs_conversations


@pytest.fixture
def reopen(open_store: OpenStore) -> testing.Reopen:
    async def open_again() -> PenguiFlowStateStore:
        return open_store()

    return open_again


@pytest.fixture
def open_with_retention(open_store: OpenStore) -> OpenWithRetention:
    async def open_(**limits: object) -> PenguiFlowStateStore:
        return open_store(retention=ArtifactRetentionConfig(**limits))

    return open_


class TestStateStore(PenguiFlow, testing.StateStoreContract):
    """Required methods."""


@needs_conversations
class TestBindings(PenguiFlow, testing.BindingsContract):
    """Conversation bindings."""


class TestPlannerState(PenguiFlow, testing.PlannerStateContract):
    """Pauses."""


class TestMemoryState(PenguiFlow, testing.MemoryStateContract):
    """Short-term memory."""


class TestTasks(PenguiFlow, testing.TasksContract):
    """Tasks."""


class TestUpdates(PenguiFlow, testing.UpdatesContract):
    """Updates."""


class TestSteering(PenguiFlow, testing.SteeringContract):
    """Steering."""


class TestTrajectories(PenguiFlow, testing.TrajectoriesContract):
    """Trajectories."""


class TestPlannerEvents(PenguiFlow, testing.PlannerEventsContract):
    """Planner events."""


class TestArtifacts(PenguiFlow, testing.ArtifactsContract):
    """Artifacts."""


class TestSessionArtifacts(PenguiFlow, testing.SessionArtifactsContract):
    """Artifacts by session."""


class TestRetention(PenguiFlow, testing.RetentionContract):
    """Retention of artifacts."""


class TestExactPayloads(PenguiFlow, testing.ExactPayloadsContract):
    """Payloads beyond JSON."""

    @needs_conversations
    async def test_bindings_are_exact(self, store: Any) -> None:
        await super().test_bindings_are_exact(store)


class TestAliases(PenguiFlow, testing.AliasesContract):
    """Old names."""
