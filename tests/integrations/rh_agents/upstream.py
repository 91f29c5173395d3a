"""rh-agents' own tests of state recovery, replay and retries. No release has a source archive."""

from typing import Final

from tests.integrations.upstream import Suite

SUITES: Final = (
    Suite(
        "",
        ".",
        ("test_phase1_state_recovery.py", "test_phase2_replay.py", "test_retry_persistence.py"),
        "upstream_backends",
        arguments=("-o", "asyncio_mode=auto"),
        source=".",
    ),
)
