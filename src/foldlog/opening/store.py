"""The Store that programs hold: every capability, the facades, and the past."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Protocol, Self, TypeVar

from foldlog.errors import Misuse
from foldlog.kind import Key
from foldlog.log.moments import resolve
from foldlog.log.past import PastLog
from foldlog.models import WaitingKind
from foldlog.position import LogPosition
from foldlog.store.clearing import Area
from foldlog.store.core import Backend
from foldlog.store.forks import When, named
from foldlog.store.operation import operation
from foldlog.store.options import Options
from foldlog.store.pauses import PauseSource
from foldlog.store.store import BaseStore
from foldlog.store.waiting import Ref, Source
from foldlog_projections.rh_agents import stateartifacts, states
from foldlog_projections.scoped import scoped

if TYPE_CHECKING:  # loaded when first asked for: most programs need one facade, or none
    from foldlog.agents import StoreAgents
    from foldlog.runs.functions import Durable
    from foldlog.runs.queues import Queues
    from foldlog.runs.run import Run
    from foldlog.runs.starting import Handle
    from foldlog.scoped import ScopedStore
    from foldlog.sessions import Session, TaskTelemetrySink
    from foldlog.sql import SqlResult


T = TypeVar("T")

_OF_RUN = 3
"""How many keys name what waits at a run: the session, the run, the step."""


class Store(BaseStore):
    """Agent state over one log: the StateStore of PenguiFlow's specification 2.11, and more.

    Made by `foldlog.connect` or `foldlog.memory_store`; lives until `close` or the end of its
    `async with`. Tasks of one event loop may share it; on another loop every call is a
    Misuse. (A memory store serves any loop.) Files are in `artifact_store`.
    """

    @functools.cached_property
    def agents(self) -> StoreAgents:
        """State that agents change by turns: `async with store.agents.turn("writer/1") as turn`.

        Examples:
            >>> async with store.agents.turn("writer/1") as turn:
            ...     turn.update("plan", {"step": 1})
            >>> (await store.agents.get_agent_state("writer/1", "plan", dict)).state
            {'step': 1}
        """
        from foldlog.agents import StoreAgents

        return StoreAgents(self)

    @functools.cached_property
    def scoped(self) -> ScopedStore:
        """Keys in scopes, with search, links and lifetimes: `await store.scoped.write(...)`."""
        from foldlog.scoped.store import open_scoped

        server = self._core.backend.server
        found = open_scoped(self, server.path if server is not None else None)
        self._core.on_close(found.close)
        return found

    def session(
        self, session_id: str, *, telemetry: TaskTelemetrySink | None = None
    ) -> Opening[Session]:
        """Open a session as it stands now. An unknown one is empty.

        Use `async with store.session("trip") as session`, or `session = await
        store.session("trip")`.

        Args:
            session_id: the session.
            telemetry: an object whose `emit(event)` is awaited for tasks that begin and end by this
                session object. None: nobody hears of them.

        Returns:
            What opens the session when it is awaited or entered.

        Raises (when awaited):
            InvalidId: the id is empty.
            LogUnavailable, LogCorrupt: the log did not answer, or cannot be read.
            StoreClosed: the store is closed.

        Examples:
            >>> async with store.session("trip") as session:
            ...     task = await session.spawn_task(task_id="book", query="a flight to Oslo")
            ...     [each.status.value for each in await session.list_tasks()]
            ['PENDING']
        """
        from foldlog.sessions import Session

        async def open_() -> Session:
            session = Session(session_id, self, telemetry)
            await session.hydrate()
            return session

        return Opening(open_)

    def run(
        self,
        name: str,
        *,
        session_id: str | None = None,
        wait: float = 30.0,
        restart: bool = False,
        redo_from: str | None = None,
        lease: float = 30.0,
        description: str | None = None,
    ) -> Run:
        """Open a run of a session: named, made of steps, each done once.

            async with store.run("book-oslo", session_id="ann") as run:
                flights = await run.step("search", search, "Oslo")
                if await run.ask("buy", "Buy for 80 euros?", timeout=86_400, default=False):
                    await run.step("buy", buy, flights[0])

        A run is the task of its name: `list_tasks` has it, steering acts on it. When the block ends
        it is COMPLETE, or FAILED if it raised. Opening a run again, here or elsewhere, goes on from
        where it stopped, with the recorded results of all steps that are done.

        It has one owner at a time. Another one that opens it meanwhile waits, and goes on with it
        when the owner lets go or dies: on the same machine at once, elsewhere when its lease has
        run out.

        Args:
            name: the run's name in its session.
            session_id: the session. None: a session of the same name.
            wait: seconds to wait for another owner.
            restart: begin anew: all steps are done again. A cancelled run is opened in no other
                way.
            redo_from: a step; it and all that were first begun after it are done again.
            lease: seconds after which an owner that does not answer is held for dead. It is renewed
                while the process lives.
            description: what it does, for a reader; of a new run.

        Returns:
            What opens the run when it is entered or awaited.

        Raises (when entered):
            RunBusy: another owner has it, and has not let it go in `wait` seconds.
            RunCancelled: it was cancelled.
            NotFound: there is no step `redo_from`.
            InvalidId, PayloadError, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: the log did not answer, or
                refused.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.

        Examples:
            >>> def search(city: str) -> list[str]:
            ...     return [f"SK to {city}"]
            >>> async with store.run("book-oslo", session_id="ann") as run:
            ...     await run.step("search", search, "Oslo")
            ['SK to Oslo']
            >>> [(task.task_id, task.status.value) for task in await store.list_tasks("ann")]
            [('book-oslo', 'COMPLETE')]
        """
        from foldlog.opening.states import bring_over_to
        from foldlog.runs.process import process_of
        from foldlog.runs.run import Run

        session_id = name if session_id is None else session_id
        return Run(
            self,
            process_of(self),
            session_id,
            name,
            wait=wait,
            restart=restart,
            redo_from=redo_from,
            lease=lease,
            description=description,
            earlier=functools.partial(bring_over_to, self, session_id, name),
        )

    @operation(writes=True)
    async def start(
        self,
        function: Durable[..., T] | str,
        /,
        *args: Any,
        id: str | None = None,
        session_id: str | None = None,
        queue: str | None = None,
        priority: int = 0,
        key: str = "",
        delay: float | None = None,
        at: dt.datetime | None = None,
        **kwargs: Any,
    ) -> Handle[T]:
        """Have workers do a durable function, and return a handle of its run.

            handle = await store.start(research, "Oslo", id="oslo", session_id="ann")
            print(await handle.result())

        A worker does it: `foldlog worker module`, or a `foldlog.Worker`. If that dies, another one
        goes on. Starting the same id again returns the same run.

        Args:
            function: a durable function; or the name of one, where its code is not at hand, with
                its arguments by name.
            args: what it takes after its run.
            kwargs: the same, by name. Names of options of this method: give by position.
            id: the run's id in its session. None: a new one.
            session_id: the session. None: a session of that id.
            queue: where it waits for a worker. None: the function's own; of a function that is
                given by name, as the workers say that are known by then.
            priority: higher ones begin first.
            key: of runs with one key as few go on at once as the queue allows: a user's id.
            delay: seconds until it begins. None: at once.
            at: when it begins, with a time zone.

        Returns:
            The handle: `status`, `result`, `cancel`, `send`, `stream`.

        Raises:
            IdTaken: that id is a run of another function, or with other arguments.
            Misuse: it is no durable function, or takes other arguments; or the id is that of a
                task.
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing was
                stored.
            AppendUnknown: it may have been stored; starting the same id again is safe.

        Examples:
            >>> @foldlog.durable
            ... async def greet(run, name):
            ...     return f"hello {name}"
            >>> async with foldlog.Worker(store, [greet]):
            ...     handle = await store.start(greet, "ann", id="hello")
            ...     await handle.result()
            'hello ann'
        """
        from foldlog.runs.functions import name_of
        from foldlog.runs.starting import Wanted, begins_at, home_of, new_id, start

        id = new_id(name_of(function)) if id is None else id
        own = queue or await home_of(self, function, session_id or id)
        wanted = Wanted(session_id or id, id, own, priority, key, begins_at(delay, at))
        return await start(self, function, args, kwargs, wanted)

    @functools.cached_property
    def queues(self) -> Queues:
        """Queues and schedules of runs that workers do: `await store.queues.all()`."""
        from foldlog.runs.queues import Queues

        return Queues(self)

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
        """Answer a query in DuckDB's SQL over the log, archive included.

        A table stands for each kind, and `steps` for those of executions; `foldlog.sql.tables`
        lists them with their columns. The query only reads, and reaches no network, program or
        other file. It runs in a separate process, on tables in files that are first caught up
        by what is new in the log. It needs `pip install 'foldlog[archive]'`.

        Args:
            query: one statement that only reads: SELECT, WITH, FROM, DESCRIBE, SHOW, SUMMARIZE.
            parameters: values of `?` or `$1` in order, or of `$name` by name.
            at: the moment to look at, as the method `at` takes it. None: now.
            timeout: seconds for all of it, reading the log included. Another query goes on from
                there.
            max_rows: how many rows the answer may have.
            max_bytes: bytes of memory for the query, and as many for the answer.

        Returns:
            The columns and rows.

        Raises:
            SqlError: DuckDB refuses the query; its message names the place. UnknownTable,
                SqlTimeout, TooManyRows and SqlOutOfMemory are SqlErrors.
            PayloadError: an argument is of the wrong type.
            ConfigurationError: DuckDB is not installed.
            UnknownMoment: `at` names no moment.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.

        Examples:
            >>> await store.save_memory_state("acme:ann:trip", {"seat": "aisle"})
            >>> (await store.sql("SELECT count(*) FROM memory")).rows
            [(1,)]
        """
        from foldlog.sql import ask

        store = self if at is None else self.at(at)
        return await ask(
            store, query, parameters, timeout=timeout, max_rows=max_rows, max_bytes=max_bytes
        )

    @operation()
    async def projected(self, name: str, *, at: LogPosition, timeout: float | None = 10.0) -> None:
        """Return when a projector's tables have all up to a position: to read your own write there.

        Args:
            name: a projector that a `foldlog.Projecting` runs on this store.
            at: the position: `await store.position()` behind the write, or `LogItem.position`.
            timeout: seconds to wait. None: as long as it takes.

        Raises:
            NotFound: no such projector runs on this store.
            LogTimeout: it is not there in time. ProjectorFailed: it refuses a record.
        """
        from foldlog.projectors.projecting import projected

        await projected(self, name, at, timeout)

    def at(self, when: When) -> Past:
        """Return this store as it was at a moment, read-only.

        Args:
            when: a position; a datetime with a time zone, by the log's clock: all that was stored
                by then; or right after an event was recorded, named by its id (`update_id`,
                `event_id`) or as the object that was saved. By id alone the whole log is searched.

        Raises:
            UnknownMoment, InvalidId, PayloadError: `when` cannot name a moment. Whether the log has
                such a moment turns out when something is read.
            StoreClosed: this store is closed.

        Examples:
            >>> await store.save_memory_state("acme:ann:trip", {"n": 1})
            >>> before = await store.position()
            >>> await store.save_memory_state("acme:ann:trip", {"n": 2})
            >>> await store.at(before).load_memory_state("acme:ann:trip")
            {'n': 1}
        """
        self._core.hot_views.check()
        return Past(self._core.backend, self._core.options, when)

    def _source(self, ref: Ref) -> Source:
        if ref.kind is WaitingKind.PAUSE:
            return PauseSource(self._core)
        if ref.kind in (WaitingKind.QUESTION, WaitingKind.STEP) and len(ref.keys) == _OF_RUN:
            from foldlog.runs.questions import RunSource

            return RunSource(self)
        if ref.kind is WaitingKind.QUESTION:
            from foldlog.opening.states import Questions

            return Questions(self)
        from foldlog.sessions.waiting import SessionSource

        return SessionSource(self)

    async def _moment_in(self, session_id: str, at: str) -> When:
        from foldlog.runs.moments import step_moment

        return await step_moment(self, session_id, at) or at

    async def _before_removal(self, area: Area) -> None:
        if area.kind is states.kind:
            from foldlog.opening.states import remove_with

            await remove_with(self, *area.keys)

    async def _named_by(self, key: Key[Any]) -> list[Key[Any]]:
        named = await super()._named_by(key)
        if key.kind is states.kind:
            from foldlog.opening.states import artifacts_of, read_state

            found = artifacts_of(await read_state(self, *key.keys))
            named += map(stateartifacts.kind, sorted(found))
        return named

    async def _after_removal(self, area: Area | None) -> None:
        if area is not None and area.kind is not scoped.kind:
            return
        if "scoped" in vars(self) or self._core.backend.server is not None:
            from foldlog.scoped import Scope

            if area is None:
                await self.scoped.forget(None)
            else:
                await self.scoped.forget(Scope.from_subject_key(area.keys[0]), *area.keys[1:])


class Closing(Protocol):
    """Something that has an end."""

    async def close(self) -> None:
        """Let calls under way end, and let go of everything."""


C = TypeVar("C", bound=Closing)


class Opening(Generic[C]):
    """Something that is being opened: `await` it, or enter it with `async with`."""

    how: ClassVar[str] = "a session is opened with `await store.session(...)` or `async with`"
    """What its user did not do, where they use it at once."""

    def __init__(self, open_: Callable[[], Coroutine[Any, Any, C]]) -> None:
        self._open = open_
        self._opened: C | None = None

    if not TYPE_CHECKING:  # tools tell of it before it runs

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(f"{self.how}; before that it has no {name!r:.80}")

        def __enter__(self) -> NoReturn:
            raise Misuse(f"{self.how}; `with` is for foldlog.blocking.connect()")

        def __exit__(self, *raised: object) -> None: ...

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
    open. Pauses and artifacts expire by the moment's time. It always raises, also where the
    original store degrades: UnknownMoment where there is no such moment, PastErased for what was
    removed since. Everything that writes raises ReadOnlyStore.
    """

    def __init__(self, present: Backend, options: Options, when: When) -> None:
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
            UnknownMoment: there is no such moment.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        return (await self._moment()).position
