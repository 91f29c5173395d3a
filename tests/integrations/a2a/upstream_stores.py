"""A pytest plugin: the A2A SDK's stores, in memory and on SQL, are foldlog's.

All that a test makes on SQL shares one log in memory, as it shared one database. With
FOLDLOG_UPSTREAM=sdk nothing is replaced. FOLDLOG_UPSTREAM_FAILED is a file to which the ids of the
tests that failed are written.
"""

from __future__ import annotations

import os
from pathlib import Path
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

import foldlog
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

_IS_OURS: Final = os.environ.get("FOLDLOG_UPSTREAM") != "sdk"
_current: list[foldlog.Store] = []
_failed: set[str] = set()


def log() -> foldlog.Store:
    """The log of the test that runs."""
    if not _current:
        _current.append(foldlog.memory_store())
    return _current[0]


def on_log(ours: Any, *, shared: bool) -> Any:
    """A class of ours that is made as the SDK's own; on a log of its own, unless it is shared."""

    def init(self: Any, engine: Any = None, **options: Any) -> None:
        named = {"owner_resolver": options["owner_resolver"]} if "owner_resolver" in options else {}
        ours.__init__(self, log() if shared else foldlog.memory_store(), **named)
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


def pytest_configure() -> None:
    """Before any test imports them."""
    if not _IS_OURS:
        return
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
    for item in items:
        for name in (item.name, getattr(item, "originalname", None) or item.name):
            if reason := NOT_OURS.get(name):
                item.add_marker(pytest.mark.skip(reason=reason))
        double = getattr(getattr(item, "module", None), "VersionedInMemoryTaskStore", VERSIONED)
        assert not _IS_OURS or double is VERSIONED


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """The tests of two replicas have doubles in memory, in their conftest."""
    for plugin in session.config.pluginmanager.get_plugins():
        if _IS_OURS and hasattr(plugin, "VersionedInMemoryTaskStore"):
            plugin.VersionedInMemoryTaskStore = VERSIONED
            plugin.InMemoryTaskEventStream = STREAM


def pytest_runtest_setup(item: pytest.Item) -> None:
    _current.clear()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _failed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    if path := os.environ.get("FOLDLOG_UPSTREAM_FAILED"):
        Path(path).write_text("\n".join(sorted(_failed)), "utf-8")
