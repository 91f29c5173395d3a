"""Agent Framework's own tests of checkpoints, and of workflows that have them."""

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
SUITES: Final = (
    Suite(
        "",
        "python/packages/core",
        tuple(f"tests/workflow/test_{name}.py" for name in NAMES),
        "upstream_checkpoints",
        source=".",
    ),
)
