"""Dumps, and what is loaded from them, on every repository."""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import Any

import pytest
from pydantic import BaseModel, RootModel

from foldlog.errors import PayloadError
from tests.agents.conftest import Cart, OpenManager, Run, Secret
from tests.agents.support import Manager, after_a_load, put, stored


async def test_what_is_dumped_can_be_loaded_elsewhere(open_manager: OpenManager) -> None:
    one, two = await open_manager("one"), await open_manager("two")
    await put(one, "shop/1", 1)
    await put(one, "shop/2", 2)
    await one.set_runtime_state(Run(rounds=4))
    await put(two, "shop/1", 9, key="stale")
    await put(two, "shop/9", 9)
    dump = json.loads(json.dumps(await one.dump_state()))
    await two.load_state(dump)
    assert await two.dump_state() == dump
    assert await two.runtime_state() == Run(rounds=4)
    assert await stored(two, "shop/9") is None


async def test_a_dump_is_of_one_moment(
    manager: Manager, open_manager: OpenManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn that changes two scopes is in it as a whole, or not at all."""
    other = await open_manager()
    async with manager.turn("a/1") as ctx:
        ctx.update("cart", Cart(total=1))
        token = ctx.share("cart", writable=True)
    await put(manager, "z/1", 1)

    async def both() -> int:
        async with other.turn("z/1") as ctx:
            ctx.update("cart", Cart(total=2))
            ctx.update(token, Cart(total=2))
        return ctx.version or 0

    assert await manager.scopes() == ["a/1", "z/1"]
    came = after_a_load(manager, monkeypatch, "a/1", both)
    dump = await manager.dump_state()
    assert came
    assert [dump[scope]["cart"]["state"]["total"] for scope in ("a/1", "z/1")] == [1, 1]
    assert (await manager.dump_state())["z/1"]["cart"]["state"]["total"] == 2


async def test_state_that_is_no_object_is_dumped_and_loaded(open_manager: OpenManager) -> None:
    class Numbers(RootModel[list[int]]):
        root: list[int] = [7]

    one, two = await open_manager("one"), await open_manager("two")
    async with one.turn("shop/1") as ctx:
        ctx.update("some", Numbers([1, 2]))
        ctx.update("none", Numbers([]))
    await two.load_state(json.loads(json.dumps(await one.dump_state())))
    entries = await two.get_agent_states("shop/1", Numbers)
    assert {key: entry.state.root for key, entry in entries.items()} == {"some": [1, 2], "none": []}


async def test_nothing_exports_as_nothing(manager: Manager) -> None:
    assert await manager.dump_state() == {}
    await manager.load_state({})


async def test_private_state_exports_as_empty_and_stays(manager: Manager) -> None:
    async with manager.turn("shop/1") as ctx:
        ctx.update("secret", Secret(password="open sesame"))
        ctx.update("cart", Cart(total=1))
    dump = await manager.dump_state()
    assert {key: held["state"] for key, held in dump["shop/1"].items()} == {
        "secret": {},
        "cart": {"items": [], "total": 1},
    }
    await manager.load_state(dump)
    entry = await manager.get_agent_state("shop/1", "secret", Secret)
    assert entry is not None
    assert entry.state.password == "open sesame"


async def test_what_json_lacks_is_exported_and_loaded_exactly(open_manager: OpenManager) -> None:
    class Everything(BaseModel):
        at: dt.datetime = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
        raw: bytes = b"\xff"
        tags: set[str] = {"a"}
        pair: tuple[int, float] = (1, math.inf)
        by_number: dict[int, str] = {7: "seven"}

    one, two = await open_manager("one"), await open_manager("two")
    async with one.turn("shop/1") as ctx:
        ctx.update("all", Everything())
    dump = json.loads(json.dumps(await one.dump_state(), allow_nan=False))
    assert dump["shop/1"]["all"]["state"]["tags"] == {"$set": ["a"]}
    await two.load_state(dump)
    entry = await two.get_agent_state("shop/1", "all", Everything)
    assert entry is not None
    assert entry.state == Everything()


@pytest.mark.parametrize("dump", [{"shop/1": 1}, {"shop/1": {"cart": {"state": {}}}}, {1: {}}])
async def test_what_is_no_dump_is_refused(manager: Manager, dump: Any) -> None:
    with pytest.raises(PayloadError):
        await manager.load_state(dump)
    assert await manager.scopes() == []
