"""A pytest plugin: what the harness' recording engine does is a step of a run, done once.

The engine is that of the harness' tests: it writes down which operations its capabilities have.
Under foldlog each operation is a step; what the capability gets comes from the log, in a second
execution of the run.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final

from pydantic_ai.durable_exec import DurableOperationId, RoleBasedOperationConfig
from standing_in import IS_OURS

import foldlog
from foldlog.integrations.pydantic_ai.operations import Place, Steps, place_now

ENGINE: Final = "tests._recording_durability"
CONFIG: Final = RoleBasedOperationConfig[Any](model={}, event={}, capability={}, tool={})


async def execute(
    self: Any,
    *,
    operation_id: DurableOperationId,
    name: str,
    body: Callable[[], Awaitable[object]],
    cache_key: tuple[object, ...],
    config: None,
) -> object:
    """In place of the engine's."""
    self.calls.append((name, cache_key))
    if name in self.fail_operations:
        raise RuntimeError(f"{name} failed")

    async def again() -> object:
        raise AssertionError(f"{name} was done already")

    steps, found = Steps(agent_name="agent", config=CONFIG), None
    async with foldlog.memory_store() as store:
        for do in (body, again):
            async with store.run("r", session_id="s") as run:
                token = place_now.set(Place(run, "agent", await run.steps()))
                try:
                    found = await steps.execute(
                        operation_id=operation_id,
                        name=name,
                        body=do,
                        cache_key=cache_key,
                        config={},
                    )
                finally:
                    place_now.reset(token)
    return found


def stand_in() -> None:
    """The engine is imported with the tests: see below."""


def pytest_collection_modifyitems(items: list[Any]) -> None:
    if IS_OURS and items:
        sys.modules[ENGINE]._RecordingBackend.execute = execute  # type: ignore[attr-defined]
