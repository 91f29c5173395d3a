"""What `foldlog.integrations.rh_agents` offers is what it says it does."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from foldlog.integrations import rh_agents as recovery
from foldlog.integrations.rh_agents import (
    StateBackend,
    StateSnapshot,
    SyncArtifactBackend,
    SyncStateBackend,
)


@pytest.mark.parametrize("name", recovery.__all__)
def test_a_public_name_loads_and_has_words_of_its_own(name: str) -> None:
    doc = getattr(recovery, name).__doc__
    assert doc
    assert not doc.startswith(f"{name}(")


@pytest.mark.parametrize(
    "backend",
    [
        StateBackend,
        recovery.ArtifactBackend,
        recovery.Execution,
        recovery.Migrations,
        SyncStateBackend,
        SyncArtifactBackend,
    ],
)
def test_every_method_has_a_docstring(backend: type[Any]) -> None:
    methods = {name: value for name, value in inspect.getmembers(backend) if name[0] != "_"}
    assert methods
    assert [name for name, value in methods.items() if not inspect.getdoc(value)] == []


@pytest.mark.parametrize(
    ("blocking", "backend"),
    [(SyncStateBackend, StateBackend), (SyncArtifactBackend, recovery.ArtifactBackend)],
)
def test_a_blocking_method_takes_what_its_model_takes(
    blocking: type[Any], backend: type[Any]
) -> None:
    shared = {name for name in vars(blocking) if name[0] != "_"}
    for name in shared:
        own, model = (inspect.signature(getattr(each, name)) for each in (blocking, backend))
        assert list(own.parameters) == list(model.parameters), name
        defaults = [each.default for each in own.parameters.values()]
        assert defaults == [each.default for each in model.parameters.values()], name


def test_the_names_of_the_plan_for_state_recovery_work() -> None:
    """Seed 003, sections 2, 4, 5 and 7: what it calls `ExecutionState` is an Execution."""
    named = {
        recovery.Execution: {
            *(
                "to_snapshot",
                "from_snapshot",
                "save_checkpoint",
                "load_from_state_id",
                "should_skip_event",
            ),
            *("get_event_result", "has_completed_event", "state_id", "storage"),
        },
        recovery.ExecutionEvent: {"is_replayed", "skip_republish", "result", "execution_time"},
        StateSnapshot: {"is_compatible", "diff"},
        SyncStateBackend: {
            *("save_state", "load_state", "list_states", "delete_state", "update_state", "exists"),
        },
        SyncArtifactBackend: {
            *("save_artifact", "load_artifact", "delete_artifact", "exists"),
            *("list_artifacts", "get_size"),
        },
    }
    for owner, names in named.items():
        assert names <= {*dir(owner)}
