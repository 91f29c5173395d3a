"""What the manager in memory lets go of, and what it does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from foldlog.agents import AgentStates, InMemoryStateRepository, memory
from tests.agents.conftest import Cart, Run


@pytest.fixture
def manager() -> AgentStates[Run]:
    """A manager over empty data."""
    return InMemoryStateRepository().create_manager(Run)


async def test_the_oldest_turn_that_is_remembered_stands_for_all_before_it(
    manager: AgentStates[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "HISTORY", 3)
    for number in range(6):
        async with manager.turn("shop/1", label=str(number)) as ctx:
            ctx.update(f"cart {number % 4}", Cart(total=number + 1))
    versions = await manager.versions("shop/1")
    assert [version.label for version in versions] == ["3", "4", "5"]
    totals = [
        {key: entry.state.total for key, entry in entries.items()}
        for version in versions
        for entries in [await manager.get_agent_states("shop/1", Cart, version=version.version)]
    ]
    then = {"cart 0": 1, "cart 1": 2, "cart 2": 3, "cart 3": 4}
    assert totals == [then, then | {"cart 0": 5}, then | {"cart 0": 5, "cart 1": 6}]


async def test_tokens_that_have_expired_are_let_go_of(
    manager: AgentStates[Run], advance_clock: Callable[[float], None]
) -> None:
    for _ in range(3):
        async with manager.turn("shop/1") as ctx:
            ctx.share("cart", ttl=60)
            kept = ctx.share("cart", ttl=100)
        advance_clock(70)
    backend = manager._backend
    assert isinstance(backend, memory.MemoryBackend)
    assert len(backend._shares) == 3  # the last two, and one of those before
    assert kept.digest in backend._shares
