"""What agent state costs on a log, what it looks like there, and what may come in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any

import pytest

import foldlog
from foldlog.agents import ShareRefused, ledger
from foldlog.errors import AppendConflict, AppendUnknown, LogUnavailable, StoreClosed
from foldlog.log.port import Append
from foldlog.store.core import core_of
from tests.agents.conftest import Cart, Secret
from tests.conftest import OpenStore
from tests.support.stores import EmbeddedBackend, MemoryBackend, appended


@pytest.fixture(params=["memory", "embedded"])
def backend(request: pytest.FixtureRequest) -> object:
    """The two kinds of log, without the container."""
    if request.param == "memory":
        return MemoryBackend()
    return EmbeddedBackend(request.getfixturevalue("embedded_path"))


async def put(store: foldlog.Store, cart: Cart, scope: str = "shop/1") -> None:
    async with store.agents.turn(scope) as ctx:
        ctx.update("cart", cart)


class Calls:
    """Counts what a store asks of its log."""

    def __init__(self, store: foldlog.Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[str] = []
        for name in ("append", "read", "last", "follow"):
            self._count(store, monkeypatch, name)

    def _count(self, store: foldlog.Store, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        original = getattr(store._core.log, name)

        def counted(*args: object, **kwargs: object) -> object:
            self.made.append(name)
            return original(*args, **kwargs)

        monkeypatch.setattr(store._core.log, name, counted)


# --- what it costs ------------------------------------------------------------------------------


async def test_state_that_is_not_touched_is_never_loaded(
    store: foldlog.Store, reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(store, Cart(total=1))
    other = await reopen()
    calls = Calls(other, monkeypatch)
    async with other.agents.turn("shop/1"):
        pass
    async with other.agents.turn("shop/1") as ctx:
        ctx.update("cart", Cart(total=5))
        ctx.reset("cart")
    assert calls.made == []


async def test_unchanged_state_appends_nothing(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(store, Cart(total=1))
    async with store.agents.turn("shop/1") as ctx:
        cart = await ctx.get("cart", Cart)
    before = await appended(store)
    calls = Calls(store, monkeypatch)
    async with store.agents.turn("shop/1") as ctx:
        ctx.update("cart", cart)
    assert "append" not in calls.made
    assert await appended(store) == before


async def test_hot_state_is_answered_from_memory(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(store, Cart(total=1))
    entry = await store.agents.get_agent_state("shop/1", "cart", Cart)
    calls = Calls(store, monkeypatch)
    for _ in range(10):
        assert await store.agents.get_agent_state("shop/1", "cart", Cart) == entry
    assert calls.made == []


async def test_a_turn_is_one_append(store: foldlog.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(store, monkeypatch)
    async with store.agents.turn("shop/1") as ctx:
        ctx.update("cart", Cart(total=1))
        ctx.update("other", Cart(total=2))
        token = ctx.share("cart", writable=True)
    async with store.agents.turn("clerk/1") as ctx:
        ctx.update("own", Cart(total=3))
        ctx.update(token, Cart(total=4))
    assert calls.made.count("append") == 2


async def test_a_small_change_of_a_large_state_is_small_on_the_log(store: foldlog.Store) -> None:
    items = [f"item {number}" for number in range(5000)]
    await put(store, Cart(items=items))
    before = sum(stream.bytes for stream in (await store.health()).streams)
    await put(store, Cart(items=[*items, "one more"]))
    after = sum(stream.bytes for stream in (await store.health()).streams)
    assert after - before < 1000


# --- what it looks like -------------------------------------------------------------------------


async def test_no_token_is_on_the_log(store: foldlog.Store) -> None:
    async with store.agents.turn("shop/1") as ctx:
        ctx.update("secret", Secret(password="open sesame"))
        token = ctx.share("secret")
    for subject in await store._core.log.subjects():
        assert token not in subject.name
        async with aclosing(store._core.log.read(subject)) as pages:
            async for records in pages:
                for record in records:
                    assert all(token.encode() not in e.payload for e in record.envelopes)


@pytest.mark.parametrize("scope", ["shop/1", "a.b*c> d/é", "x" * 500])
async def test_any_scope_key_and_name_will_do(
    store: foldlog.Store, reopen: OpenStore, scope: str
) -> None:
    other = await reopen()
    for each in (store, other):
        manager = each.agents.repository.create_manager(Cart, scope)
        async with manager.turn(scope) as ctx:
            cart = await ctx.get(scope, Cart)
            ctx.update(scope, Cart(total=cart.total + 1))
    assert await manager.scopes() == [scope]
    assert (await manager.dump_state())[scope][scope]["state"]["total"] == 2


async def test_a_manager_has_its_scopes_on_one_shard(reopen: OpenStore) -> None:
    store = await reopen(shards=4, namespace="sharded agents")
    async with store.agents.turn("shop/1") as ctx:
        ctx.update("cart", Cart(total=1))
        token = ctx.share("cart", writable=True)
    for number in range(12):
        async with store.agents.turn(f"clerk/{number}") as ctx:
            ctx.update("own", Cart(total=number))
            ctx.update(token, Cart(total=number))
    assert len(await store.agents.scopes()) == 13
    shards = {s.shard for s in await store._core.log.subjects() if s.family.startswith("agent")}
    assert len(shards) == 1


async def test_state_that_is_not_persisted_is_shared_in_the_process_alone(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    before = await appended(store)
    create = store.agents.repository.create_manager
    one, two = (create(Cart, "board", persisted=False) for _ in range(2))
    async with one.turn("shop/1") as ctx:
        ctx.update("cart", Cart(total=1))
        token = ctx.share("cart")
    entry = await two.get_agent_state("clerk/1", token, Cart)
    assert entry is not None
    assert entry.state == Cart(total=1)
    assert await appended(store) == before
    other = (await reopen()).agents.repository.create_manager(Cart, "board", persisted=False)
    assert await other.scopes() == []
    assert await create(Cart, "board").scopes() == []


async def test_the_managers_of_a_store_are_listed(store: foldlog.Store) -> None:
    repository = store.agents.repository
    assert await repository.managers() == []
    for name in ("run 2", "run/1"):
        async with repository.create_manager(Cart, name).turn("shop/1") as ctx:
            ctx.update("cart", Cart())
    assert await repository.managers() == ["run 2", "run/1"]


async def test_a_rebuild_finds_the_same(store: foldlog.Store) -> None:
    for total in range(5):
        await put(store, Cart(total=total, items=["x"] * total))
        await store.agents.get_agent_state("shop/1", "cart", Cart)
    report = await store.rebuild()
    assert report.differing == ()
    assert {"agentstates", "agentlist"} <= set(report.projections)
    entry = await store.agents.get_agent_state("shop/1", "cart", Cart)
    assert entry is not None
    assert entry.state.total == 4


async def test_a_store_that_is_cleared_has_no_agents(store: foldlog.Store) -> None:
    async with store.agents.turn("shop/1") as ctx:
        ctx.update("cart", Cart(total=1))
        token = ctx.share("cart")
    await store.clear(store.log.namespace.name)
    assert await store.agents.scopes() == []
    assert await store.agents.get_agent_state("shop/1", "cart", Cart) is None
    with pytest.raises(ShareRefused):
        await store.agents.get_agent_state("clerk/1", token, Cart)
    await put(store, Cart(total=2))
    assert await store.agents.scopes() == ["shop/1"]


async def test_turns_inside_an_atomic_block_go_with_it(store: foldlog.Store) -> None:
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the block is tested
        async with store.atomic():
            await put(store, Cart(total=1))
            raise ZeroDivisionError
    assert await store.agents.get_agent_state("shop/1", "cart", Cart) is None
    async with store.atomic():
        async with store.agents.turn("shop/1") as turn:
            turn.update("cart", Cart(total=1))
        assert turn.version == 0
    entry = await store.agents.get_agent_state("shop/1", "cart", Cart)
    assert entry is not None
    assert entry.version > 0


# --- what may come in between -------------------------------------------------------------------


@pytest.fixture
async def contended(store: foldlog.Store, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Has the log refuse each append once as servers do that see a write in flight."""
    original, refused = store._core.log.append, list[str]()

    async def append(appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        subject = appends[0].subject.name
        if subject not in refused:
            refused.append(subject)
            raise AppendConflict(subject, appends[0].expect or 0, None)
        return await original(appends, atomic=atomic)

    monkeypatch.setattr(store._core.log, "append", append)
    return refused


async def test_a_write_in_flight_that_comes_to_nothing_is_no_conflict(
    store: foldlog.Store, contended: list[str]
) -> None:
    await put(store, Cart(total=1))
    assert len(contended) == 1
    entry = await store.agents.get_agent_state("shop/1", "cart", Cart)
    assert entry is not None


async def test_a_write_in_flight_that_comes_through_is_a_conflict_with_both_versions(
    store: foldlog.Store, reopen: OpenStore, contended: list[str]
) -> None:
    other = await reopen()
    with pytest.raises(AppendConflict) as caught:  # noqa: PT012 - the turn is tested
        async with store.agents.turn("shop/1") as ctx:
            await ctx.get("cart", Cart)
            await put(other, Cart(total=2))
            ctx.update("cart", Cart(total=1))
    assert caught.value.expected == 0
    assert caught.value.actual is not None
    assert caught.value.actual > 0


async def test_a_turn_whose_outcome_was_lost_is_settled_by_the_log(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(store, Cart(total=1))
    original = store._core.log.append

    async def append(appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        await original(appends, atomic=atomic)
        raise AppendUnknown(["x"], "lost")

    monkeypatch.setattr(store._core.log, "append", append)
    await put(store, Cart(total=2))
    entry = await store.agents.get_agent_state("shop/1", "cart", Cart)
    assert entry is not None
    assert entry.state.total == 2
    assert len(await store.agents.history("shop/1")) == 2


async def test_after_a_cancelled_turn_a_read_asks_the_log(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a push has come or not."""
    await put(store, Cart(total=1))
    assert await store.agents.get_agent_state("shop/1", "cart", Cart) is not None
    original = store._core.log.append

    async def append(appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        await original(appends, atomic=atomic)
        raise asyncio.CancelledError

    monkeypatch.setattr(store._core.log, "append", append)
    with pytest.raises(asyncio.CancelledError):
        await put(store, Cart(total=2))
    calls = Calls(store, monkeypatch)
    entry = await store.agents.get_agent_state("shop/1", "cart", Cart)
    assert entry is not None
    assert entry.state.total == 2
    assert calls.made != []


async def test_a_token_that_has_expired_since_opened_then(
    store: foldlog.Store, advance_clock: Callable[[float], None]
) -> None:
    async with store.agents.turn("shop/1") as ctx:
        ctx.update("cart", Cart(total=1))
        token = ctx.share("cart", ttl=60)
    then = await store.position()
    advance_clock(100)
    with pytest.raises(ShareRefused):
        await store.agents.get_agent_state("clerk/1", token, Cart)
    async with store.at(then) as past:
        assert await past.agents.get_agent_state("clerk/1", token, Cart) is not None


async def test_a_dump_of_many_agents_is_loaded_in_one_append(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = {"cart": {"type": "Cart", "version": 1, "state": {"total": 1}}}
    calls = Calls(store, monkeypatch)
    await store.agents.load_state({f"shop/{number}": state for number in range(900)})
    assert calls.made.count("append") == 1
    assert len(await store.agents.scopes()) == 900


async def test_a_watcher_waits_an_outage_out(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(store, Cart(total=1))
    read = core_of(store).log.read
    failures = [LogUnavailable("gone again"), LogUnavailable("gone")]

    async def breaking(*args: Any, **options: Any) -> AsyncGenerator[Any]:
        if len(failures) > 1:
            raise failures.pop()
        async with aclosing(read(*args, **options)) as pages:
            async for page in pages:
                for record in page:
                    yield [record]
                    if failures:
                        raise failures.pop()

    async with aclosing(store.agents.watch("shop/1", after=0)) as changes:
        monkeypatch.setattr(ledger, "_RETRY_SECONDS", 0)
        assert (await anext(changes)).changes[0].after == {"items": [], "total": 1}
        await put(store, Cart(total=2))
        await put(store, Cart(total=3))
        monkeypatch.setattr(core_of(store).log, "read", breaking)
        totals = [(await anext(changes)).changes[0].after for _ in range(2)]
    assert [after and after["total"] for after in totals] == [2, 3]
    assert failures == []


async def test_a_store_of_the_past_has_the_agents_of_then(store: foldlog.Store) -> None:
    await put(store, Cart(total=1))
    then = await store.position()
    await put(store, Cart(total=2))
    await put(store, Cart(total=3), scope="shop/2")
    async with store.at(then) as past:
        entry = await past.agents.get_agent_state("shop/1", "cart", Cart)
        assert entry is not None
        assert entry.state.total == 1
        assert await past.agents.scopes() == ["shop/1"]
        dump = await past.agents.dump_state()
        assert dump["shop/1"]["cart"]["state"]["total"] == 1
        seen = [change.version async for change in past.agents.watch("shop/1", after=0)]
        assert seen == [entry.version]
        with pytest.raises(foldlog.FoldlogError, match="read"):
            async with past.agents.turn("shop/1") as ctx:
                ctx.update("cart", Cart(total=9))


async def test_a_watcher_ends_with_its_store(reopen: OpenStore) -> None:
    store = await reopen()
    await put(store, Cart(total=1))
    async with aclosing(store.agents.watch("shop/1", after=0)) as changes:
        await anext(changes)
        waiting = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)
        await store.close()
        with pytest.raises(StoreClosed):
            await waiting
