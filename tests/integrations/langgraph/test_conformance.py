"""LangGraph's own conformance suite: each capability is detected, and passes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability

from foldlog.integrations.langgraph import FoldlogSaver

Factory = Callable[[str], AsyncGenerator[Any]]


async def opened_async(target: str) -> AsyncGenerator[Any]:
    async with FoldlogSaver.from_conn_string(target) as saver:
        yield saver


async def opened_sync(target: str) -> AsyncGenerator[Any]:
    with FoldlogSaver.from_conn_string(target) as saver:
        yield saver


@pytest.mark.parametrize("factory", [opened_async, opened_sync])
@pytest.mark.parametrize("where", ["memory", "server"])
async def test_every_capability_is_detected_and_passes(
    factory: Factory, where: str, tmp_path: Path
) -> None:
    """What it calls FULL leaves out what it does not detect."""
    target = ":memory:" if where == "memory" else str(tmp_path)
    report = await validate(checkpointer_test(name="foldlog")(lambda: factory(target)))
    report.print_report()
    assert {name: result.failures for name, result in report.results.items()} == {
        each.value: [] for each in Capability
    }
    assert all(each.detected and each.passed for each in report.results.values())
    assert sum(each.tests_passed for each in report.results.values()) >= 81
