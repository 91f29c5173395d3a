"""pydantic-ai-harness' own tests of StepPersistence, on the store of its steps.

No source archive of the installed version has them. That of 0.36.0 has, and can be the checkout.
"""

from typing import Final

from tests.integrations.upstream import Suite

SUITES: Final = (
    Suite(
        "",
        ".",
        (
            "tests/step_persistence/test_step_persistence.py",
            "tests/step_persistence/test_frontier.py",
        ),
        "upstream_steps",
        ("-o", "asyncio_default_fixture_loop_scope=function"),
    ),
)
