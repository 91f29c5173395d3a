"""Deciding on a kind of one's own."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

import foldlog
from foldlog.scoped import Scope, VersionConflict
from foldlog.store.core import core_of
from foldlog.store.decisions import At, Decided, decide_drafts
from foldlog.store.payloads import encode
from tests.conftest import OpenStore

MANY = 3000
AT_ONCE = 500


class Made(msgspec.Struct, frozen=True):
    number: int


class Once(msgspec.Struct, frozen=True):
    number: int


COUNTS = foldlog.Kind(
    "counts", keys=("name",), records={"count.made": Made}, fold=foldlog.every, id=foldlog.fresh_id
)


async def test_a_decision_sees_all_of_a_long_view(reopen: OpenStore) -> None:
    store = await reopen(kinds=[COUNTS])
    for start in range(0, MANY, AT_ONCE):
        await store.append(COUNTS("a"), *map(Made, range(start, start + AT_ONCE)))
        await store.items(COUNTS("a"), limit=1)  # a reader makes a view, and that its snapshot
    await store.close()

    store = await reopen(kinds=[COUNTS])
    await store.items(COUNTS("a"), limit=1)
    decided = await store.decide(
        COUNTS("a"), lambda made: [Made(sum(each.number for each in made))]
    )
    assert list(decided) == [Made(sum(range(MANY)))]


async def test_of_those_who_decide_at_once_each_sees_who_was_before(reopen: OpenStore) -> None:
    stores = [await reopen(kinds=[COUNTS]) for _ in range(2)]
    decide = [
        store.decide(COUNTS("a"), lambda made: [Made(len(made))])
        for store in stores
        for _ in range(10)
    ]
    await asyncio.gather(*decide)
    made = await stores[0].view(COUNTS("a"), consistency="strong")
    assert made == [Made(n) for n in range(20)]


async def test_a_repeat_proves_that_nobody_has_written_to_its_view(
    reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = foldlog.Kind(
        "once",
        keys=("name",),
        records={"once.made": Once},
        fold=foldlog.every,
        id=foldlog.content_digest,
    )
    store, other = [await reopen(kinds=[COUNTS, once]) for _ in range(2)]
    await store.append(once("a"), Once(1))
    append = core_of(store).append_at_once

    def decide(ones: list[Once], made: list[Made]) -> dict[foldlog.Key[Any], Any]:
        return {once("a"): [Once(1)], COUNTS("a"): [Made(len(ones))]}

    async def late(appends: Any) -> list[int]:
        monkeypatch.undo()
        await other.append(once("a"), Once(2))
        return await append(appends)

    monkeypatch.setattr(core_of(store), "append_at_once", late)
    await store.decide([once("a"), COUNTS("a")], decide)
    assert await other.view(COUNTS("a"), consistency="strong") == [Made(2)]


@pytest.mark.parametrize("looks", [False, True])
async def test_what_a_decision_has_not_looked_at_is_not_proved(
    reopen: OpenStore, monkeypatch: pytest.MonkeyPatch, looks: bool
) -> None:
    store = await reopen(kinds=[COUNTS])
    for name in "ab":
        await store.append(COUNTS(name), Made(0))
        await store.view(COUNTS(name))
    core, asked = core_of(store), list[str]()
    refresh = core.hot_views.refresh

    async def counted(view: Any, consistency: Any) -> None:
        asked.append(view.subject.keys[0])
        await refresh(view, consistency)

    def decide(a: At, b: At) -> dict[foldlog.Key[Any], Decided]:
        assert not looks or b.folded.state
        return {COUNTS("a"): Decided([encode(COUNTS, Made(len(a.folded.state)))])}

    monkeypatch.setattr(core.hot_views, "refresh", counted)
    await decide_drafts(core, [COUNTS("a"), COUNTS("b")], decide)
    assert asked == (["b"] if looks else [])
    assert await store.view(COUNTS("a")) == [Made(0), Made(1)]


async def test_nothing_is_refused_for_a_half_of_what_others_append(
    reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = [await reopen(kinds=[COUNTS]) for _ in range(2)]
    core = core_of(store)
    read = core.read_at
    await store.append(COUNTS("b"), Made(0))

    async def behind(*args: Any, **options: Any) -> Any:
        if options["consistency"] == "strong":  # of b: that there was nothing of a is known
            monkeypatch.undo()
            async with other.atomic():
                await other.append(COUNTS("a"), Made(0))
                await other.append(COUNTS("b"), Made(1))
        return await read(*args, **options)

    def decide(a: list[Made], b: list[Made]) -> dict[foldlog.Key[Any], Any]:
        if len(a) + 1 != len(b):
            raise foldlog.Misuse("the one has what the other lacks")
        if not a:
            raise foldlog.Misuse("nothing is there")
        return {COUNTS("a"): [Made(len(a))]}

    monkeypatch.setattr(core, "read_at", behind)
    monkeypatch.setattr(core.hot_views, "_hints", lambda _: lambda _: None)  # no push comes
    await store.decide([COUNTS("a"), COUNTS("b")], decide)
    assert await store.view(COUNTS("a")) == [Made(0), Made(1)]


async def test_views_are_decided_on_in_whatever_order_and_number(reopen: OpenStore) -> None:
    store = await reopen(kinds=[COUNTS])
    a, b = COUNTS("a"), COUNTS("b")

    async def add(*keys: foldlog.Key[Any]) -> None:
        await store.decide(keys, lambda first, _: {keys[0]: [Made(len(first))]})

    async with asyncio.timeout(30):
        await asyncio.gather(add(a, b), add(b, a), add(a, a), add(b, a))
    assert [len(each) for each in await store.views([a, b])] == [2, 2]


async def test_a_transaction_is_run_again_on_what_others_wrote(reopen: OpenStore) -> None:
    store, other = [await reopen(kinds=[COUNTS]) for _ in range(2)]
    runs = 0

    async def body() -> int:
        nonlocal runs
        runs += 1
        await store.decide(COUNTS("a"), lambda made: [Made(len(made))])
        await store.append(COUNTS("b"), Made(runs))
        if runs == 1:
            await other.append(COUNTS("a"), Made(100))
        return runs

    assert await store.transact(body) == 2
    assert await store.view(COUNTS("a"), consistency="strong") == [Made(100), Made(1)]
    assert await store.view(COUNTS("b"), consistency="strong") == [Made(2)]


async def test_a_transaction_inside_a_block_runs_once_and_goes_with_it(reopen: OpenStore) -> None:
    store, other = [await reopen(kinds=[COUNTS]) for _ in range(2)]
    runs = 0

    async def body() -> None:
        nonlocal runs
        runs += 1
        await store.decide(COUNTS("a"), lambda made: [Made(len(made))])
        await other.append(COUNTS("a"), Made(100))

    with pytest.raises(foldlog.AppendConflict):
        async with store.atomic():
            await store.transact(body)
    assert runs == 1
    assert await store.view(COUNTS("a"), consistency="strong") == [Made(100)]


async def test_a_transaction_that_others_keep_from_being_stored_is_given_up(
    reopen: OpenStore,
) -> None:
    store, other = [await reopen(kinds=[COUNTS]) for _ in range(2)]

    async def body() -> None:
        await store.decide(COUNTS("a"), lambda made: [Made(len(made))])
        await other.append(COUNTS("a"), Made(100))

    with pytest.raises(foldlog.AppendConflict):
        await store.transact(body, timeout=0)
    assert await store.view(COUNTS("a"), consistency="strong") == [Made(100)]


async def test_what_a_transaction_raises_of_its_own_is_raised_at_once(reopen: OpenStore) -> None:
    store, runs = await reopen(), 0

    async def body() -> None:
        nonlocal runs
        runs += 1
        await store.scoped.write(Scope.session("s"), "key", runs, expected="another")

    with pytest.raises(VersionConflict):
        await store.transact(body)
    assert runs == 1
