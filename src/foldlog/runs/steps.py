"""The steps of an open run: called, recorded before and after, and obeying orders between."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar, Token
from typing import Any, Final, Literal, NamedTuple, TypeVar

import msgspec

from foldlog import codec
from foldlog.errors import Misuse, PayloadError, RedactionFailed
from foldlog.runs.arguments import Arguments
from foldlog.runs.errors import (
    CodeChanged,
    ResultMissing,
    RunCancelled,
    RunPaused,
    StepChanged,
    StepUnknown,
    UnreadableResult,
    consists_of,
)
from foldlog.runs.orders import Orders
from foldlog.runs.questions import waits_as
from foldlog.runs.results import PLAIN_DATA, Result, StepRedaction, dump_result, load_result
from foldlog.runs.tenure import Tenure, Turn, finished
from foldlog.store.store import BaseStore
from foldlog.store.waiting import began
from foldlog.values import TypeCodec
from foldlog_projections.runs import jobs, runs
from foldlog_projections.runs.jobs import Returned
from foldlog_projections.runs.runs import (
    Done,
    Doubted,
    Failed,
    Retracted,
    Started,
    Step,
    Unrecorded,
    Used,
)

T = TypeVar("T")

OnChange = Literal["raise", "again", "keep"]
"""What becomes of a step that is done and is given other arguments."""

LARGE_RESULT: Final = 256 * 1024
"""Bytes from which the result of a step is stored beside its record."""

_LONGEST_PAUSE: Final = 60.0
"""Seconds between two attempts at a step, at most."""


class Work(NamedTuple):
    """A step to be done. `timeout` and the first `pause` between attempts are in seconds."""

    step: str
    kind: str
    arguments: Arguments
    declared: TypeCodec[Any] | None
    repeatable: bool
    in_thread: bool
    on_change: OnChange
    timeout: float | None
    retries: int
    pause: float


class Doing:
    """A step that is under way: its name, those within it, and what it has used of models.

    `begun` is what its next record goes with.
    """

    __slots__ = ("begun", "outer", "run", "step", "used", "within")

    def __init__(self, run: Tenure, step: str, outer: Doing | None) -> None:
        self.run: Tenure = run
        self.step: str = step
        self.outer: Doing | None = outer
        self.used: list[Used] = []
        self.begun: list[msgspec.Struct] = []
        self.within: set[str] = {step}


doing: Final[ContextVar[Doing | None]] = ContextVar("doing", default=None)
"""The step that the caller is in."""


class Using:
    """A block in which a name stands for one step; if it fails, the name is free again."""

    __slots__ = ("_doing", "_token", "_used")

    def __init__(self, run: Tenure, used: set[str], step: str) -> None:
        if step in used:
            raise Misuse(
                f"a step {step!r:.80} has run here, or is under way: give every step of a run a "
                "different name"
            )
        used.add(step)
        self._used = used
        self._doing = Doing(run, step, doing.get())

    def __enter__(self) -> Doing:
        self._token: Token[Doing | None] = doing.set(self._doing)
        return self._doing

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        doing.reset(self._token)
        outer = self._doing.outer
        if kind is not None:
            self._used -= self._doing.within  # also the steps within it
        elif outer is not None and outer.run is self._doing.run:
            outer.within |= self._doing.within


class Steps:
    """Does the steps of one run, each at most once for each time that it is started.

    Attributes:
        known: the steps that were on record when the run was opened.
        is_checked: whether the code must come to all of these before it comes to a new one.
    """

    def __init__(
        self, store: BaseStore, tenure: Tenure, orders: Orders, redaction: StepRedaction
    ) -> None:
        self._store = store
        self._tenure = tenure
        self._orders = orders
        self._redaction = redaction
        self._used: set[str] = set()
        self.known: tuple[str, ...] = ()
        self.is_checked: bool = False
        self._flying: set[asyncio.Future[None]] = set()

    async def landed(self) -> None:
        """Return when no step is under way any more, and the outcome of each is on record."""
        while self._flying:
            await asyncio.wait(self._flying)

    def left(self) -> str | None:
        """The first step on record to which the code has not come again; None if there is none."""
        return next((each for each in self.known if each not in self._used), None)

    def using(self, step: str) -> Using:
        """Enter this around a step.

        Raises:
            Misuse: the name was used before. CodeChanged: another step has to come first.
        """
        if self.is_checked and step not in self.known and (left := self.left()) is not None:
            raise CodeChanged(*self._run, left, step)
        return Using(self._tenure, self._used, step)

    async def do(self, work: Work, call: Callable[[], Awaitable[T]]) -> T:
        """Do a step, or return its recorded result. Errors as `Run.step`."""
        recorded = await self._tenure.step(work.step)
        with self.using(work.step) as under_way:
            if recorded is not None and is_doubtful(recorded) and not work.repeatable:
                # This process may not know how its own append ended: ask the log.
                recorded = await self._tenure.step(work.step, "strong")
            if recorded is not None and recorded.phase == "done" and self._keeps(work, recorded):
                result: T = await self.result(recorded, work.declared)
                return result
            if recorded is not None and is_doubtful(recorded) and not work.repeatable:
                id = await self._doubt(recorded)
                raise StepUnknown(*self._run, work.step, recorded.attempt, recorded.error, id)
            ended = asyncio.get_running_loop().create_future()
            self._flying.add(ended)
            try:
                return await self._attempt(work, under_way, call)
            finally:
                self._flying.discard(ended)
                ended.set_result(None)

    async def result(self, recorded: Step, declared: TypeCodec[Any] | None) -> Any:
        """Return the result on record as the declared type; as it is, if it needs none."""
        data = await self.data(recorded)
        type_ = PLAIN_DATA if recorded.kind in ("question", "event") else recorded.type
        if not type_ or (type_ == PLAIN_DATA and declared is None):
            return data
        try:
            return load_result(data, type_, declared)
        except ValueError as error:
            raise UnreadableResult(*self._run, recorded.step, type_, str(error)) from error

    async def data(self, recorded: Step) -> Any:
        """Return the result on record as plain data."""
        if not recorded.blob:
            return codec.decode(recorded.result)
        found = await self._tenure.patiently(
            lambda: self._store.blobs.read(self._tenure.key, recorded.blob)
        )
        if found is None:
            raise ResultMissing(*self._run, recorded.step)
        return codec.decode(found)

    @property
    def _run(self) -> tuple[str, str]:
        return self._tenure.session_id, self._tenure.name

    def _keeps(self, work: Work, recorded: Step) -> bool:
        """Whether the recorded result stands. Raises StepChanged."""
        known = {work.arguments.digest, runs.UNKNOWN}
        if recorded.digest in known or work.on_change == "keep":
            return True
        if work.on_change == "again":
            return False
        before, given = codec.decode(recorded.arguments), codec.decode(work.arguments.encoded)
        raise StepChanged(*self._run, work.step, before, given)

    async def _attempt(self, work: Work, under_way: Doing, call: Callable[[], Awaitable[T]]) -> T:
        pause = work.pause
        for left in range(work.retries, -1, -1):
            try:
                return await self._once(work, under_way, call)
            except (RunCancelled, RunPaused, StepUnknown, PayloadError, RedactionFailed):
                raise
            except Exception as error:
                is_lost = work.in_thread and isinstance(error, TimeoutError)
                if left == 0 or (is_lost and not work.repeatable):
                    raise
                if consists_of(error, RunPaused, StepUnknown, RunCancelled):
                    raise
            await self._orders.obeyed_for(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        raise AssertionError("unreachable")

    async def _once(self, work: Work, under_way: Doing, call: Callable[[], Awaitable[T]]) -> T:
        # 1. Record that it is about to happen. 2. Its effect. 3. Record the outcome. A step that
        # is cut short between 1 and 3 has an unknown outcome.
        # Of a repeatable step that is soon done 1 goes with 3: if both are lost, it is done again.
        await self._orders.obeyed()
        outer = under_way.outer
        parent = outer.step if outer is not None and outer.run is self._tenure else ""
        encoded, digest = work.arguments
        started = Started(work.step, work.kind, parent, encoded, digest, work.repeatable)
        begun: list[msgspec.Struct] = [*self._orders.looked(), started]
        under_way.used.clear()
        under_way.begun = begun
        begin = None
        if work.repeatable:
            begin = functools.partial(self._begin, under_way)
        else:
            await self._begin(under_way)
        began_at = time.perf_counter()
        limit = asyncio.timeout(work.timeout)
        try:
            async with limit:
                value = await self._orders.interruptible(call, begin)
        except Exception as error:
            seconds = time.perf_counter() - began_at
            if work.in_thread and (limit.expired() or isinstance(error, RunCancelled)):
                # The thread goes on: what comes of it nobody will know.
                lost = Unrecorded(work.step, seconds, type(error).__qualname__)
                await finished(self._write(under_way, lost))
            else:
                await finished(self._record_failure(work, under_way, seconds, error))
            raise
        seconds = time.perf_counter() - began_at
        result = await finished(self._record(work, under_way, seconds, value))
        if result.fault:
            raise UnreadableResult(*self._run, work.step, result.type, result.fault)
        return value

    async def _begin(self, under_way: Doing) -> None:
        """Have it on record that a step has begun."""
        begun, under_way.begun = under_way.begun, []
        if begun:
            await self._tenure.write(*begun)

    async def _write(self, under_way: Doing, record: msgspec.Struct) -> None:
        """Record how a step has ended, and what goes with it."""
        begun, under_way.begun = under_way.begun, []
        await self._tenure.write(*begun, record, *under_way.used)

    async def _record_failure(
        self, work: Work, under_way: Doing, seconds: float, error: Exception
    ) -> None:
        if consists_of(error, RunPaused, StepUnknown):
            # A step within lets go of the run, which does this step again when it is opened.
            await self._write(under_way, Retracted(work.step))
            return
        message = self._redaction.message(work.step, error)
        failed = Failed(work.step, seconds, type(error).__qualname__, message)
        await self._write(under_way, failed)

    async def _record(self, work: Work, under_way: Doing, seconds: float, value: Any) -> Result:
        try:
            result = dump_result(value, work.declared)
            result = self._redaction.result(work.step, result, work.declared)
            encoded, blob, large = await self._kept(result)
        except (PayloadError, RedactionFailed) as error:
            lost = Unrecorded(work.step, seconds, type(error).__qualname__)
            await self._write(under_way, lost)
            raise
        done = Done(work.step, seconds, encoded, type=result.type, blob=blob)
        await self._write(under_way, done)
        if blob:
            await self._tenure.patiently(
                lambda: self._store.blobs.keep(self._tenure.key, blob, large)
            )
        return result

    async def returned(self, value: Any, declared: TypeCodec[Any] | None) -> tuple[Returned, bytes]:
        """The record of what the run's function gave, and its bytes where they stand beside it.

        Raises:
            PayloadError, RedactionFailed: it cannot be recorded.
        """
        result = dump_result(value, declared)
        result = self._redaction.result("", result, declared, jobs.RETURNED)
        encoded, blob, large = await self._kept(result)
        return Returned(encoded, result.type, blob), large

    async def _kept(self, result: Result) -> tuple[msgspec.Raw, str, bytes]:
        """A result for its record; of a large one, the name and the bytes that stand beside it."""
        encoded = result.encoded or codec.encode(result.data, "result")
        if len(encoded) <= LARGE_RESULT:
            return msgspec.Raw(encoded), "", b""
        put = self._store.blobs.put
        blob = await self._tenure.patiently(lambda: put(self._tenure.key, encoded))
        return runs.NIL, blob, encoded

    async def _doubt(self, recorded: Step) -> str:
        """Put the step on the list of what waits for a person; return its id there."""

        def doubt(turn: Turn) -> bool | None:
            step = turn.run.steps.get(recorded.step)
            if step is None or not is_doubtful(step):
                return False
            if step.phase != "doubted":
                turn.records.append(Doubted(step.step))
            turn.made.waiting.append(began(waits_as(*self._run, step), self._tenure.session_id))
            return None

        await self._tenure.decide(doubt)
        return waits_as(*self._run, recorded).id


def is_doubtful(step: Step) -> bool:
    """Whether a step began, and its result is not on record."""
    return step.phase in ("started", "unrecorded", "doubted")


async def called(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a step's function: a coroutine function here, a plain one in a thread."""
    if is_async(function):
        return await function(*args, **kwargs)
    made = await asyncio.to_thread(function, *args, **kwargs)
    return await made if inspect.isawaitable(made) else made


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a function is called on the event loop: it is a coroutine function, or an object
    whose call is one.
    """
    call = getattr(function, "__call__", None)  # noqa: B004 - of an object that is called
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
