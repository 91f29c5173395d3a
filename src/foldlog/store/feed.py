"""Pages and watches of a session's feed, restored as objects: updates and steering events alike."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, TypeVar

from foldlog.envelope import Recorded
from foldlog.kind import Kind
from foldlog.store.core import Core
from foldlog.store.cursor import checked_cursor, page
from foldlog.store.guards import all_restored
from foldlog.store.lineages import OfSession, as_of_session
from foldlog.views import Consistency
from foldlog_projections.feed import task_of

T = TypeVar("T", bound=OfSession)


async def list_feed(
    core: Core,
    kind: Kind[Any],
    restore: Callable[[Recorded], T],
    session_id: str,
    *,
    task_id: str | None,
    since_id: str | None,
    limit: int,
    consistency: Consistency,
) -> list[T]:
    """Return a page of items, ascending: see `foldlog.store.cursor.page`."""
    found = await core.select(
        kind,
        session_id,
        consistency=consistency,
        choose=lambda folded: page(folded, since_id=since_id, limit=limit, task_id=task_id),
    )
    return as_of_session(all_restored(restore, found), session_id)


async def watch_feed(
    core: Core,
    kind: Kind[Any],
    restore: Callable[[Recorded], T],
    session_id: str,
    since_id: str | None,
    task_id: str | None,
) -> AsyncGenerator[T]:
    """Yield the items after `since_id` (from the first, if None or unknown), then new ones."""
    checked_cursor(since_id)
    async with aclosing(core.follow(kind, session_id, since_id=since_id)) as items:
        async for item in items:
            if task_id is None or task_of(item) == task_id:
                [restored] = as_of_session([restore(item)], session_id)
                yield restored
