"""Starting runs that workers do, and what their starter holds of them."""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
import secrets
import time
import zlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from foldlog import codec
from foldlog.errors import AppendUnknown, IdTaken, LogCorrupt, LogTimeout, Misuse, NotFound
from foldlog.models import SteeringEvent, SteeringEventType, TaskState, TaskStatus
from foldlog.runs.errors import ResultMissing, RunCancelled, RunFailed, UnreadableResult
from foldlog.runs.functions import Durable, given_to, name_of
from foldlog.runs.orders import HARD
from foldlog.runs.process import Process, process_of
from foldlog.runs.questions import as_record
from foldlog.runs.results import StepRedaction, load_result
from foldlog.runs.tenure import Decide, Tenure, Turn, decide_on_run, new_task, opened
from foldlog.runs.waiting import lasting
from foldlog.sessions import lifecycle
from foldlog.sessions.lifecycle import FINAL
from foldlog.sessions.steering import until
from foldlog.store.core import core_of
from foldlog.store.operation import operation
from foldlog.store.ownership import as_of_session
from foldlog.store.primitives import Item
from foldlog.store.records import LogRecord
from foldlog.store.store import BaseStore
from foldlog.store.tasks import TASKS
from foldlog.store.waiting import list_key
from foldlog.subjects import checked_id
from foldlog.values import TypeCodec, type_codec
from foldlog.views import Consistency
from foldlog_projections import tasks
from foldlog_projections.runs import jobs, queues, runs, said
from foldlog_projections.runs.jobs import Submitted
from foldlog_projections.runs.queues import Added, id_of

T = TypeVar("T")

_encode: Final = msgspec.msgpack.Encoder().encode
_operation: Final = functools.partial(operation, prefix="handle.")


async def home_of(store: BaseStore, function: Durable[..., Any] | str, session_id: str) -> str:
    """Return the queue in which a function's runs wait; of a name, as workers say."""
    if isinstance(function, Durable):
        return function.queue
    core = core_of(store)
    shard = core.subject(runs.kind, checked_id(session_id, "session_id"), "run").shard
    return await store.view(list_key(core, shard, queues.kind), lambda state: state.home(function))


class Wanted(NamedTuple):
    """How a run is started: see `Store.start`. `begins` is in Unix seconds, 0: at once."""

    session_id: str
    id: str
    queue: str
    priority: int
    key: str
    begins: float
    parent: str = ""


async def start(
    store: BaseStore,
    function: Durable[..., Any] | str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    wanted: Wanted,
) -> Handle[Any]:
    """Have workers do a function. Arguments and errors as `Store.start`.

    1. Arm a timer, if it begins later: without the record it wakes nobody. That of a run which was
    started already stays as it is. 2. The run, its task and its place in the queue, in one append;
    which opens it, if a worker of this store is free.
    """
    core = core_of(store)
    known_as = function if isinstance(function, Durable) else None
    name = name_of(function)
    given = given_to(function, args, kwargs)
    redaction = StepRedaction(core.redaction, wanted.session_id, wanted.id)
    data = redaction.data("start", jobs.SUBMITTED, "", arguments=given.plain)
    submitted = Submitted(
        name,
        known_as.version if known_as else "",
        msgspec.Raw(codec.encode(data, "arguments")),
        given.digest,
        wanted.queue,
        wanted.priority,
        wanted.key,
        wanted.begins,
        wanted.parent,
    )
    added = submitted.added(wanted.session_id, wanted.id)
    process, here = process_of(store), None
    if wanted.begins:
        if not await wake_again(store, wanted.session_id, wanted.id):
            await wake_at(store, wanted.begins, run=added)
    elif process.begin_here is not None:
        wishes = msgspec.structs.replace(added, wish=process.id)
        here = process.begin_here(wishes)
        added = wishes if here else added

    def submit(turn: Turn) -> bool | None:
        known = turn.run.job
        if known is not None:
            check_same(wanted, known, submitted)
            status = turn.made.state.brief(wanted.id).status
            if turn.run.session_id in ("", wanted.session_id) or status in FINAL:
                return False
            turn.queued.append(added)  # of a fork: nobody has it here yet
            return None
        if turn.run or wanted.id in turn.made.state.saved:
            raise Misuse(
                f"{wanted.id!r:.80} is a run or a task of session {wanted.session_id!r:.80} that "
                "no worker does: start it under another id"
            )
        parent, status = wanted.parent or None, TaskStatus.RUNNING if here else TaskStatus.PENDING
        task = new_task(wanted.session_id, wanted.id, status, parent, name, wanted.priority)
        lifecycle.spawn(turn.made, task, "job", None, _redacted)
        turn.records.append(submitted)
        if here is not None:
            turn.records.append(opened(turn, here.tenure, process.id, wanted.session_id))
        if not wanted.begins:
            turn.queued.append(added)
        return None

    def _redacted(record: tasks.TaskSaved) -> tasks.TaskSaved:
        found: tasks.TaskSaved = core.redacted("Store.start", tasks.kind(wanted.session_id), record)
        return found

    begun, is_new = here, False
    try:
        is_new = await decide_on_run(core, wanted.session_id, wanted.id, submit)
    except (AppendUnknown, asyncio.CancelledError):
        if begun is not None:
            here = None  # so that `submit` opens it no more
            process.owe(functools.partial(_settle, store, process, wanted, submit, begun.tenure))
        raise
    finally:
        if begun is not None:
            begun.started.set_result(is_new)
    return Handle(store, wanted.session_id, wanted.id, known_as.declared if known_as else None)


