"""A pytest plugin: PenguiFlow's state stores in memory are PenguiFlowStateStores."""

from __future__ import annotations

from typing import Any, Final

import penguiflow
import penguiflow.cli.playground
import penguiflow.cli.playground_state
import penguiflow.sessions.persistence
import penguiflow.sessions.session
import penguiflow.state.in_memory
from standing_in import place

import foldlog
from foldlog.integrations.penguiflow import PenguiFlowStateStore

NOT_OURS: Final = {
    "test_artifact_store_property": "asks for the class of the artifact store in memory",
    "test_inmemory_session_state_store_prunes_updates": "foldlog has no limit, and drops nothing",
    "test_inprocess_task_service_controls_and_patch_flow": "looks for what is done after a task is "
    "saved as complete, before PenguiFlow has done it",
}
"""Tests of memory rather than of a store, and why."""


class InMemoryStateStore(PenguiFlowStateStore):
    """In place of theirs, with a log of its own. It has no limits."""

    def __init__(self, *, artifact_retention: Any = None, **limits: int) -> None:
        options = place()
        if options:
            super().__init__(retention=artifact_retention, on_error="raise", **options)
        else:
            super().__init__(foldlog.memory_store(), on_error="raise")


def stand_in() -> None:
    for module in (penguiflow, penguiflow.sessions, penguiflow.sessions.persistence):
        module.InMemorySessionStateStore = InMemoryStateStore
    penguiflow.sessions.session.InMemorySessionStateStore = InMemoryStateStore
    penguiflow.state.in_memory.InMemoryStateStore = InMemoryStateStore
    for module in (penguiflow.cli.playground, penguiflow.cli.playground_state):
        module.InMemoryStateStore = InMemoryStateStore
