"""Schedules: runs that begin by a cron line, each once, also after an outage."""

from __future__ import annotations

import asyncio
import datetime as dt
import itertools
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

import foldlog
from foldlog import Misuse, Worker, durable
from foldlog.runs import Run, schedules
from foldlog.runs.starting import wake_at
from foldlog.store.core import core_of
from foldlog_projections import tasks
from tests.conftest import OpenStore
from tests.workers.working import PATIENCE

OSLO = ZoneInfo("Europe/Oslo")
Advance = Callable[[float], None]


@durable
async def report(run: Run, about: str) -> str:
    return about


async def begun(store: foldlog.Store) -> list[str]:
    """The ids of the runs that schedules have started."""
    found = await store.sessions()
    return sorted(found)


def test_a_cron_line_keeps_to_its_zone_when_clocks_change() -> None:
    before = dt.datetime(2026, 10, 23, 12, tzinfo=OSLO).timestamp()
    coming = itertools.islice(schedules.times("30 2 * * *", "Europe/Oslo", before), 4)
    shown = [dt.datetime.fromtimestamp(at, OSLO).isoformat() for at in coming]
    assert shown == [  # on the 25th half past two comes twice: it begins once
        "2026-10-24T02:30:00+02:00",
        "2026-10-25T02:30:00+02:00",
        "2026-10-26T02:30:00+01:00",
        "2026-10-27T02:30:00+01:00",
    ]


@pytest.mark.parametrize(
    ("cron", "zone", "says"),
    [
        ("61 * * * *", "UTC", "cron line"),
        ("soon", "UTC", "cron line"),
        ("0 0 * * *", "Europe/Atlantis", "time zone"),
        ("0 0 30 2 *", "UTC", "never|cron line"),
    ],
)
async def test_what_is_no_cron_line_or_no_zone_is_refused(
    store: foldlog.Store, cron: str, zone: str, says: str
) -> None:
    with pytest.raises(Misuse, match=says):
        await store.queues.schedule("x", cron, report, "sales", zone=zone)
    assert await store.queues.schedules() == []


async def test_a_schedule_is_listed_with_its_next_time_until_it_is_removed(
    store: foldlog.Store,
) -> None:
    first = await store.queues.schedule(
        "daily", "30 9 * * 1-5", "report", about="sales", zone="Europe/Oslo"
    )
    local = first.astimezone(OSLO)
    assert (local.hour, local.minute) == (9, 30)
    assert local.weekday() < 5
    [known] = await store.queues.schedules()
    assert (known.name, known.next) == ("daily", first.timestamp())
    await store.queues.unschedule("daily")
    assert await store.queues.schedules() == []


async def test_what_is_due_begins_once_however_often_its_timer_comes(
    store: foldlog.Store, advance_clock: Advance
) -> None:
    first = await store.queues.schedule("minutely", "* * * * *", report, "sales")
    await schedules.begin(store, "minutely")  # a timer that comes too early
    assert await begun(store) == []
    advance_clock(first.timestamp() - time.time() + 1)
    for _ in range(3):
        await schedules.begin(store, "minutely")
    [id] = await begun(store)
    assert id == f"minutely {first.isoformat(timespec='minutes')}"
    async with Worker(store, [report]):
        assert await store.queues.handle(id).result(timeout=PATIENCE) == "sales"


async def test_a_schedule_by_seconds_begins_each_run_of_a_minute(
    store: foldlog.Store, advance_clock: Advance
) -> None:
    first = await store.queues.schedule("m", "*/30 * * * * *", report, "sales", catch_up=True)
    advance_clock(first.timestamp() - time.time() + 65)
    await schedules.begin(store, "m")
    assert len(await begun(store)) == 3


@pytest.mark.parametrize(("catch_up", "count"), [(True, 6), (False, 1)])
async def test_after_an_outage_what_was_missed_is_caught_up_or_left_out(
    store: foldlog.Store, advance_clock: Advance, catch_up: bool, count: int
) -> None:
    first = await store.queues.schedule("m", "* * * * *", report, "sales", catch_up=catch_up)
    advance_clock(first.timestamp() - time.time() + 5 * 60 + 1)
    await schedules.begin(store, "m")
    assert len(await begun(store)) == count
    [known] = await store.queues.schedules()
    assert known.next > time.time()


