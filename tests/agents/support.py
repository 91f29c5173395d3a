"""Short ways to what a manager holds, and to a moment between its load and its append."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from foldlog.agents import (
    AgentStates,
)
from foldlog.agents.ledger import Loaded
from foldlog.views import Consistency
from tests.agents.conftest import Cart, Run

Manager = AgentStates[Run]


async def stored(manager: Manager, scope: str, key: str = "cart") -> Cart | None:
    """What another turn would see now."""
    entry = await manager.get_agent_state(scope, key, Cart)
    return None if entry is None else entry.state


async def put(manager: Manager, scope: str, total: int, key: str = "cart") -> int:
    """Store a cart; return the version."""
    async with manager.turn(scope, label=f"put {total}") as ctx:
        ctx.update(key, Cart(total=total))
    assert ctx.version is not None
    return ctx.version


def after_a_load(
    manager: Manager,
    monkeypatch: pytest.MonkeyPatch,
    scope: str,
    act: Callable[[], Awaitable[int]],
) -> list[int]:
    """Have something happen after the next load of a scope, before anything else does.

    Returns where its result will be.
    """
    original, results = manager._ledger.load, list[int]()

    async def load(wanted: str, consistency: Consistency) -> Loaded:
        loaded = await original(wanted, consistency)
        if wanted == scope and not results:
            monkeypatch.setattr(manager._ledger, "load", original)
            results.append(await act())
        return loaded

    monkeypatch.setattr(manager._ledger, "load", load)
    return results
