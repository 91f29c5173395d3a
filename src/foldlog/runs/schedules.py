"""Schedules: runs that begin by a cron line, in a time zone, whatever happens meanwhile."""

from __future__ import annotations

import datetime as dt
import itertools
import logging
import time
from collections.abc import Iterator
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from foldlog import codec
from foldlog.errors import ConfigurationError, Misuse
from foldlog.kind import Key
from foldlog.runs.starting import Wanted, start, wake_at
from foldlog.store.core import Core, core_of
from foldlog.store.store import BaseStore
from foldlog.store.waiting import list_key
from foldlog_projections.runs import schedules
from foldlog_projections.runs.schedules import Begun, Scheduled

_log: Final = logging.getLogger("foldlog")

_LATE: Final = 60.0
"""Seconds after which a run that should have begun was missed."""

_AT_ONCE: Final = 1_000
"""Runs of one schedule that catch up together."""

State = dict[str, Scheduled]


def schedules_key(core: Core) -> Key[State]:
    """The view that holds all schedules."""
    return list_key(core, 0, schedules.kind)


def times(cron: str, zone: str, after: float) -> Iterator[float]:
    """Yield when a cron line comes, after a time: in Unix seconds. Raises Misuse."""
    try:
        from cronsim import CronSim, CronSimError
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "schedules need cronsim: pip install 'foldlog[schedules]'"
        ) from error
    try:
        where = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise Misuse(f"there is no time zone {zone!r:.80}: Europe/Oslo is one") from error
    try:
        moments = CronSim(cron, dt.datetime.fromtimestamp(after, where))
    except CronSimError as error:
        raise Misuse(
            f"{cron!r:.80} is no cron line: minute, hour, day, month and weekday, as in "
            f'"30 9 * * 1-5" ({error})'
        ) from error
    return (each.timestamp() for each in moments)


def first(cron: str, zone: str, after: float) -> float:
    """When a cron line comes first after a time. Raises Misuse, also if it never comes."""
    found = next(times(cron, zone, after), None)
    if found is None:
        raise Misuse(f"{cron!r:.80} never comes")
    return found


async def begin(store: BaseStore, name: str) -> None:
    """Start what a schedule has due, and arm its timer again. Doing it twice starts nothing twice.

    1. Arm the timer of the next one. 2. Start what is due: the time is a part of its id. 3. Record
    how far it is; or look again, where it was changed meanwhile: that timer is not of what it is.
    """
    core, now = core_of(store), time.time()
    key = schedules_key(core)
    known = await store.view(key, lambda state: state.get(name), consistency="strong")
    if known is None:
        return
    if known.next > now:
        await wake_at(store, known.next, schedule=name)
        return
    coming = itertools.chain([known.next], times(known.cron, known.zone, known.next))
    due = list(itertools.takewhile(lambda at: at <= now, itertools.islice(coming, _AT_ONCE)))
    following = first(known.cron, known.zone, due[-1])
    await wake_at(store, following, schedule=name)
    late = [at for at in due if now - at > _LATE]
    if late and not known.catch_up:
        _log.warning("schedule %s: %d runs were missed, and are left out", name, len(late))
    for at in due if known.catch_up else due[len(late) :]:
        await _start(store, known, at)

    def reached(state: State) -> list[Begun]:
        return [Begun(name, following)] if state.get(name) == known else []

    if not await store.decide(key, reached, copy=False):
        await begin(store, name)


async def _start(store: BaseStore, known: Scheduled, at: float) -> None:
    moment = dt.datetime.fromtimestamp(at, ZoneInfo(known.zone))
    id = f"{known.name} {moment.isoformat(timespec='seconds' if moment.second else 'minutes')}"
    data: dict[str, Any] = codec.decode(known.arguments)
    wanted = Wanted(known.session_id or id, id, known.queue, known.priority, known.key, 0.0)
    await start(store, known.function, data.pop("*", []), data, wanted)
