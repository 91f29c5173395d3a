"""A pytest plugin that puts FoldlogSaver under LangGraph's own tests of graphs.

Only the tests that ask for a checkpointer run. FOLDLOG_UPSTREAM names whose it is: "foldlog" over
a log in memory, "server" over an embedded server, or "sqlite", LangGraph's own, to compare with.
FOLDLOG_UPSTREAM_FAILED is a file to which the ids of the tests that failed are written.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from foldlog.integrations.langgraph import FoldlogSaver

_WHOSE: Final = os.environ.get("FOLDLOG_UPSTREAM", "foldlog")
_FIXTURES: Final = ("sync_checkpointer", "async_checkpointer")
_numbers: Final = itertools.count()  # some tests count how many UUIDs are made
_failed: Final[set[str]] = set()


@pytest.fixture(scope="session")
def foldlog_directory() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as directory:
        yield directory


def _opened(directory: str) -> Any:
    if _WHOSE == "server":
        return FoldlogSaver.from_conn_string(directory, namespace=f"test-{next(_numbers)}")
    return FoldlogSaver.from_conn_string(":memory:")


@pytest.fixture(params=["checkpointer"])
def sync_checkpointer(foldlog_directory: str) -> Iterator[Any]:
    if _WHOSE == "sqlite":
        from langgraph.checkpoint.sqlite import SqliteSaver

        with SqliteSaver.from_conn_string(":memory:") as saver:
            yield saver
    else:
        with _opened(foldlog_directory) as saver:
            yield saver


@pytest.fixture(params=["checkpointer"])
async def async_checkpointer(foldlog_directory: str) -> AsyncIterator[Any]:
    if _WHOSE == "sqlite":
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with AsyncSqliteSaver.from_conn_string(":memory:") as saver:
            yield saver
    else:
        async with _opened(foldlog_directory) as saver:
            yield saver


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Put ours in the place of theirs, before anybody has looked at either."""
    for plugin in session.config.pluginmanager.get_plugins():
        for name in _FIXTURES:
            if hasattr(plugin, name) and getattr(plugin, "__name__", "") != __name__:
                setattr(plugin, name, globals()[name])


def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    chosen = [each for each in items if not set(_FIXTURES).isdisjoint(each.fixturenames)]
    config.hook.pytest_deselected(items=[each for each in items if each not in chosen])
    items[:] = chosen


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _failed.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    path = os.environ.get("FOLDLOG_UPSTREAM_FAILED")
    if path and not hasattr(session.config, "workerinput"):
        Path(path).write_text("\n".join(sorted(_failed)), "utf-8")
