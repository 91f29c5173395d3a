"""Queues as an operator sees them: what waits, who works, what failed, what begins by itself."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from foldlog import codec
from foldlog.batches import side_by_side
from foldlog.errors import Misuse, NotFound
from foldlog.models import TaskStatus
from foldlog.runs.functions import Durable, given_to, name_of
from foldlog.runs.results import StepRedaction
from foldlog.runs.schedules import first, schedules_key
from foldlog.runs.standing import AtWork, FailedRun, Queue, joined, queues_of, run_of, workers_of
from foldlog.runs.starting import Handle, home_of, wake_at
from foldlog.runs.tenure import Turn, decide_on_run
from foldlog.sessions import lifecycle
from foldlog.store.core import Capability, core_of
from foldlog.store.operation import operation
from foldlog.store.store import BaseStore
from foldlog.store.waiting import list_key
from foldlog.subjects import checked_id
from foldlog_projections.runs import queues, schedules
from foldlog_projections.runs.queues import Entry, Limited, State
from foldlog_projections.runs.schedules import Scheduled, Unscheduled

T = TypeVar("T")


class Queues(Capability):
    """The queues of a store: `store.queues`. They live as long as the store."""

    def __init__(self, store: BaseStore) -> None:
        super().__init__(core_of(store))
        self._store = store
        shards = range(self._core.namespace.shards)
        self._keys = [list_key(self._core, shard, queues.kind) for shard in shards]

    @operation()
    async def all(self) -> list[Queue]:
        """Return the queues in which something waits, goes on or failed, or that have limits.

        They are in the order of their names.

        Raises:
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        return joined(await self._read(queues_of))

    @operation()
    async def workers(self) -> list[AtWork]:
        """Return who works, and at what.

        A worker that has died stands here until another one has noticed.

        Raises:
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        found: dict[str, AtWork] = {}
        for each in await self._read(workers_of):
            for worker in each:
                known = found.setdefault(worker.process, worker)
                if known is not worker:
                    known.runs.extend(worker.runs)
        for worker in found.values():
            worker.runs.sort(key=lambda each: each.since)
        return list(found.values())

    @operation()
    async def failed(
        self, queue: str | None = None, *, limit: int | None = None
    ) -> list[FailedRun]:
        """Return the runs that have failed, after their attempts, and were not sent again.

        The last one to fail comes first.

        Args:
            queue: only those of one queue. None: of all.
            limit: how many at most. None: all.

        Raises:
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        of_shards = await self._read(lambda state: [*state.failed.values()])
        found = [e for entries in of_shards for e in entries if queue in (None, e.queue)]
        found.sort(key=lambda each: each.since, reverse=True)
        return await side_by_side(found[:limit], self._failed)

    async def _failed(self, entry: Entry) -> FailedRun:
        tasks = await self._store.list_tasks(entry.session_id)
        error = next((each.error for each in tasks if each.task_id == entry.run), None)
        return FailedRun(*run_of(entry), error or "")

    @operation(writes=True)
    async def send_again(self, id: str, *, session_id: str | None = None) -> None:
        """Have workers do a run again that has failed: it goes on from its first step not done.

        Args:
            id: the run's id.
            session_id: its session. None: the session of that id.

        Raises:
            NotFound: no run of that id has failed.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; sending it again is safe.
        """

        def again(turn: Turn) -> None:
            known = turn.run.job is not None and id in turn.made.state.saved
            if not known or turn.made.state.brief(id).status is not TaskStatus.FAILED:
                raise NotFound("failed run", id, "store.queues.failed() lists them")
            lifecycle.reopen(turn.made, id)

        await decide_on_run(self._core, session_id or id, checked_id(id), again)

    @operation(writes=True)
    async def limit(
        self,
        queue: str,
        *,
        at_once: int | None = None,
        per_key: int | None = None,
        rate: int | None = None,
        seconds: float = 1.0,
    ) -> None:
        """Hold a queue to limits, over all workers, from now on; those not given fall away.

        A log of several shards holds each shard's part of the queue to them.

        Args:
            queue: the queue.
            at_once: how many of its runs go on at once. One that is cancelled counts until its code
                has ended.
            per_key: how many of one key: 1 for one run of one user at a time.
            rate: how many are handed to workers in `seconds`, by the clock of the log's server. A
                busy worker may begin several of these at once.
            seconds: the time in which `rate` counts.

        Raises:
            Misuse: a number is below 1, or `seconds` not above 0.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; saying it again is safe.
        """
        for name, number in (("at_once", at_once), ("per_key", per_key), ("rate", rate)):
            if number is not None and number < 1:
                raise Misuse(f"{name} is 1 or more, not {number!r:.80}; pause() stops a queue")
        if not seconds > 0:
            raise Misuse(f"seconds is above 0, not {seconds!r:.80}")
        await self._limit(
            queue, at_once=at_once, per_key=per_key, rate=rate, seconds=float(seconds)
        )

    @operation(writes=True)
    async def pause(self, queue: str) -> None:
        """Have no run of a queue begin; those that workers have go on to their ends.

        Args:
            queue: the queue.

        Raises:
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; saying it again is safe.
        """
        await self._limit(queue, paused=True)

    @operation(writes=True)
    async def resume(self, queue: str) -> None:
        """Have the runs of a queue begin again.

        Args:
            queue: the queue.

        Raises:
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; saying it again is safe.
        """
        await self._limit(queue, paused=False)

    def handle(self, id: str, *, session_id: str | None = None) -> Handle[Any]:
        """Return the handle of a run that was started, here or elsewhere.

        Args:
            id: the run's id.
            session_id: its session. None: the session of that id.

        Raises:
            InvalidId: an id is empty.
        """
        return Handle(self._store, session_id or id, id)

    @operation(writes=True)
    async def schedule(
        self,
        name: str,
        cron: str,
        function: Durable[..., Any] | str,
        /,
        *args: Any,
        zone: str = "UTC",
        session_id: str = "",
        queue: str | None = None,
        priority: int = 0,
        key: str = "",
        catch_up: bool = False,
        **kwargs: Any,
    ) -> dt.datetime:
        """Have runs begin by a cron line, from now on; in place of the schedule of that name.

        Their ids are the name and the time: `report 2026-11-27T09:30+01:00`.

        Args:
            name: the schedule's name.
            cron: minute, hour, day, month, weekday: "30 9 * * 1-5"; before them the second, if it
                is not 0.
            function: a durable function, or the name of one.
            args: what it takes after its run.
            kwargs: the same, by name.
            zone: the time zone of the cron line, as "Europe/Oslo".
            session_id: the session of all of them. "": each has a session of its id.
            queue: where they wait. None: the function's own queue.
            priority: higher ones begin first.
            key: of one key as few go on at once as the queue allows.
            catch_up: whether those that an outage of a minute or longer prevented begin
                afterwards; else they are left out.

        Returns:
            When the first one begins.

        Raises:
            Misuse: it is no cron line, or no time zone. ConfigurationError: cronsim is missing.
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; saying it again is safe.
        """
        begins = first(cron, zone, time.time())
        given = given_to(function, args, kwargs)
        redaction = StepRedaction(self._core.redaction, session_id or name, name)
        data = redaction.data("schedule", schedules.SCHEDULED, "", arguments=given.plain)
        made = Scheduled(
            checked_id(name, "name"),
            cron,
            zone,
            name_of(function),
            msgspec.Raw(codec.encode(data, "arguments")),
            session_id,
            queue or await home_of(self._store, function, session_id or name),
            begins,
            priority,
            key,
            catch_up,
        )
        await wake_at(self._store, begins, schedule=name)
        await self._store.append(schedules_key(self._core), made)
        return dt.datetime.fromtimestamp(begins, dt.UTC)

    @operation(writes=True)
    async def unschedule(self, name: str) -> None:
        """Have no more runs begin by a schedule; fine if there is none.

        Args:
            name: the schedule's name.

        Raises:
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; saying it again is safe.
        """
        await self._store.append(schedules_key(self._core), Unscheduled(name))

    @operation()
    async def schedules(self) -> list[Scheduled]:
        """Return the schedules, by name; `next` is when each begins next, in Unix seconds.

        Raises:
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        key = schedules_key(self._core)
        found: dict[str, Scheduled] = await self._store.view(key, consistency="strong")
        return [found[name] for name in sorted(found)]

    async def _limit(self, queue: str, **changed: Any) -> None:
        checked_id(queue, "queue")

        def limit(state: State) -> list[Limited]:
            known = state.limits.get(queue) or Limited(queue)
            return [msgspec.structs.replace(known, **changed)]

        for key in self._keys:
            await self._store.decide(key, limit, copy=False)

    async def _read(self, select: Callable[[State], T]) -> list[T]:
        view = self._store.view
        return [await view(key, select, consistency="strong") for key in self._keys]


async def described(asked: Queues, *, failed: int | None = None) -> dict[str, list[Any]]:
    """Queues, workers, schedules and failed runs, as the shell and the page show them.

    Args:
        failed: as the limit of `Queues.failed`.

    Errors as `Queues.all`.
    """
    schedules = await asked.schedules()
    return {
        "queues": await asked.all(),
        "workers": await asked.workers(),
        "schedules": [{name: getattr(each, name) for name in _OF_SCHEDULE} for each in schedules],
        "failed": await asked.failed(limit=failed),
    }


_OF_SCHEDULE: Final = (
    *("name", "cron", "zone", "function", "queue", "session_id", "next", "catch_up"),
)


def in_memory(store: BaseStore) -> list[Queue] | None:
    """Return what `Queues.all` does, on any thread; None if not all is in memory."""
    core = core_of(store)
    keys = [list_key(core, shard, queues.kind) for shard in range(core.namespace.shards)]
    views = [core.hot_views.peek(key.kind, core.subject_of(key)) for key in keys]
    known = [queues_of(view.folded.state) for view in views if view is not None]
    return joined(known) if len(known) == len(keys) else None
