"""Tokens: what they open, for whom and until when, on every repository."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from foldlog.agents import (
    ShareRefused,
    ShareToken,
)
from foldlog.errors import AppendConflict, PayloadError
from tests.agents.conftest import Cart, OpenManager
from tests.agents.support import Manager, put, stored


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
