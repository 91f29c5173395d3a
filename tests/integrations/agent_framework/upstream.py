"""Agent Framework's own tests of checkpoints, workflows that have them, and threads of AG-UI."""

from typing import Final

from tests.integrations.upstream import Suite

NAMES: Final = (
    "checkpoint",
    "checkpoint_validation",
    "agent_executor",
    "functional_workflow",
    "request_info_event_rehydrate",
    "runner",
    "sub_workflow",
    "workflow",
    "workflow_agent",
)
AG_UI: Final = ("snapshots", "snapshot_session", "multi_turn", "run", "workflow_agent")
SUITES: Final = (
    Suite(
        "",
        "python/packages/core",
        tuple(f"tests/workflow/test_{name}.py" for name in NAMES),
        "upstream_checkpoints",
        source=".",
    ),
    Suite(
        "agent-framework-ag-ui",
        "python/packages/ag-ui",
        tuple(f"tests/ag_ui/test_{name}.py" for name in AG_UI),
        "upstream_snapshots",
        ("-c", "pyproject.toml"),
    ),
)
