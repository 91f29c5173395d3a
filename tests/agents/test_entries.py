"""Entries, runtimes and every version that there was, on every repository."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from foldlog.agents import (
    RUNTIME_SCOPE,
    AgentStateEntry,
    ExportableStateManager,
    StateManager,
)
from foldlog.differences import ABSENT
from foldlog.errors import AppendConflict
from tests.agents.conftest import Cart, OpenManager, Run
from tests.agents.support import Manager, after_a_load, put, stored


async def test_an_entry_is_set_at_the_version_it_has(manager: Manager) -> None:
    new = await manager.set_agent_state(
        "shop/1", AgentStateEntry("shop/1", "cart", Cart, 0, Cart(total=1))
    )
    assert new.version > 0
    await put(manager, "shop/1", 5, key="other")  # another key is no conflict
    newer = await manager.set_agent_state(
        "shop/1", AgentStateEntry("shop/1", "cart", Cart, new.version, Cart(total=2))
    )
    with pytest.raises(AppendConflict) as caught:
        await manager.set_agent_state("shop/1", new)
    assert (caught.value.expected, caught.value.actual) == (new.version, newer.version)
    assert await stored(manager, "shop/1") == Cart(total=2)


async def test_an_entry_is_not_set_over_what_came_in_between(
    manager: Manager, open_manager: OpenManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await open_manager()
    first = await put(manager, "shop/1", 1)
    came = after_a_load(manager, monkeypatch, "shop/1", lambda: put(other, "shop/1", 50))
    with pytest.raises(AppendConflict) as caught:
        await manager.set_agent_state(
            "shop/1", AgentStateEntry("shop/1", "cart", Cart, first, Cart(total=2))
        )
    assert (caught.value.expected, [caught.value.actual]) == (first, came)
    entry = await manager.get_agent_state("shop/1", "cart", Cart, consistency="strong")
    assert entry is not None
    assert entry.state == Cart(total=50)


async def test_an_entry_that_was_set_is_the_callers_whoever_writes_next(
    manager: Manager, open_manager: OpenManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, get = await open_manager(), manager.get_agent_state

    async def overtaken(*args: Any, **options: Any) -> Any:
        await put(other, "shop/1", 50)
        return await get(*args, **options, consistency="strong")

    monkeypatch.setattr(manager, "get_agent_state", overtaken)
    mine = AgentStateEntry("shop/1", "cart", Cart, 0, Cart(total=1))
    found = await manager.set_agent_state("shop/1", mine)
    monkeypatch.undo()
    assert found.state == Cart(total=1)
    with pytest.raises(AppendConflict) as caught:
        await manager.set_agent_state("shop/1", found)
    assert caught.value.expected == found.version


async def test_a_runtime_has_state_of_its_own(manager: Manager, open_manager: OpenManager) -> None:
    assert await manager.runtime_state() == Run()
    await manager.set_runtime_state(Run(rounds=3))
    assert await (await open_manager()).runtime_state() == Run(rounds=3)
    assert await manager.scopes() == [RUNTIME_SCOPE]


async def test_managers_of_other_names_share_nothing(open_manager: OpenManager) -> None:
    one, two = await open_manager("one"), await open_manager("two")
    await put(one, "shop/1", 1)
    assert await stored(two, "shop/1") is None
    assert await two.scopes() == []


async def test_it_is_the_managers_that_the_protocols_describe(manager: Manager) -> None:
    assert isinstance(manager, StateManager)
    assert isinstance(manager, ExportableStateManager)
    assert manager.is_exportable


async def test_every_version_can_be_read_and_compared(manager: Manager) -> None:
    first = await put(manager, "shop/1", 1)
    await put(manager, "shop/1", 2, key="other")
    async with manager.turn("shop/1") as ctx:
        ctx.update("cart", Cart(total=3, items=["x"]))
        ctx.delete("other")
    last = ctx.version or 0
    assert [v.label for v in await manager.history("shop/1")] == ["put 1", "put 2", ""]
    for version, totals in (
        (first, {"cart": 1}),
        (last - 1, {"cart": 1, "other": 2}),
        (last, {"cart": 3}),
        (None, {"cart": 3}),
        (0, {}),
    ):
        entries = await manager.get_agent_states("shop/1", Cart, version=version)
        assert {key: entry.state.total for key, entry in entries.items()} == totals
    [change] = await manager.compare("shop/1", first, last)
    assert (change.key, change.type) == ("cart", "Cart")
    assert [(d.path, d.before, d.after) for d in change.diff][-1] == ("state.total", 1, 3)
    assert await manager.compare("shop/1", last, last) == ()


async def test_a_watcher_is_told_of_every_turn_with_its_diff(
    manager: Manager, open_manager: OpenManager
) -> None:
    other = await open_manager()
    first = await put(manager, "shop/1", 1)
    async with aclosing(other.watch("shop/1", after=0)) as changes:
        seen = await anext(changes)
        assert (seen.version, seen.label, seen.changes[0].before) == (first, "put 1", None)
        second = await put(manager, "shop/1", 2)
        await put(manager, "shop/2", 9)
        third = await put(manager, "shop/1", 3)
        for version, old, new in ((second, 1, 2), (third, 2, 3)):
            seen = await anext(changes)
            assert (seen.scope, seen.version) == ("shop/1", version)
            [change] = seen.changes
            assert (change.before, change.after) == (
                {"items": [], "total": old},
                {"items": [], "total": new},
            )
            assert change.diff == (("state.total", old, new),)


async def test_the_diff_of_data_that_comes_and_goes(manager: Manager) -> None:
    for state in ([1, 2], [1, 3]):
        async with manager.turn("shop/1") as ctx:
            ctx.update("numbers", state)
    await manager.delete("shop/1")
    async with aclosing(manager.watch("shop/1", after=0)) as changes:
        diffs = [(await anext(changes)).changes[0].diff for _ in range(3)]
    assert diffs == [
        (("state", ABSENT, [1, 2]),),
        (("state[1]", 2, 3),),
        (("state", [1, 3], ABSENT),),
    ]


async def test_a_watcher_without_a_version_hears_what_is_new(manager: Manager) -> None:
    await put(manager, "shop/1", 1)
    async with aclosing(manager.watch("shop/1")) as changes:
        heard = asyncio.ensure_future(anext(changes))
        while not heard.done():
            # It begins when it is first asked; whatever it hears was put after that.
            await put(manager, "shop/1", len(await manager.history("shop/1")) + 1)
        assert (await heard).label != "put 1"
