"""What every state manager owes: the same tests for memory and for logs."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, RootModel

from foldlog.agents import (
    RUNTIME_SCOPE,
    AgentStateEntry,
    AgentStates,
    ExportableStateManager,
    ShareRefused,
    ShareToken,
    StateAbsent,
    StateManager,
    TurnEnded,
    TurnStateContext,
)
from foldlog.agents.backend import Loaded
from foldlog.errors import AppendConflict, ConfigurationError, InvalidId, PayloadError
from foldlog.views import Consistency
from tests.agents.conftest import Cart, Note, OpenManager, Run, Secret

Manager = AgentStates[Run]


async def stored(manager: Manager, scope: str, key: str = "cart") -> Cart | None:
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
    original, results = manager._backend.load, list[int]()

    async def load(wanted: str, consistency: Consistency) -> Loaded:
        loaded = await original(wanted, consistency)
        if wanted == scope and not results:
            monkeypatch.setattr(manager._backend, "load", original)
            results.append(await act())
        return loaded

    monkeypatch.setattr(manager._backend, "load", load)
    return results


# --- a turn -------------------------------------------------------------------------------------


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
    assert len(await manager.versions("shop/1")) == 1


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
    assert len(await manager.versions("shop/1")) == 1


async def test_a_turn_of_several_keys_is_one_version(manager: Manager) -> None:
    async with manager.turn("shop/1", label="both") as ctx:
        ctx.update("cart", Cart(total=1))
        ctx.update("note", Note(text="x"))
    [version] = await manager.versions("shop/1")
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
    with pytest.raises(ConfigurationError):
        await manager.run_turn("shop/1", overtaken, attempts=0)


async def test_unchanged_state_makes_no_version(manager: Manager) -> None:
    await put(manager, "shop/1", 1)
    async with manager.turn("shop/1") as ctx:
        ctx.update("cart", await ctx.get("cart", Cart))
        ctx.update("cart", Cart(total=1))
        ctx.delete("never")
    assert len(await manager.versions("shop/1")) == 1


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
        with pytest.raises(StateAbsent, match="default="):
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
    assert [v.label for v in await manager.versions("shop/1")] == ["the first half", ""]


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
            ctx.update("cart", {"total": 1})  # type: ignore[arg-type]  # that is the test
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
    assert len(await other.versions("shop/1")) == 2


# --- entries ------------------------------------------------------------------------------------


async def test_an_entry_is_set_at_the_version_it_has(manager: Manager) -> None:
    new = await manager.set_agent_state(AgentStateEntry("shop/1", "cart", Cart, 0, Cart(total=1)))
    assert new.version > 0
    await put(manager, "shop/1", 5, key="other")  # another key is no conflict
    newer = await manager.set_agent_state(
        AgentStateEntry("shop/1", "cart", Cart, new.version, Cart(total=2))
    )
    with pytest.raises(AppendConflict) as caught:
        await manager.set_agent_state(new)
    assert (caught.value.expected, caught.value.actual) == (new.version, newer.version)
    assert await stored(manager, "shop/1") == Cart(total=2)


async def test_an_entry_is_not_set_over_what_came_in_between(
    manager: Manager, open_manager: OpenManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await open_manager()
    first = await put(manager, "shop/1", 1)
    came = after_a_load(manager, monkeypatch, "shop/1", lambda: put(other, "shop/1", 50))
    with pytest.raises(AppendConflict) as caught:
        await manager.set_agent_state(AgentStateEntry("shop/1", "cart", Cart, first, Cart(total=2)))
    assert (caught.value.expected, [caught.value.actual]) == (first, came)
    entry = await manager.get_agent_state("shop/1", "cart", Cart, consistency="strong")
    assert entry is not None
    assert entry.state == Cart(total=50)


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


# --- history ------------------------------------------------------------------------------------


async def test_every_version_can_be_read_and_compared(manager: Manager) -> None:
    first = await put(manager, "shop/1", 1)
    await put(manager, "shop/1", 2, key="other")
    async with manager.turn("shop/1") as ctx:
        ctx.update("cart", Cart(total=3, items=["x"]))
        ctx.delete("other")
    last = ctx.version or 0
    assert [v.label for v in await manager.versions("shop/1")] == ["put 1", "put 2", ""]
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
    async with aclosing(other.watch("shop/1", since=0)) as changes:
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


async def test_a_watcher_without_a_version_hears_what_is_new(manager: Manager) -> None:
    await put(manager, "shop/1", 1)
    async with aclosing(manager.watch("shop/1")) as changes:
        heard = asyncio.ensure_future(anext(changes))
        while not heard.done():
            # It begins when it is first asked; whatever it hears was put after that.
            await put(manager, "shop/1", len(await manager.versions("shop/1")) + 1)
        assert (await heard).label != "put 1"


# --- shares -------------------------------------------------------------------------------------


async def test_a_token_opens_the_live_value(manager: Manager, open_manager: OpenManager) -> None:
    async with manager.turn("shop/1") as ctx:
        ctx.update("cart", Cart(total=1))
        token = ctx.share("cart")
    other = await open_manager()
    received = ShareToken(str(token))
    for total in (1, 2, 3):
        if total > 1:
            await put(manager, "shop/1", total)
        entry = await other.get_agent_state("clerk/1", received, Cart, consistency="strong")
        assert entry is not None
        assert (entry.scope, entry.key, entry.state.total) == ("shop/1", "cart", total)
        async with other.turn("clerk/1", consistency="strong") as ctx:
            assert (await ctx.get(received, Cart)).total == total


async def test_a_token_of_a_turn_that_fails_opens_nothing(manager: Manager) -> None:
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the turn is tested
        async with manager.turn("shop/1") as ctx:
            token = ctx.share("cart")
            raise ZeroDivisionError
    async with manager.turn("clerk/1") as ctx:
        with pytest.raises(ShareRefused):
            await ctx.get(token, Cart)


async def test_who_may_write_by_a_token_and_who_may_not(manager: Manager) -> None:
    async with manager.turn("shop/1") as ctx:
        ctx.update("cart", Cart(total=1))
        read, write = ctx.share("cart"), ctx.share("cart", writable=True)
    with pytest.raises(ShareRefused, match="read-only"):  # noqa: PT012 - the turn is tested
        async with manager.turn("clerk/1") as ctx:
            ctx.update("own", Cart(total=7))
            ctx.update(read, Cart(total=2))
    async with manager.turn("clerk/1") as ctx:
        await ctx.get(read, Cart)
        with pytest.raises(ShareRefused, match="read-only"):
            ctx.update(read, Cart(total=2))
    assert await stored(manager, "clerk/1", "own") is None
    async with manager.turn("clerk/1") as ctx:
        ctx.update("own", Cart(total=7))
        ctx.update(write, Cart(total=2))
        assert (await ctx.get(write, Cart)).total == 2
        assert (await ctx.get(read, Cart)).total == 2
    assert await stored(manager, "shop/1") == Cart(total=2)
    assert await stored(manager, "clerk/1", "own") == Cart(total=7)


async def test_a_turn_over_a_share_is_all_or_nothing(manager: Manager) -> None:
    async with manager.turn("shop/1") as ctx:
        ctx.update("cart", Cart(total=1))
        token = ctx.share("cart", writable=True)
    first = ctx.version
    with pytest.raises(AppendConflict) as caught:  # noqa: PT012 - the turn is tested
        async with manager.turn("clerk/1") as ctx:
            cart = await ctx.get(token, Cart)
            second = await put(manager, "shop/1", 5)
            ctx.update("own", Cart(total=7))
            ctx.update(token, Cart(total=cart.total + 1))
    # What conflicts is the shared scope, not the turn's own.
    assert (caught.value.expected, caught.value.actual) == (first, second)
    assert await stored(manager, "shop/1") == Cart(total=5)
    assert await stored(manager, "clerk/1", "own") is None


async def test_a_revoked_token_opens_nothing_anywhere(
    manager: Manager, open_manager: OpenManager
) -> None:
    other = await open_manager()
    async with manager.turn("shop/1") as ctx:
        ctx.update("cart", Cart(total=1))
        token = ctx.share("cart", writable=True)
    async with other.turn("clerk/1") as ctx:
        assert (await ctx.get(token, Cart)).total == 1
    await manager.revoke(token)
    with pytest.raises(ShareRefused):
        await other.get_agent_state("clerk/1", token, Cart)
    with pytest.raises(ShareRefused):
        async with other.turn("clerk/1") as ctx:
            ctx.update(token, Cart(total=9))
    assert await stored(manager, "shop/1") == Cart(total=1)


async def test_what_was_opened_before_a_revocation_is_not_written_after_it(
    manager: Manager, open_manager: OpenManager
) -> None:
    other = await open_manager()
    async with manager.turn("shop/1") as ctx:
        ctx.update("cart", Cart(total=1))
        token = ctx.share("cart", writable=True)
    with pytest.raises(ShareRefused, match="revoked"):  # noqa: PT012 - the turn is tested
        async with other.turn("clerk/1") as ctx:
            cart = await ctx.get(token, Cart)
            ctx.update("own", cart)
            ctx.update(token, Cart(total=cart.total + 1))
            await manager.revoke(token)
    assert await stored(manager, "shop/1") == Cart(total=1)
    assert await stored(other, "clerk/1", "own") is None


async def test_of_updates_by_a_token_and_by_the_key_the_last_one_stands(manager: Manager) -> None:
    async with manager.turn("shop/1") as ctx:
        one, two = ctx.share("cart", writable=True), ctx.share("cart", writable=True)
    async with manager.turn("shop/1") as ctx:
        ctx.update(one, Cart(total=1))
        ctx.update(two, Cart(total=2))
        assert (await ctx.get(one, Cart)).total == 1  # that two opens the same is not known yet
    assert await stored(manager, "shop/1") == Cart(total=2)
    async with manager.turn("shop/1") as ctx:
        ctx.update(one, Cart(total=3))
        ctx.update("cart", Cart(total=4))
    assert await stored(manager, "shop/1") == Cart(total=4)


async def test_a_version_is_expected_also_of_a_turn_that_only_writes_elsewhere(
    manager: Manager,
) -> None:
    async with manager.turn("shop/1") as ctx:
        ctx.update("cart", Cart(total=1))
        token = ctx.share("cart", writable=True)
    await put(manager, "clerk/1", 1)
    with pytest.raises(AppendConflict) as caught:
        async with manager.turn("clerk/1", expected=0) as late:
            late.update(token, Cart(total=2))
    assert caught.value.expected == 0
    assert await stored(manager, "shop/1") == Cart(total=1)


async def test_a_token_expires(manager: Manager, advance_clock: Callable[[float], None]) -> None:
    async with manager.turn("shop/1") as ctx:
        ctx.update("cart", Cart(total=1))
        short, long = ctx.share("cart", ttl=60), ctx.share("cart", ttl=6000)
    for token in (short, long):
        assert await manager.get_agent_state("clerk/1", token, Cart) is not None
    advance_clock(100)
    assert await manager.get_agent_state("clerk/1", long, Cart) is not None
    with pytest.raises(ShareRefused):
        await manager.get_agent_state("clerk/1", short, Cart)


async def test_tokens_cannot_be_guessed_and_do_not_show_themselves(manager: Manager) -> None:
    async with manager.turn("shop/1") as ctx:
        ctx.update("cart", Cart())
        tokens = {ctx.share("cart") for _ in range(50)}
        with pytest.raises(ShareRefused):
            ctx.share(next(iter(tokens)))
        with pytest.raises(PayloadError):
            ctx.share("cart", ttl=0)
    assert len(tokens) == 50
    assert all(len(token) >= 43 and token not in repr(token) for token in tokens)
    for guess in ("", "x", "shop/1", "é" * 50, "\ud800"):
        with pytest.raises(ShareRefused):
            await manager.get_agent_state("clerk/1", ShareToken(guess), Cart)


# --- exports ------------------------------------------------------------------------------------


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


async def test_state_that_cannot_be_exported_exports_as_empty_and_stays(
    manager: Manager,
) -> None:
    class Raw(BaseModel):
        raw: bytes = b"\xff"

    async with manager.turn("shop/1") as ctx:
        ctx.update("secret", Secret(password="open sesame"))
        ctx.update("raw", Raw())
        ctx.update("cart", Cart(total=1))
    dump = await manager.dump_state()
    assert {key: held["state"] for key, held in dump["shop/1"].items()} == {
        "secret": {},
        "raw": {},
        "cart": {"items": [], "total": 1},
    }
    await manager.load_state(dump)
    entry = await manager.get_agent_state("shop/1", "secret", Secret)
    assert entry is not None
    assert entry.state.password == "open sesame"


@pytest.mark.parametrize("dump", [{"shop/1": 1}, {"shop/1": {"cart": {"state": {}}}}, {1: {}}])
async def test_what_is_no_dump_is_refused(manager: Manager, dump: Any) -> None:
    with pytest.raises(PayloadError):
        await manager.load_state(dump)
    assert await manager.scopes() == []
