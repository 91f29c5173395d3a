"""How a run waits without anybody: it sleeps, it waits for other runs, it is sent something."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from foldlog.errors import Misuse
from foldlog.models import TaskStatus
from foldlog.runs.errors import RunHandedOn, parts_of
from foldlog.runs.orders import Orders
from foldlog.runs.tenure import Tenure, Turn
from foldlog.sessions.lifecycle import FINAL
from foldlog.sessions.queueing import has_ended
from foldlog_projections.runs.jobs import Slept
from foldlog_projections.runs.runs import Done, State, Step

SHORT: Final = 2.0
"""Seconds that a run waits where it is, also in a worker: to let go and come back takes as long."""

_LOOKS_EVERY: Final = 5.0
_LONGEST: Final = 100 * 365 * 86_400.0


def lasting(seconds: float, what: str) -> float:
    """Return seconds that somebody waits. Raises Misuse: no number, or above a hundred years."""
    if not seconds <= _LONGEST:
        raise Misuse(f"{what} is seconds, of a hundred years at most, not {seconds!r:.80}")
    return seconds


class Sleeping:
    """Has an open run wait for a time, or for other runs."""

    def __init__(self, tenure: Tenure, orders: Orders) -> None:
        self._tenure = tenure
        self._orders = orders

    async def sleep(self, name: str, seconds: float) -> None:
        """Return so many seconds after this was first called. Errors as `Run.sleep`."""
        await self._orders.obeyed()
        step = await self._tenure.step(name)
        if step is None or step.phase not in ("asleep", "done"):
            began = time.time()
            until = began + seconds
            await self._tenure.write(*self._orders.looked(), Slept(name, until))
        else:
            began, until = step.ts, step.until
        while (left := until - time.time()) > 0:
            if self._orders.in_worker and left > SHORT:
                raise self._orders.handed_on("it sleeps", name)
            await self._orders.moved(min(left, _LOOKS_EVERY))
            await self._orders.obeyed()
        if step is None or step.phase != "done":
            await self._tenure.write(Done(name, max(time.time() - began, 0.0)))

    async def ended(self, names: Iterable[str]) -> None:
        """Return when all of these runs of the session have ended.

        Raises:
            RunHandedOn: some have not, and a worker has this run.
        """
        while True:
            left = [each for each in names if await self._tenure.status(each) not in _OVER]
            if not left:
                return
            await self._orders.obeyed()
            if self._orders.in_worker:
                raise self._orders.handed_on("it waits for other runs", awaits=tuple(left))
            await self._orders.moved(_LOOKS_EVERY)


_OVER: Final[frozenset[TaskStatus | None]] = FINAL | {None}


def waited_for(run: State, error: Exception) -> list[Step]:
    """The steps for which a run lets go, by an error that says so."""
    names = {getattr(each, "step", "") for each in parts_of(error)}
    return [run.steps[each] for each in names if each in run.steps]


def awaits_of(error: Exception) -> tuple[str, ...]:
    """The runs for which a run lets go."""
    found = [each.awaits for each in parts_of(error) if isinstance(each, RunHandedOn)]
    return tuple(dict.fromkeys(name for awaits in found for name in awaits))


def is_due(turn: Turn, error: Exception) -> bool:
    """Whether what a run lets go for has come meanwhile: then it goes on at once."""
    steps = waited_for(turn.run, error)
    if any(each.phase in ("done", "retracted") or 0 < each.until <= time.time() for each in steps):
        return True
    awaits = awaits_of(error)
    return bool(awaits) and all(has_ended(turn.made, each) for each in awaits)
