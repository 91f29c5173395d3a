"""The pytest plugin of every suite: foldlog's classes stand in for the framework's.

$FOLDLOG_UPSTREAM_PLUGIN names the module that knows how: its `stand_in()` puts them there, its
`NOT_OURS` has the tests to leave out, by name, and why. With $FOLDLOG_UPSTREAM=theirs the
framework's own classes stay. What came of the tests is written to $FOLDLOG_UPSTREAM_REPORT.

Stores are on an embedded server; in memory with FOLDLOG_UPSTREAM_LOG=memory.
"""

from __future__ import annotations

import json
import os
import unittest
from collections import Counter
from collections.abc import AsyncIterator
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

import foldlog
from foldlog.blocking.bridge import StoreThread
from foldlog.integrations.access import Opened

IS_OURS: Final = os.environ.get("FOLDLOG_UPSTREAM") != "theirs"
_counts: Final = Counter[str]()
_failed: Final = set[str]()
_current: Final[list[foldlog.Store]] = []
_numbers: Final = count()


def place() -> dict[str, Any]:
    """Return where a new log is: the options of `foldlog.connect`. Memory has none."""
    if os.environ.get("FOLDLOG_UPSTREAM_LOG") == "memory":
        return {}
    # Thousands of calls at once keep the event loop from hearing the server for seconds.
    path, namespace = os.environ["FOLDLOG_UPSTREAM_DATA"], f"{os.getpid()}-{next(_numbers)}"
    return {"path": path, "namespace": namespace, "timeout": 60.0}


def fresh_store() -> StoreThread:
    """Return a store over empty data, on a thread."""
    options = place()
    return StoreThread(Opened(options.pop("path", ":memory:"), lambda store: store, options))


@pytest_asyncio.fixture
async def store_of_test(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """A store over empty data, on the event loop of the test: for `current_store`."""
    options = place()
    async with foldlog.connect(**options) if options else foldlog.memory_store() as store:
        if request.cls is None or not issubclass(request.cls, unittest.TestCase):
            _current.append(store)
        yield
        _current.clear()


def current_store() -> foldlog.Store:
    """Return the store of the test that runs; in memory for unittest's, which have other loops."""
    return _current[0] if _current else foldlog.memory_store()


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Before any test, or what it shares with others, imports the framework's classes."""
    if IS_OURS:
        _plugin().stand_in()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[Any]) -> None:
    left_out: dict[str, str] = getattr(_plugin(), "NOT_OURS", {})
    for item in items:
        for name in {item.name, getattr(item, "originalname", None) or item.name}:
            if name in left_out:
                item.add_marker(pytest.mark.skip(reason=left_out[name]))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    # The framework's own classes fail a test only by its call, not where it cannot be set up.
    if report.failed and (IS_OURS or report.when == "call"):
        _failed.add(report.nodeid)
    elif report.skipped or report.when == "call":
        _counts[report.outcome] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        found = [_counts["passed"], _counts["skipped"], sorted(_failed)]
        Path(os.environ["FOLDLOG_UPSTREAM_REPORT"]).write_text(json.dumps(found), "utf-8")


def _plugin() -> Any:
    return import_module(os.environ["FOLDLOG_UPSTREAM_PLUGIN"])
