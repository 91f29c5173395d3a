"""How queues stand: what their folds say of them. No I/O."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from foldlog_projections.runs.queues import Entry, Limited, State


class Queue(NamedTuple):
    """A queue as it stands.

    Attributes:
        name: its name.
        waiting: how many runs wait in it.
        oldest: since when the oldest of them waits, in UTC; None: none does.
        held: how many of its runs workers have.
        failed: how many have failed, and were not sent again.
        workers: how many workers take from it.
        paused: whether none begins.
        at_once: how many may go on at once; None: as many as workers take.
        per_key: how many of one key; None: as many as come.
        rate: how many may begin in `seconds`; None: as many as come.
        seconds: the time in which `rate` counts.
        unserved: functions of runs that wait in it, and that none of its workers knows: they wait
            until one comes that does.
    """

    name: str
    waiting: int
    oldest: dt.datetime | None
    held: int
    failed: int
    workers: int
    paused: bool
    at_once: int | None
    per_key: int | None
    rate: int | None
    seconds: float
    unserved: tuple[str, ...] = ()


class RunAtWork(NamedTuple):
    """A run that a worker has.

    Attributes:
        session_id: its session.
        id: its id there.
        function: what it does.
        queue: where it waited.
        since: since when the worker has it, in UTC.
    """

    session_id: str
    id: str
    function: str
    queue: str
    since: dt.datetime


class AtWork(NamedTuple):
    """A worker.

    Attributes:
        process: the id under which it says that it lives.
        host: the name of its machine.
        pid: its process there.
        slots: how many runs it takes at once; 0: it ends.
        functions: what it knows.
        queues: from which it takes runs; empty: from all.
        runs: what it has now, the oldest first.
    """

    process: str
    host: str
    pid: int
    slots: int
    functions: tuple[str, ...]
    queues: tuple[str, ...]
    runs: list[RunAtWork]


class FailedRun(NamedTuple):
    """A run that has failed.

    Attributes:
        session_id: its session.
        id: its id there.
        function: what it did.
        queue: where it waited.
        since: when it has failed, in UTC.
        error: why it has failed.
    """

    session_id: str
    id: str
    function: str
    queue: str
    since: dt.datetime
    error: str


def queues_of(state: State) -> list[Queue]:
    """The queues of a shard, on any thread."""
    held = Counter(each.queue for each in list(state.held.values()))
    failed = Counter(each.queue for each in list(state.failed.values()))
    workers = [each for each in list(state.workers.values()) if each.slots]
    found = []
    for name in {*state.waiting, *state.limits, *held, *failed}:
        limit = state.limits.get(name) or Limited(name)
        waits = [each.since for each in state.waits(name)]
        serving = [each for each in workers if not each.queues or name in each.queues]
        known = {function for each in serving for function in each.functions}
        found.append(
            Queue(
                name,
                waiting=len(waits),
                oldest=_utc(min(waits)) if waits else None,
                held=held[name],
                failed=failed[name],
                workers=len(serving),
                paused=limit.paused,
                at_once=limit.at_once,
                per_key=limit.per_key,
                rate=limit.rate,
                seconds=limit.seconds,
                unserved=tuple(sorted(set(state.waiting.get(name, ())) - known)),
            )
        )
    return found


def joined(of_shards: Iterable[list[Queue]]) -> list[Queue]:
    """The queues of all shards, by name."""
    found: dict[str, Queue] = {}
    for queue in chain.from_iterable(of_shards):
        known = found.get(queue.name)
        found[queue.name] = queue if known is None else _sum(known, queue)
    return [found[name] for name in sorted(found)]


def _sum(one: Queue, another: Queue) -> Queue:
    times = [each for each in (one.oldest, another.oldest) if each is not None]
    return one._replace(
        waiting=one.waiting + another.waiting,
        held=one.held + another.held,
        failed=one.failed + another.failed,
        workers=max(one.workers, another.workers),  # each says on every shard that it works
        oldest=min(times, default=None),
        unserved=tuple(sorted({*one.unserved, *another.unserved})),
    )


def workers_of(state: State) -> list[AtWork]:
    """Who works, and at what of a shard."""
    return [
        AtWork(
            process,
            each.host,
            each.pid,
            each.slots,
            each.functions,
            each.queues,
            [RunAtWork(*run_of(entry)) for entry in state.of(process).values()],
        )
        for process, each in state.workers.items()
    ]


def run_of(entry: Entry) -> tuple[str, str, str, str, dt.datetime]:
    """The first fields of a `RunAtWork` or a `FailedRun`."""
    return entry.session_id, entry.run, entry.function, entry.queue, _utc(entry.since)


def _utc(seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(seconds, dt.UTC)
