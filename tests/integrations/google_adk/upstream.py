"""ADK's own tests of sessions, artifacts and memory.

They import `sqlalchemy[asyncio]`, `aiosqlite` and `redis`.
"""

from typing import Final

from tests.integrations.upstream import Suite

SUITES: Final = tuple(
    Suite(
        "",
        ".",
        (f"tests/unittests/{file}",),
        "upstream_services",
        arguments=("-o", "asyncio_mode=auto"),
    )
    for file in (
        "sessions/test_session_service.py",
        "artifacts/test_artifact_service.py",
        "memory/test_in_memory_memory_service.py",
    )
)
