"""A database of SQLite on a thread of its own, which syncs every commit."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

T = TypeVar("T")


class Database:
    """One connection, on a thread of its own."""

    tables: ClassVar[str]

    def __init__(self, database: sqlite3.Connection, thread: ThreadPoolExecutor) -> None:
        self._database, self._thread = database, thread

    @classmethod
    async def open(cls, path: Path | str) -> Self:
        """Open a database that syncs every commit, and make its tables."""
        thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite")

        def connect() -> sqlite3.Connection:
            database = sqlite3.connect(path)
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=FULL")
            database.executescript(cls.tables)
            return database

        opened = await asyncio.get_running_loop().run_in_executor(thread, connect)
        return cls(opened, thread)

    async def close(self) -> None:
        """Close the connection, and end its thread."""
        await self.do(sqlite3.Connection.close)
        self._thread.shutdown()

    def do(self, use: Callable[[sqlite3.Connection], T]) -> Awaitable[T]:
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._thread, use, self._database)

    def rows(self, statement: str, *arguments: Any) -> Awaitable[list[Any]]:
        return self.do(lambda database: database.execute(statement, arguments).fetchall())

    def run(self, statement: str, *arguments: Any) -> Awaitable[None]:
        return self.write(lambda database: database.execute(statement, arguments))

    def write(self, use: Callable[[sqlite3.Connection], object]) -> Awaitable[None]:
        """Do it in one transaction."""

        def write(database: sqlite3.Connection) -> None:
            with database:
                database.execute("BEGIN IMMEDIATE")
                use(database)

        return self.do(write)
