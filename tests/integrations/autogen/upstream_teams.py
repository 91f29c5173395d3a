"""A pytest plugin: AutoGen's teams run with TeamCheckpoints.

Those of its tests run that give a team a runtime of its own.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from contextvars import ContextVar
from types import ModuleType
from typing import Any, Final

import pytest_asyncio
from autogen_agentchat.messages import MessageFactory
from autogen_agentchat.teams import BaseGroupChat, RoundRobinGroupChat, SelectorGroupChat, Swarm
from standing_in import current_store, store_of_test  # noqa: F401 - a fixture

from foldlog.integrations.autogen import TeamCheckpoints

NOT_OURS: Final[dict[str, str]] = {}
"""Tests that are not about runs of a team, and why."""

_run_stream: Final = BaseGroupChat.run_stream
_attached: Final[dict[int, tuple[Any, TeamCheckpoints]]] = {}
_known: Final = MessageFactory()._message_types
_is_inside: ContextVar[bool] = ContextVar("is_inside", default=False)


@pytest_asyncio.fixture(autouse=True)
async def store_of_each_test(store_of_test: None) -> None:
    """Each test has one."""
    _attached.clear()


async def run_stream(
    team: Any,
    *,
    task: Any = None,
    cancellation_token: Any = None,
    output_task_messages: bool = True,
) -> AsyncGenerator[Any]:
    """In place of the team's own, which the checkpoints call."""
    given = {
        "task": task,
        "cancellation_token": cancellation_token,
        "output_task_messages": output_task_messages,
    }
    is_nested = team._initialized and id(team) not in _attached
    is_plain = team._embedded_runtime or is_nested or _is_inside.get()
    if not isinstance(team, RoundRobinGroupChat | SelectorGroupChat | Swarm) or is_plain:
        stream = _run_stream(team, **given)
    else:
        stream = (await _checkpoints(team)).run_stream(**given)
    token = _is_inside.set(True)
    try:
        async with aclosing(stream):
            async for message in stream:
                yield message
    finally:
        _is_inside.reset(token)


async def _checkpoints(team: Any) -> TeamCheckpoints:
    if id(team) not in _attached:
        types = team._message_factory._message_types
        _attached[id(team)] = (
            team,
            await TeamCheckpoints.attach(
                current_store(),
                f"run-{len(_attached)}",
                team,
                team._runtime,
                team._termination_condition,
                custom_message_types=[each for name, each in types.items() if name not in _known],
            ),
        )
    return _attached[id(team)][1]


# The tests import a client of OpenAI, which would count tokens with it: none has it do so.
sys.modules.setdefault("tiktoken", ModuleType("tiktoken"))


def stand_in() -> None:
    BaseGroupChat.run_stream = run_stream  # type: ignore[method-assign]


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    chosen = [each for each in items if "single_threaded" in each.name]
    config.hook.pytest_deselected(items=[each for each in items if each not in chosen])
    items[:] = chosen
