"""A pytest plugin: the A2A SDK's stores, in memory and on SQL, are foldlog's.

All that a test makes on SQL shares its data, as it shared one database.
"""

from __future__ import annotations

from itertools import count
from typing import Any, Final

import a2a.server.cluster as cluster
import a2a.server.cluster.database_event_stream as sql_stream
import a2a.server.cluster.database_task_store as sql_versioned
import a2a.server.tasks as tasks
import a2a.server.tasks.database_push_notification_config_store as sql_configs
import a2a.server.tasks.database_task_store as sql_tasks
import a2a.server.tasks.inmemory_push_notification_config_store as memory_configs
import a2a.server.tasks.inmemory_task_store as memory_tasks
import pytest
import pytest_asyncio
from standing_in import IS_OURS, current_store, store_of_test  # noqa: F401 - a fixture

from foldlog.integrations.a2a import (
    FoldlogPushNotificationConfigStore,
    FoldlogTaskEventStream,
    FoldlogTaskStore,
    FoldlogVersionedTaskStore,
)

OF_SQL: Final = "looks for SQL's tables and rows"
RETRIES: Final = "counts how often SQL is tried again; foldlog decides again by itself"
KEYS: Final = "is about the encryption of SQL's rows"
COPIES: Final = "a store in memory may return the object that it was given; a log has none"
CONVERTS: Final = "is about a function of the module, which is not replaced"
NOT_OURS: Final = {
    "test_initialize_creates_table": OF_SQL,
    "test_initialize_creates_table_and_is_idempotent": OF_SQL,
    "test_get_0_3_task_detailed": OF_SQL,
    "test_get_0_3_push_notification_config_detailed": OF_SQL,
    "test_custom_conversion": OF_SQL,
    "test_core_to_0_3_model_conversion": OF_SQL,
    "test_custom_table_name": OF_SQL,
    "test_data_is_encrypted_in_db": KEYS,
    "test_data_is_not_encrypted_in_db_if_no_key_is_set": KEYS,
    "test_decryption_error_with_wrong_key": KEYS,
    "test_decryption_error_with_no_key": KEYS,
    "test_decryption_fallback_for_unencrypted_data": KEYS,
    "test_parsing_error_after_successful_decryption": KEYS,
    "test_save_retries_transient_operational_error": RETRIES,
    "test_save_raises_after_exhausting_retries": RETRIES,
    "test_get_retries_transient_operational_error": RETRIES,
    "test_get_raises_after_exhausting_retries": RETRIES,
    "test_retry_defaults": RETRIES,
    "test_inmemory_task_store_copying_behavior[False]": COPIES,
    "test_stream_response_to_event_roundtrips_all_kinds": CONVERTS,
    "test_stream_response_to_event_raises_on_empty": CONVERTS,
    "test_as_int_rejects_non_integer_version": CONVERTS,
}
"""Tests that are not about a store of tasks, and why."""

_names: Final = count()


@pytest_asyncio.fixture(autouse=True)
async def store_of_each_test(store_of_test: None) -> None:
    """Each test has one."""


def on_log(ours: Any, *, shared: bool) -> Any:
    """A class of ours that is made as the SDK's own; with data of its own, unless it is shared."""

    def init(self: Any, engine: Any = None, **options: Any) -> None:
        named = {"owner_resolver": options["owner_resolver"]} if "owner_resolver" in options else {}
        name = "a2a" if shared else f"a2a-{next(_names)}"
        ours.__init__(self, current_store(), name=name, **named)
        self.engine = engine

    async def initialize(self: Any) -> None:
        """There is nothing to set up."""

    return type(ours.__name__, (ours,), {"__init__": init, "initialize": initialize})


MEMORY_TASKS: Final = on_log(FoldlogTaskStore, shared=False)
MEMORY_CONFIGS: Final = on_log(FoldlogPushNotificationConfigStore, shared=False)
SQL_TASKS: Final = on_log(FoldlogTaskStore, shared=True)
SQL_CONFIGS: Final = on_log(FoldlogPushNotificationConfigStore, shared=True)
VERSIONED: Final = on_log(FoldlogVersionedTaskStore, shared=True)
STREAM: Final = on_log(FoldlogTaskEventStream, shared=True)


def stand_in() -> None:
    tasks.InMemoryTaskStore = memory_tasks.InMemoryTaskStore = MEMORY_TASKS
    tasks.DatabaseTaskStore = sql_tasks.DatabaseTaskStore = SQL_TASKS
    for module in (tasks, memory_configs):
        module.InMemoryPushNotificationConfigStore = MEMORY_CONFIGS
    for module in (tasks, sql_configs):
        module.DatabasePushNotificationConfigStore = SQL_CONFIGS
    for module in (cluster, sql_versioned):
        module.VersionedDatabaseTaskStore = VERSIONED
    for module in (cluster, sql_stream):
        module.DatabaseTaskEventStream = STREAM


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items if IS_OURS else ():
        double = getattr(getattr(item, "module", None), "VersionedInMemoryTaskStore", VERSIONED)
        assert double is VERSIONED


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """The tests of two replicas have doubles in memory, in their conftest."""
    for plugin in session.config.pluginmanager.get_plugins() if IS_OURS else ():
        if hasattr(plugin, "VersionedInMemoryTaskStore"):
            plugin.VersionedInMemoryTaskStore = VERSIONED
            plugin.InMemoryTaskEventStream = STREAM