async def _settle(
    store: BaseStore, process: Process, wanted: Wanted, submit: Decide, tenure: str
) -> None:
    """Have a run that may have been opened as it was started be one that waits, and is started.

    What opens it may still be on its way: it has no effect where the run is started already.
    """
    of = wanted.session_id, wanted.id
    with suppress(IdTaken, Misuse):  # it is another one's
        await decide_on_run(core_of(store), *of, submit)
    await Tenure(store, process, *of, tenure).hand_on()


def check_same(wanted: Wanted, known: Submitted, given: Submitted) -> None:
    """Raise IdTaken where a run of that id does something else."""
    if (known.function, known.digest) != (given.function, given.digest):
        raise IdTaken(
            runs.kind.name,
            (wanted.session_id, wanted.id),
            wanted.id,
            zlib.crc32(f"{known.function} {known.digest}".encode()),
            zlib.crc32(f"{given.function} {given.digest}".encode()),
            f"run {wanted.id!r:.80} of session {wanted.session_id!r:.80} does {known.function} "
            "with its arguments: start another function, or other arguments, under another id",
        )


class Wake(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a timer says: a run goes on, or a schedule has something due."""

    run: Added | None = None
    schedule: str = ""


async def wake_at(
    store: BaseStore, at: float, *, run: Added | None = None, schedule: str = ""
) -> None:
    """Have a worker look at a run, or at a schedule, at a time, in Unix seconds."""
    timers = core_of(store).backend.timers
    assert timers is not None
    key = f"schedule {schedule}" if run is None else id_of(run.session_id, run.run)
    await timers.arm(key, at, _encode(Wake(run, schedule)))


def begins_a_run(record: LogRecord) -> bool:
    """Whether a run that workers do begins with a record of the log; False if it is unreadable."""
    if record.kind == runs.kind.name:
        with suppress(LogCorrupt):
            return any(each.type == jobs.SUBMITTED for each in record.envelopes)
    return False


async def wake_again(store: BaseStore, session_id: str, run: str) -> bool:
    """Have a run woken at the time that it is to be, which its timer may not say; False: no run.

    The log that its records came to may have no timer, and a fork has none.
    """
    key = runs.kind(session_id, run)
    job, at = await store.view(key, lambda run: (run.job, run.wakes_at()), consistency="strong")
    if job is not None and at:
        await wake_at(store, at, run=job.added(session_id, run))
    return job is not None


class Handle(Generic[T]):
    """A run that was started, as `store.start` or `store.queues.handle` returns it.

    Args:
        store: an open store.
        session_id: its session.
        id: its id in the session, which is also that of its task.
        declared: how its result is read. None: as plain data.

    Raises:
        InvalidId: an id is empty.
    """

    def __init__(
        self, store: BaseStore, session_id: str, id: str, declared: TypeCodec[T] | None = None
    ) -> None:
        self.session_id: str = checked_id(session_id, "session_id")
        self.id: str = checked_id(id, "id")
        self._store = store
        self._calls = core_of(store).calls
        self._declared = declared

    def __repr__(self) -> str:
        return f"<run {self.id!r} of session {self.session_id!r}>"

    @_operation()
    async def status(self) -> TaskStatus:
        """Return where the run stands: PENDING, RUNNING, PAUSED, COMPLETE, FAILED or CANCELLED.

        It is PAUSED while it waits, whether for a person, a time, another run or an order.

        Raises:
            NotFound: there is no such run.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        return (await self._task()).status

    @_operation()
    async def result(self, *, timeout: float | None = None, returns: Any = None) -> T:
        """Return what the run's function returned, once it has.

        Args:
            timeout: seconds to wait. None: as long as it takes.
            returns: the type of the result, of a run that was started by its function's name.

        Raises:
            RunFailed: it has failed. RunCancelled: it was cancelled.
            LogTimeout: it has not ended in time.
            UnreadableResult: the result is not of the declared type. ResultMissing: it is gone.
            NotFound: there is no such run.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._ended()
        except TimeoutError:
            raise LogTimeout(f"the end of run {self.id!r:.80}", timeout or 0.0) from None
        return await self._result(returns)

    async def _ended(self) -> None:
        core, key = core_of(self._store), tasks.kind(self.session_id)
        consistency: Consistency = "strong"
        async with aclosing(core.advances(key, must_look=False)) as advances:
            async for _ in advances:
                status = (await self._task("session")).status
                # Where it had ended before anybody waited, it may have begun again.
                if status in FINAL and (await self._task(consistency)).status in FINAL:
                    return
                consistency = "session"

    async def _result(self, returns: Any = None) -> T:
        task = await self._task("session")  # it has ended: nothing changes that
        if task.status is TaskStatus.CANCELLED:
            raise RunCancelled(self.session_id, self.id)
        if task.status is TaskStatus.FAILED:
            raise RunFailed(self.session_id, self.id, task.error or "")
        key, view = runs.kind(self.session_id, self.id), self._store.view
        given = await view(key, lambda run: run.returned)
        if given is None:
            given = await view(key, lambda run: run.returned, consistency="strong")
        if given is None:
            return None  # type: ignore[return-value]  # a run that no worker has done
        encoded = bytes(given.result)
        if given.blob:
            large = await self._store.blobs.read(key, given.blob)
            if large is None:
                raise ResultMissing(self.session_id, self.id, "")
            encoded = large
        declared = self._declared if returns is None else type_codec(returns)
        data = codec.decode(encoded)
        if not given.type or declared is None:
            return data  # type: ignore[no-any-return]
        try:
            found: T = load_result(data, given.type, declared)
        except ValueError as error:
            raise UnreadableResult(self.session_id, self.id, "", given.type, str(error)) from error
        return found

    @_operation(writes=True)
    async def cancel(self, reason: str = "", *, hard: bool = False, by: str = "") -> None:
        """Cancel the run, and those that it has started: within a second, no further step begins.

        Args:
            reason: why, for the record.
            hard: whether the step under way is cancelled, too.
            by: who says so, for the record.

        Raises:
            IllegalTransition: it has ended. NotFound: there is no such run.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored.
        """
        payload: dict[str, Any] = {"reason": reason} if reason else {}
        payload |= {HARD: True} if hard else {}
        payload |= {"by": by} if by else {}
        order = SteeringEvent(
            session_id=self.session_id,
            task_id=self.id,
            event_type=SteeringEventType.CANCEL,
            payload=payload,
        )
        from foldlog.sessions import Session

        session = Session(self.session_id, self._store, None)
        await session.steer(order)

    @_operation(writes=True)
    async def send(self, name: str, value: Any = None, *, by: str = "") -> bool:
        """Send the run what it waits for, or will wait for: `run.wait_for(name)` returns it.

        The first value counts. Returns whether this was it.

        Args:
            name: the name by which the run waits for it.
            value: plain data.
            by: who sends it, for the record.

        Raises:
            NotFound: there is no such run.
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; sending it again is safe.
        """
        core = core_of(self._store)
        redaction = StepRedaction(core.redaction, self.session_id, self.id)
        record = as_record(redaction, checked_id(name, "name"), value, by)

        def send(turn: Turn) -> bool | None:
            step = turn.run.steps.get(name)
            if self.id not in turn.made.state.saved:
                raise NotFound("run", self.id, "store.start(...) makes one")
            if step is not None and step.phase == "done":
                return False
            turn.records.append(record)
            is_paused = turn.made.state.brief(self.id).status is TaskStatus.PAUSED
            if is_paused and turn.run.parked and step is not None:
                lifecycle.reopen(turn.made, self.id)
            return None

        return await decide_on_run(core, self.session_id, self.id, send)

    async def stream(self, *, after: str | None = None) -> AsyncGenerator[Item]:
        """Yield what the run has said, then what it says, until it has ended.

        Args:
            after: the id of an item: what came behind it. None: from the beginning.

        Raises:
            NotFound: there is no such run, or no item `after`.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        key = said.kind(self.session_id, self.id)
        ended = asyncio.create_task(self._ended(), name="foldlog stream")
        try:
            watched = self._store.watch(key, after=after)
            async with aclosing(until(ended, watched)) as items:
                async for item in items:
                    after = item.id
                    yield item
            await ended
        finally:
            ended.cancel()
            await asyncio.wait([ended])
        for item in await self._store.items(key, after=after, limit=2**31, consistency="strong"):
            yield item

    async def _task(self, consistency: Consistency = "strong") -> TaskState:
        key, query = tasks.kind(self.session_id), self._store.view
        found = await query(key, lambda saved: saved.get(self.id), consistency=consistency)
        if found is None and consistency != "strong":
            return await self._task()
        if found is None:
            raise NotFound("run", self.id, "store.start(...) makes one")
        [task] = as_of_session([TASKS.restore(found)], self.session_id)
        return task


def begins_at(delay: float | None, at: dt.datetime | None) -> float:
    """When a run begins, in Unix seconds; 0: at once. Raises Misuse."""
    if delay is not None and at is not None:
        raise Misuse("delay= says in how many seconds it begins, and at= when: give one")
    if at is not None:
        if at.tzinfo is None:
            raise Misuse(f"at= needs a time zone: {at.isoformat()} is a time of no place")
        return at.timestamp()
    if not delay:
        return 0.0
    if lasting(delay, "delay") < 0:
        raise Misuse(f"delay is seconds from now, not {delay!r:.80}")
    return time.time() + delay


def new_id(name: str) -> str:
    """An id for a run that was given none."""
    return f"{name}-{secrets.token_hex(6)}"
