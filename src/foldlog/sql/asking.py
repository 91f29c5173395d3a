"""Queries: a kept process runs DuckDB on files of tables, which are caught up first."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import msgspec
from msgspec.structs import replace

from foldlog import codec
from foldlog.errors import ConfigurationError, PayloadError, StoreClosed, UnknownMoment, shown
from foldlog.position import LogPosition
from foldlog.sql import messages, worker
from foldlog.sql.errors import SqlError, SqlOutOfMemory, SqlTimeout, TooManyRows, UnknownTable
from foldlog.sql.messages import (
    HEADER,
    Answer,
    Ask,
    Data,
    Done,
    Failed,
    Look,
    Question,
    Start,
    Wanted,
)
from foldlog.sql.sources import sources_of
from foldlog.store.core import Core, core_of
from foldlog.store.subscribing import log_below

if TYPE_CHECKING:
    from foldlog.sql.file import Tables
    from foldlog.sql.result import SqlResult
    from foldlog.store.store import BaseStore

_KEPT: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
"""Of the environment, what a Python may need to start. The rest is nothing that a query may see."""

_MIN_BYTES: Final = 32 * 1024 * 1024

_PAUSE: Final = 0.01
"""Seconds until it looks again whether another process still writes the file."""

_asked: Final[WeakKeyDictionary[Core, _Asked]] = WeakKeyDictionary()

Parameters = Sequence[Any] | Mapping[str, Any]


async def ask(
    store: BaseStore,
    query: str,
    parameters: Parameters | None,
    *,
    timeout: float,
    max_rows: int,
    max_bytes: int,
) -> SqlResult:
    """Answer a query in DuckDB's SQL over the log: `store.sql` calls it.

    Args:
        store: the store.
        query: one statement that only reads.
        parameters: values of `?` or `$1` in order, or of `$name` by name.
        timeout: seconds for all of it.
        max_rows: how many rows the answer may have.
        max_bytes: bytes of memory for the query.

    Returns:
        The columns and rows.

    Raises:
        SqlError: DuckDB refuses the query; its message names the place.
        PayloadError: an argument is of the wrong type.
        ConfigurationError: DuckDB is not installed.
        LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
    """
    if not isinstance(query, str) or not query.strip():
        raise PayloadError("query", f"{shown(query)} is no query")
    for name, value, least in (("max_rows", max_rows, 0), ("max_bytes", max_bytes, _MIN_BYTES)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise PayloadError(name, f"{shown(value)} is no number of at least {least}")
    ask = Ask(query, codec.encode(parameters or [], "parameters"), "", max_rows)
    core = core_of(store)
    core.hot_views.check()
    asked = _asked.get(core)
    if asked is None:
        asked = _Asked(core)
        if core.past is None:
            _asked[core] = asked
            core.on_close(asked.close)
    scope = asyncio.timeout(timeout)
    asked.scopes.add(scope)
    try:
        async with scope, asked.turn:
            return await asked.answered(store, ask, max_bytes)
    except TimeoutError as error:
        if asked.is_closed:
            raise StoreClosed from error
        if scope.expired():
            raise SqlTimeout(timeout) from error
        raise
    finally:
        asked.scopes.discard(scope)
        if core.past is not None:
            await asked.close()


class _Damaged(Exception):
    """A file of tables cannot be used."""


class _Asked:
    """What a store keeps for its queries: the files of tables, and the process that reads them."""

    def __init__(self, core: Core) -> None:
        self.turn = asyncio.Lock()
        self.scopes: set[asyncio.Timeout] = set()
        self.is_closed = False
        self._core = core
        self._sources = sources_of(core.kinds)
        self._process: _Process | None = None
        self._made = None if core.tables is not None else tempfile.mkdtemp(prefix="foldlog-sql-")
        if self._made is not None:
            core.own_tables = Path(self._made)
        self._tables: Tables | None = None

    async def close(self) -> None:
        """End the process, and what is under way; remove files that nobody else has."""
        self.is_closed = True
        for each in self.scopes:
            each.reschedule(asyncio.get_running_loop().time())
        async with self.turn:
            if self._process is not None:
                await self._process.end()
            if self._made is not None:
                shutil.rmtree(self._made, ignore_errors=True)

    async def answered(self, store: BaseStore, ask: Ask, max_bytes: int) -> SqlResult:
        """Answer a query; with new files, if those that there are are of no use."""
        if self.is_closed:
            raise StoreClosed
        await self._started(max_bytes)
        if self._tables is None:
            make = await asyncio.to_thread(_tables)  # while the process starts
            assert self._core.tables is not None
            log, is_shared = log_below(self._core), self._made is None
            self._tables = make(self._core.tables, log, is_shared=is_shared)
        import duckdb

        for is_again in (False, True):
            until = await store.position()
            try:
                return await self._answered(store, until, ask, max_bytes)
            except duckdb.OutOfMemoryException as error:
                raise SqlOutOfMemory(max_bytes, str(error)) from error
            except (_Damaged, duckdb.Error, OSError, UnknownMoment) as error:
                self._core.forget_tables()
                if is_again:
                    raise SqlError(f"the files of tables cannot be used: {error}") from error
        raise AssertionError

    async def _answered(
        self, store: BaseStore, until: LogPosition, ask: Ask, max_bytes: int
    ) -> SqlResult:
        from foldlog.sql.result import SqlResult

        assert self._tables is not None
        process, stays = await self._started(max_bytes), False
        try:
            await process.send(replace(ask, until=str(until)))
            while isinstance(found := await process.receive(), Wanted):
                if found.is_busy:
                    await asyncio.sleep(_PAUSE)
                for name in () if found.is_busy else found.tables:
                    if not await self._tables.catch_up(self._sources[name], until, max_bytes):
                        until = await store.position()
                await process.send(Look(str(until)))
            parts, size = list[bytes](), 0
            while isinstance(found, Data):
                size += len(found.part)
                if size > max_bytes:
                    raise SqlOutOfMemory(max_bytes, "the answer")
                parts.append(found.part)
                found = await process.receive()
            if isinstance(found, Failed):
                stays = found.reason in ("sql", "rows")
                raise self._error(found, ask, max_bytes)
            stays = True
            assert isinstance(found, Done)
            return SqlResult(found.columns, found.types, parts, until)
        except asyncio.IncompleteReadError as error:
            reason = f"its process ended ({await process.ended()})"
            raise SqlOutOfMemory(max_bytes, reason) from error
        finally:
            if not stays:
                await process.end()

    async def _started(self, max_bytes: int) -> _Process:
        """The process, with this limit."""
        process = self._process
        if process is None or process.is_over or process.max_bytes != max_bytes:
            if process is not None:
                await process.end()
            tables = {name: each.types for name, each in self._sources.items()}
            start = Start(tables, str(self._core.tables), max_bytes)
            process = self._process = await _Process.start(start)
        return process

    def _error(self, failed: Failed, ask: Ask, max_bytes: int) -> Exception:
        if failed.reason == "memory":
            return SqlOutOfMemory(max_bytes, failed.message)
        if failed.reason == "rows":
            return TooManyRows(ask.max_rows)
        if failed.reason == "file":
            return _Damaged(failed.message)
        if failed.about:
            return UnknownTable(failed.about, [*self._sources])
        return SqlError(failed.message)


def _tables() -> type[Tables]:
    try:
        from foldlog.sql.file import Tables
    except ModuleNotFoundError as error:
        reason = "store.sql needs DuckDB: pip install 'foldlog[archive]'"
        raise ConfigurationError(reason) from error
    return Tables


class _Process:
    """A process that answers queries, until `end` or until this one ends."""

    def __init__(self, running: asyncio.subprocess.Process, max_bytes: int) -> None:
        assert running.stdin is not None
        assert running.stdout is not None
        self.max_bytes = max_bytes
        self._running = running
        self._in, self._out = running.stdin, running.stdout
        self._decode = msgspec.msgpack.Decoder(Answer).decode

    @classmethod
    async def start(cls, start: Start) -> _Process:
        """Start one."""
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        environment["PYTHONPATH"] = os.pathsep.join(each for each in sys.path if each)
        running = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", worker.__file__),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=tempfile.gettempdir(),
            env=environment,
        )
        process = cls(running, start.max_bytes)
        try:
            await process.send(start)
        except BaseException:
            await process.end()
            raise
        return process

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._running.returncode is not None

    async def send(self, message: Question) -> None:
        """Tell it something. Whether it is gone is seen by `receive`."""
        try:
            self._in.write(messages.framed(message))
            await self._in.drain()
        except ConnectionError:
            pass

    async def receive(self) -> Answer:
        """Return what it says. Raises IncompleteReadError: it has ended."""
        header = await self._out.readexactly(HEADER.size)
        found: Answer = self._decode(await self._out.readexactly(*HEADER.unpack(header)))
        return found

    async def ended(self) -> int:
        """Return the exit code of a process that ends by itself."""
        return await self._running.wait()

    async def end(self) -> None:
        """End it, and let go of its pipes."""
        if not self.is_over:
            self._running.kill()
        await self._running.wait()
        self._in.close()
