"""An export as Parquet: a row an envelope, for pandas, Polars, DuckDB and Spark."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, Final

from foldlog.errors import ConfigurationError, LogCorrupt
from foldlog.exporting.newfile import NewFile
from foldlog.exporting.payloads import as_text
from foldlog.exporting.writing import Exported, OnProgress, Writing
from foldlog.opening import Store
from foldlog.store import LogRecord
from foldlog.store.forks import When

_ROWS: Final = 20_000
_CHARACTERS: Final = 16 * 1024 * 1024
"""Rows that are compressed together, and characters of their payloads."""

_PAYLOAD: Final = 10
"""Where the payload is among the columns."""


async def export_parquet(
    store: Store,
    path: str | Path,
    *,
    session_id: str | None = None,
    since: When | None = None,
    until: When | None = None,
    on_progress: OnProgress | None = None,
) -> Exported:
    """Write the envelopes that a log holds to a Parquet file, and return what was written.

    It is for reading, and nothing imports it: it lacks the bytes of artifacts.

    Args:
        store: the store.
        path: the file; nothing may be there.
        session_id: only what erasing this session would remove. None: all.
        since: only what was stored after that moment, as `Store.at` takes it. None: all.
        until: only what was stored up to that moment. None: up to now.
        on_progress: called with an `ExportProgress` now and then.

    Raises:
        Misuse: there is such a file. Busy: another process writes it.
        ConfigurationError: pyarrow is not installed, or the file cannot be written.
        InvalidId, UnknownMoment: the session id is empty, or there is no such moment.
        PastErased: the session was erased after that moment.
        LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
    """
    pyarrow = _pyarrow()
    writing, out = Writing(store, session_id, since, until), NewFile(Path(path))
    try:
        table = _Table(pyarrow, out)
        async with aclosing(writing.batches()) as batches:
            async for some in batches:
                await asyncio.to_thread(table.add, some)
                if on_progress is not None:
                    on_progress(writing.progress)
        await asyncio.to_thread(table.finish)
        await asyncio.to_thread(out.finish)
    except pyarrow.ArrowException as error:
        raise ConfigurationError(f"{path} cannot be written: {error}") from error
    finally:
        await asyncio.to_thread(out.close)
    return writing.exported


class _Table:
    """A table under way. Its methods block."""

    def __init__(self, pyarrow: Any, out: NewFile) -> None:
        self._pyarrow, self._schema = pyarrow, _schema(pyarrow)
        write = import_module("pyarrow.parquet").ParquetWriter
        self._writer = write(out.file, self._schema, compression="zstd")
        self._rows: list[tuple[Any, ...]] = []
        self._size = 0

    def add(self, records: Sequence[LogRecord]) -> None:
        """Add the envelopes of records."""
        for row in chain.from_iterable(map(_rows_of, records)):
            self._rows.append(row)
            self._size += len(row[_PAYLOAD] or "")
            if len(self._rows) == _ROWS or self._size >= _CHARACTERS:
                self._write()

    def finish(self) -> None:
        """Write what is left, and the end."""
        if self._rows:
            self._write()
        self._writer.close()

    def _write(self) -> None:
        names = self._schema.names
        columns = dict(zip(names, zip(*self._rows, strict=True), strict=True))
        columns["time"] = tuple(map(dt.datetime.fromisoformat, columns["time"]))
        self._writer.write_table(self._pyarrow.table(columns, schema=self._schema))
        self._rows, self._size = [], 0


def _schema(pyarrow: Any) -> Any:
    return pyarrow.schema(
        {
            "shard": pyarrow.uint32(),
            "seq": pyarrow.uint64(),
            "index": pyarrow.uint32(),
            "time": pyarrow.timestamp("us", "UTC"),
            "kind": pyarrow.string(),
            "keys": pyarrow.list_(pyarrow.string()),
            "id": pyarrow.string(),
            "type": pyarrow.string(),
            "v": pyarrow.uint32(),
            "ts": pyarrow.float64(),
            "payload": pyarrow.string(),
            "writer": pyarrow.string(),
        }
    )


def _rows_of(record: LogRecord) -> Iterator[tuple[Any, ...]]:
    shard, seq, time, kind, keys = record.shard, record.seq, record.time, record.kind, record.keys
    try:
        envelopes = record.envelopes
    except LogCorrupt:
        yield shard, seq, 0, time, kind, list(keys), None, None, None, None, None, None
        return
    for e in envelopes:
        about = (e.id, e.type, e.v, e.ts, as_text(e.payload), e.writer)
        yield (shard, seq, e.index, time, kind, list(keys), *about)


def _pyarrow() -> Any:
    try:
        return import_module("pyarrow")
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "pyarrow is not installed: pip install 'foldlog[archive]'"
        ) from error
