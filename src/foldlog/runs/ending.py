"""How an open run is left: as it ended, as it waits, or as another owner goes on with it."""

from __future__ import annotations

import asyncio
import functools
import logging
from typing import Any, Final, Literal, NamedTuple

from foldlog import codec
from foldlog.errors import FoldlogError
from foldlog.models import TaskStatus
from foldlog.runs.errors import RunPaused, StepUnknown, consists_of
from foldlog.runs.going_on import GoesOn
from foldlog.runs.process import Process
from foldlog.runs.results import message_of, shortened
from foldlog.runs.starting import wake_at
from foldlog.runs.tenure import Tenure, Turn
from foldlog.runs.waiting import awaits_of, is_due, waited_for
from foldlog.sessions import lifecycle
from foldlog.store.core import core_of
from foldlog.values import TypeCodec, as_plain
from foldlog_projections.runs import queues
from foldlog_projections.runs.jobs import Returned
from foldlog_projections.runs.runs import Released

_log: Final = logging.getLogger("foldlog")

_RELEASE_SECONDS: Final = 5.0
"""Seconds that letting go of a run may take in a program that is being stopped."""


class InWorker(NamedTuple):
    """How a worker has a run: `leaving` is set when it ends; `attempts` are its function's.

    `is_other_version`: the run began with another version of its function. `tenure` has opened it
    as it was started.
    """

    leaving: asyncio.Event
    attempts: int
    is_other_version: bool
    tenure: Tenure | None


class Ending(GoesOn):
    """The part of a `Run` that ends it."""

    result: Any
    _process: Process
    _lease: float
    _worker: InWorker | None
    _is_let_go: bool
    _returned: Returned | None
    _large: bytes

    @property
    def _key(self) -> tuple[str, str]:
        return self.session_id, self.name

    async def _leave(self, phase: Literal["new", "left"] = "left") -> None:
        self._phase = phase
        await self._orders.end()
        self._process.let_go(self._lease)
        if not self._is_let_go:
            self._process.owe(self._let_go)

    async def _let_go(self) -> None:
        await self._tenure.hand_on()
        self._is_let_go = True

    async def _release(self) -> None:
        """Let go of the run as it is; where the log is away, as soon as it is back."""
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self._let_go()
        except (TimeoutError, FoldlogError) as error:
            _log.info("run %s of session %s was not let go: %r", self.name, self.session_id, error)

    async def _end(self, error: Exception | None) -> None:
        """Record how it ended, and that nobody has it."""
        key = {"task_id": self.name, "session_id": self.session_id}
        result = None if error is not None or self.result is None else self._result_of_task()
        message = ""
        if error is not None:
            about = {**key, "error": type(error).__qualname__}
            text = f"{type(error).__qualname__}: {message_of(error)}"
            found = core_of(self._store).redaction.alike(
                "Store.run", "task.changed", about, {"error": text}
            )
            message = shortened(str(found["error"]))  # not before: a secret would be cut in two
        is_cancelled = False
        lets_go = error is not None and consists_of(error, RunPaused, StepUnknown)
        if error is not None and lets_go:
            await self._arm(error)

        def end(turn: Turn) -> None:
            nonlocal is_cancelled
            made = turn.made
            known = self.name in made.state.saved
            status = made.state.brief(self.name).status if known else TaskStatus.CANCELLED
            is_cancelled = status is TaskStatus.CANCELLED
            if error is not None and lets_go:
                self._let_go_for(turn, error, status)
                return
            again = error is not None and not is_cancelled and self._has_attempts(turn)
            turn.records.append(Released(failed=again))
            if is_cancelled:
                if turn.run.job is not None:
                    turn.queued.append(queues.Left(*self._key, process=self._process.id))
                return
            if again:
                turn.queued.append(queues.Returned(*self._key, self._process.id))
                return
            if self._returned is not None and error is None:
                turn.records.append(self._returned)
            ended = TaskStatus.COMPLETE if error is None else TaskStatus.FAILED
            lifecycle.end(made, self.name, ended, error=message or None, result=result)

        await self._tenure.decide(end)
        self._is_let_go = True
        if self._returned is not None and self._returned.blob:
            blob = self._returned.blob
            keep = functools.partial(self._store.blobs.keep, self._tenure.key, blob, self._large)
            await self._tenure.patiently(keep)
        if is_cancelled and error is None:
            raise await self._orders.cancelled()

    def _has_attempts(self, turn: Turn) -> bool:
        """Whether a function that has raised is called again."""
        return self._worker is not None and turn.run.failures + 1 < self._worker.attempts

    async def _return(self, value: Any, declared: TypeCodec[Any] | None) -> None:
        """Have the run end with what its function gave. Errors as `close`."""
        self._returned, self._large = await self._steps.returned(value, declared)
        if not self._returned.blob:
            self.result = codec.decode(self._returned.result)

    def _let_go_for(self, turn: Turn, error: Exception, status: TaskStatus) -> None:
        """Let go of the run as it waits, or as a worker hands it on."""
        key, job = self._key, turn.run.job
        is_waiting = bool(awaits_of(error) or waited_for(turn.run, error))
        # Somebody's order to pause stands, also when the answer has come.
        parks = status not in (TaskStatus.CANCELLED, TaskStatus.PAUSED) and (
            job is None or (is_waiting and not is_due(turn, error))
        )
        turn.records.append(Released(parked=parks, awaits=awaits_of(error) if parks else ()))
        if parks:
            lifecycle.park(turn.made, self.name, message_of(error))
        if job is None:
            return
        if parks or status is not TaskStatus.RUNNING:
            turn.queued.append(queues.Left(*key, process=self._process.id))
        else:
            turn.queued.append(queues.Returned(*key, self._process.id))

    async def _arm(self, error: Exception) -> None:
        """Have the run woken when the first of the times comes that it waits for."""
        state = await self._tenure.read()
        times = [each.until for each in waited_for(state, error) if each.until]
        if state.job is not None and times:
            added = state.job.added(self.session_id, self.name)
            await self._tenure.patiently(lambda: wake_at(self._store, min(times), run=added))

    def _result_of_task(self) -> Any:
        plain = as_plain(self.result, "result")
        about = {"task_id": self.name, "session_id": self.session_id}
        return core_of(self._store).redaction.value(
            "Store.run", "task.changed", about, result=plain
        )
