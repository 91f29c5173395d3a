"""An export as Parquet: a row an envelope, for pandas, Polars, DuckDB and Spark."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from foldlog.errors import ConfigurationError, LogCorrupt
from foldlog.exporting.exporting import Exported, OnProgress, export_records
from foldlog.exporting.lines import BlobLine
from foldlog.exporting.part import write_errors
from foldlog.exporting.payloads import as_text
from foldlog.exporting.reading import read
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

    It is for reading, and nothing imports it: it lacks the bytes of artifacts. It is made from a
    file `<path>.jsonl.gz`, with which an interrupted export continues.

    Args:
        store: the store.
        path: the file.
        session_id: only what erasing this session would remove. None: all.
        since: only what was stored after that moment, as `Store.at` takes it. None: all.
        until: only what was stored up to that moment. None: up to now.
        on_progress: called with an `ExportProgress` now and then.

    Raises:
        ConfigurationError: pyarrow is not installed, the file cannot be written, or another process
            writes it.
        InvalidId, UnknownMoment: the session id is empty, or there is no such moment.
        LogUnavailable, LogCorrupt: the log did not answer, or cannot be read. The next export
            continues.
        StoreClosed: the store is closed.
    """
    pyarrow = _pyarrow()
    target = Path(path)
    lines = target.with_name(f"{target.name}.jsonl.gz")
    which: dict[str, Any] = {"session_id": session_id, "since": since, "until": until}
    made = await export_records(store, lines, blobs=False, on_progress=on_progress, **which)
    await asyncio.to_thread(_convert, pyarrow, lines, target)
    return made


def _convert(pyarrow: Any, lines: Path, target: Path) -> None:
    part, schema = target.with_name(f"{target.name}.part"), _schema(pyarrow)
    writer = import_module("pyarrow.parquet").ParquetWriter
    with write_errors(target):
        try:
            part.unlink(missing_ok=True)  # of a process that was killed
            part.touch(0o600)
            with part.open("wb") as file:
                with writer(file, schema, compression="zstd") as to:
                    for some in _groups(_rows(lines)):
                        to.write_table(_table(pyarrow, some, schema))
                os.fsync(file.fileno())
            part.replace(target)
        except pyarrow.ArrowException as error:
            raise ConfigurationError(f"{target} cannot be written: {error}") from error
        finally:
            part.unlink(missing_ok=True)
        lines.unlink()


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


def _table(pyarrow: Any, rows: list[tuple[Any, ...]], schema: Any) -> Any:
    columns = dict(zip(schema.names, zip(*rows, strict=True), strict=True))
    moments = (dt.datetime.fromisoformat(each) for each in columns["time"])
    return pyarrow.table({**columns, "time": list(moments)}, schema=schema)


def _rows(lines: Path) -> Iterator[tuple[Any, ...]]:
    for each in read(lines):
        if not isinstance(each, BlobLine):
            yield from _rows_of(each)


def _groups(rows: Iterator[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    some, size = list[tuple[Any, ...]](), 0
    for row in rows:
        some.append(row)
        size += len(row[_PAYLOAD] or "")
        if len(some) == _ROWS or size >= _CHARACTERS:
            yield some
            some, size = [], 0
    if some:
        yield some


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
