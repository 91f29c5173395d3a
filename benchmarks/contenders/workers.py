"""Workers that do durable functions: foldlog's, and DBOS on PostgreSQL."""

from __future__ import annotations

import asyncio
import datetime as dt
import secrets
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module, metadata
from typing import Any, ClassVar, Final, Protocol

import foldlog
from benchmarks.contenders.contender import Saves
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.site import Site
from benchmarks.unavailable import Unavailable
from foldlog import StateUpdate

STEPS: Final = 5
TOGETHER: Final = 64
_DAY: Final = 86_400

begun: Final[defaultdict[str, list[float]]] = defaultdict(list)
"""When each run began its first step, by `time.time`: twice, if it began twice."""

has_begun: Final[defaultdict[str, asyncio.Event]] = defaultdict(asyncio.Event)
"""Set by the runs without steps."""


class Works(Saves, Protocol):
    """Does durable functions, in the process that starts them.

    A save starts a run that sleeps for a day, and has returned when that goes to sleep.
    """

    async def do(self, id: str) -> None:
        """Start a run of five steps, and await its result."""
        ...

    async def do_at(self, id: str, at: float) -> None:
        """Start a run without steps that begins later, at a Unix time."""
        ...


def _step(id: str, number: int) -> int:
    if number == 0:
        _begin(id)
    return number


def _begin(id: str) -> None:
    begun[id].append(time.time())


# --- foldlog --------------------------------------------------------------------------------------


async def _step_async(id: str, number: int) -> int:
    return _step(id, number)


@foldlog.durable
async def five(run: foldlog.Run, id: str) -> None:
    """Five steps. As those of DBOS they may be done again after a crash."""
    for number in range(STEPS):
        await run.step(f"step {number}", _step_async, id, number, repeatable=True)


@foldlog.durable
async def begin(run: foldlog.Run, id: str) -> None:
    """No step."""
    _begin(id)
    has_begun[id].set()


@foldlog.durable
async def sleep(run: foldlog.Run, id: str) -> None:
    """A day's sleep."""
    has_begun[id].set()
    await run.sleep(seconds=_DAY)


class FoldlogWorkers(Foldlog):
    """A worker on the store that starts the runs."""

    name: ClassVar[str] = "foldlog workers"

    async def open(self) -> None:
        """Connect to a server of its own, and have the worker begin."""
        await super().open()
        self._worker = foldlog.Worker(self.store, [five, begin, sleep], slots=TOGETHER)
        await self._worker.__aenter__()

    async def close(self) -> None:
        """End the worker first."""
        await self._worker.__aexit__()
        await super().close()

    async def do(self, id: str) -> None:
        """By the queue."""
        handle = await self.store.start(five, id, id=id)
        await handle.result()

    async def do_at(self, id: str, at: float) -> None:
        """By a timer of the server."""
        await self.store.start(begin, id, id=id, at=dt.datetime.fromtimestamp(at, dt.UTC))

    async def save(self, update: StateUpdate) -> None:
        """By the queue."""
        await self.store.start(sleep, update.update_id, id=update.update_id)
        await has_begun[update.update_id].wait()
        del has_begun[update.update_id]


# --- DBOS -----------------------------------------------------------------------------------------


class Dbos:
    """Coroutine functions on the caller's event loop: a run begins without going by a queue."""

    name: ClassVar[str] = "DBOS"
    promise: ClassVar[str] = "fsynced write-ahead log (synchronous_commit=on)"
    _schema: ClassVar[str] = ""
    _open: ClassVar[set[str]] = set()
    """Who has it open: a process has one DBOS."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._dsn = ""
        self._dbos: Any

    async def open(self) -> None:
        """Make a schema, and have its worker begin."""
        self._dsn = await self._site.postgres()
        try:
            self._dbos = import_module("dbos").DBOS
            url = import_module("sqlalchemy").make_url(self._dsn)
        except ImportError:
            raise Unavailable("dbos is not installed") from None
        facts = await self.facts()
        if {facts["fsync"], facts["synchronous_commit"]} != {"on"}:
            raise Unavailable(f"it would not be durable: {facts}")
        if not Dbos._open:
            Dbos._schema = f"bench_{secrets.token_hex(4)}"
            _register(self._dbos)
            config = {
                "name": "bench",
                "system_database_url": url.render_as_string(hide_password=False),
                "dbos_system_schema": Dbos._schema,
                "log_level": "ERROR",
            }
            self._dbos(config=config)
            self._dbos.launch()
            # It looks at its queue once a second, and takes all that it finds.
            await self._dbos.register_queue_async("bench")
        Dbos._open.add(self.name)

    async def facts(self) -> dict[str, str]:
        """Its version, and what the server says of itself."""
        found = {"dbos": metadata.version("dbos")}
        for setting in ("server_version", "fsync", "synchronous_commit"):
            [(found[setting],)] = await self._rows(f"SHOW {setting}")
        return found

    async def close(self) -> None:
        """End the worker, and drop the schema."""
        Dbos._open.remove(self.name)
        if not Dbos._open:
            await asyncio.to_thread(self._dbos.destroy)
            await self._rows(f"DROP SCHEMA {Dbos._schema} CASCADE")

    async def do(self, id: str) -> None:
        """At once."""
        handle = await self._dbos.start_workflow_async(_workflows["five"], id)
        await handle.get_result()

    async def do_at(self, id: str, at: float) -> None:
        """By its queue."""
        with import_module("dbos").SetEnqueueOptions(delay_seconds=at - time.time()):
            await self._dbos.enqueue_workflow_async("bench", _workflows["begin"], id)

    async def save(self, update: StateUpdate) -> None:
        """At once."""
        await self._dbos.start_workflow_async(_workflows["sleep"], update.update_id)
        await has_begun[update.update_id].wait()
        del has_begun[update.update_id]

    async def _rows(self, statement: str) -> list[Any]:
        psycopg = import_module("psycopg")
        async with await psycopg.AsyncConnection.connect(self._dsn, autocommit=True) as connection:
            rows = await connection.execute(statement)
            return list(await rows.fetchall()) if rows.description else []


class DbosThreads(Dbos):
    """Plain functions, each run in a thread."""

    name: ClassVar[str] = "DBOS threads"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._threads = ThreadPoolExecutor(TOGETHER)

    async def close(self) -> None:
        """End the threads that wait for results."""
        self._threads.shutdown()
        await super().close()

    async def do(self, id: str) -> None:
        """At once."""
        await asyncio.get_running_loop().run_in_executor(self._threads, self._do, id)

    def _do(self, id: str) -> None:
        self._dbos.start_workflow(_workflows["plain five"], id).get_result()


_workflows: Final[dict[str, Any]] = {}


def _register(dbos: Any) -> None:
    """Register the functions; `dbos` may not be installed where this module is imported."""
    if _workflows:
        return
    step, plain_step = dbos.step()(_step_async), dbos.step()(_step)

    async def five(id: str) -> None:
        for number in range(STEPS):
            await step(id, number)

    def plain_five(id: str) -> None:
        for number in range(STEPS):
            plain_step(id, number)

    async def begin(id: str) -> None:
        _begin(id)
        has_begun[id].set()

    async def sleep(id: str) -> None:
        has_begun[id].set()
        await dbos.sleep_async(_DAY)

    functions = {"five": five, "plain five": plain_five, "begin": begin, "sleep": sleep}
    for name, function in functions.items():
        _workflows[name] = dbos.workflow(name=name)(function)
