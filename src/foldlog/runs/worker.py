"""A worker: does the runs that queues hand to it, until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import aclosing, suppress
from contextvars import Context, copy_context
from typing import Any, Final, Self, TypeVar
from weakref import WeakSet

import msgspec

from foldlog import codec
from foldlog.envelope import Draft
from foldlog.errors import FoldlogError, LogCorrupt, Misuse, StoreClosed
from foldlog.kind import Key
from foldlog.runs import schedules
from foldlog.runs.ending import InWorker
from foldlog.runs.errors import (
    RunCancelled,
    RunEnded,
    RunPaused,
    StepUnknown,
    WorkerLost,
    consists_of,
)
from foldlog.runs.functions import Durable
from foldlog.runs.process import Here, Look, Process, host, process_of
from foldlog.runs.run import Run
from foldlog.runs.starting import Wake
from foldlog.runs.tenure import Tenure, finished
from foldlog.store.core import DECIDE_SECONDS, core_of
from foldlog.store.operation import outside
from foldlog.store.payloads import encode
from foldlog.store.store import BaseStore
from foldlog.store.waiting import list_key
from foldlog.subjects import Subject, checked_id
from foldlog_projections import tasks
from foldlog_projections.runs import processes, queues, runs
from foldlog_projections.runs.jobs import Submitted
from foldlog_projections.runs.processes import Left as ProcessLeft
from foldlog_projections.runs.queues import (
    Added,
    Entry,
    Gone,
    Left,
    Offered,
    State,
    Ticked,
    id_of,
)
from foldlog_projections.sessions import session

T = TypeVar("T")

_log: Final = logging.getLogger("foldlog")

_LOOKS_EVERY: Final = 1.0
"""Seconds between two looks at the other workers."""

_TIMERS_WAIT: Final = 30.0
_SOON: Final = 0.05
_PAUSE: Final = 1.0
"""Seconds before something is tried again that the log refused or did not answer."""

QUEUES: Final = queues.kind
_working: Final[WeakSet[Process]] = WeakSet()
_decode: Final = msgspec.msgpack.Decoder(Wake).decode


class Worker:
    """Does durable functions. `await worker.run()` works until `stop`, or until it is cancelled.

        async with foldlog.connect() as store:
            await foldlog.Worker(store, [research]).run()

    `async with foldlog.Worker(...)` works beside the block, and stops when that ends.

    Args:
        store: an open store.
        functions: the durable functions that it knows; of several versions of a name, the last one
            is the newest.
        slots: how many runs it does at once.
        queues: from which it takes runs. Empty: from all.
        lease: seconds after which it is held for dead if it does not answer: others then go on
            with what it had, on the same machine at once.

    Raises:
        Misuse: there is no function, or two of one name and version; or a number is out of range.
        InvalidId: the name of a queue is empty.
    """

    def __init__(
        self,
        store: BaseStore,
        functions: Iterable[Durable[..., Any]],
        *,
        slots: int = 64,
        queues: Sequence[str] = (),
        lease: float = 10.0,
    ) -> None:
        self._functions: dict[str, dict[str, Durable[..., Any]]] = {}
        for each in functions:
            if not isinstance(each, Durable):
                raise Misuse(f"{each!r:.80} is no durable function: decorate it: @foldlog.durable")
            if self._functions.setdefault(each.name, {}).setdefault(each.version, each) is not each:
                raise Misuse(f"{each!r:.80} is there twice: give one another name=, or version=")
        if not self._functions:
            raise Misuse("a worker needs functions that it can do: Worker(store, [research])")
        if isinstance(queues, str):
            raise Misuse(f"queues is a list of names, not {queues!r:.80}")
        if slots < 1 or not lease > 0:
            raise Misuse("slots is 1 or more, and lease a number of seconds above 0")
        self._store = store
        self._core = core_of(store)
        self._process = process_of(store)
        self._slots, self._lease = slots, lease
        self._queues = tuple(checked_id(each, "queue") for each in queues)
        self._leaving = asyncio.Event()
        self._context = Context()
        self._running: asyncio.Task[None] | None = None
        self._working: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ticking: asyncio.Task[None] | None = None
        self._looks: dict[str, Look] = {}
        shards = range(self._core.namespace.shards)
        self._keys = [list_key(self._core, shard, QUEUES) for shard in shards]

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self.run(), name="foldlog worker", context=outside())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._running is not None
        self.stop()
        await self._running

    def stop(self) -> None:
        """Take no more runs. Those that it has go on to their next step, and are handed on."""
        self._leaving.set()

    async def run(self) -> None:
        """Work until `stop`. It waits out an outage of the log.

        Raises:
            Misuse: another worker works on this store.
            LogCorrupt, StoreClosed: the queues cannot be read, or the store is closed.
        """
        if self._process in _working:
            raise Misuse(
                "one worker works on a store: give it all functions, or open another store"
            )
        _working.add(self._process)
        try:
            await self._patiently(lambda: self._process.hold(self._lease))
            try:
                await self._work_on()
            except asyncio.CancelledError:  # nobody need wait for the end of its lease
                self._process.owe(lambda: self._say(Gone(self._process.id)))
                raise
            finally:
                self._process.let_go(self._lease)
        finally:
            _working.discard(self._process)

    async def _work_on(self) -> None:
        try:
            self._context, self._process.begin_here = copy_context(), self._begin_here
            await self._patiently(lambda: self._offer(self._slots))
            going = [
                asyncio.create_task(each, name="foldlog worker")
                for each in (
                    *map(self._follow, self._keys),
                    self._wake(),
                    self._watch_others(),
                    self._left(),
                )
            ]
            try:
                ended, _ = await asyncio.wait(going, return_when=asyncio.FIRST_COMPLETED)
                for each in ended:
                    each.result()  # raises what ended it, unless that was `stop`
            finally:
                ending = going if self._ticking is None else [*going, self._ticking]
                for each in ending:
                    each.cancel()
                await asyncio.wait(ending)
            await self._patiently(lambda: self._offer(0))
        finally:
            self._process.begin_here = None
            if self._tasks:
                await self._finish()
        await self._patiently(lambda: self._say(Gone(self._process.id)))

    async def _left(self) -> None:
        await self._leaving.wait()

    async def _finish(self) -> None:
        """Wait for what is under way; where this is being cancelled, cancel it."""
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            for each in self._tasks:
                each.cancel()
        await asyncio.wait(self._tasks)

    # --- what is handed to it ---------------------------------------------------------------------

    async def _follow(self, key: Key[State]) -> None:
        """Do what the queues hand to this process."""
        while True:
            try:
                async with aclosing(self._core.advances(key)) as advances:
                    async for _ in advances:
                        await self._take(key)
            except (StoreClosed, LogCorrupt):
                raise
            except FoldlogError as error:
                _log.warning("a worker waits for its queues: %s", error)
                await asyncio.sleep(_PAUSE)

    async def _take(self, key: Key[State]) -> None:
        mine, is_known, due_at, now = await self._store.view(key, self._seen)
        if self._leaving.is_set():
            return  # others get what it was given by now
        for id, entry in mine.items():
            if id not in self._working:
                self._begin(id, entry.run, self._work(key, id, entry))
        if not is_known:  # it was held for dead
            await self._offer(self._slots)
        if due_at is not None and self._ticking is None:
            self._ticking = asyncio.create_task(self._tick(due_at - now), name="foldlog queue")

    def _begin(self, id: str, run: str, work: Coroutine[Any, Any, None]) -> None:
        context = self._context.copy()
        task = asyncio.create_task(work, name=f"foldlog run {run}", context=context)
        self._working.add(id)
        self._tasks.add(task)  # until it has looked what is next, too
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.remove(task)
        with suppress(asyncio.CancelledError, StoreClosed):  # which `run` raises, too
            task.result()

    def _seen(self, state: State) -> tuple[dict[str, Entry], bool, float | None, float]:
        id = self._process.id
        return state.of(id), id in state.workers, state.due_at(), state.now

    async def _work(self, key: Key[State], id: str, entry: Entry) -> None:
        """Do a run, to its end or until it waits; then look what is next."""
        try:
            await self._done(entry)
        finally:
            self._working.remove(id)
        await self._patiently(lambda: self._take(key))

    def _begin_here(self, added: Added) -> Here | None:
        """Do a run that this store starts, opened by its first append, if a slot is free."""
        id, key = id_of(added.session_id, added.run), self._keys[self._shard(added.session_id)]
        view = self._core.hot_views.peek(key.kind, self._core.subject_of(key))
        if self._leaving.is_set() or id in self._working or len(self._working) >= self._slots:
            return None
        if view is None or not view.folded.state.begins_with(added):
            return None
        started = asyncio.get_running_loop().create_future()
        here = Here(secrets.token_hex(8), started)
        self._begin(id, added.run, self._work_here(key, id, added, here))
        return here

    async def _work_here(self, key: Key[State], id: str, added: Added, here: Here) -> None:
        """Do a run as it is started, if the queue has given it to this process; as `_work`."""
        of = added.session_id, added.run
        tenure, is_stored = Tenure(self._store, self._process, *of, here.tenure), True
        try:
            is_stored = await finished(here.stored())
            if is_stored and (entry := await self._given(key, id)) is not None:
                await self._done(entry, tenure)
        finally:
            self._working.remove(id)
            if is_stored and not tenure.token:  # nothing of it has begun
                self._process.owe(tenure.hand_on)
        await self._patiently(lambda: self._take(key))

    async def _done(self, entry: Entry, tenure: Tenure | None = None) -> None:
        try:
            await self._do(entry, tenure)
        except Exception as error:  # noqa: BLE001 - the run's own: it is on record
            if consists_of(error, RunPaused, StepUnknown):
                await self._forget(entry)
                return
            if isinstance(error, RunEnded | RunCancelled) and _is_of(error, entry):
                await self._patiently(lambda: self._say(Left(entry.session_id, entry.run)))
                return
            is_ours = isinstance(error, FoldlogError)
            what = "run %s of session %s: %r", entry.run, entry.session_id, error
            _log.warning(*what, exc_info=None if is_ours else error)
            if is_ours and not isinstance(error, StoreClosed):
                await asyncio.sleep(_PAUSE)  # what was not recorded is tried again

    async def _forget(self, entry: Entry) -> None:
        """Keep nothing in memory of a run that waits: it may be for days, and elsewhere after."""
        of_session = (tasks.kind(entry.session_id), session.kind(entry.session_id))
        for key in (runs.kind(entry.session_id, entry.run), *of_session):
            await self._core.hot_views.let_go(key.kind, self._core.subject_of(key))

    async def _do(self, entry: Entry, tenure: Tenure | None) -> None:
        job = await self._job(entry)
        function = self._function(job.function, job.version)
        run = Run(
            self._store,
            self._process,
            entry.session_id,
            entry.run,
            wait=2 * self._lease,
            restart=False,
            redo_from=None,
            lease=self._lease,
            description=None,
            earlier=_nothing,
            worker=InWorker(
                self._leaving,
                function.attempts,
                job.version not in ("", function.version),
                tenure,
            ),
        )
        async with run:
            state = await run._tenure.read()
            if state.job != job:  # pushes of its removal, and of its new start, were late
                raise run._orders.handed_on("it was started anew")
            id, key = id_of(entry.session_id, entry.run), self._keys[self._shard(entry.session_id)]
            if await self._given(key, id) is None:  # it was held for dead meanwhile
                raise run._orders.handed_on("its queue holds it back, or another worker has it")
            if state.failures >= function.attempts:
                raise WorkerLost(entry.session_id, entry.run, function.attempts)
            args, kwargs = function.loaded(codec.decode(job.arguments))
            try:
                value = await function(run, *args, **kwargs)
            except asyncio.CancelledError as error:
                current = asyncio.current_task()
                if current is None or current.cancelling():
                    raise
                raise RuntimeError(f"{function.name} was cancelled from within") from error
            await run._return(value, function.declared)

    async def _given(self, key: Key[State], id: str) -> Entry | None:
        """A run that this process has opened, if its queue has given it to this process."""
        held = await self._patiently(
            lambda: self._store.view(key, lambda state: state.held.get(id))
        )
        return held if held is not None and held.process == self._process.id else None

    async def _job(self, entry: Entry) -> Submitted:
        """How a run was started. Its timer may have come before its record is there."""
        key = runs.kind(entry.session_id, entry.run)
        found = await self._store.view(key, lambda run: run.job)  # `_do` looks again
        until = asyncio.get_running_loop().time() + DECIDE_SECONDS
        while found is None:
            found = await self._store.view(key, lambda run: run.job, consistency="strong")
            if found is None:
                if asyncio.get_running_loop().time() >= until:
                    raise RunEnded(entry.session_id, entry.run, "it was removed")
                await asyncio.sleep(_SOON)
        return found

    def _function(self, name: str, version: str) -> Durable[..., Any]:
        known = self._functions[name]
        return known.get(version) or list(known.values())[-1]

    # --- time, and the others ---------------------------------------------------------------------

    async def _wake(self) -> None:
        """Put into its queue what a timer wakes."""
        timers = self._core.backend.timers
        assert timers is not None
        while True:
            try:
                woken = [(each, _decode(each.data)) for each in await timers.due(_TIMERS_WAIT)]
                await self._say(*(wake.run for _, wake in woken if wake.run is not None))
                done = [due for due, wake in woken if await self._has_begun(wake.schedule)]
                if done:
                    await timers.done(done)
            except (StoreClosed, LogCorrupt):
                raise
            except FoldlogError as error:
                _log.warning("a worker tries a timer again: %s", error)
                await asyncio.sleep(_PAUSE)

    async def _has_begun(self, schedule: str) -> bool:
        """Begin what a schedule has due; False if that is to be tried again, as others go on."""
        try:
            if schedule:
                await schedules.begin(self._store, schedule)
        except (StoreClosed, LogCorrupt):
            raise
        except FoldlogError as error:
            _log.warning("a worker tries schedule %s again: %s", schedule, error)
            return False
        return True

    async def _watch_others(self) -> None:
        """Give to others what a worker had that has died."""
        while True:
            await asyncio.sleep(_LOOKS_EVERY)
            try:
                for key in self._keys:
                    known = await self._store.view(key, State.processes)
                    await asyncio.gather(*(self._look_at(each) for each in known))
            except (StoreClosed, LogCorrupt):
                raise
            except FoldlogError as error:
                _log.warning("a worker cannot look at the others: %s", error)

    async def _look_at(self, process: str) -> None:
        if process == self._process.id:
            return
        look = self._looks.setdefault(process, Look(self._store))
        if await look.is_gone(process):
            # Said once for all: nobody who opens one of its runs waits for its lease again.
            await self._store.append(processes.kind(process), ProcessLeft())
            await self._say(Gone(process))
            self._looks.pop(process, None)

    async def _tick(self, seconds: float) -> None:
        """Have begin what a rate has held back."""
        try:
            await asyncio.sleep(max(seconds, 0.0))
        finally:
            self._ticking = None  # what comes of it says when the next may begin
        await self._patiently(lambda: self._say(Ticked()))

    async def _offer(self, slots: int) -> None:
        functions, process = tuple(self._functions), self._process
        newest = {name: self._function(name, "").queue for name in functions}
        homes = {name: queue for name, queue in newest.items() if queue != queues.HOME}
        of = (process.id, slots, functions, self._queues)
        await self._say(Offered(*of, host(), os.getpid(), homes))

    async def _say(self, *records: msgspec.Struct) -> None:
        """Append to the queues: what is about runs on their shards, all else on each."""
        found: dict[Subject, list[Draft]] = {}
        for each in records:
            session_id = getattr(each, "session_id", None)
            for key in self._keys:
                subject = self._core.subject_of(key)
                if session_id is None or subject.shard == self._shard(session_id):
                    found.setdefault(subject, []).append(encode(queues.kind, each))
        if found:
            await self._core.append_drafts(*found.items())

    def _shard(self, session_id: str) -> int:
        return self._core.subject(runs.kind, session_id, session_id).shard

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await call()
            except StoreClosed:
                raise
            except FoldlogError as error:
                _log.warning("a worker tries again: %s", error)
                await asyncio.sleep(_PAUSE)


def _is_of(error: RunEnded | RunCancelled, entry: Entry) -> bool:
    """Whether an error is of this run, and not of one that it waits for."""
    return (error.session_id, error.run) == (entry.session_id, entry.run)


async def _nothing() -> None:
    """A run that workers do was never one of an earlier version."""
