"""What had expired stays so after a restore, and moments before it answer as they did."""

from __future__ import annotations

import datetime as dt
import time
from pathlib import Path

import pytest

import foldlog
from foldlog.agents import ShareRefused
from foldlog.exporting import export, restore
from foldlog.scoped import Scope, StoreOptions
from tests.exporting.test_round_trip import Open, fresh
from tests.support.build import event, update

__all__ = ["fresh"]


async def passes(*lifetimes: float) -> None:
    """Return when so many seconds have passed for sure."""
    end = time.time() + max(lifetimes)
    while time.time() <= end:
        await foldlog.memory_store().close()


@pytest.mark.parametrize("shards", [1, 2])
async def test_an_earlier_time_answers_as_it_did(fresh: Open, tmp_path: Path, shards: int) -> None:
    store, copy = await fresh(shards=shards), await fresh(shards=shards)
    times = [dt.datetime.now(dt.UTC)]
    for n in range(4):
        await store.save_memory_state("acme:ann:trip", {"n": n})
        for session in "abcd":
            await store.save_update(update(f"u{n}", session))
        times.append(dt.datetime.now(dt.UTC))
    await store.save_event(event("trace"))
    await store.erase(foldlog.kinds.updates("b"))
    await export(store, tmp_path / "all")
    await restore(copy, tmp_path / "all")
    late = dt.datetime.now(dt.UTC)
    await copy.save_update(update("late", "a"))
    moments = [*times, *(update(f"u{n}", "a") for n in range(4)), late]
    for when in moments[:-1]:
        one, other = store.at(when), copy.at(when)
        assert (await one.position()).shards == (await other.position()).shards
        assert await one.load_memory_state("acme:ann:trip") == await other.load_memory_state(
            "acme:ann:trip"
        )
        for session in "acd":
            assert await one.list_updates(session) == await other.list_updates(session)
    assert len(await copy.at(late).list_updates("a")) == 4
    assert len(await copy.list_updates("a")) == 5


async def test_what_had_expired_stays_so(fresh: Open, tmp_path: Path) -> None:
    store, copy = await fresh(pause_ttl=0.001), await fresh(pause_ttl=0.001)
    scope = Scope.custom("x")
    await store.scoped.write(scope, "secret", "one-time 1234", StoreOptions(ttl=1))
    async with store.agents.turn("writer/1") as turn:
        turn.update("k", {"a": 1})
        token = turn.share("k", ttl=0.001)
    await store.save_planner_state("token", {"n": 1})
    await passes(0.01)
    await export(store, tmp_path / "all")
    await restore(copy, tmp_path / "all")
    for each in (store, copy):
        assert await each.scoped.read(scope, "secret") is None
        assert await each.waiting() == []
        assert await each.load_planner_state("token") is None
        async with each.agents.turn("reader/1") as turn:
            with pytest.raises(ShareRefused):
                await turn.get(token, dict)
