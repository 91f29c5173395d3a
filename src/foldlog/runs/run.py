"""A run: an agent or a job that goes on where it stopped, made of steps that are done once.

The guide is `docs/guides/runs.md`.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Final, Self, TypeVar, overload

from foldlog.errors import (
    Misuse,
    NotFound,
    PayloadError,
    PayloadTooLarge,
    ReadOnlyStore,
    RedactionFailed,
)
from foldlog.models import SteeringEvent
from foldlog.runs.arguments import of_call
from foldlog.runs.asking import NO_DEFAULT, Asking
from foldlog.runs.ending import Ending, InWorker
from foldlog.runs.errors import (
    RunPaused,
    RunTakenOver,
    StepUnknown,
    consists_of,
)
from foldlog.runs.orders import Orders
from foldlog.runs.process import Process
from foldlog.runs.results import StepRedaction
from foldlog.runs.steps import OnChange, Steps, Work, called, doing, is_async
from foldlog.runs.tenure import Tenure, finished
from foldlog.store.core import core_of
from foldlog.store.decisions import refuse_in_block
from foldlog.store.operation import operation
from foldlog.store.store import BaseStore
from foldlog.subjects import checked_id
from foldlog.values import TypeCodec, returned_type, type_codec
from foldlog_projections.runs.jobs import Returned
from foldlog_projections.runs.runs import Step, Usage, Used

T = TypeVar("T")

_log: Final = logging.getLogger("foldlog")
_operation: Final = functools.partial(operation, prefix="run.")


class Run(Ending):
    """A run that is open, made by `store.run` and entered by `async with`.

    Leaving it records how it ended: COMPLETE; or FAILED, if an exception propagates. A run that is
    cancelled from outside of foldlog, or ends with its process, stays RUNNING until it is opened
    again. `await` opens it, too; then `close` leaves it.

    Attributes:
        session_id: its session.
        name: its name; also the id of its task.
        result: what it has come to, for its task: assign it before the run ends.
    """

    def __init__(
        self,
        store: BaseStore,
        process: Process,
        session_id: str,
        name: str,
        *,
        wait: float,
        restart: bool,
        redo_from: str | None,
        lease: float,
        description: str | None,
        earlier: Callable[[], Awaitable[None]],
        worker: InWorker | None = None,
    ) -> None:
        self.session_id: str = checked_id(session_id, "session_id")
        self.name: str = checked_id(name, "name")
        self.result: Any = None
        if lease <= 0:
            raise Misuse(f"lease is a number of seconds above 0, not {lease!r:.80}")
        if restart and redo_from is not None:
            raise Misuse("restart=True does all steps again, and redo_from= some: give one")
        self._store = store
        self._calls = core_of(store).calls
        self._process = process
        self._lease = lease
        tenure = None if worker is None else worker.tenure
        self._tenure = tenure or Tenure(store, process, session_id, name)
        self._redaction = StepRedaction(core_of(store).redaction, session_id, name)
        self._worker = worker
        self._numbers = {}
        self._returned: Returned | None = None
        self._large = b""
        self._orders = Orders(store, self._tenure, None if worker is None else worker.leaving)
        self._steps = Steps(store, self._tenure, self._orders, self._redaction)
        self._asking = Asking(self._tenure, self._orders, self._redaction)
        self._phase = "new"
        self._is_let_go = False
        self._earlier = earlier
        self._open_with = (wait, restart, redo_from, description)

    @property
    def token(self) -> int:
        """The fencing token: greater with each owner that the run has had. 0 until it is open.

        Where a step writes to a system that keeps the greatest token it has seen, and refuses
        smaller ones, an owner that was taken over can change nothing there.
        """
        return self._tenure.token

    @property
    def within(self) -> str:
        """The name of the step of this run in which this is read; "" outside of steps.

        What is recorded under a name that counts, counts by this: a step that is done is not
        called again, and what is counted in it, neither.
        """
        step = doing.get()
        return step.step if step is not None and step.run is self._tenure else ""

    def __await__(self) -> Generator[Any, None, Self]:
        return self._open().__await__()

    async def __aenter__(self) -> Self:
        return self if self._phase == "open" else await self._open()

    async def _open(self) -> Self:
        if self._phase != "new":
            raise Misuse("a Run is opened once: store.run() makes another one")
        if core_of(self._store).reads_only:
            raise ReadOnlyStore("run")
        refuse_in_block(core_of(self._store), f"run {self.name!r:.80}")
        wait, restart, redo_from, description = self._open_with
        outer = doing.get()
        parent = outer.run.name if outer and outer.run.session_id == self.session_id else None
        if self._worker is None and not await self._tenure.read("strong"):
            await self._earlier()
        await self._tenure.patiently(lambda: self._process.hold(self._lease))
        try:
            await self._tenure.begin(
                wait,
                restart=restart,
                redo_from=redo_from,
                parent=parent,
                description=description,
                in_worker=self._worker is not None,
            )
            steps = (await self._tenure.read()).steps
        except BaseException:
            await finished(self._release())  # it may have been taken before this was cut short
            await self._leave("new")
            raise
        self._steps.known = tuple(name for name, each in steps.items() if each.kind != "event")
        self._steps.is_checked = self._worker is not None and self._worker.is_other_version
        self._orders.begin()
        self._phase = "open"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()
            return
        try:
            if isinstance(error, Exception):
                if consists_of(error, RunPaused, StepUnknown):
                    await self._steps.landed()  # beside the one that waits: they are recorded, too
                await finished(self._end(error))
            else:  # the program is being stopped: the run goes on elsewhere
                await finished(self._release())
        except RunTakenOver:
            pass  # what the caller raises says more
        finally:
            await self._leave()

    async def close(self) -> None:
        """Leave the run: it is COMPLETE, with `result`.

        Raises:
            RunCancelled: it was cancelled meanwhile. RunTakenOver: another owner has it.
            PayloadError, PayloadTooLarge, RedactionFailed: `result` cannot be recorded: the run is
                FAILED.
            AppendFailed, LogUnavailable, LogCorrupt, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored.
            Misuse: the run is not open.
        """
        self._check_open()
        try:
            await finished(self._end(None))
        except (PayloadError, PayloadTooLarge, RedactionFailed) as error:
            await finished(self._end(error))
            raise
        finally:
            await self._leave()

    # --- steps ------------------------------------------------------------------------------------

    @overload
    async def step(
        self,
        name: str,
        function: Callable[..., Awaitable[T]],
        /,
        *args: Any,
        timeout: float | None = None,
        retries: int = 0,
        pause: float = 1.0,
        repeatable: bool = False,
        on_change: OnChange = "raise",
        returns: Any = None,
        kind: str = "step",
        **kwargs: Any,
    ) -> T: ...

    @overload
    async def step(
        self,
        name: str,
        function: Callable[..., T],
        /,
        *args: Any,
        timeout: float | None = None,
        retries: int = 0,
        pause: float = 1.0,
        repeatable: bool = False,
        on_change: OnChange = "raise",
        returns: Any = None,
        kind: str = "step",
        **kwargs: Any,
    ) -> T: ...

    @_operation(encloses=True)
    async def step(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        timeout: float | None = None,
        retries: int = 0,
        pause: float = 1.0,
        repeatable: bool = False,
        on_change: OnChange = "raise",
        returns: Any = None,
        kind: str = "step",
        **kwargs: Any,
    ) -> Any:
        """Do a step once: call a function and record its result, or return the recorded result.

            flights = await run.step("search", search, "Oslo", limit=3)

        Before it begins, orders are obeyed: a cancelled run raises RunCancelled, a paused one
        waits. What chooses steps and arguments, such as a model call, has to be a step itself.

        A result may be made of pydantic models, dataclasses and plain data. Models need a declared
        type: the function's return annotation, or `returns`. The store's `redact=` is applied to
        arguments and results. A step that raised before is done again.

        Args:
            name: the step's name, the same in every execution of the code: "plan", "search 2".
            function: what to call. A plain function is called in a thread, and holds up nobody.
            args: passed to the function, and recorded.
            kwargs: the same. Bind arguments that have the name of an option of this method:
                `functools.partial(search, timeout=...)`.
            timeout: seconds after which an attempt is given up with a TimeoutError. The thread of a
                plain function goes on then, and its outcome is unknown.
            retries: how often it is tried again after an attempt that raised.
            pause: seconds before the first of these; each pause is twice as long, up to a minute.
            repeatable: doing it twice does no harm: then it is done again if its outcome is
                unknown.
            on_change: what becomes of a step that is done, and was given other arguments: "raise"
                StepChanged, do it "again", or "keep" its result.
            returns: the type of its result. None: as the function is annotated.
            kind: what it is, for readers: "step", "model", "tool".

        Raises:
            RunCancelled: the run was cancelled. RunTakenOver: another owner has it.
            StepUnknown: it began before, and its result is not recorded. It was not called.
            StepChanged: it is done, with other arguments.
            UnreadableResult: the recorded result is not of the declared type.
            ResultMissing: the recorded result is gone.
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, LogCorrupt, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored.
            Misuse: the run is not open, or a step of that name has run here.

        Errors after the call leave its outcome unknown, but for what the function raises, which is
        recorded and raised.
        """
        checked_id(name, "name")
        if not callable(function):
            raise Misuse(
                f"step {name!r:.80} is {type(function).__name__}: step() takes the function and "
                "its arguments, as in run.step('search', search, 'Oslo')"
            )
        if on_change not in ("raise", "again", "keep"):
            raise Misuse(f'on_change is "raise", "again" or "keep", not {on_change!r:.80}')
        self._check_open()
        work = Work(
            name,
            str(kind),
            of_call(self._redaction, name, function, args, kwargs),
            _declared(function, returns),
            repeatable,
            not is_async(inspect.unwrap(function)),
            on_change,
            timeout,
            retries,
            pause,
        )
        return await self._steps.do(work, lambda: called(function, args, kwargs))

    def usage(
        self,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cost_usd: float = 0.0,
        model: str = "",
    ) -> None:
        """Say what the step that this is called in has used of a model; it is recorded with it.

        Sums stand in `usages`, for each model, and in the page.

        Args:
            input_tokens: how many tokens the model was given.
            output_tokens: how many it gave.
            cost_usd: US dollars.
            model: the model's name.

        Raises:
            Misuse: this is no step of the run.
        """
        step = doing.get()
        if step is None or step.run is not self._tenure:
            raise Misuse("run.usage() is called within a step: in the function that run.step calls")
        step.used.append(Used(step.step, model, input_tokens, output_tokens, cost_usd))

    @_operation()
    async def usages(self) -> dict[str, Usage]:
        """Return what the run has used, by model.

        Raises:
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        return dict((await self._tenure.read()).usage)

    @_operation()
    async def steps(self) -> list[Step]:
        """Return the steps and questions on record, in the order in which they first began.

        Raises:
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        return list((await self._tenure.read()).steps.values())

    @_operation()
    async def recorded(self, name: str, returns: Any = None) -> Any:
        """Return the recorded result of a step, or the answer to a question, again.

        Also of a run that is not open.

        Args:
            name: the step.
            returns: the type that the result has. None: models come as plain data.

        Raises:
            NotFound: the step is not done.
            UnreadableResult: the result is not of that type. ResultMissing: it is gone.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        step = await self._tenure.step(name)
        if step is None or step.phase != "done":
            raise NotFound("step", name, f"run {self.name!r:.80} has not done it")
        if returns is None:
            return await self._steps.data(step)
        return await self._steps.result(step, type_codec(returns))

    # --- people -----------------------------------------------------------------------------------

    @_operation()
    async def ask(
        self,
        name: str,
        question: Any = None,
        *,
        timeout: float | None = None,
        default: Any = NO_DEFAULT,
        wait: float | None = None,
        returns: Any = None,
    ) -> Any:
        """Ask a person, and return the answer, once there is one.

        The question is on the list of `store.waiting()`; `store.answer`, `foldlog answer` and the
        page answer it. The answer is recorded: asking again returns it.

        Args:
            name: the question's name, the same in every execution of the code.
            question: what is asked; a model is recorded as plain data.
            timeout: seconds after which the question expires, counted from when it was first asked.
                None: never.
            default: the answer then. None given: QuestionExpired is raised.
            wait: seconds to wait here; then the run lets go with RunPaused, and goes on when it is
                opened again. None: as long as it takes; in a worker, which opens it again when it
                is answered, not at all. 0: not at all.
            returns: the type of the answer. None: as it was given, models as plain data.

        Raises:
            RunPaused: there is no answer yet. QuestionExpired: nobody answered in time.
            RunCancelled, RunTakenOver: the run was cancelled; another owner has it.
            UnreadableResult: the answer is not of the declared type.
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, LogCorrupt, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored.
            Misuse: the run is not open, or a step of that name has run here.

        Examples:
            >>> async with store.run("trip", session_id="ben") as run:
            ...     await run.ask("buy", "Buy for 80 euros?", timeout=0, default="no")
            'no'
        """
        checked_id(name, "name")
        self._check_open()
        if wait is None and self._worker is not None:
            wait = 0.0
        with self._steps.using(name):
            answered = await self._asking.ask(name, question, timeout, default, wait)
            declared = None if returns is None else type_codec(returns)
            return await self._steps.result(answered, declared)

    @_operation()
    async def inbox(self) -> list[SteeringEvent]:
        """Return what was said to the run since the last call: user messages, injected context.

        What it returned is recorded: the same call of a rerun returns the same.

        Raises:
            RunTakenOver: another owner has the run.
            AppendFailed, LogUnavailable, LogCorrupt, StoreClosed: nothing was stored.
            Misuse: the run is not open.
        """
        self._check_open()
        return await self._orders.heard("inbox")

    @_operation()
    async def orders(self) -> list[SteeringEvent]:
        """Return the orders to go another way, or sooner, that came since the last call.

        Pausing, resuming and cancelling act by themselves. What it returned is recorded: the same
        call of a rerun returns the same.

        Raises:
            RunTakenOver: another owner has the run.
            AppendFailed, LogUnavailable, LogCorrupt, StoreClosed: nothing was stored.
            Misuse: the run is not open.
        """
        self._check_open()
        return await self._orders.heard("orders")


def _declared(function: Callable[..., Any], returns: Any) -> TypeCodec[Any] | None:
    return type_codec(returned_type(function) if returns is None else returns)
