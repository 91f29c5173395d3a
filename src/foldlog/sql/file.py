"""The files of tables: DuckDB databases beside the data, caught up by what is new in the log.

They are a cache. What cannot be read, or is of another log, is made anew. Each table has its own
file, so that erasing removes no more than the tables of what is erased.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import duckdb
import msgspec

from foldlog import codec
from foldlog.envelope import CLEARED
from foldlog.locks import locked
from foldlog.log import moments
from foldlog.log.port import Log
from foldlog.position import LogPosition
from foldlog.projectors.database import Database
from foldlog.sql.messages import LOCKED, POSITION, SETTINGS, quoted, text
from foldlog.sql.rows import Sent, batch, made
from foldlog.sql.sources import Row, Source, record_of
from foldlog.store.subscribing import Effect, Reading
from foldlog.upcasting import UPCASTERS
from foldlog_projections.fold import Folded

_LAYOUT: Final = 1
"""Grows with every change of what this module writes."""

_MOST: Final = 20_000
_MOST_BYTES: Final = 32 * 1024 * 1024
"""Rows, and bytes of records, that one transaction writes at least, if there are as many."""

_ID_BYTES: Final = 250
"""What it takes in memory to remember a record."""

_PAUSE: Final = 0.01
"""Seconds until it looks again whether another process still writes."""

_MEMORY_BYTES: Final = 256 * 1024 * 1024
"""What DuckDB may take to write."""

Keys = tuple[str, ...]


class Tables:
    """The files. Only their owner calls it, one call at a time.

    Args:
        directory: where they are, or are to be.
        log: the log, seen through forks.
        is_shared: other processes use them, too.
    """

    def __init__(self, directory: Path, log: Log, *, is_shared: bool) -> None:
        self.directory = directory
        self._log = log
        self._is_shared = is_shared
        self._readings: dict[str, Reading] = {}

    async def catch_up(self, source: Source, until: LogPosition, max_bytes: int) -> bool:
        """Have a table stand at a position, if it does not stand behind it already.

        Args:
            source: the table.
            until: the position.
            max_bytes: what may be remembered of the log.

        Returns:
            Whether it does now. Otherwise another process was here meanwhile.

        Raises:
            duckdb.Error: the file cannot be read or written.
            LogUnavailable, LogCorrupt: the log could not be read. UnknownMoment: it was replaced.
        """
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.directory / f"{source.name}.duckdb"
        async with AsyncExitStack() as writing:
            if self._is_shared:
                await writing.enter_async_context(locked(path.with_suffix(".lock")))
            async with self._opened(path) as database:
                file = path.stat().st_ino
                remembers = max_bytes // _ID_BYTES
                stands = await self._fill(database, source, until, remembers)
                is_copied = await database.do(partial(_copied, database, path))
            if is_copied and path.exists() and path.stat().st_ino == file:  # nobody has erased it
                _new(path).replace(path)
        return stands

    @asynccontextmanager
    async def _opened(self, path: Path) -> AsyncIterator[Database]:
        """Open a file to write, once no query of another process reads it."""
        database = Database(partial(_connected, path))
        try:
            while True:
                try:
                    await database.do(partial(database.execute, _MADE))
                    break
                except duckdb.IOException as error:
                    if LOCKED not in str(error):
                        raise
                await asyncio.sleep(_PAUSE)
            yield database
        finally:
            await database.close()

    async def _fill(
        self, database: Database, source: Source, until: LogPosition, remembers: int
    ) -> bool:
        name = source.name
        at = await database.do(partial(_prepared, database, source))
        if at is not None and str(at) == str(until):
            return True
        if at is not None and not at <= until:
            await moments.resolve(self._log, at)
            return False
        reading = self._readings.pop(name, None)
        if reading is None or str(reading.position()) != str(at):
            family = source.kind.family
            kinds = {family: source.kind}
            reading = Reading(self._log, kinds, [family], at, source.fold, remembers)
        changes = _Changes(source)
        async with aclosing(reading.round(until)) as pages:
            async for page in pages:
                for effect in page:
                    changes.take(effect)
                if page:
                    reading.passed(page[-1])
                if changes.is_full:
                    await database.do(partial(_write, database, changes, reading.position()))
                    changes = _Changes(source)
        await database.do(partial(_write, database, changes, until))
        reading.shrink()
        self._readings[name] = reading
        return True


_MADE: Final = (
    f"create table if not exists {POSITION} (digest varchar, position varchar, has_freed boolean)"
)


def _connected(path: Path) -> Any:
    memory = f"{_MEMORY_BYTES // 1_000_000}MB"
    connection = duckdb.connect(path, config={"threads": 2, "memory_limit": memory, **SETTINGS})
    path.chmod(0o600)
    connection.execute("set timezone = 'UTC'")
    return connection


def _prepared(database: Database, source: Source) -> LogPosition | None:
    """Make a table that is not there, or was made otherwise. Return where it stands."""
    newest = {type_: UPCASTERS.newest.get(type_, 1) for type_ in source.kind.records}
    how = (_LAYOUT, version("foldlog"), source.columns, source.row, source.kind.version, newest)
    digest = codec.digest(msgspec.json.encode(how))
    found = database.execute(f"select digest, position from {POSITION}").fetchone()
    if found is not None and found[0] == digest:
        return LogPosition.parse(found[1]) if found[1] else None
    columns = ", ".join(f"{quoted(each.name)} {each.type}" for each in source.columns)
    database.begin()
    database.execute(f"create or replace table {quoted(source.name)} ({columns})")
    database.execute(f"delete from {POSITION}")
    has_freed = found is not None
    database.execute(f"insert into {POSITION} values (?, '', ?)", (digest, has_freed))
    database.execute("commit")
    return None


def _write(database: Database, changes: _Changes, position: LogPosition) -> None:
    """Write what has changed, and how far that is, together."""
    source = changes.source
    name, rows = quoted(source.name), changes.taken()
    connection = database.cursor()
    has_freed = changes.has_cleared and source.rows_of is not None
    database.begin()
    if changes.views:
        keys = [quoted(each.name) for each in source.columns[: len(source.kind.keys)]]
        lists = [[*each] for each in zip(*changes.views, strict=True)]
        views = ", ".join("unnest(?::varchar[])" for _ in keys)
        where = f"({', '.join(keys)}) in (select {views})"
        [count] = database.execute(f"delete from {name} where {where}", lists).fetchone()
        has_freed |= changes.has_cleared and count > 0
    if rows:
        connection.register("rows_of_records", batch(source.columns, rows))
        database.execute(f"insert into {name} select {made(source.columns)} from rows_of_records")
        connection.unregister("rows_of_records")
    database.execute(
        f"update {POSITION} set position = ?, has_freed = has_freed or ?",
        (str(position), has_freed),
    )
    database.execute("commit")


def _copied(database: Database, path: Path) -> bool:
    """Copy a file, if DuckDB has freed what was cleared, for it overwrites none.

    Returns:
        Whether the copy is to take the place of the file.
    """
    sql = f"select current_database(), has_freed from {POSITION}"
    own, has_freed = database.execute(sql).fetchone()
    if has_freed:
        new = _new(path)
        new.unlink(missing_ok=True)
        database.execute(f"attach {text(str(new))} as copied")
        database.execute(f"copy from database {quoted(own)} to copied")
        database.execute(f"update copied.{POSITION} set has_freed = false")
        database.execute("detach copied")
        new.chmod(0o600)
    return bool(has_freed)


def _new(path: Path) -> Path:
    return path.with_suffix(".new")


class _Changes:
    """What some records change in a table: first the rows of views go, then others are written."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.views: dict[Keys, None] = {}
        self.has_cleared = False
        self._rows: dict[Keys, list[Sent]] = {}
        self._folds: dict[Keys, tuple[int, Folded[Any]]] = {}
        self._count = self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether there is enough for a transaction."""
        return self._count >= _MOST or self._bytes >= _MOST_BYTES

    def take(self, effect: Effect) -> None:
        """Take what one record changes. Raises LogCorrupt."""
        _, subject, envelope, _, folded = effect
        self._count += 1
        self._bytes += len(envelope.payload)
        is_cleared = envelope.type == CLEARED
        self.has_cleared |= is_cleared
        if self.source.rows_of is not None:
            self.views[subject.keys] = None
            self._folds[subject.keys] = subject.shard, folded
        elif is_cleared:
            self.views[subject.keys] = None
            self._rows.pop(subject.keys, None)
        else:
            row = envelope, record_of(self.source.kind, envelope)
            rows = self._rows.setdefault(subject.keys, [])
            rows.append(_sent(subject.keys, subject.shard, row))

    def taken(self) -> list[Sent]:
        """Return the rows to write."""
        if self.source.rows_of is not None:
            for keys, (shard, folded) in self._folds.items():
                rows = self.source.rows_of(folded.state)
                self._rows[keys] = [_sent(keys, shard, each) for each in rows]
        return [row for rows in self._rows.values() for row in rows]


def _sent(keys: Keys, shard: int, row: Row) -> Sent:
    e, record = row
    return (*keys, shard, e.seq, e.time, e.id, e.type, e.ts), record
