"""Orders to an open run: steering decides what its task is, and the run obeys between steps."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, aclosing, suppress
from typing import Any, Final, TypeVar

from foldlog.errors import LogUnavailable, StoreClosed
from foldlog.kind import Key
from foldlog.models import SteeringEvent, SteeringEventType, TaskStatus
from foldlog.runs.errors import RunCancelled, RunHandedOn, RunTakenOver
from foldlog.runs.tenure import Tenure
from foldlog.store.core import core_of
from foldlog.store.store import BaseStore
from foldlog_projections import tasks
from foldlog_projections.runs.runs import Heard

T = TypeVar("T")

_log: Final = logging.getLogger("foldlog")

_LOOKS_EVERY: Final = 1.0
"""Seconds between two looks at a task that is paused, where no push tells of a change."""

_SOON: Final = 0.005
"""Seconds in which what a step does is soon done."""

_TRUST: Final = 0.5
"""Seconds for which a run takes it that no order came, where no push tells of one."""

_ALL: Final = 2**31
"""More events than a session has."""

HARD: Final = "hard"
"""The field of a CANCEL's payload that has the step under way cancelled, too."""

CHANNELS: Final = {
    "inbox": frozenset({SteeringEventType.USER_MESSAGE, SteeringEventType.INJECT_CONTEXT}),
    "orders": frozenset({SteeringEventType.REDIRECT, SteeringEventType.PRIORITIZE}),
}
"""What comes to a run's code by which of its methods."""


