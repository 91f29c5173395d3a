"""The A2A SDK's own tests of tasks and push configurations, and of two replicas."""

from typing import Final

from tests.integrations.upstream import Suite

SUITES: Final = (
    Suite(
        "",
        ".",
        (
            "tests/server/tasks/test_database_task_store.py",
            "tests/server/tasks/test_inmemory_task_store.py",
            "tests/server/tasks/test_database_push_notification_config_store.py",
            "tests/server/tasks/test_inmemory_push_notifications.py",
        ),
        "upstream_stores",
    ),
    Suite("", ".", ("tests/server/cluster",), "upstream_stores"),
)
