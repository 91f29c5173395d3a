"""An export as Parquet: a row an envelope, for pandas, Polars, DuckDB and Spark."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
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

COLUMNS: Final = {
    "shard": "uinteger",
    "seq": "ubigint",
    "index": "uinteger",
    "time": "timestamptz",
    "kind": "varchar",
    "keys": "varchar[]",
    "id": "varchar",
    "type": "varchar",
    "v": "uinteger",
    "ts": "double",
    "payload": "varchar",
    "writer": "varchar",
}
"""The columns of a file, in order, with their types in DuckDB."""

_ROWS: Final = 2_000
_MEMORY: Final = "256MB"


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
        ConfigurationError: duckdb is not installed, the file cannot be written, or another process
            writes it.
        InvalidId, UnknownMoment: the session id is empty, or there is no such moment.
        LogUnavailable, LogCorrupt: the log did not answer, or cannot be read. The next export
            continues.
        StoreClosed: the store is closed.
    """
    duckdb = _duckdb()
    target = Path(path)
    lines = target.with_name(f"{target.name}.jsonl.gz")
    which: dict[str, Any] = {"session_id": session_id, "since": since, "until": until}
    made = await export_records(store, lines, blobs=False, on_progress=on_progress, **which)
    await asyncio.to_thread(_convert, duckdb, lines, target)
    return made


def _convert(duckdb: Any, lines: Path, target: Path) -> None:
    work = target.with_name(f"{target.name}.part")
    part = work / "rows.parquet"
    with write_errors(target):
        shutil.rmtree(work, ignore_errors=True)  # of a process that was killed
        work.mkdir(mode=0o700)
        try:
            config = {"memory_limit": _MEMORY, "threads": 1, "temp_directory": str(work / "spill")}
            with duckdb.connect(config=config) as database:
                _write(database, lines, part)
            part.chmod(0o600)
            with part.open("rb") as file:
                os.fsync(file.fileno())
            part.replace(target)
        except duckdb.Error as error:
            raise ConfigurationError(f"{target} cannot be written: {error}") from error
        finally:
            shutil.rmtree(work, ignore_errors=True)
        lines.unlink()


def _write(database: Any, lines: Path, part: Path) -> None:
    listed = ", ".join(f'"{name}" {type}' for name, type in COLUMNS.items())
    database.execute(f"create table rows({listed})")
    values = (f"unnest(${n}::{type}[])" for n, type in enumerate(COLUMNS.values(), 1))
    insert = f"insert into rows select {', '.join(values)}"
    rows = _rows(lines)
    while some := list(islice(rows, _ROWS)):
        database.execute(insert, [list(column) for column in zip(*some, strict=True)])
    quoted = str(part).replace("'", "''")
    database.execute(f"copy rows to '{quoted}' (format parquet, compression zstd)")


def _rows(lines: Path) -> Iterator[tuple[Any, ...]]:
    for each in read(lines):
        if not isinstance(each, BlobLine):
            yield from _rows_of(each)


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


def _duckdb() -> Any:
    try:
        return import_module("duckdb")
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "duckdb is not installed: pip install 'foldlog[archive]'"
        ) from error