class Orders:
    """What others say to a run while it is open.

    Args:
        leaving: set when the worker that has the run ends. None: no worker has it.
    """

    def __init__(
        self, store: BaseStore, tenure: Tenure, leaving: asyncio.Event | None = None
    ) -> None:
        self._leaving = leaving
        self._store = store
        self._tenure = tenure
        self._calls: set[asyncio.Task[object]] = set()
        self._hearing = asyncio.Lock()
        self._looks = dict.fromkeys(CHANNELS, 0)
        self._in_vain = dict[str, Heard]()
        self._moved = asyncio.Event()
        self._is_hard = False
        self._following: list[asyncio.Task[None]] = []
        self._looked = -math.inf

    def begin(self) -> None:
        """Follow orders and answers, until `end`. The run has just been begun by its task."""
        self._looked = asyncio.get_running_loop().time()
        for key in (tasks.kind(self._tenure.session_id), self._tenure.key):
            self._following.append(asyncio.create_task(self._follow(key), name="foldlog run"))

    async def end(self) -> None:
        """Follow no more."""
        for each in self._following:
            each.cancel()
            await asyncio.wait([each])
            if not each.cancelled() and (error := each.exception()):
                # Each step asks for itself: a run whose session cannot be followed obeys as well.
                _log.info("run %s was not followed to its end: %r", self._tenure.name, error)

    async def obeyed(self) -> None:
        """Return when a further step may begin: at once, or when a pause is over.

        What this process knows of the task is believed for half a second; then the log is asked.

        Raises:
            RunCancelled: it is to do no more. RunTakenOver: its session was removed.
            RunHandedOn: a worker has it, which ends, or need not wait with it.
        """
        if self._leaving is not None and self._leaving.is_set():
            raise self.handed_on("that worker ends")
        now = asyncio.get_running_loop().time()
        if (
            now - self._looked < _TRUST
            and await self._tenure.status(consistency="session") is TaskStatus.RUNNING
        ):
            return
        self._looked = now
        with ExitStack() as waiting:
            is_told = False
            while True:
                self._moved.clear()
                status = await self._tenure.status()
                if status is TaskStatus.CANCELLED:
                    raise await self.cancelled()
                if status is None:
                    raise RunTakenOver(self._tenure.session_id, self._tenure.name, "")
                if status is not TaskStatus.PAUSED:
                    return
                if self.in_worker:
                    raise self.handed_on("it is paused")
                if not is_told:
                    waiting.enter_context(self._tenure.waits_for("an order to resume"))
                    is_told = True
                await self.moved(_LOOKS_EVERY)

    @property
    def in_worker(self) -> bool:
        """Whether a worker has the run: it does not wait, but is handed on."""
        return self._leaving is not None

    def handed_on(self, why: str, step: str = "", awaits: tuple[str, ...] = ()) -> RunHandedOn:
        """The error by which a worker lets go of the run."""
        return RunHandedOn(self._tenure.session_id, self._tenure.name, why, step, awaits)

    async def obeyed_for(self, seconds: float) -> None:
        """As `obeyed`, for some time, and not only now."""
        until = asyncio.get_running_loop().time() + seconds
        while (left := until - asyncio.get_running_loop().time()) > 0:
            self._moved.clear()
            await self.moved(left)
            await self.obeyed()

    async def moved(self, seconds: float) -> None:
        """Return when the run or a task of its session has changed, or some seconds have passed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._moved.wait()

    async def interruptible(
        self, call: Callable[[], Awaitable[T]], begin: Callable[[], Awaitable[None]] | None = None
    ) -> T:
        """Await what a step does. Raises RunCancelled where a hard cancel ends it.

        `begin`: awaited beside it, where it is not soon done.
        """
        task = asyncio.ensure_future(_awaited(call))
        self._calls.add(task)
        try:
            if begin is not None:
                await self._begun(task, begin)
            return await task
        except asyncio.CancelledError:
            own = asyncio.current_task()
            if self._is_hard and (own is None or not own.cancelling()):
                raise await self.cancelled() from None
            raise
        finally:
            self._calls.discard(task)

    async def _begun(self, task: asyncio.Future[Any], begin: Callable[[], Awaitable[None]]) -> None:
        try:
            await asyncio.wait([task], timeout=_SOON)
            if not task.done():
                await begin()
        except BaseException:
            task.cancel()
            await asyncio.wait([task])
            raise

    async def heard(self, channel: str) -> list[SteeringEvent]:
        """Return what came by a channel since the last look; on record, so that a rerun hears it
        at the same look.
        """
        async with self._hearing:  # what one look returns, no other does
            return await self._heard(channel)

    async def _heard(self, channel: str) -> list[SteeringEvent]:
        call = self._looks[channel]
        self._looks[channel] += 1
        state = await self._tenure.read()
        on_record = state.heard.get(channel, {})
        if call in on_record:
            wanted = set(on_record[call].events)
            return [each for each in await self._events() if each.event_id in wanted]
        if on_record and call < max(on_record):
            return []
        known = {id for look in on_record.values() for id in look.events}
        new = [
            each
            for each in await self._events()
            if each.event_type in CHANNELS[channel] and each.event_id not in known
        ]
        if new:
            ids = tuple(each.event_id for each in new)
            await self._tenure.write(Heard(channel, call, ids))
        else:
            self._in_vain[channel] = Heard(channel, call, ())
        return new

    def looked(self) -> list[Heard]:
        """What is to be recorded with the next step: looks that gave nothing, once.

        The step was chosen by them. A rerun that heard at such a look what was said since would
        choose another one.
        """
        found, self._in_vain = list(self._in_vain.values()), {}
        return found

    async def _events(self) -> list[SteeringEvent]:
        store, session_id, run = self._store, self._tenure.session_id, self._tenure.name
        return await self._tenure.patiently(
            lambda: store.list_steering(session_id, task_id=run, limit=_ALL, consistency="strong")
        )

    async def cancelled(self) -> RunCancelled:
        """The error of a run that was cancelled, with the order's reason."""
        reason = ""
        for each in await self._events():
            if each.event_type is SteeringEventType.CANCEL:
                reason = str(each.payload.get("reason") or "")
        return RunCancelled(self._tenure.session_id, self._tenure.name, reason)

    async def _follow(self, key: Key[Any]) -> None:
        while True:
            advances = core_of(self._store).advances(key, must_look=False)
            try:
                async with aclosing(advances):
                    async for _ in advances:
                        self._moved.set()
                        if key.kind is not tasks.kind or not self._calls:
                            continue
                        if await self._tenure.status(consistency="session") is TaskStatus.CANCELLED:
                            await self._cancel_hard()
            except StoreClosed:
                return  # the run's next record raises it
            except LogUnavailable as error:  # for long: `patiently` has waited, too
                _log.info("run %s hears no orders meanwhile: %s", self._tenure.name, error)
            await asyncio.sleep(_LOOKS_EVERY)

    async def _cancel_hard(self) -> None:
        """Cancel the steps under way, if an order says so."""
        for each in await self._events():
            if each.event_type is SteeringEventType.CANCEL and each.payload.get(HARD) is True:
                self._is_hard = True
        if self._is_hard:
            for call in self._calls:
                call.cancel()


async def _awaited(call: Callable[[], Awaitable[T]]) -> T:
    return await call()
