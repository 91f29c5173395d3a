"""One query: a separate process runs DuckDB, and gets what the log says."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from foldlog import codec
from foldlog.errors import ConfigurationError, PayloadError, shown
from foldlog.position import LogPosition
from foldlog.sql import frames, worker
from foldlog.sql.errors import SqlError, SqlOutOfMemory, SqlTimeout, TooManyRows, UnknownTable
from foldlog.sql.frames import HEADER, Answer, Ask, Done, Failed, Loaded, Page, Question, Wanted
from foldlog.sql.loading import load
from foldlog.sql.sources import Source, sources_of
from foldlog.store.core import core_of

if TYPE_CHECKING:
    from foldlog.store.store import BaseStore

_KEPT: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
"""Of the environment, what a Python may need to start. The rest is nothing that a query may see."""

_MIN_BYTES: Final = 32 * 1024 * 1024

Parameters = Sequence[Any] | Mapping[str, Any]


class SqlResult(NamedTuple):
    """The answer to a query.

    Attributes:
        columns: the names of the columns.
        types: the names of their SQL types.
        rows: the rows, as Python values.
        position: how far the log was read: with `at=` it, the same query gives the same answer.
    """

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    position: LogPosition

    def dicts(self) -> list[dict[str, Any]]:
        """Return the rows as dicts; of columns with one name, the last counts."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


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
        max_bytes: bytes of memory for the tables and the query.

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
    sources = sources_of(core_of(store).kinds)
    tables = tuple(each.table for each in sources.values())
    given = codec.encode(parameters or [], "parameters")
    asked = Ask(query, given, tables, max_rows, max_bytes)
    try:
        async with asyncio.timeout(timeout) as scope:
            until = await store.position()
            async with _process(asked, list(sources)) as process:
                return await _answered(process, store, sources, until)
    except TimeoutError as error:
        if scope.expired():
            raise SqlTimeout(timeout) from error
        raise


async def _answered(
    process: _Process, store: BaseStore, sources: Mapping[str, Source], until: LogPosition
) -> SqlResult:
    wanted = await process.receive(Wanted)
    assert isinstance(wanted, Wanted)
    named = [sources[name] for name in wanted.tables]
    async with aclosing(load(store, named, until, process.asked.max_bytes)) as messages:
        async for message in messages:
            await process.send(message)
    await process.send(Loaded())
    pages, size = list[bytes](), 0
    while isinstance(found := await process.receive(Page, Done), Page):
        size += found.cost
        if size > process.asked.max_bytes:
            raise SqlOutOfMemory(process.asked.max_bytes, "the answer")
        pages.append(found.rows)
    assert isinstance(found, Done)
    rows: list[tuple[Any, ...]] = []
    for page in pages:
        rows += (_decoded(found, row) for row in codec.decode(page))
        await asyncio.sleep(0)  # a large answer lets others have their turns
    return SqlResult(found.columns, found.types, rows, until)


def _decoded(done: Done, row: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(map(_value, done.columns, done.types, row))


def _value(column: str, type_: str, value: Any) -> Any:
    if type_ != "JSON" or value is None:
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise SqlError(
            f"column {column!r:.80} has JSON that cannot be read ({error}): cast it to VARCHAR"
        ) from error


class _Process:
    """A process that answers one query. It ends when the block does that it was started in."""

    def __init__(
        self, running: asyncio.subprocess.Process, asked: Ask, tables: Sequence[str]
    ) -> None:
        assert running.stdin is not None
        assert running.stdout is not None
        self.asked = asked
        self._running = running
        self._in, self._out = running.stdin, running.stdout
        self._tables = tables
        self._decode = msgspec.msgpack.Decoder(Answer).decode

    async def send(self, message: Question) -> None:
        """Tell it something. What it says when it has given up is read by `receive`."""
        try:
            self._in.write(frames.framed(message))
            await self._in.drain()
        except ConnectionError:
            await self.receive()

    async def receive(self, *expected: type[Answer]) -> Answer:
        """Return what it says.

        Raises:
            SqlError: that there is no answer.
        """
        try:
            header = await self._out.readexactly(HEADER.size)
            found: Answer = self._decode(await self._out.readexactly(*HEADER.unpack(header)))
        except asyncio.IncompleteReadError as error:
            code = await self._running.wait()
            raise SqlOutOfMemory(self.asked.max_bytes, f"its process ended ({code})") from error
        if isinstance(found, Failed):
            raise self._error(found)
        if not isinstance(found, expected):
            raise SqlError(f"the query's process said {type(found).__name__}")
        return found

    def _error(self, failed: Failed) -> Exception:
        if failed.reason == "missing":
            return ConfigurationError("store.sql needs DuckDB: pip install 'foldlog[archive]'")
        if failed.reason == "memory":
            return SqlOutOfMemory(self.asked.max_bytes, failed.message)
        if failed.reason == "rows":
            return TooManyRows(self.asked.max_rows)
        if failed.about:
            return UnknownTable(failed.about, self._tables)
        return SqlError(failed.message)


@asynccontextmanager
async def _process(asked: Ask, tables: Sequence[str]) -> AsyncIterator[_Process]:
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
    try:
        process = _Process(running, asked, tables)
        await process.send(asked)
        yield process
    finally:
        await _ended(running)


async def _ended(running: asyncio.subprocess.Process) -> None:
    """End a process, and let go of its pipes."""
    if running.returncode is None:
        running.kill()
    await running.wait()
    if running.stdin is not None:
        running.stdin.close()
