"""pydantic-ai-harness' own tests of StepPersistence, on the store of its steps; and those of what
its capabilities do in an engine, which is foldlog.

No source archive of the installed version has them. That of 0.36.0 has, and can be the checkout.
"""

from typing import Final

from tests.integrations.upstream import Suite

_OPTIONS: Final = ("-o", "asyncio_default_fixture_loop_scope=function")

SUITES: Final = (
    Suite(
        "",
        ".",
        (
            "tests/step_persistence/test_step_persistence.py",
            "tests/step_persistence/test_frontier.py",
        ),
        "upstream_steps",
        _OPTIONS,
    ),
    Suite(
        "",
        ".",
        (
            "tests/coder/test_tools.py",
            "tests/memory/test_memory.py",
            "tests/planning/test_planning.py",
            "tests/system_reminders/test_system_reminders.py",
            "tests/tool_output_limits/test_tool_output_limits.py",
        ),
        "upstream_operations",
        (*_OPTIONS, "-k", "durab or dispatch"),
    ),
)
