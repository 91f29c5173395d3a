"""Updates: what a session's tasks report (StateStore specification 2.11, section 8)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

from foldlog.kind import Key
from foldlog.models import StateUpdate, UpdateType
from foldlog.store.core import Capability
from foldlog.store.operation import nothing, operation
from foldlog.store.ownership import as_of_session
from foldlog.store.payloads import ID, TIME, Mapper, member_of
from foldlog.store.primitives import checked_cursor, page
from foldlog.views import Consistency
from foldlog_projections import updates
from foldlog_projections.folds import task_of
from foldlog_projections.updates import UpdateSaved

UPDATES: Final = Mapper(
    "update",
    StateUpdate,
    UpdateSaved,
    update_id=ID,
    task_id=ID,
    update_type=member_of(UpdateType),
    created_at=TIME,
)


def place_of_update(update: StateUpdate) -> tuple[Key[Any], str]:
    """The view that an update is saved to, and its id there."""
    return updates.kind(update.session_id), update.update_id


class Updates(Capability):
    """Updates by session, each `update_id` once."""

    @operation(nothing, writes=True)
    async def save_update(self, update: StateUpdate) -> None:
        """Append an update. A repeat of one that the session has had has no effect.

        Args:
            update: the update, which names its session and task.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
            IdTaken: the session has another update of that id. If its updates are not in
                memory, the next read raises this, and the update has no effect.

        Examples:
            >>> update = foldlog.StateUpdate(
            ...     session_id="trip", task_id="book", update_id="u1",
            ...     update_type=foldlog.UpdateType.PROGRESS, content={"percent": 10},
            ... )
            >>> await store.save_update(update)
            >>> [each.content for each in await store.list_updates("trip")]
            [{'percent': 10}]
        """
        record = UPDATES.record(update)
        key = updates.kind(record.session_id)
        await self._core.append_drafts(self._core.drafts("save_update", key, record))

    @operation(list)
    async def list_updates(
        self,
        session_id: str,
        *,
        task_id: str | None = None,
        since_id: str | None = None,
        limit: int = 500,
        consistency: Consistency = "session",
    ) -> list[StateUpdate]:
        """Return a page of a session's updates, oldest first; [] for an unknown session.

        Without `since_id` the page holds the latest updates. `watch_updates` and
        `items(foldlog.kinds.updates(session_id))` begin with the oldest.

        Args:
            session_id: whose updates.
            task_id: only those of this task.
            since_id: the page holds the first `limit` updates after this `update_id`, so paging
                loses nothing. None, or an id that the session has not seen: the last `limit`
                updates.
            limit: how many updates at most; below 1, none.
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            PayloadError: `limit` is no integer, or a cursor no string.

        Examples:
            >>> await store.list_updates("unknown", limit=10)
            []
        """
        core, asked = self._core, page(since_id=since_id, limit=limit, task_id=task_id)
        found = await core.select(updates.kind, session_id, consistency=consistency, choose=asked)
        return as_of_session(UPDATES.restore_all(found), session_id)

    async def watch_updates(
        self, session_id: str, *, after: str | None = None, task_id: str | None = None
    ) -> AsyncGenerator[StateUpdate]:
        """Yield a session's updates, then each new one, without gap or repeat.

        It survives reconnects. It ends with StoreClosed when the store is closed.

        Args:
            session_id: whose updates.
            after: begin behind this `update_id`. None: with the first.
            task_id: only those of this task.

        Raises:
            InvalidId: an id is empty. NotFound: the session has had nothing of the id `after`.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            PayloadError: a cursor is no string.

        Examples:
            >>> await store.save_update(foldlog.StateUpdate(
            ...     session_id="trip", task_id="book", update_id="u2",
            ...     update_type=foldlog.UpdateType.RESULT, content="booked",
            ... ))
            >>> async for each in store.watch_updates("trip"):
            ...     print(each.content)
            ...     break
            booked
        """
        follow = self._core.follow(updates.kind, session_id, after=checked_cursor(after, "after"))
        async with aclosing(follow) as items:
            async for item in items:
                if task_id is None or task_of(item) == task_id:
                    [update] = as_of_session([UPDATES.restore(item)], session_id)
                    yield update
