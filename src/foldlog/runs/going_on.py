"""What a run does beside its steps: it waits, starts other runs, and says how far it is."""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import secrets
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast

from foldlog.errors import Misuse
from foldlog.runs.asking import NO_DEFAULT, Asking
from foldlog.runs.functions import Durable, name_of
from foldlog.runs.orders import Orders
from foldlog.runs.starting import Handle, Wanted, begins_at, start
from foldlog.runs.steps import Steps, doing
from foldlog.runs.tenure import Tenure
from foldlog.runs.waiting import Sleeping, lasting
from foldlog.store.operation import Calls, operation
from foldlog.store.store import BaseStore
from foldlog.subjects import checked_id
from foldlog.values import as_plain, type_codec
from foldlog_projections.runs import said
from foldlog_projections.runs.runs import Done
from foldlog_projections.runs.said import Said

if TYPE_CHECKING:
    from foldlog.opening.store import Store

T = TypeVar("T")

_operation: Final = functools.partial(operation, prefix="run.")


class GoesOn:
    """The part of a `Run` that needs no step."""

    session_id: str
    name: str
    _store: BaseStore
    _calls: Calls
    _tenure: Tenure
    _orders: Orders
    _steps: Steps
    _asking: Asking
    _numbers: dict[str, itertools.count[int]]

    _phase: Literal["new", "open", "left"]

    @property
    def store(self) -> Store:
        """The store that it is on, for what else a durable function reads and saves."""
        return cast("Store", self._store)

    def _check_open(self) -> None:
        if self._phase != "open":
            raise Misuse(
                "a Run is used within `async with store.run(...)`: before, it has no owner; "
                "afterwards, how it ended is on record"
            )

    @_operation()
    async def sleep(
        self,
        seconds: float = 0.0,
        *,
        minutes: float = 0.0,
        hours: float = 0.0,
        days: float = 0.0,
        name: str | None = None,
    ) -> None:
        """Wait so long, counted from when this was first called: also over restarts.

        In a worker a sleep of more than two seconds takes no slot and no memory: the worker lets go
        of the run, and the log's server wakes it.

        Args:
            seconds: how long. All of these are added.
            minutes: how long.
            hours: how long.
            days: how long.
            name: the sleep's name, the same in every execution of the code. None: its number.

        Raises:
            RunHandedOn: the worker lets go: do not catch it.
            RunCancelled, RunTakenOver: the run was cancelled; another owner has it.
            AppendFailed, LogUnavailable, LogCorrupt, StoreClosed: nothing was stored.
            Misuse: the run is not open, or a step of that name has run here; or it is no number of
                seconds, or above a hundred years.
        """
        self._check_open()
        lasts = lasting(seconds + 60.0 * minutes + 3600.0 * hours + 86_400.0 * days, "a sleep")
        step = self._numbered("sleep") if name is None else checked_id(name, "name")
        with self._steps.using(step):
            await Sleeping(self._tenure, self._orders).sleep(step, lasts)

    @_operation()
    async def wait_for(
        self,
        name: str,
        *,
        timeout: float | None = None,
        default: Any = NO_DEFAULT,
        returns: Any = None,
    ) -> Any:
        """Return what the run is sent under a name, by `handle.send(name, value)`; once it is.

        In a worker the run takes no slot and no memory meanwhile.

        Args:
            name: the name, the same in every execution of the code.
            timeout: seconds after which nothing is expected any more. None: never.
            default: what is returned then. None given: QuestionExpired is raised.
            returns: the type of the value. None: as it was given, models as plain data.

        Raises:
            RunHandedOn: the worker lets go: do not catch it. QuestionExpired: it came too late.
            RunCancelled, RunTakenOver: the run was cancelled; another owner has it.
            UnreadableResult: the value is not of the declared type.
            AppendFailed, LogUnavailable, LogCorrupt, StoreClosed: nothing was stored.
            Misuse: the run is not open, or a step of that name has run here.
        """
        checked_id(name, "name")
        self._check_open()
        with self._steps.using(name):
            wait = 0.0 if self._orders.in_worker else None
            sent = await self._asking.ask(name, None, timeout, default, wait, listed=False)
            declared = None if returns is None else type_codec(returns)
            return await self._steps.result(sent, declared)

    @_operation()
    async def start(
        self,
        function: Durable[..., T] | str,
        /,
        *args: Any,
        id: str | None = None,
        queue: str | None = None,
        priority: int = 0,
        key: str = "",
        delay: float | None = None,
        at: dt.datetime | None = None,
        **kwargs: Any,
    ) -> Handle[T]:
        """Have workers do another run of this session, and return its handle.

        It is cancelled with this one. Await it with `gather`, or let it go on by itself.

        Args:
            function: a durable function, or the name of one.
            args: what it takes after its run.
            kwargs: the same, by name. Names of options of this method: bind them before.
            id: the id of the run, the same in every execution of the code. None: this run's name,
                the function's, and a number.
            queue: where it waits. None: the function's own queue.
            priority: higher ones begin first.
            key: of one key as few go on at once as the queue allows.
            delay: seconds until it begins. None: at once.
            at: when it begins, with a time zone.

        Raises:
            RunCancelled, RunTakenOver: this run was cancelled; another owner has it.
            IdTaken: that run does something else. Misuse: this run is not open.
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, LogCorrupt, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored.
        """
        self._check_open()
        await self._orders.obeyed()
        given = name_of(function)
        own = function.queue if isinstance(function, Durable) else "default"
        child = id or f"{self.name}/{self._numbered(given)}"
        wanted = Wanted(
            self.session_id, child, queue or own, priority, key, begins_at(delay, at), self.name
        )
        return await self._tenure.patiently(
            lambda: start(self._store, function, args, kwargs, wanted)
        )

    @_operation()
    async def gather(self, *handles: Handle[Any]) -> list[Any]:
        """Return the results of runs that this one has started, once all have ended.

        In a worker the run takes no slot and no memory meanwhile.

        Args:
            handles: what `start` returned.

        Raises:
            RunFailed, RunCancelled: the first of them that has no result.
            RunHandedOn: the worker lets go: do not catch it.
            UnreadableResult: a result is not of the declared type. ResultMissing: it is gone.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            Misuse: this run is not open, or one of them is no handle, or of another session.
        """
        self._check_open()
        for each in handles:
            if not isinstance(each, Handle):
                raise Misuse(f"gather takes what run.start(...) returned, not {each!r:.80}")
            if each.session_id != self.session_id:
                raise Misuse(f"{each} is of another session: await each.result() in a step")
        await Sleeping(self._tenure, self._orders).ended([each.id for each in handles])
        return [await each.result() for each in handles]

    @_operation()
    async def patched(self, name: str) -> bool:
        """Return whether this execution goes the new way of code that has changed.

            if await run.patched("ask twice"):
                await run.step("ask again", ask)

        True where the run comes here for the first time, and each time after that; False where it
        has gone on from here by the old code.

        Args:
            name: what has changed, the same in every execution of the code.

        Raises:
            RunTakenOver: another owner has the run.
            AppendFailed, LogUnavailable, LogCorrupt, StoreClosed: nothing was stored.
            Misuse: the run is not open, or this was asked here before.
        """
        step = f"patch {checked_id(name, 'name')}"
        self._check_open()
        known = self._steps.known
        if step not in known and self._steps.left() is not None:
            return False
        with self._steps.using(step):
            if step not in known:
                await self._tenure.write(Done(step))
        return True

    @_operation(writes=True)
    async def say(self, value: Any) -> None:
        """Say how far the run is, or the next tokens: `handle.stream()` yields it, live and later.

        It is no step. What is said outside of steps is said once, also when the run goes on.

        Args:
            value: plain data, or what `run.step` may return.

        Raises:
            PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, LogCorrupt, StoreClosed: nothing was stored.
            Misuse: the run is not open.
        """
        self._check_open()
        step = doing.get()
        is_in_step = step is not None and step.run is self._tenure
        place = secrets.token_hex(12) if is_in_step else self._numbered("said")
        data = Said(as_plain(value, "value"), place)
        await self._store.append(said.kind(self.session_id, self.name), data)

    def _numbered(self, what: str) -> str:
        """The next of its sort in this execution of the code."""
        counter = self._numbers.setdefault(what, itertools.count(1))
        return f"{what} {next(counter)}"
