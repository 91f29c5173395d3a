"""PenguiFlow's own tests of state stores, and of sessions, tasks and planners that have one."""

from typing import Final

from tests.integrations.upstream import Suite

NAMES: Final = (
    "agui_adapter_penguiflow",
    "bidirectional_session",
    "context_merge",
    "planner_task_pipeline_pause",
    "playground_phase3",
    "proactive_reports",
    "react_planner",
    "session_state_store_retention",
    "session_telemetry",
    "sessions_persistence",
    "sessions_transport",
    "state_unified_store",
    "steering_and_adapters",
    "task_lifecycle",
    "task_service",
    "tool_jobs",
)
SUITES: Final = (
    Suite(
        "penguiflow", ".", tuple(f"tests/test_{name}.py" for name in NAMES), "upstream_state_store"
    ),
)