async def test_a_schedule_that_was_removed_begins_nothing(
    store: foldlog.Store, advance_clock: Advance
) -> None:
    await store.queues.schedule("m", "* * * * *", report, "sales", session_id="one")
    await store.queues.unschedule("m")
    advance_clock(120)
    await schedules.begin(store, "m")
    assert await begun(store) == []


async def test_a_worker_begins_what_a_timer_says_is_due(store: foldlog.Store) -> None:
    await store.queues.schedule(  # catch_up: the minute may end meanwhile
        "m", "* * * * *", report, "sales", session_id="all", catch_up=True
    )
    key = schedules.schedules_key(core_of(store))
    [known] = await store.queues.schedules()
    late = known.next - 60  # as if it had been made a minute earlier
    await store.append(key, msgspec.structs.replace(known, next=late))
    await wake_at(store, late, schedule="m")
    async with Worker(store, [report]):
        moment = dt.datetime.fromtimestamp(late, dt.UTC).isoformat(timespec="minutes")
        run = store.queues.handle(f"m {moment}", session_id="all")
        async with asyncio.timeout(PATIENCE):
            async with aclosing(core_of(store).advances(tasks.kind("all"))) as advances:
                async for _ in advances:
                    if await store.list_tasks("all"):
                        break
        assert await run.result(timeout=PATIENCE) == "sales"


async def test_a_schedule_that_is_changed_while_it_begins_keeps_to_what_it_is(
    store: foldlog.Store, advance_clock: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await store.queues.schedule("m", "0 * * * *", report, "sales")
    advance_clock(first.timestamp() - time.time() + 1)
    start, armed = schedules._start, list[float]()

    async def changed(*args: Any) -> None:
        await start(*args)
        await store.queues.schedule("m", "* * * * *", report, "sales")

    async def wakes(_: foldlog.Store, at: float, **__: Any) -> None:
        armed.append(at)

    monkeypatch.setattr(schedules, "_start", changed)
    monkeypatch.setattr(schedules, "wake_at", wakes)
    await schedules.begin(store, "m")
    [known] = await store.queues.schedules()
    assert known.next - first.timestamp() == 60.0
    assert armed[-1] == known.next


async def test_two_who_begin_a_schedule_begin_each_run_once(
    store: foldlog.Store, reopen: OpenStore, advance_clock: Advance
) -> None:
    other = await reopen()
    first = await store.queues.schedule("m", "* * * * *", report, "sales", catch_up=True)
    advance_clock(first.timestamp() - time.time() + 5 * 60 + 1)
    await asyncio.gather(*(schedules.begin(each, "m") for each in (store, other, store)))
    assert len(await begun(store)) == 6
    [known] = await store.queues.schedules()
    assert known.next == first.timestamp() + 6 * 60


async def test_a_schedule_that_cannot_begin_holds_up_no_other(store: foldlog.Store) -> None:
    past = 1_000_000_020.0
    key, moment = schedules.schedules_key(core_of(store)), "2001-09-09T01:47+00:00"
    async with store.run(f"bad {moment}", session_id="all"):
        pass  # it has the id, and no worker does it
    for name in ("bad", "good"):
        await store.queues.schedule(
            name, "* * * * *", report, "sales", session_id="all", catch_up=True
        )
        [known] = [each for each in await store.queues.schedules() if each.name == name]
        await store.append(key, msgspec.structs.replace(known, next=past))
        await wake_at(store, past, schedule=name)
    async with Worker(store, [report]):
        async with asyncio.timeout(PATIENCE):
            async with aclosing(core_of(store).advances(tasks.kind("all"))) as advances:
                async for _ in advances:
                    if len(await store.list_tasks("all")) > 1:
                        break
