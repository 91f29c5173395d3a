"""Given these records, when this is decided, then those records: kinds and projectors in a test."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec

import foldlog
from foldlog.kind import Key
from foldlog.projectors import Projector

T = TypeVar("T")


class Given:
    """Records that a view has: made by `given`."""

    def __init__(self, key: Key[Any], records: Sequence[msgspec.Struct]) -> None:
        self._key = key
        self._records = records

    def when(self, decision: Callable[[Any], Sequence[msgspec.Struct] | None]) -> When:
        """Have something decided on the view, as `store.decide` does.

        Args:
            decision: called with the view's state; returns the records to append, or None.
        """
        return When(self, decision)

    def rows(self, projector: Projector, table: str | None = None) -> list[tuple[Any, ...]]:
        """Return what a projector makes of the records, in SQLite.

        Args:
            projector: what `foldlog.table` or `foldlog.projector` returned.
            table: which of its tables. None: that of its name.

        Raises:
            ProjectorFailed: it refuses a record.
        """

        async def project() -> list[tuple[Any, ...]]:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder, "tables.db")
                async with self._store() as store:
                    await self._saved(store)
                    await foldlog.Projecting(store, [projector], to=f"sqlite:///{file}").run(
                        once=True
                    )
                connection = sqlite3.connect(file)
                try:
                    return connection.execute(f"select * from {table or projector.name}").fetchall()
                finally:
                    connection.close()

        return _done(project())

    def _store(self) -> foldlog.Store:
        own = self._key.kind.of or self._key.kind
        known = foldlog.memory_store()
        return (
            known if known._core.kinds.get(own.name) is own else foldlog.memory_store(kinds=[own])
        )

    async def _saved(self, store: foldlog.Store) -> None:
        if self._records:
            await store.append(self._key, *self._records)


class When:
    """A decision on records: made by `Given.when`."""

    def __init__(
        self, given: Given, decision: Callable[[Any], Sequence[msgspec.Struct] | None]
    ) -> None:
        self._given = given
        self._decision = decision

    def then(self, *records: msgspec.Struct) -> None:
        """Check that these records are appended, and no others.

        Args:
            records: the records, in order; none, if nothing is to be appended.

        Raises:
            AssertionError: others are. What the decision raises.
        """

        async def decide() -> list[Any]:
            async with self._given._store() as store:
                await self._given._saved(store)
                return [*await store.decide(self._given._key, self._decision)]

        found = _done(decide())
        assert found == [*records]


def given(key: Key[Any], *records: msgspec.Struct) -> Given:
    """Begin a test of a kind or a projector: a view that has these records.

        given(seats("SK1"), Taken("ann")).when(take_for("bob")).then()

        assert given(seats("SK1"), Taken("ann")).rows(taken) == [("SK1", "ann")]

    It works in plain tests, and in those that are coroutines.

    Args:
        key: the view: `kind(*keys)`.
        records: what it has, in order.

    Returns:
        What has `when` for decisions, and `rows` for projectors.
    """
    return Given(key, records)


def _done(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns, also where an event loop runs already."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
