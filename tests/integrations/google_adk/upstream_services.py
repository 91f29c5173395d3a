"""A pytest plugin: ADK's services in memory, and its database's sessions, are foldlog's.

Of the session tests those run that state what every backend owes its callers, and those of
what ADK's database promises beyond that: stale writers, deleted sessions, values that are no JSON.
"""

from __future__ import annotations

from typing import Any, Final

import google.adk.artifacts
import google.adk.memory
import google.adk.sessions
import pytest
from google.adk.artifacts import in_memory_artifact_service
from google.adk.memory import in_memory_memory_service
from google.adk.sessions import database_session_service, in_memory_session_service
from standing_in import IS_OURS, fresh_store

from foldlog.integrations.google_adk import (
    FoldlogArtifactService,
    FoldlogMemoryService,
    FoldlogSessionService,
)

CONTRACT: Final = "session_service"
"""The fixture of those tests that every backend has to pass."""

BEYOND: Final = {
    "test_append_event_allows_markerless_current_session",
    "test_append_event_allows_timestamp_drift_for_current_session",
    "test_append_event_concurrent_stale_sessions_reject_stale_writer",
    "test_append_event_is_idempotent_for_same_event_id",
    "test_append_event_to_deleted_session_raises_session_not_found",
    "test_append_event_to_stale_session",
    "test_append_event_with_non_serializable_state_delta",
    "test_create_session_sequential_same_app_name",
    "test_create_session_with_blank_id_generates_one",
    "test_create_session_with_padded_duplicate_id_raises_error",
}
INSIDE: Final = "_session_events"
"""A test that looks there looks into ADK's own object."""

DIFFERENT: Final = {
    "test_append_different_events_not_deduplicated": "another event of an id is refused",
}


class SessionService(FoldlogSessionService):
    """In place of ADK's, in memory or on a database."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__(fresh_store())

    async def __aenter__(self) -> SessionService:
        return self

    async def __aexit__(self, *_: object) -> None:
        """There is nothing to close."""

    async def close(self) -> None:
        """There is nothing to close."""


class ArtifactService(FoldlogArtifactService):
    def __init__(self) -> None:
        super().__init__(fresh_store())

    async def get_artifact_version(self, **asked: Any) -> Any:
        """With a URI as ADK's service in memory makes them."""
        found = await super().get_artifact_version(**asked)
        if found is not None:
            found.canonical_uri = found.canonical_uri.replace("artifact://", "memory://")
        return found


class MemoryService(FoldlogMemoryService):
    def __init__(self) -> None:
        super().__init__(fresh_store())


def stand_in() -> None:
    for module in (google.adk.sessions, in_memory_session_service):
        module.InMemorySessionService = SessionService
    for module in (google.adk.sessions, database_session_service):
        module.DatabaseSessionService = SessionService
    for module in (google.adk.artifacts, in_memory_artifact_service):
        module.InMemoryArtifactService = ArtifactService
    for module in (google.adk.memory, in_memory_memory_service):
        module.InMemoryMemoryService = MemoryService


def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    chosen = [each for each in items if _is_ours(each)]
    config.hook.pytest_deselected(items=[each for each in items if each not in chosen])
    items[:] = chosen
    for item in chosen:
        reason = DIFFERENT.get(item.originalname)
        if reason is not None and IS_OURS:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def _is_ours(item: Any) -> bool:
    if item.originalname in DIFFERENT:
        return _backend(item) == "in_memory"
    if INSIDE in {*item.function.__code__.co_names, *item.function.__code__.co_consts}:
        return False
    if "sessions" in item.path.parts and item.originalname in BEYOND:
        return _backend(item) in ("in_memory", "inmemory", "database")
    return _backend(item) in ("in_memory", "inmemory") and (
        "sessions" not in item.path.parts or CONTRACT in item.fixturenames
    )


def _backend(item: Any) -> str:
    """Which of ADK's backends a test is of; "" if that is none that foldlog stands in for."""
    parameters = getattr(item, "callspec", None)
    found = {} if parameters is None else parameters.params
    for name in (CONTRACT, "service_type"):
        if name in found:
            value = found[name]
            is_service = not hasattr(value, "name")
            return "in_memory" if is_service else str(value.name).lower()
    names = " ".join(item.function.__code__.co_names).lower()
    return next((each for each in ("database", "inmemory") if each in names), "")
