"""The Store that programs hold: every capability, the facades, and the past."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar
from urllib.parse import quote

from foldlog.kind import Key
from foldlog.log.moments import resolve
from foldlog.log.past import PastLog
from foldlog.models import WaitingKind
from foldlog.position import LogPosition
from foldlog.store.core import Backend
from foldlog.store.forks import When, named
from foldlog.store.operation import operation
from foldlog.store.options import StoreOptions
from foldlog.store.pauses import PauseSource
from foldlog.store.store import BaseStore
from foldlog.store.waiting import Inbox, Source

if TYPE_CHECKING:  # loaded when first asked for: most programs need one facade, or none
    from foldlog.agents import StoreAgents
    from foldlog.recovery import Execution, StateBackend
    from foldlog.scoped import ScopedStore
    from foldlog.sessions import Session, TaskTelemetrySink
    from foldlog.sql import SqlResult


class Store(Inbox, BaseStore):
    """Agent state over one log: the StateStore of PenguiFlow's specification 2.11, and more.

    Made by `foldlog.connect` or `foldlog.memory_store`; lives until `close` or the end of its
    `async with`. Tasks of one event loop may share it; on another loop every call is a
    ConfigurationError. (A memory store serves any loop.) Files are in `artifact_store`.
    """

    @functools.cached_property
    def agents(self) -> StoreAgents:
        """State that agents manage by turns: see `foldlog.agents`."""
        from foldlog.agents import StoreAgents

        return StoreAgents(self)

    @functools.cached_property
    def recovery(self) -> StateBackend:
        """Executions that can be stopped anywhere and resumed: see `foldlog.recovery`."""
        from foldlog.recovery import ArtifactBackend, StateBackend

        return StateBackend(self, ArtifactBackend(self, self._blobs))

    @functools.cached_property
    def scoped(self) -> ScopedStore:
        """Keys in scopes, with search, links and lifetimes: see `foldlog.scoped`."""
        from foldlog.scoped.store import open_scoped

        server = self.backend.server
        found = open_scoped(
            self,
            self._blobs,
            max_bytes=self._options.max_hot_bytes,
            directory=server.path if server is not None else None,
        )
        self.on_close(found.close)
        return found

    def session(
        self, session_id: str, *, telemetry: TaskTelemetrySink | None = None
    ) -> Opening[Session]:
        """Open a session, as it stands now: see `foldlog.sessions`. An unknown one is empty.

        `async with store.session("trip") as session`, or `session = await store.session("trip")`.

        Args:
            telemetry: hears of the tasks that begin and end by this object. None: nobody does.

        Raises (when awaited):
            InvalidId: the id is empty. LogUnavailable, LogCorrupt: it could not be read.
        """
        from foldlog.sessions import Session

        async def open_() -> Session:
            session = Session(session_id, self, telemetry)
            await session.hydrate()
            return session

        return Opening(open_)

    def task_execution(
        self, session_id: str, task_id: str, **options: Any
    ) -> AbstractAsyncContextManager[Execution]:
        """Do a session's task as an execution: `async with store.task_execution(...) as run:`.

        The task follows the execution. It is spawned and started, or resumed, when the block
        begins; paused where `ask` stops the execution; completed when the block ends, unless your
        code has ended it. Where the block raises anything else it stays RUNNING, so that the next
        attempt goes on; `session.fail_task` gives it up. The execution belongs to the session; its
        state id is `<session>/<task>`, each part percent-encoded.

        Args:
            options: as `store.recovery.execution`.

        Raises (when entered):
            IllegalTransition: the task has failed or was cancelled.
            Others as `session.spawn_task` and `store.recovery.execution`.
        """
        from foldlog.opening.tasks import task_execution

        state_id = "/".join(quote(part, safe="") for part in (session_id, task_id))
        execution = self.recovery.execution(state_id, session_id=session_id, **options)
        return task_execution(self.session(session_id), execution, task_id)

    @operation()
    async def sql(
        self,
        query: str,
        parameters: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        at: When | None = None,
        timeout: float = 30.0,
        max_rows: int = 10_000,
        max_bytes: int = 512 * 1024 * 1024,
    ) -> SqlResult:
        """Answer a query in DuckDB's SQL over the log, archive included: see `docs/guides/sql.md`.

        A table stands for each kind, and `steps` for those of executions; `foldlog.sql.tables`
        lists them with their columns. The query reads, and reaches nothing else: no file, no
        network, no program. It runs in a process of its own, of which nothing stays.

        Args:
            query: one statement that only reads: SELECT, WITH, FROM, DESCRIBE, SHOW, SUMMARIZE.
            parameters: values of `?` or `$1` in order, or of `$name` by name.
            at: the moment as of which it is answered, as for `Store.at`. None: now.
            timeout: seconds for all of it, reading the log included.
            max_rows: how many rows the answer may have.
            max_bytes: of memory for the tables and the query; and, each by itself, for the answer
                and for what of the log has to be remembered.

        Raises:
            SqlError: DuckDB refuses the query; its message names the place. UnknownTable,
                SqlTimeout, TooManyRows, SqlOutOfMemory: each is a SqlError.
            PayloadError: an argument is not what it should be. ConfigurationError: DuckDB is not
                installed. UnknownMoment: `at` names no moment.
            LogUnavailable, LogCorrupt: the log could not be read.
        """
        from foldlog.sql import ask

        store = self if at is None else self.at(at)
        return await ask(
            store, query, parameters, timeout=timeout, max_rows=max_rows, max_bytes=max_bytes
        )

    def at(self, when: When) -> Past:
        """Return this store as it was at a moment, read-only: see `Past`.

        Args:
            when: a position; a datetime with a time zone, by the log's clock: all that was stored
                by then; or right after an event was recorded, named by its id (`update_id`,
                `event_id`) or as the object that was saved. By id alone the whole log is searched.

        Raises:
            UnknownMoment, InvalidId, PayloadError: `when` cannot name a moment. Whether the log
                has such a moment turns out when something is read.
            StoreClosed: this store is closed.
        """
        self.hot_views.check()
        return Past(self.backend, self._options, when)

    def waiting_source(self, kind: WaitingKind) -> Source:
        """Return where things of a kind wait."""
        if kind is WaitingKind.PAUSE:
            return PauseSource(self)
        if kind is WaitingKind.QUESTION:
            from foldlog.recovery.questions import Questions

            return Questions(self)
        from foldlog.sessions.waiting import SessionSource

        return SessionSource(self)

    async def _forget_state_artifacts(self, state_id: str) -> None:
        await self.recovery.artifacts.delete_artifacts_of(state_id)

    async def _artifacts_of_state(self, state_id: str) -> list[Key[Any]]:
        return await self.recovery.artifacts.artifacts_of(state_id)

    async def _forget_scope(self, scope: str | None) -> None:
        if "scoped" in vars(self) or self.backend.server is not None:
            from foldlog.scoped import Scope

            await self.scoped.forget(None if scope is None else Scope.from_subject_key(scope))


class Closing(Protocol):
    """Something that has an end."""

    async def close(self) -> None:
        """Let calls under way end, and let go of everything."""
        ...


C = TypeVar("C", bound=Closing)


class Opening(Generic[C]):
    """Something that is being opened: `await` it, or enter it with `async with`."""

    def __init__(self, open_: Callable[[], Coroutine[Any, Any, C]]) -> None:
        self._open = open_
        self._opened: C | None = None

    def __await__(self) -> Generator[Any, None, C]:
        return self._open().__await__()

    async def __aenter__(self) -> C:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(self, *raised: object) -> None:
        if self._opened is not None:
            await self._opened.close()


class Past(Store):
    """A store as it was at a moment, made by `Store.at`.

    The moment is found when something is first read, or by `await` or `async with`, and stays
    fixed: nothing that happens later is seen. Closing it is optional and leaves the original store
    open. Pauses and artifacts expire by the moment's time. It raises where that store would
    degrade: UnknownMoment where there is no such moment, PastErased for what was cleared or
    deleted since. Everything that writes raises ReadOnlyStore.
    """

    def __init__(self, present: Backend, options: StoreOptions, when: When) -> None:
        wanted = named(when, present.log.namespace)
        log = PastLog(present.log, lambda: resolve(present.log, wanted))
        super().__init__(
            Backend(log, present.blobs, loop=present.loop),
            dataclasses.replace(options, on_error="raise"),
        )
        self._moment = log.moment

    def __await__(self) -> Generator[None, None, Self]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Self:
        await self._moment()
        return self

    async def position(self) -> LogPosition:
        """Return the moment's position.

        Raises:
            UnknownMoment: there is no such moment. LogUnavailable, LogCorrupt: see `Store.at`.
        """
        return (await self._moment()).position
