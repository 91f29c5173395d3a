"""A turn: what it sees, what it leaves, and who else may have been there. On every repository."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from foldlog.agents import (
    AgentStateEntry,
    IncompatibleAgentState,
    TurnEnded,
    TurnStateContext,
)
from foldlog.errors import (
    AppendConflict,
    InvalidId,
    Misuse,
    NotFound,
    PayloadError,
)
from tests.agents.conftest import Cart, Note, OpenManager
from tests.agents.support import Manager, put, stored


async def test_an_update_is_seen_by_the_turn_at_once_and_by_others_when_it_completes(
    manager: Manager, open_manager: OpenManager
) -> None:
    other = await open_manager()
    async with manager.turn("shop/1") as ctx:
        cart = await ctx.get("cart", Cart)
        cart.items.append("apple")
        ctx.update("cart", cart)
        assert (await ctx.get("cart", Cart)).items == ["apple"]
        assert await stored(other, "shop/1") is None
    for each in (manager, other):
        entry = await each.get_agent_state("shop/1", "cart", Cart, consistency="strong")
        assert entry == AgentStateEntry("shop/1", "cart", Cart, ctx.version, cart)


async def test_an_exception_leaves_nothing(manager: Manager) -> None:
    await put(manager, "shop/1", 1)
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the turn is tested
        async with manager.turn("shop/1") as ctx:
            ctx.update("cart", Cart(total=2))
            ctx.update("other", Cart(total=2))
            raise ZeroDivisionError
    assert await stored(manager, "shop/1") == Cart(total=1)
    assert await stored(manager, "shop/1", "other") is None
    assert len(await manager.history("shop/1")) == 1


async def test_a_cancellation_leaves_nothing(manager: Manager) -> None:
    updated = asyncio.Event()

    async def turn() -> None:
        async with manager.turn("shop/1") as ctx:
            ctx.update("cart", Cart(total=2))
            updated.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(turn())
    await updated.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await manager.scopes() == []


async def test_reset_goes_back_to_the_beginning_of_the_turn(manager: Manager) -> None:
    await put(manager, "shop/1", 1)
    async with manager.turn("shop/1") as ctx:
        ctx.update("cart", Cart(total=2))
        ctx.reset("cart")
        assert await ctx.get("cart", Cart) == Cart(total=1)
        ctx.update("other", Cart(total=3))
        ctx.reset("other")
        ctx.reset("never")
    assert len(await manager.history("shop/1")) == 1


async def test_a_turn_of_several_keys_is_one_version(manager: Manager) -> None:
    async with manager.turn("shop/1", label="both") as ctx:
        ctx.update("cart", Cart(total=1))
        ctx.update("note", Note(text="x"))
    [version] = await manager.history("shop/1")
    assert (version.version, version.label) == (ctx.version, "both")
    assert set(version.keys) == {"cart", "note"}


async def test_what_a_turn_has_loaded_stays_as_it_was_until_it_ends(manager: Manager) -> None:
    await put(manager, "shop/1", 1)
    with pytest.raises(AppendConflict):  # noqa: PT012 - the turn is tested
        async with manager.turn("shop/1") as ctx:
            assert (await ctx.get("cart", Cart)).total == 1
            await put(manager, "shop/1", 2)
            assert (await ctx.get("cart", Cart)).total == 1
            ctx.update("cart", Cart(total=3))
    assert await stored(manager, "shop/1") == Cart(total=2)


async def test_a_stale_turn_raises_a_conflict_with_expected_and_actual(
    manager: Manager, open_manager: OpenManager
) -> None:
    other = await open_manager()
    first = await put(manager, "shop/1", 1)
    with pytest.raises(AppendConflict) as caught:  # noqa: PT012 - the turn is tested
        async with manager.turn("shop/1") as ctx:
            await ctx.get("cart", Cart)
            second = await put(other, "shop/1", 2)
            ctx.update("cart", Cart(total=3))
    assert (caught.value.expected, caught.value.actual) == (first, second)
    assert second > first > 0


async def test_a_turn_may_expect_a_version(manager: Manager) -> None:
    first = await put(manager, "shop/1", 1)
    async with manager.turn("shop/1", expected=first) as ctx:
        ctx.update("cart", Cart(total=2))
    with pytest.raises(AppendConflict) as caught:
        async with manager.turn("shop/1", expected=first) as late:
            late.update("cart", Cart(total=3))
    assert (caught.value.expected, caught.value.actual) == (first, ctx.version)
    async with manager.turn("shop/2", expected=0) as new:
        new.update("cart", Cart(total=1))
    with pytest.raises(AppendConflict):
        async with manager.turn("shop/2", expected=0) as again:
            await again.get("cart", Cart)


async def test_turns_that_are_tried_again_lose_nothing(
    manager: Manager, open_manager: OpenManager
) -> None:
    other = await open_manager()

    async def add(ctx: TurnStateContext) -> int:
        cart = await ctx.get("cart", Cart)
        await asyncio.sleep(0)
        cart.total += 1
        ctx.update("cart", cart)
        return cart.total

    async def many(each: Manager) -> list[int]:
        return [await each.run_turn("shop/1", add) for _ in range(10)]

    counts = await asyncio.gather(many(manager), many(manager), many(other))
    assert sorted(n for each in counts for n in each) == list(range(1, 31))


async def test_attempts_come_to_an_end(manager: Manager) -> None:
    tried = 0

    async def overtaken(ctx: TurnStateContext) -> None:
        nonlocal tried
        tried += 1
        await ctx.get("cart", Cart)
        await put(manager, "shop/1", 10 + tried)
        ctx.update("cart", Cart(total=-1))

    with pytest.raises(AppendConflict):
        await manager.run_turn("shop/1", overtaken, attempts=3)
    assert tried == 3
    with pytest.raises(Misuse):
        await manager.run_turn("shop/1", overtaken, attempts=0)


async def test_unchanged_state_makes_no_version(manager: Manager) -> None:
    await put(manager, "shop/1", 1)
    async with manager.turn("shop/1") as ctx:
        ctx.update("cart", await ctx.get("cart", Cart))
        ctx.update("cart", Cart(total=1))
        ctx.delete("never")
    assert len(await manager.history("shop/1")) == 1


async def test_what_is_updated_is_taken_as_it_is_then(manager: Manager) -> None:
    async with manager.turn("shop/1") as ctx:
        cart = Cart(items=["apple"])
        ctx.update("cart", cart)
        cart.items.append("pear")
        assert (await ctx.get("cart", Cart)).items == ["apple"]
        (await ctx.get("cart", Cart)).items.append("fig")
    read = await stored(manager, "shop/1")
    assert read == Cart(items=["apple"])
    read.items.append("plum")
    assert await stored(manager, "shop/1") == Cart(items=["apple"])


async def test_a_key_can_be_deleted(manager: Manager) -> None:
    await put(manager, "shop/1", 1)
    async with manager.turn("shop/1") as ctx:
        ctx.delete("cart")
        assert await ctx.get("cart", Cart) == Cart()
        assert await ctx.get_entry("cart", Cart) is None
    assert await stored(manager, "shop/1") is None
    await put(manager, "shop/1", 2)
    assert await stored(manager, "shop/1") == Cart(total=2)


async def test_state_that_is_absent_begins_with_defaults_or_what_is_given(
    manager: Manager,
) -> None:
    async with manager.turn("shop/1") as ctx:
        assert await ctx.get("cart", Cart) == Cart()
        assert await ctx.get("note", Note, default=Note(text="begin")) == Note(text="begin")
        with pytest.raises(NotFound, match="default="):
            await ctx.get("note", Note)
        assert await ctx.get_entry("note", Note) is None
    assert await manager.scopes() == []


async def test_a_context_of_one_model(manager: Manager) -> None:
    async with manager.turn("shop/1") as ctx:
        carts = ctx.of(Cart)
        carts.update("a", Cart(total=1))
        carts.update("b", Cart(total=2))
        carts.reset("b")
        assert (await carts.get("a"), await carts.get("b")) == (Cart(total=1), Cart())
    assert await stored(manager, "shop/1", "a") == Cart(total=1)


async def test_a_turn_that_was_completed_by_hand_goes_on_as_another(manager: Manager) -> None:
    async with manager.turn("shop/1", expected=0) as ctx:
        ctx.update("cart", Cart(total=1))
        await ctx.complete("the first half")
        assert await stored(manager, "shop/1") == Cart(total=1)
        cart = await ctx.get("cart", Cart)
        ctx.update("cart", Cart(total=cart.total + 1))
    assert await stored(manager, "shop/1") == Cart(total=2)
    assert [v.label for v in await manager.history("shop/1")] == ["the first half", ""]


async def test_a_turn_that_has_ended_is_over(manager: Manager) -> None:
    async with manager.turn("shop/1") as ctx:
        ctx.update("cart", Cart())
    for late in (lambda: ctx.update("cart", Cart()), lambda: ctx.share("cart")):
        with pytest.raises(TurnEnded):
            late()
    with pytest.raises(TurnEnded):
        await ctx.get("cart", Cart)


async def test_an_agent_id_is_a_scope(manager: Manager) -> None:
    class AgentId:
        type = "shop"
        key = "1"

    async with manager.turn(AgentId()) as ctx:
        ctx.update("cart", Cart(total=1))
    assert await stored(manager, "shop/1") == Cart(total=1)


@pytest.mark.parametrize("scope", ["", 7, None])
async def test_what_is_no_scope_is_refused(manager: Manager, scope: Any) -> None:
    with pytest.raises(InvalidId):
        async with manager.turn(scope):
            pass


async def test_bad_keys_and_bad_values_are_refused_where_they_are_given(manager: Manager) -> None:
    class Odd(BaseModel):
        model_config = {"arbitrary_types_allowed": True}

        inner: Any = None

    async with manager.turn("shop/1") as ctx:
        with pytest.raises(InvalidId):
            ctx.update("", Cart())
        with pytest.raises(InvalidId):
            await ctx.get("", Cart)
        with pytest.raises(PayloadError, match=r"odd\.inner"):
            ctx.update("odd", Odd(inner=object()))
        with pytest.raises(PayloadError):
            ctx.update("cart", object())
    assert await manager.scopes() == []


async def test_values_come_back_exactly(manager: Manager) -> None:
    class Everything(BaseModel):
        at: dt.datetime
        price: Decimal
        raw: bytes
        tags: set[str]
        pair: tuple[int, float]
        big: int
        nested: dict[str, list[Cart]]

    value = Everything(
        at=dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC),
        price=Decimal("9.90"),
        raw=b"\xff\x00",
        tags={"a", "b"},
        pair=(1, 0.5),
        big=2**70,
        nested={"carts": [Cart(items=["x"])]},
    )
    async with manager.turn("shop/1") as ctx:
        ctx.update("everything", value)
    entry = await manager.get_agent_state("shop/1", "everything", Everything)
    assert entry is not None
    assert entry.state == value


@dataclass(frozen=True)
class Stop:
    place: str
    at: dt.datetime


@dataclass
class Journey:
    stops: list[Stop] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    state_version: ClassVar[int] = 2


STOP = Stop("Oslo", dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC))


@pytest.mark.parametrize(
    ("state", "type_"),
    [
        (Journey([STOP], {"a", "b"}), Journey),
        ([STOP, STOP], list[Stop]),
        ({"o": STOP}, dict[str, Stop]),
        (STOP.at, dt.datetime),
        ((1, (2, 3)), tuple[int, tuple[int, int]]),
        ({1, 2}, set[int]),
        ({"plain": [1, None]}, dict[str, Any]),
    ],
)
async def test_state_is_of_any_type_and_is_exported(
    open_manager: OpenManager, state: Any, type_: Any
) -> None:
    one, two = await open_manager("one"), await open_manager("two")
    async with one.turn("shop/1") as ctx:
        ctx.update("state", state)
        assert await ctx.get("state", type_) == state
    await two.load_state(json.loads(json.dumps(await one.dump_state())))
    for manager in (one, two):
        entry = await manager.get_agent_state("shop/1", "state", type_)
        assert entry is not None
        assert entry.state == state


async def test_what_has_no_state_begins_as_its_type_does(manager: Manager) -> None:
    async with manager.turn("shop/1") as ctx:
        assert await ctx.get("journey", Journey) == Journey()
        assert await ctx.get("tags", set[str]) == set()
        with pytest.raises(NotFound, match="datetime"):
            await ctx.get("at", dt.datetime)


async def test_a_model_is_not_read_as_another_and_plain_data_is_read_as_what_fits(
    manager: Manager,
) -> None:
    async with manager.turn("shop/1") as ctx:
        ctx.update("cart", Cart(total=1))
        ctx.update("plain", {"total": 2})
        assert await ctx.get("cart", dict[str, Any]) == {"items": [], "total": 1}
        assert await ctx.get("plain", Cart) == Cart(total=2)
        with pytest.raises(IncompatibleAgentState, match="another type"):
            await ctx.get("cart", Journey)
        with pytest.raises(IncompatibleAgentState):
            await ctx.get("plain", list[int])


async def test_a_turn_may_be_awaited_and_completed_by_its_caller(manager: Manager) -> None:
    ctx = await manager.turn("shop/1", label="by hand")
    ctx.update("cart", Cart(total=1))
    assert await stored(manager, "shop/1") is None
    await ctx.complete()
    assert await stored(manager, "shop/1") == Cart(total=1)
    assert [v.label for v in await manager.history("shop/1")] == ["by hand"]


async def test_the_keys_of_an_agent_as_its_turn_sees_them(manager: Manager) -> None:
    await put(manager, "shop/1", 1, key="one")
    await put(manager, "shop/1", 2, key="two")
    async with manager.turn("shop/1") as ctx:
        ctx.delete("one")
        ctx.update("three", Cart())
        assert await ctx.keys() == ["two", "three"]


async def test_a_cleared_scope_holds_nothing_and_keeps_its_history(
    manager: Manager, open_manager: OpenManager
) -> None:
    first = await put(manager, "shop/1", 1)
    await put(manager, "shop/1", 2, key="other")
    await put(manager, "shop/2", 3)
    await manager.delete("shop/1")
    other = await open_manager()
    assert list(await other.dump_state()) == ["shop/2"]
    then = await other.get_agent_states("shop/1", Cart, version=first)
    assert then["cart"].state.total == 1
    assert [v.label for v in await other.history("shop/1")][-1] == "deleted"
    await put(manager, "shop/1", 4)
    assert await stored(manager, "shop/1") == Cart(total=4)


async def test_a_large_state_is_stored_and_changed(
    manager: Manager, open_manager: OpenManager
) -> None:
    items = [f"{number:07}" * 100 for number in range(3000)]
    async with manager.turn("shop/1") as ctx:
        ctx.update("cart", Cart(items=items))
        ctx.update("note", Note(text="beside it"))
    async with manager.turn("shop/1") as ctx:
        ctx.update("cart", Cart(items=[*items, "one more"]))
    other = await open_manager()
    assert await stored(other, "shop/1") == Cart(items=[*items, "one more"])
    assert len(await other.history("shop/1")) == 2
