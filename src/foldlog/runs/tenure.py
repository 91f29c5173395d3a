"""One owner's tenure of a run: it may write until another owner has the run."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import os
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from foldlog.envelope import Draft, Recorded
from foldlog.errors import AppendUnknown, LogUnavailable, NotFound
from foldlog.kind import Key
from foldlog.models import TaskContextSnapshot, TaskState, TaskStatus, TaskType
from foldlog.runs.errors import RunBusy, RunCancelled, RunEnded, RunTakenOver
from foldlog.runs.process import Look, Process, host
from foldlog.sessions import lifecycle
from foldlog.sessions.decision import Decision
from foldlog.sessions.queueing import queue_records
from foldlog.sessions.state import SessionState, brief_of
from foldlog.store.core import Core, core_of
from foldlog.store.decisions import Attempts, decide_drafts
from foldlog.store.payloads import encode
from foldlog.store.primitives import At, Decided
from foldlog.store.store import BaseStore
from foldlog.store.waiting import list_key
from foldlog.views import Consistency
from foldlog_projections import tasks
from foldlog_projections.runs import queues, runs
from foldlog_projections.runs.runs import Opened, Released, Rewound, State, Step
from foldlog_projections.sessions import session

T = TypeVar("T")

_log: Final = logging.getLogger("foldlog")

PATIENCE: Final = 60.0
"""Seconds that a run waits for a log that does not answer: longer than an election takes."""

_LOOKS_EVERY: Final = 0.2
"""Seconds between two looks at an owner who has the run."""


class Turn(NamedTuple):
    """A run and its session, on which something is decided: `records` go to the run.

    `head` is the sequence at which the run's records end, also after it was cleared. `queued` goes
    to the queues, behind what follows from the tasks that moved.
    """

    run: State
    head: int
    made: Decision
    records: list[msgspec.Struct | Draft]
    queued: list[msgspec.Struct]


Decide = Callable[[Turn], bool | None]
"""Adds to a turn what is to be appended; False if nothing is. It does no I/O, and may be called
several times."""


async def decide_on_run(
    core: Core, session_id: str, name: str, decide: Decide, *, parent: str = ""
) -> bool:
    """Append what `decide` adds, to the run, its session and its queue, in one moment.

    Returns whether anything was appended. Errors as `Store.decide`, and what `decide` raises.

    Args:
        parent: the run that may wait for this one; "": none does.
    """
    run: Key[Any] = runs.kind(session_id, name)
    shard = core.subject(runs.kind, session_id, name).shard

    def decision(at: At, saved: At, folded: At, *above: At) -> dict[Key[Any], Decided]:
        state = SessionState(session_id, saved.folded.state, lambda: folded.folded.state)
        turn = Turn(at.folded.state, at.head, Decision(state), [], [])
        if decide(turn) is False:
            return {}
        known = {name: at.folded.state} | {parent: each.folded.state for each in above}  # noqa: B035
        queued = queue_records(turn.made, known) if turn.made.moved else []
        queued += [encode(queues.kind, each) for each in turn.queued]
        found: dict[Key[Any], Decided] = {}
        drafts = [e if isinstance(e, Draft) else encode(runs.kind, e) for e in turn.records]
        found[run] = Decided(drafts)
        found |= {kind(session_id): Decided(each) for kind, each in turn.made.drafts.items()}
        found[list_key(core, shard)] = Decided(turn.made.waiting)
        found[list_key(core, shard, queues.kind)] = Decided(queued)
        return {key: each for key, each in found.items() if each.drafts}

    keys: list[Key[Any]] = [run, tasks.kind(session_id), session.kind(session_id)]
    if parent:
        keys.append(runs.kind(session_id, parent))
    return bool(await decide_drafts(core, keys, decision, in_atomic="refuse"))


def new_task(
    session_id: str,
    name: str,
    status: TaskStatus,
    parent: str | None = None,
    description: str | None = None,
    priority: int = 0,
) -> TaskState:
    """The task of a run that is new."""
    snapshot = TaskContextSnapshot(
        session_id=session_id,
        task_id=name,
        spawned_from_task_id=parent or "foreground",
        notify_on_complete=False,
    )
    return TaskState(
        task_id=name,
        session_id=session_id,
        status=status,
        task_type=TaskType.BACKGROUND,
        priority=priority,
        context_snapshot=snapshot,
        description=description,
    )


def opened(turn: Turn, tenure: str, process: str, session_id: str) -> Opened:
    """The record by which a tenure begins. A run that was cleared counts no owners."""
    epoch = max(turn.run.epoch, turn.head) + 1
    return Opened(epoch, tenure, process, session_id, host(), os.getpid())


class Tenure:
    """A run as its owner may write it. `token` is 0 until it is."""

    def __init__(
        self, store: BaseStore, process: Process, session_id: str, name: str, id: str = ""
    ) -> None:
        self.session_id: Final = session_id
        self.name: Final = name
        self.key: Final = runs.kind(session_id, name)
        self._store = store
        self._core: Core = core_of(store)
        self._process = process
        self._id = id or secrets.token_hex(8)
        self._turn = asyncio.Lock()
        self.token: int = 0
        self.parent: str = ""

    async def begin(
        self,
        wait: float,
        *,
        restart: bool,
        redo_from: str | None,
        parent: str | None,
        description: str | None,
        in_worker: bool = False,
    ) -> None:
        """Have the run: at once where nobody has it, else when its owner lets go or has died.

        `in_worker`: not if it has ended; and the queue keeps to whom it has given it.

        Raises:
            RunBusy: its owner has lived, and kept it, for `wait` seconds.
            RunCancelled: it was cancelled, and is not restarted.
            NotFound: there is no step `redo_from`. Others as `Store.decide`.
        """
        look, clock = Look(self._store), asyncio.get_running_loop().time
        began, said = clock(), ""
        with ExitStack() as waiting:
            while True:
                state = await self.read()  # what is decided on it proves it
                before, owner = state.tenure, state.process
                if before == self._id:
                    self.token = state.epoch
                    self.parent = state.job.parent if state.job else ""
                    return
                is_free = not before or state.session_id != self.session_id
                if is_free or await self.patiently(partial(look.is_gone, owner)):
                    take = partial(
                        self._take, before, restart, redo_from, parent, description, in_worker
                    )
                    await self.patiently(partial(_finish, take))
                    continue
                waited = clock() - began
                if waited >= wait:
                    since = dt.datetime.fromtimestamp(state.since, dt.UTC)
                    raise RunBusy(self.session_id, self.name, state.host, state.pid, since, waited)
                if said != owner:
                    said = owner
                    waiting.close()
                    owned = f"its owner, process {state.pid} on {state.host:.80}"
                    waiting.enter_context(self.waits_for(owned))
                await asyncio.sleep(min(_LOOKS_EVERY, wait - waited))

    async def _take(
        self,
        before: str,
        restart: bool,
        redo_from: str | None,
        parent: str | None,
        description: str | None,
        in_worker: bool,
    ) -> None:
        """Take the run from the tenure `before`, unless somebody else was first."""

        def take(turn: Turn) -> bool | None:
            state = turn.run
            if state.tenure != before:
                return False
            if redo_from is not None and redo_from not in {*state.steps, state.rewound} - {""}:
                raise NotFound("step", redo_from, f"run {self.name!r:.80} has none of that name")
            if in_worker:
                self._check_unended(turn)
            self._start_task(turn, restart, parent, description)
            turn.made.moved.clear()  # who has it does it: it waits in no queue
            if state.job is not None:
                added, process = state.job.added(self.session_id, self.name), self._process.id
                wish = process if in_worker else ""
                turn.queued.append(msgspec.structs.replace(added, process=process, wish=wish))
            turn.records.append(opened(turn, self._id, self._process.id, self.session_id))
            if restart or redo_from is not None:
                turn.records.append(Rewound("" if restart else redo_from or ""))
            return None

        await decide_on_run(self._core, self.session_id, self.name, take)

    def _check_unended(self, turn: Turn) -> None:
        if self.name not in turn.made.state.saved or turn.run.job is None:
            raise RunEnded(self.session_id, self.name, "it was removed")
        status = turn.made.state.brief(self.name).status
        if status in lifecycle.FINAL and status is not TaskStatus.CANCELLED:
            raise RunEnded(self.session_id, self.name, status.value)

    def _start_task(
        self, turn: Turn, restart: bool, parent: str | None, description: str | None
    ) -> None:
        made = turn.made
        if self.name not in made.state.saved:
            task = new_task(self.session_id, self.name, TaskStatus.RUNNING, parent, description)
            lifecycle.spawn(made, task, "job", None, self._redacted_task)
            return
        status = made.state.brief(self.name).status
        if status is TaskStatus.CANCELLED and not restart:
            raise RunCancelled(self.session_id, self.name)
        is_ordered_pause = status is TaskStatus.PAUSED and not turn.run.parked
        if status is not TaskStatus.RUNNING and not is_ordered_pause:
            lifecycle.reopen(made, self.name)

    def _redacted_task(self, record: tasks.TaskSaved) -> tasks.TaskSaved:
        found: tasks.TaskSaved = self._core.redacted(
            "Store.run", tasks.kind(self.session_id), record
        )
        return found

    async def read(self, consistency: Consistency = "session") -> State:
        """Return the run as its view holds it: use it before the next await, never change it."""
        query = self._store.view
        return await self.patiently(
            lambda: query(self.key, lambda state: state, consistency=consistency)
        )

    async def step(self, name: str, consistency: Consistency = "session") -> Step | None:
        """Return a step as it is on record."""
        return (await self.read(consistency)).steps.get(name)

    async def status(
        self, name: str | None = None, consistency: Consistency = "strong"
    ) -> TaskStatus | None:
        """Return where its task stands; None where there is none.

        `name`: another task of the session.
        """

        def find(saved: Mapping[str, Recorded]) -> TaskStatus | None:
            found = saved.get(name or self.name)
            return None if found is None else brief_of(found.payload).status

        query, key = self._store.view, tasks.kind(self.session_id)
        return await self.patiently(lambda: query(key, find, consistency=consistency))

    async def write(
        self, *records: msgspec.Struct, when: Callable[[State], bool] | None = None
    ) -> bool:
        """Append records of the run; return False if `when`, asked at that moment, says so.

        Raises:
            RunTakenOver: another owner has it. Nothing was appended. Others as `Store.decide`.
        """
        drafts = [encode(runs.kind, each) for each in records]
        agreed = False

        def decide(at: At) -> dict[Key[Any], Decided]:
            nonlocal agreed
            self._check(at.folded.state)
            agreed = when is None or when(at.folded.state)
            return {self.key: Decided(drafts)} if agreed else {}

        core = self._core
        async with self._turn:
            await self.patiently(
                lambda: decide_drafts(core, [self.key], decide, in_atomic="refuse")
            )
        return agreed

    async def decide(self, decide: Decide) -> bool:
        """As `decide_on_run`, while it is this owner's. Raises RunTakenOver where it is not."""

        def checked(turn: Turn) -> bool | None:
            self._check(turn.run)
            return decide(turn)

        core, of = self._core, (self.session_id, self.name)
        async with self._turn:
            return await self.patiently(
                lambda: decide_on_run(core, *of, checked, parent=self.parent)
            )

    async def hand_on(self) -> None:
        """Let go of a run that workers do, if it is this owner's: it goes to another one."""

        def release(turn: Turn) -> None:
            turn.records.append(Released())
            if turn.run.job is not None:
                of = (self.session_id, self.name, self._process.id)
                turn.queued.append(queues.Returned(*of))

        with suppress(RunTakenOver):  # there is nothing to let go of
            await self.decide(release)

    def _check(self, state: State) -> None:
        if state.tenure != self._id:
            owner = f"process {state.pid} on {state.host}" if state.tenure else ""
            raise RunTakenOver(self.session_id, self.name, owner)

    async def patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """Await a call that is safe to repeat, again while the log does not answer."""
        attempts: Attempts | None = None
        with ExitStack() as waiting:
            while True:
                try:
                    return await call()
                except (LogUnavailable, AppendUnknown) as error:
                    if attempts is None:
                        attempts = Attempts(PATIENCE)
                        waiting.enter_context(self.waits_for(f"the log: {error}", logging.WARNING))
                    await attempts.pause(error)

    @contextmanager
    def waits_for(self, what: str, level: int = logging.INFO) -> Iterator[None]:
        """Say in a line, and in `health` while it lasts, what the run waits for."""
        said = f"run {self.name!r:.80} of session {self.session_id!r:.80} waits for {what}"
        _log.log(level, said)
        with self._core.waits_for(said):
            yield


async def _finish(call: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return await finished(call())


async def finished(work: Coroutine[Any, Any, T]) -> T:
    """Await work that must end: a cancellation meanwhile is raised afterwards.

    For recording an effect that has happened. It takes no longer than the log's timeouts.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while True:
        try:
            result = await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise
            cancelled = error
        except Exception as failure:
            if cancelled is None:
                raise
            cancelled.add_note(f"meanwhile: {failure!r}")
            raise cancelled from None
        else:
            if cancelled is None:
                return result
            raise cancelled
