"""Tables of PostgreSQL, through a pool of connections: each statement is committed by itself."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar, Self


class Pooled:
    """Makes its tables in the schema that the pool's connections look in."""

    tables: ClassVar[str]

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    @classmethod
    async def open(cls, pool: Any) -> Self:
        """Make the tables."""
        await pool.execute(cls.tables)
        return cls(pool)

    async def rows(self, statement: str, *arguments: Any) -> Sequence[Any]:
        """Return what a statement finds. Its arguments are written as SQLite does: `?`."""
        found: Sequence[Any] = await self._pool.fetch(numbered(statement), *arguments)
        return found

    async def run(self, statement: str, *arguments: Any) -> None:
        """Execute a statement."""
        await self._pool.execute(numbered(statement), *arguments)


@cache
def numbered(statement: str) -> str:
    """The statement with `$1`, `$2` and so on in place of each `?`."""
    numbers = itertools.count(1)
    return re.sub(r"\?", lambda _: f"${next(numbers)}", statement)
