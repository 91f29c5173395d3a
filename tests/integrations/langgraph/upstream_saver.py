"""A pytest plugin that puts FoldlogSaver under LangGraph's own tests of graphs.

Only the tests that ask for a checkpointer run. LangGraph's own SQLite saver is what they are
compared with.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from standing_in import IS_OURS, place

from foldlog.integrations.langgraph import FoldlogSaver

_FIXTURES: Final = ("sync_checkpointer", "async_checkpointer")

os.environ["NO_DOCKER"] = "true"


def _opened() -> Any:
    options = place()
    return FoldlogSaver.from_conn_string(options.pop("path", ":memory:"), **options)


@pytest.fixture(params=["checkpointer"])
def sync_checkpointer() -> Iterator[Any]:
    with _opened() if IS_OURS else SqliteSaver.from_conn_string(":memory:") as saver:
        yield saver


@pytest.fixture(params=["checkpointer"])
async def async_checkpointer() -> AsyncIterator[Any]:
    async with _opened() if IS_OURS else AsyncSqliteSaver.from_conn_string(":memory:") as saver:
        yield saver


def stand_in() -> None:
    """Fixtures stand in: see below."""


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Put these in the place of theirs, before anybody has looked at either."""
    for plugin in session.config.pluginmanager.get_plugins():
        for name in _FIXTURES:
            if hasattr(plugin, name) and getattr(plugin, "__name__", "") != __name__:
                setattr(plugin, name, globals()[name])


def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    chosen = [each for each in items if not set(_FIXTURES).isdisjoint(each.fixturenames)]
    config.hook.pytest_deselected(items=[each for each in items if each not in chosen])
    items[:] = chosen
