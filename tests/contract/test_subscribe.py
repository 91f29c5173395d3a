"""A subscription yields what takes effect in any view: typed, once, from a position on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from itertools import pairwise
from typing import Any

import pytest

import foldlog
from foldlog import LogItem, LogPosition
from foldlog.envelope import Recorded
from foldlog.kinds import memory, updates
from foldlog.store import subscribing
from foldlog.store.core import core_of
from foldlog.views import views
from tests.conftest import OpenStore
from tests.support.build import event, task, update

PATIENCE = 20.0


async def all_of(store: foldlog.Store, *kinds: str, **options: Any) -> list[LogItem]:
    found = store.subscribe(kinds or None, live=False, **options)
    return [item async for item in found]


def ids(items: list[LogItem]) -> list[str]:
    return [each.id for each in items]


async def test_every_record_comes_typed_with_its_view_and_place(store: foldlog.Store) -> None:
    await store.save_update(update("u", "trip", content={"n": 1}))
    await store.save_event(event("trace"))
    await store.save_task(task("t", "trip"))
    found = await all_of(store)
    of_update = next(each for each in found if each.kind == "updates")
    [item] = await store.items(updates("trip"))
    assert of_update.record == item.record
    assert (of_update.id, of_update.type, of_update.ts) == (item.id, item.type, item.ts)
    assert (of_update.keys, of_update.was_cleared) == (("trip",), False)
    assert of_update.recorded_at == item.recorded_at
    assert {"updates", "events", "tasks"} <= {each.kind for each in found}


async def test_it_goes_on_behind_any_item_without_gap_or_repeat(store: foldlog.Store) -> None:
    async with store.atomic():  # one record of several envelopes
        for n in range(3):
            await store.save_update(update(f"a{n}", "one"))
    for n in range(3):
        await store.save_update(update(f"b{n}", "two"))
    found = await all_of(store)
    for number, item in enumerate(found):
        assert "~" in str(item.position)  # so that another log is noticed
        behind = await all_of(store, after=LogPosition.parse(str(item.position)))
        assert ids(behind) == ids(found[number + 1 :])
        before = [each async for each in store.at(item.position).subscribe()]
        assert ids(before) == ids(found[: number + 1])
    assert await all_of(store, after=await store.position()) == []


@pytest.mark.parametrize("remembered", [200_000, 1])
async def test_a_repeat_has_no_effect_also_behind_a_position(
    store: foldlog.Store, reopen: OpenStore, monkeypatch: pytest.MonkeyPatch, remembered: int
) -> None:
    monkeypatch.setattr(subscribing, "_REMEMBERED", remembered)
    for session in ("one", "two"):
        for n in range(3):
            await store.save_update(update(f"u{n}", session))
    middle = (await all_of(store, "updates"))[3].position
    await repeat_in_the_log(store, "one", "u1")
    await repeat_in_the_log(store, "two", "u2")
    await store.save_update(update("u3", "one"))
    assert ids(await all_of(store, "updates")) == ["u0", "u1", "u2", "u0", "u1", "u2", "u3"]
    assert ids(await all_of(store, "updates", after=middle)) == ["u1", "u2", "u3"]
    assert ids(await all_of(await reopen(), "updates", after=middle)) == ["u1", "u2", "u3"]


async def repeat_in_the_log(store: foldlog.Store, session: str, id: str) -> None:
    """As a process does whose memory has nothing of the session: a record that is there again."""
    core, key = core_of(store), updates(session)
    [item] = [each for each in await store.items(key) if each.id == id]
    subject, [draft] = core.drafts("test", key, item.record)
    assert draft.id == id
    await core.log.append([core._log.stamped(subject, [draft], known=0)])


async def test_of_one_writer_s_saves_the_one_drafted_last_stands(store: foldlog.Store) -> None:
    core, key = core_of(store), memory("acme:ann:trip")
    await store.save_memory_state("acme:ann:trip", {"n": 1})
    [first] = await all_of(store, "memory")
    subject, [draft] = core.drafts("test", key, first.record)
    late = core._log.stamped(subject, [draft], known=0)
    await store.save_memory_state("acme:ann:trip", {"n": 2})
    await core.log.append([late])  # drafted before, and stored after it
    assert await store.load_memory_state("acme:ann:trip") == {"n": 2}
    assert [each.record.state for each in await all_of(store, "memory")] == [{"n": 1}, {"n": 2}]


async def test_a_clearing_says_so_and_what_was_cleared_is_gone(
    store: foldlog.Store, purging_at_once: None
) -> None:
    await store.save_update(update("u0", "one"))
    before = (await all_of(store, "updates"))[-1].position
    await store.save_update(update("u1", "one"))
    await store.clear_session("one")
    await store.save_update(update("u2", "one"))
    for position in (None, before):
        found = await all_of(store, "updates", after=position)
        assert [(each.was_cleared, each.keys) for each in found] == [
            (True, ("one",)),
            (False, ("one",)),
        ]
        assert found[0].record is None


async def test_a_fork_has_its_own_records_and_none_of_its_origin(store: foldlog.Store) -> None:
    for n in range(3):
        await store.save_update(update(f"u{n}", "one"))
    fork = await store.fork("one", at=await store.position())
    await store.save_update(update("u1", fork))  # it has that one already
    await store.save_update(update("u9", fork))
    found = await all_of(store, "updates")
    assert [each.id for each in found if each.keys == (fork,)] == ["u9"]


async def test_live_it_goes_on_with_what_any_store_saves(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    await store.save_update(update("u0", "one"))
    other = await reopen()
    async with asyncio.timeout(PATIENCE), aclosing(live(store)) as items:
        for n in range(1, 20):
            item = await anext(items)
            assert item.id == f"u{n - 1}"
            await (store if n % 2 else other).save_update(update(f"u{n}", f"s{n}"))


async def test_what_comes_before_pushes_do_is_looked_for(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, calls = type(core_of(store).forked_log), 0
    follow = log.follow

    async def late(self: Any, *args: Any) -> Any:
        nonlocal calls
        calls += 1
        await store.save_update(update(f"u{calls}", "one"))
        return await follow(self, *args)

    monkeypatch.setattr(log, "follow", late)
    monkeypatch.setattr(views, "TRUST_SECONDS", 10 * PATIENCE)
    async with asyncio.timeout(PATIENCE), aclosing(live(store)) as items:
        assert [(await anext(items)).id for _ in range(3)] == ["u1", "u2", "u3"]
    assert calls == 3, "a push of each would have followed once"


async def live(store: foldlog.Store) -> AsyncIterator[LogItem]:
    async for item in store.subscribe(["updates"]):
        yield item


@pytest.mark.parametrize("call", ["heads", "scan", "read"])
async def test_it_waits_out_a_log_that_is_away_and_loses_nothing(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    sessions = ["one", "two", "three"]
    for session in sessions:
        await store.save_update(update("u0", session))
    begin = await store.position()
    for session in sessions:
        await store.save_update(update("u1", session))
    core, calls = core_of(store), 0
    log = core.log if call == "heads" else core.forked_log
    works = getattr(log, call)

    def away(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls in (2, 3) or (call != "read" and calls == 1):
            core_of(store).hot_views.wake()  # as when the connection is back
            raise foldlog.LogUnavailable("away")
        return works(*args, **options)

    found: list[LogItem] = []
    with monkeypatch.context() as patched:
        patched.setattr(type(log), call, lambda self, *args, **options: away(*args, **options))
        async with asyncio.timeout(PATIENCE):
            async for item in store.subscribe(["updates"], after=begin):
                found.append(item)
                if len(found) == 3:
                    break
    assert [(each.keys[0], each.id) for each in found] == [(each, "u1") for each in sessions]
    assert calls > 2


async def test_it_ends_with_its_store(reopen: OpenStore) -> None:
    store = await reopen()
    reading = asyncio.ensure_future(anext(aiter(live(store))))
    await asyncio.sleep(0)
    await store.close()
    with pytest.raises(foldlog.StoreClosed):
        await reading


async def test_several_shards_by_time(reopen: OpenStore) -> None:
    store = await reopen(shards=3)
    sessions = [f"s{n}" for n in range(9)]
    for n in range(5):
        for session in sessions:
            await store.save_update(update(f"u{n}", session))
    by_time = await all_of(store, "updates", by_time=True)
    assert [(each.keys[0], each.id) for each in by_time] == [
        (session, f"u{n}") for n in range(5) for session in sessions
    ]
    shard_by_shard = await all_of(store, "updates")
    assert sorted(ids(shard_by_shard)) == sorted(ids(by_time))
    for some in (by_time, shard_by_shard):
        assert all(one.position < other.position for one, other in pairwise(some))
        middle = len(some) // 2
        rest = await all_of(store, "updates", after=some[middle].position)
        assert sorted((*each.keys, each.id) for each in rest) == sorted(
            (*each.keys, each.id) for each in some[middle + 1 :]
        )


async def test_what_is_older_comes_first_whatever_page_it_is_on() -> None:
    def page(*times: int) -> list[Any]:
        moments = [f"2026-11-27T12:00:{second:02}Z" for second in times]
        envelopes = [Recorded("", "", 1, 0.0, b"", None, 1, 0, time) for time in moments]
        return [subscribing.Effect(updates, None, each, True, None) for each in envelopes]

    async def pages(*some: list[Any]) -> AsyncGenerator[list[Any]]:
        for each in some:
            yield each

    shards = [pages(page(1, 5), page(6, 9)), pages(page(2, 3), page(4, 8)), pages()]
    found = [each async for some in subscribing._merged(shards) for each in some]
    assert [each.envelope.time[17:19] for each in found] == [
        f"0{n}" for n in (1, 2, 3, 4, 5, 6, 8, 9)
    ]


async def test_a_position_of_another_log_is_refused(store: foldlog.Store) -> None:
    await store.save_update(update("u0", "one"))
    for text in ("@99999", "@1~00000000"):
        with pytest.raises(foldlog.UnknownMoment):
            await all_of(store, after=LogPosition.parse(text))
    with pytest.raises(foldlog.PayloadError):
        store.subscribe(after=LogPosition.parse("@1,1,1,1,1"))
    with pytest.raises(foldlog.NotFound):
        store.subscribe(["nothing"])


async def test_the_past_ends_where_it_was(store: foldlog.Store) -> None:
    await store.save_update(update("u0", "one"))
    then = await store.position()
    await store.save_update(update("u1", "one"))
    async with asyncio.timeout(PATIENCE):
        past = [each.id async for each in store.at(then).subscribe(["updates"])]
    assert past == ["u0"]
