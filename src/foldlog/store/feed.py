"""A session's feed: items of its tasks in log order, read by cursor or watched as they come."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Generic, TypeVar

from foldlog.envelope import Recorded
from foldlog.store.cursor import checked_cursor, page
from foldlog.store.guards import all_restored
from foldlog.store.journal import Journal
from foldlog.store.lineages import OfSession, own
from foldlog.views import Consistency
from foldlog_projections.fold import Projection
from foldlog_projections.items import Items

T = TypeVar("T", bound=OfSession)


class Feed(Generic[T]):
    """Reads the feed that `projection` folds.

    Args:
        restore: builds an item from its envelope.
        task_of: tells whose item an envelope is, without building it.
    """

    def __init__(
        self,
        journal: Journal,
        projection: Projection[Items],
        *,
        restore: Callable[[Recorded], T],
        task_of: Callable[[Recorded], str],
    ) -> None:
        self._journal = journal
        self._projection = projection
        self._restore = restore
        self._task_of = task_of

    async def list(
        self,
        session_id: str,
        *,
        task_id: str | None,
        since_id: str | None,
        limit: int,
        consistency: Consistency,
    ) -> list[T]:
        """Return a page of items, ascending: see `foldlog.store.cursor.page`."""
        found = await self._journal.select(
            self._projection,
            session_id,
            consistency=consistency,
            choose=lambda folded: page(folded, since_id=since_id, limit=limit, task_id=task_id),
        )
        return own(all_restored(self._restore, found), session_id)

    async def watch(
        self, session_id: str, since_id: str | None, task_id: str | None
    ) -> AsyncGenerator[T]:
        """Yield the items after `since_id` (from the first, if None or unknown), then new ones."""
        async with aclosing(
            self._journal.watch(self._projection, session_id, since_id=checked_cursor(since_id))
        ) as items:
            async for item in items:
                if task_id is None or self._task_of(item) == task_id:
                    [restored] = own([self._restore(item)], session_id)
                    yield restored
