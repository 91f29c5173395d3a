"""The queues of one shard, and who works: the fold itself hands runs to workers.

A worker says how many runs it takes at once. A run is added, and leaves when its code has ended or
waits. Each record hands what may begin to who is free, the same in every process that folds it: no
worker asks for work, and no two are given the same run. What holds ids only: a run's arguments and
its error stand in the run and its task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind, Listing
from foldlog.words import Line, Shown
from foldlog_projections.fold import EqualByBytes

ADDED: Final = "queue.added"
OFFERED: Final = "queue.offered"
LEFT: Final = "queue.left"
RETURNED: Final = "queue.returned"
GONE: Final = "queue.gone"
LIMITED: Final = "queue.limited"
TICKED: Final = "queue.ticked"


class Added(msgspec.Struct, frozen=True, omit_defaults=True):
    """`queue.added`: a run may begin, or go on. `key`: of equal ones few go on at once.

    Of a run that a worker has: it goes on again after it has left. `process` has opened the run,
    and has it from here on, also if another one was given it. `wish` is who gets it of those that
    are equally free: it has opened the run, and lets go of it if it does not get it. With both, a
    worker has opened what it was given: without effect where that was taken from it meanwhile.
    """

    session_id: str
    run: str
    function: str
    queue: str
    priority: int = 0
    key: str = ""
    process: str = ""
    wish: str = ""


HOME: Final = "default"
"""The queue of a function that names none."""


class Offered(msgspec.Struct, frozen=True, omit_defaults=True):
    """`queue.offered`: a process takes so many runs at once, of these functions and queues.

    No queues: all. No slots: it finishes what it has, and takes no more. `homes` has the queues of
    functions whose own is not "default".
    """

    process: str
    slots: int
    functions: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    host: str = ""
    pid: int = 0
    homes: dict[str, str] = {}


class Left(msgspec.Struct, frozen=True, omit_defaults=True):
    """`queue.left`: a run has ended, or waits for something. `failed`: for good, with an error.

    `process` is who had it, and lets go: without effect where another one has it by now. "": it has
    ended.
    """

    session_id: str
    run: str
    failed: bool = False
    process: str = ""


class Returned(msgspec.Struct, frozen=True, omit_defaults=True):
    """`queue.returned`: a run goes to another worker.

    `process` is who had it: without effect where another one has it by now.
    """

    session_id: str
    run: str
    process: str


class Gone(msgspec.Struct, frozen=True):
    """`queue.gone`: a process works no more. What it had goes to others."""

    process: str


class Limited(msgspec.Struct, frozen=True, omit_defaults=True):
    """`queue.limited`: what a queue is held to from now on.

    `at_once`: runs of all workers; `per_key`: of those, runs of one key; None: as many as come.
    `rate`: so many begin in `seconds`. `paused`: none begins.
    """

    queue: str
    at_once: int | None = None
    per_key: int | None = None
    rate: int | None = None
    seconds: float = 1.0
    paused: bool = False


class Ticked(msgspec.Struct, frozen=True):
    """`queue.ticked`: time has passed; what was held back by a rate may begin."""


class Entry(msgspec.Struct):
    """A run in a queue. `process` has it; "" while it waits. `n` says how long, in records.

    `since`: since when it waits, or that process has it, or it has failed, in Unix seconds.
    `again`: it was added since a worker has it.
    """

    session_id: str
    run: str
    function: str
    queue: str
    priority: int
    key: str
    n: int
    since: float
    process: str = ""
    again: bool = False


Lanes = dict[str, dict[int, dict[str, Entry]]]
"""What waits in a queue: by function and priority, in order."""


@dataclass(slots=True, eq=False)
class State(EqualByBytes):
    """The queues of a shard. `workers` by process, `held` and `failed` by run, others by queue.

    `begun` has the times of the last ones that a rate counts, in Unix seconds. `busy` counts what
    is held, by who has it, by queue and by key: see `_marks`. `now` is the log's clock: those of
    writers differ, and what they write may be on its way for long.
    """

    waiting: dict[str, Lanes] = field(default_factory=dict)
    held: dict[str, Entry] = field(default_factory=dict)
    workers: dict[str, Offered] = field(default_factory=dict)
    limits: dict[str, Limited] = field(default_factory=dict)
    begun: dict[str, list[float]] = field(default_factory=dict)
    failed: dict[str, Entry] = field(default_factory=dict)
    busy: dict[str, int] = field(default_factory=dict)
    now: float = 0.0
    n: int = 0

    def entries(self) -> Iterator[Entry]:
        """What waits, and what a worker has."""
        for queue in self.waiting:
            yield from self.waits(queue)
        yield from self.held.values()

    def waits(self, queue: str) -> Iterator[Entry]:
        """What waits in a queue. Lists, since metrics are collected on another thread."""
        for by_priority in list(self.waiting.get(queue, {}).values()):
            for entries in list(by_priority.values()):
                yield from list(entries.values())

    def has(self, id: str) -> bool:
        """Whether a run is in a queue, or has failed."""
        waits = any(
            id in entries
            for lanes in self.waiting.values()
            for by_priority in lanes.values()
            for entries in by_priority.values()
        )
        return waits or id in self.held or id in self.failed

    def home(self, function: str) -> str:
        """The queue in which runs of a function wait, as those who do them say."""
        homes = (each.homes.get(function) for each in self.workers.values())
        return next((each for each in homes if each), HOME)

    def begins_with(self, added: Added) -> bool:
        """Whether a run that is added now begins at once, with the process that it wishes."""
        if added.queue in self.waiting or added.queue in self.limits:
            return False
        return _taker(self, _free(self), added.queue, added.function, added.wish) == added.wish

    def processes(self) -> set[str]:
        """Who works, or has a run."""
        return {*self.workers, *(each.process for each in self.held.values())}

    def of(self, process: str) -> dict[str, Entry]:
        """What a process has been given."""
        return {id: each for id, each in self.held.items() if each.process == process}

    def due_at(self) -> float | None:
        """When the next run may begin that a rate holds back, in Unix seconds; None: no such."""
        times = [
            self.begun[queue][-limit.rate] + limit.seconds
            for queue, limit in self.limits.items()
            if limit.rate is not None and not limit.paused and queue in self.waiting
            if len(self.begun.get(queue, ())) >= limit.rate
        ]
        return min(times, default=None)


def id_of(session_id: str, run: str) -> str:
    """The run as the key of what is said of it."""
    return f"{quote(session_id, safe=':')}/{quote(run, safe=':')}"


def _apply(state: State, record: Any, envelope: Recorded) -> State:
    state.now, state.n = max(state.now, envelope.recorded_at), state.n + 1
    match record:
        case Added():
            _add(state, record)
        case Left(session_id, run, failed, process):
            _leave(state, id_of(session_id, run), failed, process)
        case Returned(session_id, run, process):
            _return(state, id_of(session_id, run), process)
        case Offered(process):
            state.workers[process] = record
        case Gone(process):
            state.workers.pop(process, None)
            for id in state.of(process):
                _return(state, id, process)
        case Limited(queue):
            state.limits[queue] = record
    _hand_out(state, record.wish if isinstance(record, Added) else "")
    return state


def _add(state: State, added: Added) -> None:
    id = id_of(added.session_id, added.run)
    if added.process and added.wish and not _has(state, added.process, id):
        return
    state.failed.pop(id, None)
    if id in state.held and not added.process:
        state.held[id].again = True
        return
    known = _let_go(state, id) or _taken_out(state, id)
    n, since = (known.n, known.since) if known else (state.n, state.now)
    entry = Entry(
        added.session_id,
        added.run,
        added.function,
        added.queue,
        added.priority,
        added.key,
        n,
        since,
    )
    if added.process:
        _hold(state, id, entry, added.process)
    else:
        _put(state, id, entry)


def _leave(state: State, id: str, failed: bool, process: str) -> None:
    if process and not _has(state, process, id):
        return
    state.failed.pop(id, None)
    entry = _let_go(state, id) or _taken_out(state, id)
    if entry is None:
        return
    if failed:
        entry.since = state.now
        state.failed[id] = entry
    elif entry.again:
        entry.again, entry.n, entry.since = False, state.n, state.now
        _put(state, id, entry)


def _return(state: State, id: str, process: str) -> None:
    entry = _let_go(state, id) if _has(state, process, id) else None
    if entry is not None:
        entry.since = state.now
        _put(state, id, entry)


def _has(state: State, process: str, id: str) -> bool:
    entry = state.held.get(id)
    return entry is not None and entry.process == process


def _hold(state: State, id: str, entry: Entry, process: str) -> None:
    entry.process, entry.since = process, state.now
    state.held[id] = entry
    for mark in _marks(entry):
        state.busy[mark] = state.busy.get(mark, 0) + 1


def _let_go(state: State, id: str) -> Entry | None:
    """What a worker has, which it has no more."""
    entry = state.held.pop(id, None)
    if entry is not None:
        for mark in _marks(entry):
            state.busy[mark] -= 1
            if not state.busy[mark]:
                del state.busy[mark]
        entry.process = ""
    return entry


def _marks(entry: Entry) -> list[str]:
    """Under which names a run that is held is counted."""
    marks = [f"process {entry.process}", f"queue {entry.queue}"]
    return [*marks, _key_mark(entry)] if entry.key else marks


def _key_mark(entry: Entry) -> str:
    return f"key {quote(entry.queue)} {entry.key}"


def _put(state: State, id: str, entry: Entry) -> None:
    lanes = state.waiting.setdefault(entry.queue, {})
    entries = lanes.setdefault(entry.function, {}).setdefault(entry.priority, {})
    entries[id] = entry


def _taken_out(state: State, id: str) -> Entry | None:
    """What waits, waiting no more."""
    for queue, lanes in state.waiting.items():
        for function, by_priority in lanes.items():
            for priority, entries in by_priority.items():
                if (entry := entries.pop(id, None)) is not None:
                    _tidy(state, queue, function, priority)
                    return entry
    return None


def _tidy(state: State, queue: str, function: str, priority: int) -> None:
    """Leave no empty place behind."""
    lanes = state.waiting[queue]
    if not lanes[function][priority]:
        del lanes[function][priority]
    if not lanes[function]:
        del lanes[function]
    if not lanes:
        del state.waiting[queue]


def _free(state: State) -> dict[str, int]:
    """How many more runs each process takes that takes any."""
    free = {id: w.slots - state.busy.get(f"process {id}", 0) for id, w in state.workers.items()}
    return {process: slots for process, slots in free.items() if slots > 0}


def _taker(
    state: State, free: Mapping[str, int], queue: str, function: str, wish: str
) -> str | None:
    """Who gets a run: who is the most free; of equal ones, whom it wishes."""
    takers = [each for each in free if _serves(state.workers[each], queue, function)]
    return max(takers, key=lambda each: (free[each], each == wish), default=None)


def _hand_out(state: State, wish: str) -> None:
    """Give what may begin to who is free: of each queue the most urgent first, then the oldest."""
    if not state.waiting:
        return
    free = _free(state)
    for queue in list(state.waiting):
        limit = state.limits.get(queue) or Limited(queue)
        while free and _may_begin(state, limit):
            found = _next(state, limit, free)
            if found is None:
                break
            id, entry = found
            process = _taker(state, free, queue, entry.function, wish)
            assert process is not None  # `_next` has found one
            _give(state, id, entry, process, limit)
            free[process] -= 1
            if not free[process]:
                del free[process]


def _may_begin(state: State, limit: Limited) -> bool:
    if limit.paused or limit.queue not in state.waiting:
        return False
    if limit.at_once is not None and state.busy.get(f"queue {limit.queue}", 0) >= limit.at_once:
        return False
    begun = state.begun.get(limit.queue, [])
    if limit.rate is None or len(begun) < limit.rate:
        return True
    return begun[-limit.rate] + limit.seconds <= state.now


def _next(state: State, limit: Limited, free: Mapping[str, int]) -> tuple[str, Entry] | None:
    """The run of a queue that goes first, of those that somebody who is free takes."""

    def may_begin(entry: Entry) -> bool:
        if not entry.key or limit.per_key is None:
            return True
        return state.busy.get(_key_mark(entry), 0) < limit.per_key

    best: tuple[int, int, str, Entry] | None = None
    for function, by_priority in state.waiting[limit.queue].items():
        if not any(_serves(state.workers[each], limit.queue, function) for each in free):
            continue
        for priority in sorted(by_priority, reverse=True):
            entries = by_priority[priority].items()
            first = next(((id, each) for id, each in entries if may_begin(each)), None)
            if first is not None:
                id, entry = first
                if best is None or (-priority, entry.n) < best[:2]:
                    best = -priority, entry.n, id, entry
                break
    return None if best is None else best[2:]


def _serves(worker: Offered, queue: str, function: str) -> bool:
    return function in worker.functions and (not worker.queues or queue in worker.queues)


def _give(state: State, id: str, entry: Entry, process: str, limit: Limited) -> None:
    del state.waiting[entry.queue][entry.function][entry.priority][id]
    _tidy(state, entry.queue, entry.function, entry.priority)
    entry.again = False
    _hold(state, id, entry, process)
    if limit.rate is not None:
        begun = state.begun.setdefault(entry.queue, [])
        begun.append(state.now)
        del begun[: -limit.rate]


kind: Final = Kind(
    "queues",
    version=3,
    keys=("shard",),
    records={
        ADDED: Added,
        OFFERED: Offered,
        LEFT: Left,
        RETURNED: Returned,
        GONE: Gone,
        LIMITED: Limited,
        TICKED: Ticked,
    },
    fold=Fold(State, _apply, state=State, takes="native", forgets_ids=True),
    shown=Shown(
        {
            ADDED: "run {run} waits in queue {queue}",
            OFFERED: "process {pid} on {host} takes {slots} runs at once",
            LEFT: lambda left: Line(
                f"run {left.run} left its queue", tone="failed" if left.failed else ""
            ),
            RETURNED: "run {run} is handed on",
            GONE: "worker {process} is gone",
            LIMITED: "queue {queue} has other limits",
            TICKED: Line("time has passed", tone="aside"),
        },
        group="lists",
        entries=lambda _: {},  # what works at what is nothing that anybody has saved
    ),
)
"""The key is a number that falls on the shard."""


def _off(keys: tuple[str, ...], listed: State) -> list[Left]:
    session_id, run = keys
    return [Left(session_id, run)] if listed.has(id_of(session_id, run)) else []


listing: Final = Listing(kind, _off)
"""What a kind declares whose views are runs in queues."""
