from __future__ import annotations

import pytest

from foldlog import protocols
from foldlog.errors import MissingCapability
from foldlog.protocols import (
    ArtifactStore,
    StateStore,
    SupportsArtifacts,
    SupportsConversationBindings,
    SupportsMemoryState,
    SupportsPlannerEvents,
    SupportsPlannerState,
    SupportsSteering,
    SupportsTasks,
    SupportsTrajectories,
    missing_capabilities,
    require_capabilities,
)

METHODS: dict[type, set[str]] = {
    StateStore: {"save_event", "load_history", "save_remote_binding"},
    SupportsPlannerState: {"save_planner_state", "load_planner_state"},
    SupportsConversationBindings: {"find_binding", "list_bindings", "mark_binding_terminal"},
    SupportsMemoryState: {"save_memory_state", "load_memory_state"},
    SupportsTasks: {"save_task", "list_tasks", "save_update", "list_updates"},
    SupportsSteering: {"save_steering", "list_steering"},
    SupportsTrajectories: {"save_trajectory", "get_trajectory", "list_traces"},
    SupportsPlannerEvents: {"save_planner_event", "list_planner_events"},
    SupportsArtifacts: {"artifact_store"},
    ArtifactStore: {"put_bytes", "put_text", "get", "get_ref", "delete", "exists"},
}


def having(names: set[str]) -> object:
    """An object with methods of exactly these names."""
    return type("Some", (), {name: lambda *_: None for name in names})()


def test_every_protocol_of_the_module_is_covered() -> None:
    declared = {
        value for value in vars(protocols).values() if getattr(value, "_is_protocol", False)
    }
    assert declared - {protocols.Protocol} == set(METHODS)


@pytest.mark.parametrize("protocol", METHODS, ids=lambda protocol: protocol.__name__)
def test_a_protocol_is_its_methods_and_all_of_them(protocol: type) -> None:
    assert isinstance(having(METHODS[protocol]), protocol)
    for name in METHODS[protocol]:
        assert not isinstance(having(METHODS[protocol] - {name}), protocol)


def test_missing_capabilities_keep_the_order_asked_for() -> None:
    store = having({"save_task"})
    assert missing_capabilities(store, ["list_tasks", "save_task", "clear"]) == [
        "list_tasks",
        "clear",
    ]


def test_requiring_what_is_missing_names_it() -> None:
    store = having({"save_task"})
    require_capabilities(store, feature="sessions", methods=("save_task",))
    with pytest.raises(TypeError, match=r"'sessions'.*list_tasks") as caught:
        require_capabilities(store, feature="sessions", methods=("save_task", "list_tasks"))
    assert isinstance(caught.value, MissingCapability)
    assert caught.value.missing == ["list_tasks"]
